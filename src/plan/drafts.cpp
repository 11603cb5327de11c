// From a graph to steps.
//
//   1. Common subexpressions: nodes with the same operation on the same inputs become one.
//   2. Layouts: each value is dense memory of its own (a root) or a view of another value's; a reshape that
//      no strides can express becomes a copy. Ropes may work where a product lies (turned_heads.h).
//   3. Fusion: nodes are grouped into steps (fusion.h, product_readers.h, halves.h); what others can compute
//      again from what they read is not stored for them (recomputed.h).
//   4. Steps: groups become expressions with inputs and outputs.
//   5. Small steps become part of others: norms of what products read (norm_products.h) and of what they give
//      (normed_products.h), ropes of what a concat joins (turned_parts.h), the gradients that it
//      joins (attention_gradients.h), sums with gradients of norms (added_gradients.h), several that do the
//      same (batches.h).
//   6. What products need in another type is stored in it (rounded_operands.h), or converted beside an
//   earlier
//      product (converted_ahead.h).
#include "plan/drafts.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>

#include "plan/added_gradients.h"
#include "plan/attention_gradients.h"
#include "plan/batches.h"
#include "plan/converted_ahead.h"
#include "plan/fusion.h"
#include "plan/halves.h"
#include "plan/norm_products.h"
#include "plan/normed_products.h"
#include "plan/product_readers.h"
#include "plan/recomputed.h"
#include "plan/rounded_ahead.h"
#include "plan/rounded_operands.h"
#include "plan/stored_heads.h"
#include "plan/turned_heads.h"
#include "plan/turned_parts.h"

namespace hearth {
namespace {

class Drafter {
 public:
  Drafter(const LinearGraph& graph, const Backend& backend, const PlanOptions& options)
      : graph_(graph), backend_(backend), options_(options) {}

  Drafts run() {
    merge_common();
    count_uses();
    lay_out();
    if (options_.fuse) {
      drafts_.turned = find_turned_heads(graph_, drafts_, backend_);
      if (!drafts_.turned.ropes.empty()) lay_out();
    }
    grouping_ = group_nodes(graph_, drafts_, backend_, options_.fuse);
    if (options_.fuse) {
      join_product_readers(graph_, drafts_, backend_, grouping_);
      join_halves(graph_, drafts_, backend_, grouping_);
      recompute_values(graph_, backend_, drafts_, grouping_);
    }
    make_steps();
    for (const Node* node : graph_.nodes) drafts_.held.push_back({node->dtype, node->count()});
    if (options_.fuse) {
      drafts_.fused_nodes += join_norms(graph_, backend_, drafts_);
      drafts_.fused_nodes += join_norms_of_results(graph_, backend_, drafts_);
      drafts_.fused_nodes += join_turned_parts(graph_, backend_, drafts_);
      drafts_.fused_nodes += join_attention_gradients(graph_, backend_, drafts_);
      drafts_.fused_nodes += join_added_gradients(graph_, backend_, drafts_);
      drafts_.batched = batch_steps(graph_, backend_, drafts_.steps);
      drafts_.fused_nodes += join_stored_heads(graph_, backend_, drafts_);
      drafts_.rounded = round_operands(graph_, backend_, drafts_);
      drafts_.converted = convert_ahead(graph_, backend_, drafts_);
      drafts_.rounded_ahead = round_ahead(graph_, backend_, drafts_);
    }
    return std::move(drafts_);
  }

 private:
  const Node& at(std::uint32_t node) const { return *graph_.nodes[node]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(graph_.nodes.size()); }
  bool alive(std::uint32_t node) const { return drafts_.canonical[node] == node && drafts_.uses[node] > 0; }

