// Atomics on global and flat memory.
#include "exec/semantics/atomics.h"

namespace hipemu::semantics {
namespace {

// (vdst,) vaddr, vdata, saddr. Flat ones have no saddr. `Compare`: registers of the value to compare with,
// which follows the new one.
template <bool HasBase, int Compare>
void prepare_atomic(const Instruction& instruction, const Chip&, Operation& op) {
  const std::size_t fewest = HasBase ? 3 : 2;
  expect_operands(instruction, fewest, fewest + 1);
  const std::size_t first = instruction.operands.size() - fewest;
  read_memory_modifiers(instruction, op);
  op.flags &= ~memory_flag::synchronising;  // glc and sc0 ask for the result here
  if (first == 1) {
    op.destination[0] = vector_destination(instruction, 0);
    op.flags |= memory_flag::returns;
  }
  op.source[address_source] = vector_source(instruction, first);
  op.source[data_source] = vector_source(instruction, first + 1);
  if constexpr (HasBase) op.source[base_source] = optional_scalar_source(instruction, first + 2);
  if constexpr (Compare != 0) {
    op.source[second_data_source] = op.source[data_source];
    op.source[second_data_source].index += Compare;
  }
}

template <bool HasBase>
constexpr AtomicPrepare prepares{prepare_atomic<HasBase, 0>, prepare_atomic<HasBase, 1>,
                                 prepare_atomic<HasBase, 2>};

}  // namespace

void add_global_atomics(Rows& rows) {
  add_memory_atomics<Global>(rows, "global_atomic_", prepares<true>);
  add_memory_atomics<Flat>(rows, "flat_atomic_", prepares<false>);
}

}  // namespace hipemu::semantics
