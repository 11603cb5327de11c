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
    std::vector<OpCase> all = table.take();
    for (OpCase& entry : all) entry.either_half = true;
    // Matrix units have instructions of their own for each half.
    Table products;
    add_contractions(products);
    add_convolutions(products);
    add_composites(products);
    for (OpCase& entry : products.take()) all.push_back(std::move(entry));
    return all;
  }();
  return cases;
}

}  // namespace hearth::testing
