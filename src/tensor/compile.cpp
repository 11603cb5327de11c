// compile(): a function traced once, its plan run many times.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "hearth/error.h"
#include "hearth/eval.h"
#include "tensor/evaluate.h"
#include "tensor/trace.h"
#include "tensor/variable.h"

namespace hearth {

Trace*& current_trace() {
  thread_local Trace* trace = nullptr;
  return trace;
}

bool tracing() { return current_trace() != nullptr; }

namespace {

// Restores the thread's trace, whatever happens.
class TraceScope {
 public:
  explicit TraceScope(Trace* trace) : before_(std::exchange(current_trace(), trace)) {}
  ~TraceScope() { current_trace() = before_; }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Trace* before_;
};

// Makes the variable's value one that a plan of `device` can read as a leaf. Numbers go anywhere: one that
// the variable may exchange for another becomes a value there.
void make_leaf(const std::shared_ptr<detail::Variable>& variable, Device device) {
  const NodeRef node = variable->node;
  if (!node->evaluated.load(std::memory_order_acquire)) eval({Tensor(variable)});
  if (node->op != Op::constant) return;
  const Tensor value = make_value(node->shape, node->dtype, node->storage, node->device).to(device);
  Node& leaf = *value.variable()->node;
  leaf.requires_grad = node->requires_grad;
  leaf.gradient = node->gradient;
  variable->node = value.variable()->node;
}

}  // namespace

void Trace::saw(const std::shared_ptr<detail::Variable>& variable) {
  Node* node = variable->node.get();
  if (node->trace == id || (node->op == Op::constant && node->weak)) return;
  if (const auto known = captured.find(node); known != captured.end()) {
    if (known->second.variable == variable || variable->trace == id)
      return;  // itself, or a new name for the same
    // Two variables with one value: from now on they may be assigned apart, so each needs a leaf of its own.
    const Tensor twin = make_value(node->shape, node->dtype, node->storage, node->device);
    Node& own = *twin.variable()->node;
    own.requires_grad = node->requires_grad;
    own.gradient = variable->gradient;
    variable->node = twin.variable()->node;
    node = &own;
  }
  if (!node->evaluated.load(std::memory_order_acquire) || node->op == Op::constant) {
    // Made before the trace: its value is needed now.
    const TraceScope untraced(nullptr);
    make_leaf(variable, device);
    node = variable->node.get();
  }
  captured.emplace(node, Captured{variable, NodeRef(node)});
}

void Trace::will_assign(const std::shared_ptr<detail::Variable>& variable) {
  const bool known = std::any_of(assigned.begin(), assigned.end(),
                                 [&](const Assigned& entry) { return entry.variable == variable; });
  if (!known) assigned.push_back({variable, variable->node});
}

void Trace::will_touch(const std::shared_ptr<GradientSlot>& slot, bool read) {
  const bool known = std::any_of(gradients.begin(), gradients.end(),
                                 [&](const Touched& entry) { return entry.slot == slot; });
  if (!known) gradients.push_back({slot, slot->gradient, read});
}

namespace {

struct LeafSource {
  enum class Kind { argument, captured, gradient, fixed } kind = Kind::fixed;
  std::size_t argument = 0;
  std::shared_ptr<detail::Variable> variable;
  std::shared_ptr<GradientSlot> slot;
  NodeRef node;                // fixed
  bool requires_grad = false;  // captured
  Shape shape;
  Strides strides;  // the plan holds for these
};

struct NumberSource {
  Number number;
  std::int64_t generator =
      -1;  // index in Compilation::generators; number.offset is relative to its first draw
};

// One traced signature.
struct Compilation {
  std::size_t number = 0;  // of the trace, from 0
  std::shared_ptr<const Plan> plan;
  std::vector<LeafSource> leaves;
  std::vector<NumberSource> numbers;
  struct Source {
    std::shared_ptr<Generator::Stream> stream;
    std::uint64_t blocks;
  };
  std::vector<Source> generators;
  std::size_t returned =
      0;  // the first results are the function's, then the assigned variables', then gradients'
  std::vector<std::shared_ptr<detail::Variable>> assigned;
  struct Gradient {
    std::shared_ptr<GradientSlot> slot;
    bool read;           // before anything was written
    bool before, after;  // whether there is one
  };
  std::vector<Gradient> gradients;
  std::vector<std::pair<Shape, DType>> results;
};

Hash128 signature(const std::vector<Tensor>& arguments) {
  Hasher hasher;
  hasher.add(arguments.size());
  for (const auto& argument : arguments) {
    hasher.add(static_cast<std::uint64_t>(argument.dtype()));
    hasher.add(argument.shape());
    hasher.add(static_cast<std::uint64_t>(argument.device().kind) << 8 | argument.device().index);
    hasher.add(node_of(argument)->storage.strides);
  }
  return hasher.finish();
}

std::atomic<std::uint32_t> next_trace{1};

// Everything is as before the function was called when this goes away, also if it throws; replay() makes the
// changes, the first time and every other.
class Undone {
 public:
  explicit Undone(const Trace& trace) : trace_(trace) {}
  ~Undone() {
    for (const auto& entry : trace_.assigned) entry.variable->node = entry.before;
    for (const auto& entry : trace_.gradients) entry.slot->gradient = entry.before;
  }
  Undone(const Undone&) = delete;
  Undone& operator=(const Undone&) = delete;