  void merge_common() {
    drafts_.canonical.resize(size());
    std::unordered_map<Hash128, std::uint32_t, Hash128Hasher> seen;
    if (options_.eliminate_common) seen.reserve(size());
    for (std::uint32_t node = 0; node < size(); ++node) {
      drafts_.canonical[node] = node;
      const auto kind = op_kind(graph_.ops[node]);
      if (!options_.eliminate_common || kind == OpKind::leaf || kind == OpKind::random) continue;
      Hasher hasher;
      hasher.add(static_cast<std::uint64_t>(graph_.ops[node]));
      hasher.add(static_cast<std::uint64_t>(at(node).dtype));
      hasher.add(at(node).shape);
      if (at(node).attributes) hash_attributes(hasher, *at(node).attributes);
      for (auto input : graph_.inputs_of(node)) hasher.add(drafts_.canonical[input]);
      const auto [it, is_new] = seen.emplace(hasher.finish(), node);
      if (!is_new) {
        drafts_.canonical[node] = it->second;
        ++drafts_.merged;
      }
    }
  }

  void count_uses() {
    // From the outputs backwards, so that nodes kept alive only by merged duplicates do not count.
    drafts_.uses.assign(size(), 0);
    for (auto output : graph_.outputs) drafts_.uses[drafts_.canonical[output]] += 2;  // never swallowed
    for (auto node = size(); node-- > 0;)
      if (alive(node))
        for (auto input : graph_.inputs_of(node)) ++drafts_.uses[drafts_.canonical[input]];
  }

  void lay_out() {
    drafts_.values.assign(size(), {});
    drafts_.copies = 0;
    needs_fill_.assign(size(), false);
    copies_.clear();
    copies_.resize(size());
    std::vector<bool> requested(size(), false);
    for (auto output : graph_.outputs) requested[drafts_.canonical[output]] = true;
    for (auto output : graph_.outputs)
      if (graph_.ops[drafts_.canonical[output]] == Op::constant)
        needs_fill_[drafts_.canonical[output]] = true;
    for (std::uint32_t node = 0; node < size(); ++node) {
      if (!alive(node)) continue;
      const auto op = graph_.ops[node];
      Value& value = drafts_.values[node];
      value.root = node;
      if (op == Op::value) {
        value.layout.strides = at(node).storage.strides;
        continue;
      }
      if (!is_elementwise(op))
        for (auto input : graph_.inputs_of(node))
          if (graph_.ops[drafts_.canonical[input]] == Op::constant)
            needs_fill_[drafts_.canonical[input]] = true;
      if (drafts_.turned.ropes.contains(node)) {
        value = drafts_.values[drafts_.canonical[graph_.inputs_of(node)[0]]];
        continue;
      }
      if (op_kind(op) == OpKind::view) {
        const auto input = drafts_.canonical[graph_.inputs_of(node)[0]];
        auto layout = view_layout(at(node), at(input).shape, drafts_.values[input].layout);
        if (layout && !(requested[node] && repeats(at(node).shape, layout->strides))) {
          value.root = drafts_.values[input].root;
          value.layout = std::move(*layout);
          continue;
        }
        add_copy(node, input, layout);
      }
      value.layout.strides = contiguous_strides(at(node).shape);
    }
  }

  // True iff several elements of the shape are the same in memory.
  static bool repeats(const Shape& shape, const Strides& strides) {
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (shape[i] > 1 && strides[i] == 0) return true;
    return false;
  }

  // A view that must become memory of its own: a reshape that no strides can show, or a result with repeated
  // elements, which users would find more surprising than a copy.
  void add_copy(std::uint32_t node, std::uint32_t input, const std::optional<ViewLayout>& layout) {
    const Value& source = drafts_.values[input];
    DraftStep draft;
    draft.step.op = Op::copy;
    draft.step.expression.inputs = {at(node).dtype};
    draft.step.expression.outputs = {0};
    // Without a layout: in row-major order the elements of the input are those of the result.
    draft.step.domain = layout ? at(node).shape : at(input).shape;
    draft.step.inputs = {
        {at(node).dtype, draft.step.domain, layout ? layout->strides : source.layout.strides}};
    draft.step.outputs = {{at(node).dtype, draft.step.domain, contiguous_strides(draft.step.domain)}};
    draft.inputs = {{source.root, layout ? layout->offset : source.layout.offset}};
    draft.outputs = {node};
    copies_[node] = std::make_unique<DraftStep>(std::move(draft));
    ++drafts_.copies;
  }

