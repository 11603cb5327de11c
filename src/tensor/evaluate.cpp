// eval(): graph -> plan (cached by structure) -> run -> values.
#include <fmt/format.h>

#include <list>
#include <unordered_map>

#include "hearth/config.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "plan/plan.h"
#include "tensor/evaluate.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

thread_local PlanStats last_stats;

// Least recently used plans go first. Used under graph_mutex().
class PlanCache {
 public:
  std::shared_ptr<const Plan> find(const Hash128& key) {
    const auto it = entries_.find(key);
    if (it == entries_.end()) {
      ++stats_.misses;
      return nullptr;
    }
    ++stats_.hits;
    order_.splice(order_.begin(), order_, it->second.position);
    return it->second.plan;
  }
  void insert(const Hash128& key, std::shared_ptr<const Plan> plan, std::size_t limit) {
    if (limit == 0) return;
    while (entries_.size() >= limit) {
      entries_.erase(order_.back());
      order_.pop_back();
    }
    order_.push_front(key);
    entries_[key] = {std::move(plan), order_.begin()};
  }
  void clear() {
    entries_.clear();
    order_.clear();
    stats_ = {};
  }
  PlanCacheStats stats() const {
    PlanCacheStats result = stats_;
    result.entries = entries_.size();
    return result;
  }

 private:
  struct Entry {
    std::shared_ptr<const Plan> plan;
    std::list<Hash128>::iterator position;
  };
  std::list<Hash128> order_;
  std::unordered_map<Hash128, Entry, Hash128Hasher> entries_;
  PlanCacheStats stats_;
};

// Never destroyed: plans hold graphs of a driver, whose library may have ended before.
PlanCache& plan_cache() {
  static auto& cache = *new PlanCache;
  return cache;
}

Hash128 cache_key(const LinearGraph& graph, Device device, const PlanOptions& options) {
  Hasher hasher;
  hasher.add(graph.structure.low);
  hasher.add(graph.structure.high);
  hasher.add(static_cast<std::uint64_t>(device.kind) << 8 | device.index);
  hasher.add(
      static_cast<std::uint64_t>(options.fuse) | static_cast<std::uint64_t>(options.eliminate_common) << 1 |
      static_cast<std::uint64_t>(options.multiply_by_reciprocals) << 2 |
      static_cast<std::uint64_t>(options.matrix_cores) << 3 |
      static_cast<std::uint64_t>(options.vendor_blas) << 4 | static_cast<std::uint64_t>(options.tuning) << 5 |
      static_cast<std::uint64_t>(options.vendor_dnn) << 6 | static_cast<std::uint64_t>(options.replay) << 7);
  return hasher.finish();
}

void check_leaf(const Node& leaf) {
  if (!leaf.storage.buffer)
    throw ValueError(
        "[eval] a value was asked for while compile() traces a function; values are known only when the plan "
        "runs");
}

Device device_of(const LinearGraph& graph) {
  for (const Node* node : graph.nodes)
    if (node->op != Op::constant) return node->device;
  return graph.nodes.empty() ? default_device() : graph.nodes[0]->device;
}

}  // namespace

void* first_element(const Node& leaf) {
  return static_cast<char*>(leaf.storage.buffer->data) + storage_bytes(leaf.dtype, leaf.storage.offset);
}

Storage result_storage(const Plan& plan, std::size_t result,
                       const std::vector<std::shared_ptr<Buffer>>& outputs,
                       const std::function<const Storage&(std::uint32_t leaf)>& leaf_storage) {
  const PlannedResult& planned = plan.results[result];
  if (!planned.from_leaf) return {outputs[planned.place.index], planned.offset, planned.strides};
  const Storage& leaf = leaf_storage(planned.place.index);
  return {leaf.buffer, leaf.offset + planned.offset, planned.strides};
}

void eval(const std::vector<Tensor>& tensors) {
  std::vector<Node*> wanted;
  for (const auto& tensor : tensors) {
    Node* node = node_of(tensor, "eval").get();
    if (!node->evaluated.load(std::memory_order_acquire)) wanted.push_back(node);
  }
  if (wanted.empty()) return;

  std::vector<std::vector<NodeRef>> released;  // freed after the lock is given back
  std::lock_guard lock(graph_mutex());
  std::erase_if(wanted, [](Node* node) { return node->evaluated.load(std::memory_order_relaxed); });
  if (wanted.empty()) return;

  const LinearGraph graph = linearize(wanted);
  Backend& device = backend(device_of(graph));
  const PlanOptions options = plan_options();
  const Hash128 key = cache_key(graph, device_of(graph), options);
  auto plan = plan_cache().find(key);
  const bool cached = plan != nullptr;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.ops[i] == Op::value) check_leaf(*graph.nodes[i]);
  if (!plan) {
    plan = build_plan(graph, device, options);
    plan_cache().insert(key, plan, config().plan_cache_entries);
  }

  PlanBindings bindings;
  bindings.leaves.reserve(plan->leaves.size());
  for (auto leaf : plan->leaves) bindings.leaves.push_back(first_element(*graph.nodes[leaf]));
  bindings.numbers.reserve(plan->numbers.size());
  for (const auto& number : plan->numbers)
    bindings.numbers.push_back(number.of(graph.nodes[number.node]->number));
  const auto outputs = run_plan(*plan, device, bindings);

  const auto leaf_storage = [&](std::uint32_t leaf) -> const Storage& {
    return graph.nodes[plan->leaves[leaf]]->storage;
  };
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Node& node = *wanted[i];
    if (node.evaluated.load(std::memory_order_relaxed)) continue;  // asked for twice
    node.storage = result_storage(*plan, i, outputs, leaf_storage);
    node.evaluated.store(true, std::memory_order_release);
    if (!node.tracked) released.push_back(std::exchange(node.inputs, {}));
  }
  last_stats = plan->stats;
  last_stats.from_cache = cached;
}

std::string explain(const std::vector<Tensor>& tensors) {
  std::vector<Node*> wanted;
  for (const auto& tensor : tensors) wanted.push_back(node_of(tensor, "explain").get());
  std::lock_guard lock(graph_mutex());
  const LinearGraph graph = linearize(wanted);
  PlanOptions options = plan_options();
  options.describe_steps = true;
  return build_plan(graph, backend(device_of(graph)), options)->describe();
}

PlanStats last_plan_stats() { return last_stats; }
void set_last_plan_stats(const PlanStats& stats) { last_stats = stats; }

PlanCacheStats plan_cache_stats() {
  std::lock_guard lock(graph_mutex());
  return plan_cache().stats();
}

void clear_plan_cache() {
  std::lock_guard lock(graph_mutex());
  plan_cache().clear();
}

}  // namespace hearth