 private:
  const Trace& trace_;
};

}  // namespace

struct Compiled::State {
  Function function;
  std::unordered_map<Hash128, std::vector<std::shared_ptr<Compilation>>, Hash128Hasher> compilations;
  std::shared_ptr<Compilation> last;
  std::size_t traces = 0;

  std::shared_ptr<Compilation> trace(const std::vector<Tensor>& arguments);
  std::vector<Tensor> replay(const Compilation& compilation, const std::vector<Tensor>& arguments);
  static bool still_fits(const Compilation& compilation);
};

Compiled::Compiled(Function function) : state_(std::make_shared<State>()) {
  state_->function = std::move(function);
}

std::size_t Compiled::traces() const { return state_->traces; }
std::size_t Compiled::last_trace() const { return state_->last ? state_->last->number : 0; }
std::string Compiled::explain() const {
  return state_->last ? state_->last->plan->describe() : "nothing traced yet\n";
}

std::shared_ptr<Compilation> Compiled::State::trace(const std::vector<Tensor>& arguments) {
  Trace trace;
  trace.id = next_trace.fetch_add(1);
  trace.device = arguments.empty() ? default_device() : arguments[0].device();
  std::unordered_map<const Node*, std::size_t> argument_of;

  auto compilation = std::make_shared<Compilation>();
  std::vector<Tensor> placeholders;
  std::vector<Tensor> results;
  {
    const Undone undone(trace);
    {
      TraceScope scope(&trace);
      // The arguments are leaves without storage while the function runs.
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        const Node& given = *arguments[i].variable()->node;
        NodeRef node(new Node);
        node->dtype = given.dtype;
        node->shape = given.shape;
        node->device = given.device;
        node->storage.strides = given.storage.strides;
        node->trace = trace.id;
        argument_of.emplace(node.get(), i);
        placeholders.push_back(wrap(std::move(node)));
      }
      results = function(placeholders);
    }
    compilation->number = traces++;
    // One that the function assigned and returns is what it was assigned, not what it goes back to.
    for (Tensor& result : results)
      if (result.defined()) result = wrap(result.variable()->node);

    compilation->returned = results.size();
    for (const auto& entry : trace.assigned) {
      compilation->assigned.push_back(entry.variable);
      results.push_back(wrap(entry.variable->node));
    }
    for (const auto& entry : trace.gradients) {
      const Tensor& after = entry.slot->gradient;
      compilation->gradients.push_back({entry.slot, entry.read, entry.before.defined(), after.defined()});
      if (after.defined()) results.push_back(wrap(after.variable()->node));
    }
  }

  std::lock_guard lock(graph_mutex());
  std::vector<Node*> wanted;
  for (const auto& result : results) {
    wanted.push_back(node_of(result, "compile").get());
    compilation->results.emplace_back(result.shape(), result.dtype());
  }
  const LinearGraph graph = linearize(wanted);
  PlanOptions options = plan_options();
  options.describe_steps = true;
  std::vector<Replacement> replacements;
  for (std::size_t i = 0; i < trace.assigned.size(); ++i)
    replacements.push_back({trace.assigned[i].before.get(), compilation->returned + i});
  compilation->plan = build_plan(graph, backend(trace.device), options, replacements);