  Source source_of(std::uint32_t node) const {
    return {drafts_.values[node].root, drafts_.values[node].layout.offset};
  }
  Layout layout_of(std::uint32_t node) const {
    return {at(node).dtype, at(node).shape, drafts_.values[node].layout.strides};
  }
  static Layout dense(DType dtype, const Shape& shape) { return {dtype, shape, contiguous_strides(shape)}; }

  void make_steps() {
    for (std::uint32_t node = 0; node < size(); ++node) {
      if (!alive(node)) continue;
      if (needs_fill_[node]) add_fill(node);
      if (copies_[node]) drafts_.steps.push_back(std::move(*copies_[node]));
      const auto group = grouping_.group_of[node];
      if (group >= 0 && grouping_.groups[static_cast<std::size_t>(group)].last == node)
        add_group(grouping_.groups[static_cast<std::size_t>(group)]);
    }
  }

  void add_fill(std::uint32_t constant) {
    DraftStep draft;
    draft.step.op = Op::copy;
    draft.step.domain = at(constant).shape;
    draft.step.expression.immediates = {at(constant).dtype};
    draft.step.expression.outputs = {0};
    draft.numbers = {{constant, false}};
    draft.outputs = {constant};
    draft.step.outputs = {dense(at(constant).dtype, at(constant).shape)};
    drafts_.steps.push_back(std::move(draft));
  }

  void add_group(const Group& group) {
    DraftStep draft;
    if (group.anchor >= 0) add_anchor(draft, static_cast<std::uint32_t>(group.anchor), group.members.empty());
    if (!group.members.empty() || group.reduction >= 0) add_expression(draft, group);
    draft.nodes = static_cast<std::uint32_t>(group.members.size()) + (group.anchor >= 0) +
                  (group.reduction >= 0) + (group.joined >= 0);
    const auto turned = drafts_.turned.products.find(static_cast<std::uint32_t>(group.anchor));
    if (group.anchor >= 0 && turned != drafts_.turned.products.end())
      add_turned(draft, group, turned->second);
    if (draft.nodes > 1) drafts_.fused_nodes += draft.nodes;
    drafts_.steps.push_back(std::move(draft));
  }

  void add_anchor(DraftStep& draft, std::uint32_t node, bool alone) {
    draft.step.op = graph_.ops[node];
    draft.step.domain = at(node).shape;
    if (at(node).attributes) draft.step.attributes = *at(node).attributes;
    if (op_kind(draft.step.op) == OpKind::random) draft.numbers.push_back({node, false});
    for (auto edge : graph_.inputs_of(node)) {
      const auto input = drafts_.canonical[edge];
      draft.inputs.push_back(source_of(input));
      draft.step.inputs.push_back(layout_of(input));
    }
    if (alone) {
      draft.outputs.push_back(node);
      draft.step.outputs.push_back(dense(at(node).dtype, at(node).shape));
      if (draft.step.op == Op::copy) {
        draft.step.expression.inputs = {draft.step.inputs[0].dtype};
        draft.step.expression.outputs = {0};
      }
    }
  }

  // The last rope of a product stands for all of them.
  void add_turned(DraftStep& draft, const Group& group, const TurnedProducts::Product& turned) {
    const auto edges = graph_.inputs_of(group.last);
    for (auto edge : edges.subspan(1)) {
      const auto input = drafts_.canonical[edge];
      draft.inputs.push_back(source_of(input));
      draft.step.inputs.push_back(layout_of(input));
    }
    draft.step.turned = turned.heads;
    draft.nodes += turned.ropes;
  }

