// Grouping nodes into steps.
#pragma once

#include <cstdint>
#include <vector>

#include "device/backend.h"
#include "plan/linear_graph.h"

namespace hearth {

// Nodes that one step computes.
struct Group {
  std::vector<std::uint32_t> members;  // elementwise nodes, in graph order
  std::int64_t anchor = -1;     // a matmul, convolution or normalisation whose result the members work on
  std::int64_t reduction = -1;  // a reduction of one of the members (or of a plain input)
  std::uint32_t last = 0;       // the step runs when the graph order reaches this node
  std::uint32_t operands = 0;   // upper bound of the inputs
  bool open = true;
};

struct Grouping {
  std::vector<Group> groups;
  std::vector<std::int32_t> group_of;  // per node; -1 for leaves and views
  std::vector<std::uint32_t> uses;  // edges into each node, from graph nodes and from the outputs asked for
};

// `canonical` maps each node to the node that stands for it (itself where nothing was merged).
Grouping group_nodes(const LinearGraph& graph, const std::vector<std::uint32_t>& canonical,
                     const Backend& backend, bool fuse);

}  // namespace hearth