  for (auto leaf : compilation->plan->leaves) {
    Node* node = graph.nodes[leaf];
    LeafSource source;
    source.shape = node->shape;
    source.strides = node->storage.strides;
    if (const auto argument = argument_of.find(node); argument != argument_of.end()) {
      source.kind = LeafSource::Kind::argument;
      source.argument = argument->second;
    } else if (const auto variable = trace.captured.find(node); variable != trace.captured.end()) {
      source.kind = LeafSource::Kind::captured;
      source.variable = variable->second.variable;
      source.requires_grad = node->requires_grad;
      for (const auto& entry : trace.gradients)
        if (entry.before.variable() == source.variable) {
          source.kind = LeafSource::Kind::gradient;
          source.slot = entry.slot;
        }
    } else {
      source.node = NodeRef(node);
    }
    compilation->leaves.push_back(std::move(source));
  }

  // Random numbers: where each draw began, relative to its generator's first. Generators that the function
  // made for itself are gone: it would draw the same again each time.
  std::vector<std::uint64_t> first_offset;
  const auto source_of = [&](const Trace::Draw& draw) {
    const auto stream = draw.stream.lock();
    return stream ? std::find_if(compilation->generators.begin(), compilation->generators.end(),
                                 [&](const auto& source) { return source.stream == stream; })
                  : compilation->generators.end();
  };
  for (const auto& draw : trace.draws) {
    auto stream = draw.stream.lock();
    if (!stream) continue;
    auto it = source_of(draw);
    if (it == compilation->generators.end()) {
      compilation->generators.push_back({std::move(stream), 0});
      first_offset.push_back(draw.before.offset);
      it = std::prev(compilation->generators.end());
    }
    it->blocks = draw.before.offset + draw.count -
                 first_offset[static_cast<std::size_t>(it - compilation->generators.begin())];
  }
  for (const auto& planned : compilation->plan->numbers) {
    NumberSource source{planned.of(graph.nodes[planned.node]->number), -1};
    if (op_kind(graph.ops[planned.node]) == OpKind::random)
      for (const auto& draw : trace.draws)
        if (draw.node.get() == graph.nodes[planned.node]) {
          const auto it = source_of(draw);
          if (it == compilation->generators.end()) break;
          source.generator = it - compilation->generators.begin();
          source.number.offset -= first_offset[static_cast<std::size_t>(source.generator)];
          break;
        }
    compilation->numbers.push_back(source);
  }
  // The draws of the trace itself are the first run's.
  for (std::size_t i = 0; i < compilation->generators.size(); ++i) {
    Generator::Stream& stream = *compilation->generators[i].stream;
    auto state = stream.state();
    state.offset = first_offset[i];
    stream.set_state(state);
  }
  return compilation;
}

namespace {
// True iff both strides address an array of this shape alike: where there is one element the stride does not
// matter.
bool same_layout(const Shape& shape, const Strides& a, const Strides& b) {
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1 && a[i] != b[i]) return false;
  return true;
}
}  // namespace

// Since the trace, captured variables may have been given values with other strides or on another device, may
// no longer learn or learn now, and gradients may have come or gone.
bool Compiled::State::still_fits(const Compilation& compilation) {
  for (const auto& gradient : compilation.gradients)
    if (gradient.read && gradient.before != gradient.slot->gradient.defined()) return false;
  for (const auto& leaf : compilation.leaves) {
    if (leaf.kind != LeafSource::Kind::captured && leaf.kind != LeafSource::Kind::gradient) continue;
    const Tensor tensor = leaf.slot ? leaf.slot->gradient : Tensor(leaf.variable);
    make_leaf(tensor.variable(), compilation.plan->device);
    const Node& node = *tensor.variable()->node;
    if (leaf.kind == LeafSource::Kind::captured && node.requires_grad != leaf.requires_grad) return false;
    if (!(node.device == compilation.plan->device) || !(node.shape == leaf.shape) ||
        !same_layout(node.shape, node.storage.strides, leaf.strides))
      return false;
  }
  return true;
}

