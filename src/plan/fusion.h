// Grouping nodes into steps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/backend.h"
#include "plan/drafts.h"
#include "plan/linear_graph.h"

namespace hearth {

constexpr std::size_t max_members = 64;     // expression length
constexpr std::uint32_t max_operands = 24;  // values from outside: kernel arguments

// Nodes that one step computes. Reshapes may lie between them: in row-major order, element i of each is made
// of element i of the others.
struct Group {
  std::vector<std::uint32_t> members;   // elementwise nodes, in graph order
  std::vector<std::uint32_t> reshapes;  // of the members and of the anchor: no work, only another shape
  std::int64_t anchor = -1;     // a matmul, convolution or normalisation whose result the members work on
  std::int64_t reduction = -1;  // a reduction of one of the members (or of a plain input)
  Shape domain;                 // the shape that the step works over; the anchor's where there is one
  std::uint32_t last = 0;       // the step runs when the graph order reaches this node
  std::uint32_t operands = 0;   // upper bound of the inputs
  bool open = true;
  std::int64_t joined = -1;          // a concat of the members' results, side by side (product_readers.h)
  bool halves = false;               // the members work on the two halves of the anchor's columns (halves.h)
  bool kept = false;                 // and the anchor's result is stored, too
  std::vector<std::uint32_t> again;  // members of other groups, computed here once more (recomputed.h)
};

struct Grouping {
  std::vector<Group> groups;
  std::vector<std::int32_t> group_of;  // per node; -1 for leaves and for views that no group has
};

// One group's members and reshapes become another's; it stays as an empty one.
void absorb(Grouping& grouping, std::int32_t keep, std::int32_t gone);

// Of the drafts, all but the steps must be there.
Grouping group_nodes(const LinearGraph& graph, const Drafts& drafts, const Backend& backend, bool fuse);

// The strides of operand `node` of an elementwise node of shape `shape`, seen over `domain`, which has as
// many elements in the same order. Nothing if only a copy has strides for it.
std::optional<Strides> strides_over(const Node& node, const Strides& strides, const Shape& shape,
                                    const Shape& domain);

}  // namespace hearth
