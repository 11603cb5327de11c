// For the files with the entries of the case table: how a case is added.
#pragma once

#include "hearth/ops.h"
#include "op_cases.h"

namespace hearth::testing {

using reference::along;
using reference::for_each_position;
using reference::generate;
using reference::insert_axis;
using reference::map;
using reference::pick;
using reference::Position;
using reference::wrap_index;
using reference::zip;

// Around the sizes of vectors, waves, blocks and tiles.
inline const std::vector<std::int64_t> edge_sizes = {1,   31,  32,  33,   63,   64,  65,
                                                     127, 128, 129, 1023, 1024, 1025};

// Collects cases; `add` returns the case so that its flags can be set.
class Table {
 public:
  OpCase& add(std::string name, std::vector<Input> inputs, TensorFunction function, ArrayFunction reference) {
    OpCase entry;
    entry.name = std::move(name);
    entry.inputs = std::move(inputs);
    entry.function = std::move(function);
    entry.reference = std::move(reference);
    cases_.push_back(std::move(entry));
    return cases_.back();
  }

  // A view or a copy: every element of the result is an element of an input, unchanged, in any dtype.
  void moving(std::string name, std::vector<Input> inputs, TensorFunction function, ArrayFunction reference) {
    auto& entry = add(std::move(name), std::move(inputs), std::move(function), std::move(reference));
    entry.integers = true;
    entry.roundings = 0;
  }

  std::vector<OpCase> take() { return std::move(cases_); }

 private:
  std::vector<OpCase> cases_;
};

using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Array>;

void add_reductions(Table& table);
void add_scans(Table& table);
void add_shapes(Table& table);
void add_indexing(Table& table);
void add_contractions(Table& table);
void add_convolutions(Table& table);
void add_composites(Table& table);

}  // namespace hearth::testing
