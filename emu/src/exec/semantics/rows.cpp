// All rows.
#include "exec/semantics/build.h"
#include "exec/semantics/table.h"

namespace hipemu {

std::vector<Semantics> all_semantics() {
  using namespace semantics;
  Rows rows;
  add_scalar_alu(rows);
  add_control(rows);
  add_vector_float(rows);
  add_vector_min_max(rows);
  add_vector_transcendental(rows);
  add_vector_division(rows);
  add_vector_bits(rows);
  add_vector_fp8(rows);
  add_vector_mixed(rows);
  add_scalar_float(rows);
  add_vector_integer(rows);
  add_vector_conversions(rows);
  add_vector_compares(rows);
  add_vector_packed(rows);
  add_vector_lanes(rows);
  add_vector_dot(rows);
  add_scalar_memory(rows);
  add_global_memory(rows);
  add_global_atomics(rows);
  add_buffer_memory(rows);
  add_lds(rows);
  add_wmma(rows);
  add_mfma(rows);
  return rows;
}

}  // namespace hipemu