  void add_expression(DraftStep& draft, const Group& group) {
    Expression& expression = draft.step.expression;
    const auto reduced =
        group.reduction < 0
            ? no_node
            : drafts_.canonical[graph_.inputs_of(static_cast<std::uint32_t>(group.reduction))[0]];
    draft.step.domain = group.domain;
    draft.step.halves = group.halves;

    // Number the values: inputs, immediates, members. `operand_uses` counts uses inside the group.
    numbering_.clear();
    operand_uses_.clear();
    std::vector<Operand> inputs;
    std::vector<std::uint32_t> numbers, reciprocals;
    // In graph order, so that what is computed again comes before those who read it.
    std::vector<std::uint32_t> computed(group.members);
    computed.insert(computed.end(), group.again.begin(), group.again.end());
    std::sort(computed.begin(), computed.end());
    const auto add_operand = [&](std::uint32_t node, const Shape& shape, bool reciprocal) {
      ++operand_uses_[node];
      if (is_in(group, node) || is_half(group, node)) return;
      const auto add = [](auto& list, auto item) {
        if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(std::move(item));
      };
      if (graph_.ops[node] == Op::constant)
        add(reciprocal ? reciprocals : numbers, node);
      else
        add(inputs, operand_over(node, shape, group.domain));
    };
    for (auto member : computed)
      for (auto edge : graph_.inputs_of(member))
        add_operand(drafts_.canonical[edge], at(member).shape, divides_by_number(member, edge));
    if (reduced != no_node) add_operand(reduced, group.domain, false);

    if (group.anchor >= 0) {
      numbering_[static_cast<std::uint32_t>(group.anchor)] = 0;
      expression.inputs.assign(group.halves ? 2 : 1, at(static_cast<std::uint32_t>(group.anchor)).dtype);
    }
    const std::size_t first_input = expression.inputs.size();
    for (const Operand& input : inputs) {
      expression.inputs.push_back(at(input.node).dtype);
      draft.inputs.push_back(source_of(input.node));
      draft.step.inputs.push_back({at(input.node).dtype, group.domain, input.strides});
    }
    for (auto node : numbers) {
      numbering_[node] = static_cast<std::uint16_t>(expression.first_result());
      expression.immediates.push_back(at(node).dtype);
      draft.numbers.push_back({node, false});
    }
    std::unordered_map<std::uint32_t, std::uint16_t> reciprocal_numbering;
    for (auto node : reciprocals) {
      reciprocal_numbering[node] = static_cast<std::uint16_t>(expression.first_result());
      expression.immediates.push_back(at(node).dtype);
      draft.numbers.push_back({node, true});
    }
    const auto number_of = [&](std::uint32_t node, const Shape& shape) {
      if (is_half(group, node))
        return static_cast<std::uint16_t>(drafts_.values[node].layout.offset == 0 ? 0 : 1);
      const auto value = reshaped_in(group, node);
      if (const auto found = numbering_.find(value); found != numbering_.end()) return found->second;
      const auto input =
          std::find(inputs.begin(), inputs.end(), operand_over(node, shape, group.domain)) - inputs.begin();
      return static_cast<std::uint16_t>(first_input + static_cast<std::size_t>(input));
    };
    auto next = static_cast<std::uint16_t>(expression.first_result());
    for (auto member : computed) {
      const auto edges = graph_.inputs_of(member);
      Expression::Instruction instruction{graph_.ops[member], at(edges.back()).dtype, at(member).dtype, {}};
      for (std::size_t i = 0; i < edges.size(); ++i) {
        const auto operand = drafts_.canonical[edges[i]];
        if (i == 1 && divides_by_number(member, edges[i])) {
          instruction.op = Op::mul;
          instruction.operands[i] = reciprocal_numbering.at(operand);
          ++drafts_.divisions;
        } else {
          instruction.operands[i] = number_of(operand, at(member).shape);
        }
      }
      numbering_[member] = next++;
      expression.instructions.push_back(instruction);
    }

    if (reduced != no_node) {
      const auto reduction = static_cast<std::uint32_t>(group.reduction);
      draft.step.op = graph_.ops[reduction];
      draft.step.attributes = *at(reduction).attributes;
      expression.outputs.push_back(number_of(reduced, group.domain));
      draft.outputs.push_back(reduction);
      draft.step.outputs.push_back(dense(at(reduction).dtype, at(reduction).shape));
    } else if (group.anchor < 0) {
      draft.step.op = Op::copy;
    }
    if (group.joined >= 0) {
      const auto joined = static_cast<std::uint32_t>(group.joined);
      for (auto edge : graph_.inputs_of(joined))
        expression.outputs.push_back(numbering_.at(reshaped_in(group, drafts_.canonical[edge])));
      draft.step.joined = static_cast<std::uint32_t>(expression.outputs.size());
      draft.outputs.push_back(joined);
      draft.step.outputs.push_back(dense(at(joined).dtype, at(joined).shape));
      return;
    }
    // A value that is used in here only, if through a reshape, is not stored.
    for (auto reshape = group.reshapes.rbegin(); reshape != group.reshapes.rend(); ++reshape)
      if (drafts_.uses[*reshape] == operand_uses_[*reshape])
        ++operand_uses_[drafts_.canonical[graph_.inputs_of(*reshape)[0]]];
    for (auto member : group.members) {
      if (drafts_.uses[member] == operand_uses_[member]) continue;
      expression.outputs.push_back(numbering_.at(member));
      draft.outputs.push_back(member);
      draft.step.outputs.push_back(dense(at(member).dtype, group.domain));
    }
    if (group.kept) {
      const auto product = static_cast<std::uint32_t>(group.anchor);
      expression.outputs.insert(expression.outputs.end(), {0, 1});
      draft.step.joined = 2;
      draft.outputs.push_back(product);
      draft.step.outputs.push_back(dense(at(product).dtype, at(product).shape));
    }
  }

