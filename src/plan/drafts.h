// The steps of a graph before they have memory: what is computed together, from what, in which layout.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "device/step.h"
#include "plan/linear_graph.h"
#include "plan/plan.h"
#include "plan/views.h"

namespace hearth {

inline constexpr std::uint32_t no_node = ~0u;

// A value: which root's memory it shows, and how. A root is a node with dense memory of its own, or a leaf.
struct Value {
  std::uint32_t root = no_node;
  ViewLayout layout;
};

// Memory a step reads: from an element of a root on.
struct Source {
  std::uint32_t root = no_node;
  std::int64_t offset = 0;
};

struct DraftStep {
  Step step;
  std::vector<Source> inputs;
  std::vector<std::uint32_t> outputs;  // roots, nodes but for those of Step::converts
  std::vector<PlannedNumber> numbers;
  std::uint32_t nodes = 1;
};

// Ropes that turn columns of a product where they lie (turned_heads.h): they show its memory, and the product
// runs in the last one's place.
struct TurnedProducts {
  struct Product {
    TurnedHeads heads;
    std::uint32_t ropes = 0;
  };
  std::unordered_map<std::uint32_t, Product> products;
  std::unordered_map<std::uint32_t, std::uint32_t> ropes;  // the product of each
};

struct Drafts {
  std::vector<std::uint32_t> canonical;  // per node: the one that stands for it and all that are equal to it
  std::vector<std::uint32_t> uses;  // edges into each node, from graph nodes and from the outputs asked for
  std::vector<Value> values;        // per canonical node
  TurnedProducts turned;
  std::vector<DraftStep> steps;  // in the order in which they run
  // Per node: what its memory holds if it is a root. Behind those, roots that are no nodes, which a step
  // makes for another one.
  std::vector<Elements> held;
  // For explain().
  std::size_t merged = 0, fused_nodes = 0, copies = 0, divisions = 0, batched = 0, rounded = 0, converted = 0,
              rounded_ahead = 0;
};

// Whether this input of a step is all of a root's memory, in order.
bool reads_whole(const Drafts& drafts, const DraftStep& step, std::size_t input);

// A product by itself, as a backend is asked about it. Of the drafts, layouts must be there.
Step product_step(const LinearGraph& graph, const Drafts& drafts, std::uint32_t product);

Drafts draft_steps(const LinearGraph& graph, const Backend& backend, const PlanOptions& options);

}  // namespace hearth