std::vector<Tensor> Compiled::State::replay(const Compilation& compilation,
                                            const std::vector<Tensor>& arguments) {
  const Plan& plan = *compilation.plan;
  const auto leaf_node = [&](std::uint32_t index) -> const Node& {
    const LeafSource& leaf = compilation.leaves[index];
    switch (leaf.kind) {
      case LeafSource::Kind::argument:
        return *arguments[leaf.argument].variable()->node;
      case LeafSource::Kind::captured:
        return *leaf.variable->node;
      case LeafSource::Kind::gradient:
        return *leaf.slot->gradient.variable()->node;
      default:
        return *leaf.node;
    }
  };
  PlanBindings bindings;
  for (std::uint32_t i = 0; i < compilation.leaves.size(); ++i)
    bindings.leaves.push_back(first_element(leaf_node(i)));
  std::vector<Generator::State> states;
  for (const auto& source : compilation.generators) states.push_back(source.stream->reserve(source.blocks));
  for (const auto& source : compilation.numbers) {
    Number number = source.number;
    if (source.generator >= 0) {
      number.seed = states[static_cast<std::size_t>(source.generator)].seed;
      number.offset += states[static_cast<std::size_t>(source.generator)].offset;
    }
    bindings.numbers.push_back(number);
  }
  // An old value that nobody else holds gives its memory to the new one.
  for (std::size_t i = 0; i < plan.donors.size(); ++i) {
    std::shared_ptr<Buffer> donated;
    if (plan.donors[i] >= 0) {
      const LeafSource& leaf = compilation.leaves[static_cast<std::size_t>(plan.donors[i])];
      const bool assigned = leaf.kind == LeafSource::Kind::captured;
      const Node* node = assigned ? leaf.variable->node.get() : nullptr;
      const auto also_given = [&](const Tensor& argument) { return argument.variable()->node.get() == node; };
      if (node && node->references.load() == 1 && node->storage.buffer.use_count() == 1 &&
          node->storage.buffer->writable && node->storage.offset == 0 &&
          std::none_of(arguments.begin(), arguments.end(), also_given))
        donated = node->storage.buffer;
    }
    bindings.donated.push_back(std::move(donated));
  }
  const auto outputs = run_plan(plan, backend(plan.device), bindings);

  // All storages first: a result may be a view of a leaf that is about to be assigned.
  std::vector<Storage> storages;
  for (std::size_t i = 0; i < plan.results.size(); ++i)
    storages.push_back(result_storage(
        plan, i, outputs, [&](std::uint32_t leaf) -> const Storage& { return leaf_node(leaf).storage; }));
  std::size_t next = 0;
  const auto value = [&] {
    const auto& [shape, dtype] = compilation.results[next];
    return make_value(shape, dtype, std::move(storages[next++]), plan.device);
  };
  std::vector<Tensor> returned;
  for (std::size_t i = 0; i < compilation.returned; ++i) returned.push_back(value());
  for (const auto& variable : compilation.assigned) {
    Tensor fresh = value();
    Node& node = *fresh.variable()->node;
    node.requires_grad = variable->gradient != nullptr;
    node.gradient = variable->gradient;
    variable->node = fresh.variable()->node;
  }
  for (const auto& gradient : compilation.gradients)
    gradient.slot->gradient = gradient.after ? value() : Tensor();
  set_last_plan_stats(plan.stats);
  return returned;
}

std::vector<Tensor> Compiled::operator()(const std::vector<Tensor>& arguments) {
  if (current_trace()) return state_->function(arguments);  // inside another trace: part of it
  eval(arguments);
  const Hash128 key = signature(arguments);
  auto& candidates = state_->compilations[key];
  auto fitting = std::find_if(candidates.begin(), candidates.end(),
                              [](const auto& candidate) { return State::still_fits(*candidate); });
  if (fitting == candidates.end()) fitting = candidates.insert(candidates.end(), state_->trace(arguments));
  state_->last = *fitting;
  return state_->replay(**fitting, arguments);
}

}  // namespace hearth