  // An operand of a group's members that comes from elsewhere. The same value may be seen in two ways, where
  // members of different shapes broadcast it along different axes.
  struct Operand {
    std::uint32_t node;
    Strides strides;  // over the group's domain
    bool operator==(const Operand&) const = default;
  };
  Operand operand_over(std::uint32_t node, const Shape& shape, const Shape& domain) const {
    return {node, *strides_over(at(node), drafts_.values[node].layout.strides, shape, domain)};
  }
  bool is_in(const Group& group, std::uint32_t node) const {
    const auto index = grouping_.group_of[node];
    return (index >= 0 && &grouping_.groups[static_cast<std::size_t>(index)] == &group) ||
           std::find(group.again.begin(), group.again.end(), node) != group.again.end();
  }
  bool is_half(const Group& group, std::uint32_t node) const {
    return group.halves && drafts_.values[node].root == static_cast<std::uint32_t>(group.anchor);
  }
  // The node whose value a reshape in a group shows.
  std::uint32_t reshaped_in(const Group& group, std::uint32_t node) const {
    while (is_in(group, node) && graph_.ops[node] == Op::reshape)
      node = drafts_.canonical[graph_.inputs_of(node)[0]];
    return node;
  }

  // Whether `edge` is the number by which a division may be replaced with a multiplication.
  bool divides_by_number(std::uint32_t member, std::uint32_t edge) const {
    return options_.multiply_by_reciprocals && graph_.ops[member] == Op::div &&
           graph_.ops[drafts_.canonical[edge]] == Op::constant && graph_.inputs_of(member)[1] == edge &&
           graph_.inputs_of(member)[0] != edge;
  }

  const LinearGraph& graph_;
  const Backend& backend_;
  const PlanOptions options_;
  Drafts drafts_;
  Grouping grouping_;
  std::vector<bool> needs_fill_;
  std::vector<std::unique_ptr<DraftStep>> copies_;  // per node
  std::unordered_map<std::uint32_t, std::uint16_t> numbering_;
  std::unordered_map<std::uint32_t, std::uint32_t> operand_uses_;
};

}  // namespace

bool reads_whole(const Drafts& drafts, const DraftStep& step, std::size_t input) {
  const Source& source = step.inputs[input];
  const Layout& layout = step.step.inputs[input];
  return source.offset == 0 && layout.contiguous() &&
         element_count(layout.shape) == drafts.held[source.root].count;
}

Step product_step(const LinearGraph& graph, const Drafts& drafts, std::uint32_t product) {
  const auto layout_of = [&](std::uint32_t node) {
    return Layout{graph.nodes[node]->dtype, graph.nodes[node]->shape, drafts.values[node].layout.strides};
  };
  Step step;
  step.op = graph.ops[product];
  step.domain = graph.nodes[product]->shape;
  for (auto edge : graph.inputs_of(product)) step.inputs.push_back(layout_of(drafts.canonical[edge]));
  step.outputs = {layout_of(product)};
  return step;
}

Drafts draft_steps(const LinearGraph& graph, const Backend& backend, const PlanOptions& options) {
  return Drafter(graph, backend, options).run();
}

}  // namespace hearth
