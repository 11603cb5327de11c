// From a graph to a plan.
//
//   1. Common subexpressions: nodes with the same operation on the same inputs become one.
//   2. Fusion: nodes are grouped into steps (fusion.h).
//   3. Layouts: each value is dense memory of its own (a root) or a view of another value's; a reshape that
//   no strides
//      can express becomes a copy.
//   4. Steps: groups become expressions with inputs and outputs.
//   5. Memory: lifetimes give offsets in the arena (memory.h); an elementwise step may write over an input
//   that ends
//      there.
//   6. Kernels: the backend makes each step ready.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "hearth/config.h"
#include "hearth/error.h"
#include "plan/fusion.h"
#include "plan/memory.h"
#include "plan/plan.h"
#include "plan/views.h"

namespace hearth {
namespace {

constexpr std::uint32_t none = ~0u;

// A value: which root's memory it shows, and how.
struct Value {
  std::uint32_t root = none;
  ViewLayout layout;
};

// Memory a step reads: from an element of a root on.
struct Source {
  std::uint32_t root = none;
  std::int64_t offset = 0;
};

struct DraftStep {
  Step step;
  std::vector<Source> inputs;
  std::vector<std::uint32_t> outputs;  // nodes, roots of their own
  std::vector<PlannedNumber> numbers;
  std::uint32_t nodes = 1;
};

class Builder {
 public:
  Builder(const LinearGraph& graph, Backend& backend, const PlanOptions& options,
          const std::vector<Replacement>& replacements)
      : graph_(graph),
        backend_(backend),
        options_(options),
        replacements_(replacements),
        plan_(std::make_shared<Plan>()) {}

  std::shared_ptr<const Plan> run() {
    merge_common();
    grouping_ = group_nodes(graph_, canonical_, backend_, options_.fuse);
    lay_out();
    make_steps();
    assign_memory();
    prepare_kernels();
    summarize();
    return plan_;
  }

 private:
  const Node& at(std::uint32_t node) const { return *graph_.nodes[node]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(graph_.nodes.size()); }
  bool alive(std::uint32_t node) const { return canonical_[node] == node && grouping_.uses[node] > 0; }

  // ---- 1
  void merge_common() {
    canonical_.resize(size());
    std::unordered_map<Hash128, std::uint32_t, Hash128Hasher> seen;
    if (options_.eliminate_common) seen.reserve(size());
    for (std::uint32_t node = 0; node < size(); ++node) {
      canonical_[node] = node;
      const auto kind = op_kind(graph_.ops[node]);
      if (!options_.eliminate_common || kind == OpKind::leaf || kind == OpKind::random) continue;
      Hasher hasher;
      hasher.add(static_cast<std::uint64_t>(graph_.ops[node]));
      hasher.add(static_cast<std::uint64_t>(at(node).dtype));
      hasher.add(at(node).shape);
      if (at(node).attributes) hash_attributes(hasher, *at(node).attributes);
      for (auto input : graph_.inputs_of(node)) hasher.add(canonical_[input]);
      const auto [it, is_new] = seen.emplace(hasher.finish(), node);
      if (!is_new) {
        canonical_[node] = it->second;
        ++merged_;
      }
    }
  }

