// The case table, put together.
#include "op_cases.h"

#include <ostream>

#include "op_case_table.h"

namespace hearth::testing {

void PrintTo(const ElementwiseCase& entry, std::ostream* out) { *out << entry.name; }
void PrintTo(const OpCase& entry, std::ostream* out) { *out << entry.name; }

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    Table table;
    add_reductions(table);
    add_scans(table);
    add_shapes(table);
    add_indexing(table);
    add_contractions(table);
    add_convolutions(table);
    add_composites(table);
    return table.take();
  }();
  return cases;
}

}  // namespace hearth::testing