  // ---- 3
  void lay_out() {
    values_.resize(size());
    needs_fill_.assign(size(), false);
    copies_.resize(size());
    std::vector<bool> requested(size(), false);
    for (auto output : graph_.outputs) requested[canonical_[output]] = true;
    for (auto output : graph_.outputs)
      if (graph_.ops[canonical_[output]] == Op::constant) needs_fill_[canonical_[output]] = true;
    for (std::uint32_t node = 0; node < size(); ++node) {
      if (!alive(node)) continue;
      const auto op = graph_.ops[node];
      Value& value = values_[node];
      value.root = node;
      if (op == Op::value) {
        value.layout.strides = at(node).storage.strides;
        continue;
      }
      if (!is_elementwise(op))
        for (auto input : graph_.inputs_of(node))
          if (graph_.ops[canonical_[input]] == Op::constant) needs_fill_[canonical_[input]] = true;
      if (op_kind(op) == OpKind::view) {
        const auto input = canonical_[graph_.inputs_of(node)[0]];
        auto layout = view_layout(at(node), at(input).shape, values_[input].layout);
        if (layout && !(requested[node] && repeats(at(node).shape, layout->strides))) {
          value.root = values_[input].root;
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
    const Value& source = values_[input];
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
    ++copy_count_;
  }

  Source source_of(std::uint32_t node) const { return {values_[node].root, values_[node].layout.offset}; }
  Layout layout_of(std::uint32_t node) const {
    return {at(node).dtype, at(node).shape, values_[node].layout.strides};
  }
  Layout layout_over(std::uint32_t node, const Shape& domain) const {
    return {at(node).dtype, domain, broadcast_strides(at(node).shape, values_[node].layout.strides, domain)};
  }
  Layout dense(std::uint32_t node) const {
    return {at(node).dtype, at(node).shape, contiguous_strides(at(node).shape)};
  }

  // ---- 4
  void make_steps() {
    for (std::uint32_t node = 0; node < size(); ++node) {
      if (!alive(node)) continue;
      if (needs_fill_[node]) add_fill(node);
      if (copies_[node]) drafts_.push_back(std::move(*copies_[node]));
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
    draft.step.outputs = {dense(constant)};
    drafts_.push_back(std::move(draft));
  }

  void add_group(const Group& group) {
    DraftStep draft;
    if (group.anchor >= 0) add_anchor(draft, static_cast<std::uint32_t>(group.anchor), group.members.empty());
    if (!group.members.empty() || group.reduction >= 0) add_expression(draft, group);
    draft.nodes =
        static_cast<std::uint32_t>(group.members.size()) + (group.anchor >= 0) + (group.reduction >= 0);
    if (draft.nodes > 1) fused_nodes_ += draft.nodes;
    drafts_.push_back(std::move(draft));
  }

  void add_anchor(DraftStep& draft, std::uint32_t node, bool alone) {
    draft.step.op = graph_.ops[node];
    draft.step.domain = at(node).shape;
    if (at(node).attributes) draft.step.attributes = *at(node).attributes;
    if (op_kind(draft.step.op) == OpKind::random) draft.numbers.push_back({node, false});
    for (auto edge : graph_.inputs_of(node)) {
      const auto input = canonical_[edge];
      draft.inputs.push_back(source_of(input));
      draft.step.inputs.push_back(layout_of(input));
    }
    if (alone) {
      draft.outputs.push_back(node);
      draft.step.outputs.push_back(dense(node));
      if (draft.step.op == Op::copy) {
        draft.step.expression.inputs = {draft.step.inputs[0].dtype};
        draft.step.expression.outputs = {0};
      }
    }
  }

  void add_expression(DraftStep& draft, const Group& group) {
    Expression& expression = draft.step.expression;
    const auto reduced = group.reduction < 0
                             ? none
                             : canonical_[graph_.inputs_of(static_cast<std::uint32_t>(group.reduction))[0]];
    const Shape domain = at(group.members.empty() ? reduced : group.members[0]).shape;
    draft.step.domain = domain;

    // Number the values: inputs, immediates, members. `operand_uses` counts uses inside the group.
    numbering_.clear();
    operand_uses_.clear();
    std::vector<std::uint32_t> inputs, numbers, reciprocals;
    const auto is_member = [&](std::uint32_t node) {
      return grouping_.group_of[node] >= 0 &&
             &grouping_.groups[static_cast<std::size_t>(grouping_.group_of[node])] == &group;
    };
    const auto add_operand = [&](std::uint32_t node, bool reciprocal) {
      ++operand_uses_[node];
      if (is_member(node) && node != static_cast<std::uint32_t>(group.anchor)) return;
      auto& list = reciprocal ? reciprocals : graph_.ops[node] == Op::constant ? numbers : inputs;
      if (std::find(list.begin(), list.end(), node) == list.end()) list.push_back(node);
    };
    if (group.anchor >= 0) inputs.push_back(static_cast<std::uint32_t>(group.anchor));
    for (auto member : group.members)
      for (auto edge : graph_.inputs_of(member))
        add_operand(canonical_[edge], divides_by_number(member, edge));
    if (reduced != none) add_operand(reduced, false);

    for (auto node : inputs) {
      numbering_[node] = static_cast<std::uint16_t>(numbering_.size());
      expression.inputs.push_back(at(node).dtype);
      if (static_cast<std::int64_t>(node) == group.anchor) continue;
      draft.inputs.push_back(source_of(node));
      draft.step.inputs.push_back(layout_over(node, domain));
    }
    for (auto node : numbers) {
      numbering_[node] = static_cast<std::uint16_t>(numbering_.size());
      expression.immediates.push_back(at(node).dtype);
      draft.numbers.push_back({node, false});
    }
    std::unordered_map<std::uint32_t, std::uint16_t> reciprocal_numbering;
    for (auto node : reciprocals) {
      reciprocal_numbering[node] = static_cast<std::uint16_t>(expression.first_result());
      expression.immediates.push_back(at(node).dtype);
      draft.numbers.push_back({node, true});
    }
    auto next = static_cast<std::uint16_t>(expression.first_result());
    for (auto member : group.members) {
      const auto edges = graph_.inputs_of(member);
      Expression::Instruction instruction{graph_.ops[member], at(edges.back()).dtype, at(member).dtype, {}};
      for (std::size_t i = 0; i < edges.size(); ++i) {
        const auto operand = canonical_[edges[i]];
        if (i == 1 && divides_by_number(member, edges[i])) {
          instruction.op = Op::mul;
          instruction.operands[i] = reciprocal_numbering.at(operand);
          ++divisions_;
        } else {
          instruction.operands[i] = numbering_.at(operand);
        }
      }
      numbering_[member] = next++;
      expression.instructions.push_back(instruction);
    }

    if (reduced != none) {
      const auto reduction = static_cast<std::uint32_t>(group.reduction);
      draft.step.op = graph_.ops[reduction];
      draft.step.attributes = *at(reduction).attributes;
      expression.outputs.push_back(numbering_.at(reduced));
      draft.outputs.push_back(reduction);
      draft.step.outputs.push_back(dense(reduction));
    } else if (group.anchor < 0) {
      draft.step.op = Op::copy;
    }
    for (auto member : group.members) {
      if (grouping_.uses[member] == operand_uses_[member]) continue;
      expression.outputs.push_back(numbering_.at(member));
      draft.outputs.push_back(member);
      draft.step.outputs.push_back(dense(member));
    }
  }

  // Whether `edge` is the number by which a division may be replaced with a multiplication.
  bool divides_by_number(std::uint32_t member, std::uint32_t edge) const {
    return options_.multiply_by_reciprocals && graph_.ops[member] == Op::div &&
           graph_.ops[canonical_[edge]] == Op::constant && graph_.inputs_of(member)[1] == edge &&
           graph_.inputs_of(member)[0] != edge;
  }

  // ---- 5
  void assign_memory() {
    // The roots of the results get buffers of their own; everything else lives in the arena.
    std::vector<std::int64_t> output_of(size(), -1);
    for (auto output : graph_.outputs) {
      const auto root = values_[canonical_[output]].root;
      if (graph_.ops[root] == Op::value || output_of[root] >= 0) continue;
      output_of[root] = static_cast<std::int64_t>(plan_->output_bytes.size());
      plan_->output_bytes.push_back(bytes_of(root));
    }

    std::vector<std::uint32_t> last_use(size(), 0);
    for (std::uint32_t step = 0; step < drafts_.size(); ++step)
      for (const auto& input : drafts_[step].inputs) last_use[input.root] = step;

    find_donors(output_of, last_use);

    std::vector<MemoryRequest> requests;
    std::vector<std::int64_t> request_of(size(), -1);
    std::unordered_set<std::int64_t> taken;  // requests whose memory has been taken over
    for (std::uint32_t step = 0; step < drafts_.size(); ++step) {
      for (std::size_t k = 0; k < drafts_[step].outputs.size(); ++k) {
        const auto root = drafts_[step].outputs[k];
        if (output_of[root] >= 0) continue;
        MemoryRequest request{bytes_of(root), step, std::max(step, last_use[root]), -1};
        for (std::size_t i = 0; i < drafts_[step].inputs.size() && request.takes_over < 0; ++i) {
          const auto candidate = request_of[drafts_[step].inputs[i].root];
          if (candidate < 0 || taken.contains(candidate) ||
              !may_overwrite(drafts_[step], i, k, last_use, step))
            continue;
          request.takes_over = candidate;
          taken.insert(candidate);
          ++in_place_;
        }
        request_of[root] = static_cast<std::int64_t>(requests.size());
        requests.push_back(request);
        all_bytes_ += request.bytes;
      }
    }
    const auto memory = plan_memory(requests);
    plan_->arena_bytes = memory.total;
    plan_->stats.arena_bytes = memory.total;
    plan_->stats.required_bytes = memory.required;

    leaf_of_.assign(size(), none);
    for (std::uint32_t node = 0; node < size(); ++node) {
      if (graph_.ops[node] != Op::value) continue;
      leaf_of_[node] = static_cast<std::uint32_t>(plan_->leaves.size());
      plan_->leaves.push_back(node);
    }
    places_.resize(size());
    for (std::uint32_t node = 0; node < size(); ++node) {
      if (leaf_of_[node] != none)
        places_[node] = {Place::Kind::leaf, leaf_of_[node], 0};
      else if (output_of[node] >= 0)
        places_[node] = {Place::Kind::output, static_cast<std::uint32_t>(output_of[node]), 0};
      else if (request_of[node] >= 0)
        places_[node] = {
            Place::Kind::arena, 0,
            static_cast<std::int64_t>(memory.offsets[static_cast<std::size_t>(request_of[node])])};
    }
    for (auto output : graph_.outputs) {
      const Value& value = values_[canonical_[output]];
      const Place& place = places_[value.root];
      plan_->results.push_back({place, value.layout.offset,
                                canonical_strides(at(output).shape, value.layout.strides),
                                place.kind == Place::Kind::leaf});
    }
  }

  // Results that may be written over the leaf they replace: a parameter's new value over the old one.
  void find_donors(const std::vector<std::int64_t>& output_of, const std::vector<std::uint32_t>& last_use) {
    plan_->donors.assign(plan_->output_bytes.size(), -1);
    std::unordered_set<std::uint32_t> unavailable;  // leaves that are results themselves, or taken
    for (auto output : graph_.outputs) unavailable.insert(values_[canonical_[output]].root);
    std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::size_t>>
        produced;  // root -> step, output
    for (std::uint32_t step = 0; step < drafts_.size(); ++step)
      for (std::size_t k = 0; k < drafts_[step].outputs.size(); ++k)
        produced[drafts_[step].outputs[k]] = {step, k};
    std::unordered_map<const Node*, std::uint32_t> leaves;
    for (std::uint32_t node = 0; node < size(); ++node)
      if (graph_.ops[node] == Op::value) leaves.emplace(&at(node), node);

    std::uint32_t position = 0;
    std::unordered_map<std::uint32_t, std::uint32_t> leaf_position;
    for (std::uint32_t node = 0; node < size(); ++node)
      if (graph_.ops[node] == Op::value) leaf_position[node] = position++;

    for (const auto& replacement : replacements_) {
      const auto leaf = leaves.find(replacement.leaf);
      const auto root = values_[canonical_[graph_.outputs[replacement.result]]].root;
      if (leaf == leaves.end() || output_of[root] < 0 || unavailable.contains(leaf->second)) continue;
      const auto output = static_cast<std::size_t>(output_of[root]);
      const Node& old = at(leaf->second);
      if (plan_->donors[output] >= 0 || bytes_of(leaf->second) != bytes_of(root) || old.storage.offset != 0 ||
          !is_contiguous(old.shape, old.storage.strides))
        continue;
      const auto [step, k] = produced.at(root);
      bool free = last_use[leaf->second] < step;
      for (std::size_t i = 0; i < drafts_[step].inputs.size(); ++i)
        if (drafts_[step].inputs[i].root == leaf->second)
          free = may_overwrite(drafts_[step], i, k, last_use, step);
      if (!free) continue;
      plan_->donors[output] = leaf_position[leaf->second];
      plan_->stats.replaced_bytes += bytes_of(root);
      unavailable.insert(leaf->second);
      ++in_place_;
    }
  }

  std::size_t bytes_of(std::uint32_t node) const {
    return static_cast<std::size_t>(at(node).count()) * dtype_size(at(node).dtype);
  }

  // Whether output k of an elementwise step may be written over input i: the input ends here, lies exactly as
  // the output, and is not read after the output's instruction.
  bool may_overwrite(const DraftStep& draft, std::size_t i, std::size_t k,
                     const std::vector<std::uint32_t>& last_use, std::uint32_t step) const {
    if (draft.step.op != Op::copy || last_use[draft.inputs[i].root] != step) return false;
    const Layout& input = draft.step.inputs[i];
    const Layout& output = draft.step.outputs[k];
    if (dtype_size(input.dtype) != dtype_size(output.dtype) || !input.contiguous() ||
        element_count(input.shape) != at(draft.inputs[i].root).count())
      return false;
    const Expression& expression = draft.step.expression;
    const std::size_t written = expression.outputs[k];
    if (written < expression.first_result()) return false;
    for (std::size_t j = written - expression.first_result() + 1; j < expression.instructions.size(); ++j)
      for (int a = 0; a < operand_count(expression.instructions[j].op); ++a)
        if (expression.instructions[j].operands[a] == i) return false;
    // The same memory must not be read through another input.
    for (std::size_t other = 0; other < draft.inputs.size(); ++other)
      if (other != i && draft.inputs[other].root == draft.inputs[i].root) return false;
    return true;
  }

  // ---- 6
  void prepare_kernels() {
    for (auto& draft : drafts_) {
      PlannedStep step;
      step.kernel = backend_.prepare(draft.step);
      step.op = draft.step.op;
      step.nodes = draft.nodes;
      step.places_begin = static_cast<std::uint32_t>(plan_->places.size());
      step.inputs = static_cast<std::uint32_t>(draft.inputs.size());
      step.outputs = static_cast<std::uint32_t>(draft.outputs.size());
      step.numbers_begin = static_cast<std::uint32_t>(plan_->numbers.size());
      for (std::size_t i = 0; i < draft.inputs.size(); ++i) {
        const DType dtype = draft.step.inputs[i].dtype;
        Place place = places_[draft.inputs[i].root];
        place.bytes += draft.inputs[i].offset * static_cast<std::int64_t>(dtype_size(dtype));
        plan_->places.push_back(place);
        plan_->elements.push_back({dtype, element_count(draft.step.inputs[i].shape)});
      }
      for (auto node : draft.outputs) {
        plan_->places.push_back(places_[node]);
        plan_->elements.push_back({at(node).dtype, at(node).count()});
      }
      plan_->numbers.insert(plan_->numbers.end(), draft.numbers.begin(), draft.numbers.end());
      plan_->steps.push_back(std::move(step));
      if (options_.describe_steps) plan_->step_descriptions.push_back(describe(draft));
    }
  }

  std::string describe(const DraftStep& draft) const {
    std::string text;
    if (draft.step.op != Op::copy || draft.step.expression.instructions.empty())
      text = op_name(draft.step.op);
    for (const auto& instruction : draft.step.expression.instructions) {
      if (!text.empty()) text += ' ';
      text += op_name(instruction.op);
    }
    return fmt::format("{:<40} {} -> {} output{}", text, to_string(draft.step.domain), draft.outputs.size(),
                       draft.outputs.size() == 1 ? "" : "s");
  }

  void summarize() {
    plan_->device = backend_.info().device;
    plan_->stats.nodes = size();
    plan_->stats.steps = plan_->steps.size();
    plan_->stats.fused_nodes = fused_nodes_;
    for (auto bytes : plan_->output_bytes) plan_->stats.output_bytes += bytes;
    auto& passes = plan_->passes;
    if (options_.eliminate_common)
      passes.push_back(fmt::format("common subexpressions: {} nodes merged", merged_));
    if (options_.fuse)
      passes.push_back(fmt::format("fusion: {} of {} nodes share a step; {} steps", fused_nodes_, size(),
                                   plan_->steps.size()));
    if (options_.multiply_by_reciprocals)
      passes.push_back(fmt::format("reciprocals: {} divisions by a number are multiplications", divisions_));
    passes.push_back(fmt::format("layout: {} views need a copy", copy_count_));
    passes.push_back(
        fmt::format("memory: {} bytes of intermediate values in an arena of {} ({} required), {} in place",
                    all_bytes_, plan_->arena_bytes, plan_->stats.required_bytes, in_place_));
  }

  const LinearGraph& graph_;
  Backend& backend_;
  const PlanOptions options_;
  const std::vector<Replacement>& replacements_;
  std::shared_ptr<Plan> plan_;
  std::vector<std::uint32_t> canonical_;
  Grouping grouping_;
  std::vector<Value> values_;
  std::vector<bool> needs_fill_;
  std::vector<std::unique_ptr<DraftStep>> copies_;  // per node
  std::vector<DraftStep> drafts_;
  std::unordered_map<std::uint32_t, std::uint16_t> numbering_;
  std::unordered_map<std::uint32_t, std::uint32_t> operand_uses_;
  std::vector<std::uint32_t> leaf_of_;
  std::vector<Place> places_;
  std::size_t merged_ = 0, fused_nodes_ = 0, copy_count_ = 0, divisions_ = 0, in_place_ = 0, all_bytes_ = 0;
};

}  // namespace

PlanOptions plan_options() {
  const Config current = config();
  const bool optimize = current.optimization_level != OptimizationLevel::conservative;
  return {optimize && current.enable_operator_fusion, optimize,
          current.optimization_level == OptimizationLevel::aggressive, false};
}

std::shared_ptr<const Plan> build_plan(const LinearGraph& graph, Backend& backend, const PlanOptions& options,
                                       const std::vector<Replacement>& replacements) {
  return Builder(graph, backend, options, replacements).run();
}

std::string Plan::describe() const {
  std::string text = fmt::format("{} nodes, {} steps on {}\n", stats.nodes, steps.size(), to_string(device));
  for (const auto& pass : passes) text += "  " + pass + "\n";
  for (std::size_t i = 0; i < step_descriptions.size(); ++i)
    text += fmt::format("  step {:<4} {}\n", i, step_descriptions[i]);
  return text;
}

}  // namespace hearth
