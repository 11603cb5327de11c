// Walking the graph backwards.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "tensor/gradient_rules.h"
#include "tensor/trace.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

// Gradients are built without being recorded themselves, unless they are to be differentiated again.
class GradMode {
 public:
  explicit GradMode(bool enabled) : before_(grad_enabled()) { set_grad_enabled(enabled); }
  ~GradMode() { set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

// The nodes between `root` and the leaves that take part in gradients, users before inputs.
std::vector<Node*> backward_order(Node* root) {
  std::vector<Node*> order;
  std::unordered_map<Node*, bool> finished;
  std::vector<Node*> stack{root};
  while (!stack.empty()) {
    Node* node = stack.back();
    const auto [state, is_new] = finished.emplace(node, false);
    if (!is_new) {
      stack.pop_back();
      if (!state->second) {
        state->second = true;
        order.push_back(node);
      }
      continue;
    }
    if (!node->tracked) continue;
    for (const auto& input : node->inputs)
      if (input->requires_grad && !finished.contains(input.get())) stack.push_back(input.get());
  }
  std::reverse(order.begin(), order.end());
  return order;
}

// If these are the gradients of slices that together are the whole along one axis, and nothing else, they lie
// side by side: that axis.
std::optional<std::int64_t> side_by_side(std::vector<Tensor>& gradients) {
  const Shape& shape = gradients[0].shape();
  std::optional<std::int64_t> axis;
  for (const Tensor& gradient : gradients) {
    const Node& node = *node_of(gradient);
    if (node.op != Op::unslice || !(node.shape == shape)) return std::nullopt;
    const auto& slice = node.attribute<SliceAttributes>();
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (slice.step[i] != 1) return std::nullopt;
      if (node.inputs[0]->shape[i] == shape[i]) continue;
      if (axis.value_or(static_cast<std::int64_t>(i)) != static_cast<std::int64_t>(i)) return std::nullopt;
      axis = static_cast<std::int64_t>(i);
    }
  }
  if (!axis) return std::nullopt;
  const auto along = static_cast<std::size_t>(*axis);
  const auto start = [&](const Tensor& gradient) {
    return node_of(gradient)->attribute<SliceAttributes>().start[along];
  };
  std::sort(gradients.begin(), gradients.end(),
            [&](const Tensor& a, const Tensor& b) { return start(a) < start(b); });
  std::int64_t end = 0;
  for (const Tensor& gradient : gradients) {
    if (start(gradient) != end) return std::nullopt;
    end += node_of(gradient)->inputs[0]->shape[along];
  }
  return end == shape[along] ? axis : std::nullopt;
}

// What all uses of a value add up to. Slices that divide it are joined instead of being put among zeros and
// added.
Tensor total(std::vector<Tensor> gradients) {
  if (gradients.size() > 1) {
    if (const auto axis = side_by_side(gradients)) {
      std::vector<Tensor> parts;
      for (const Tensor& gradient : gradients) parts.push_back(wrap(node_of(gradient)->inputs[0]));
      return concat(parts, *axis);
    }
  }
  Tensor sum = gradients[0];
  for (std::size_t i = 1; i < gradients.size(); ++i) sum = sum + gradients[i];
  return sum;
}

// Calls `on_node(node, gradient)` for every node that the gradient reaches, users before inputs.
template <typename OnNode>
void propagate(const char* operation, const Tensor& output, const Tensor& seed, bool create_graph,
               OnNode on_node) {
  const NodeRef root = node_of(output, operation);
  if (!root->requires_grad)
    throw ValueError(
        fmt::format("[{}] the tensor does not depend on anything that requires a gradient", operation));
  Tensor first = seed;
  if (!first.defined()) {
    if (root->count() != 1)
      throw ShapeError(
          fmt::format("[{}] a gradient must be given for a result of shape {}; only scalars have a default",
                      operation, to_string(root->shape)));
    first = ones_like(output.detach());
  } else if (!(first.shape() == root->shape)) {
    throw ShapeError(fmt::format("[{}] gradient {} for a result of shape {}", operation,
                                 to_string(first.shape()), to_string(root->shape)));
  }
  const GradMode mode(create_graph);
  std::unordered_map<Node*, std::vector<Tensor>> pending;
  pending[root.get()].push_back(as(first, root->dtype));
  for (Node* node : backward_order(root.get())) {
    const auto it = pending.find(node);
    if (it == pending.end()) continue;
    const DeviceScope here(it->second[0].device());
    const Tensor dy = total(std::move(it->second));
    pending.erase(it);
    on_node(node, dy);
    if (!node->tracked) continue;
    const auto gradients = input_gradients(NodeRef(node), dy);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      Node* input = node->inputs[i].get();
      pending[input].push_back(as(sum_to(gradients[i], input->shape), input->dtype));
    }
  }
}

}  // namespace

std::vector<Tensor> Tensor::backward(const Tensor& seed) const {
  std::vector<Tensor> changed;
  propagate("backward", *this, seed, false, [&](Node* node, const Tensor& dy) {
    const auto slot = node->gradient.lock();
    if (node->tracked || !slot) return;
    if (Trace* trace = current_trace()) trace->will_touch(slot, true);
    Tensor& total = slot->gradient;
    total = total.defined() ? total + dy : dy;
    changed.push_back(total);
  });
  return changed;
}

std::vector<Tensor> gradients(const Tensor& output, const std::vector<Tensor>& inputs, const Tensor& seed,
                              bool create_graph) {
  std::unordered_map<Node*, std::size_t> wanted;
  std::vector<Tensor> result(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) wanted.emplace(node_of(inputs[i], "gradients").get(), i);
  propagate("gradients", output, seed, create_graph, [&](Node* node, const Tensor& dy) {
    if (const auto it = wanted.find(node); it != wanted.end()) result[it->second] = dy;
  });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto same = wanted.at(node_of(inputs[i]).get());
    if (!result[i].defined()) result[i] = result[same].defined() ? result[same] : zeros_like(inputs[i]);
  }
  return result;
}

std::function<std::pair<Tensor, std::vector<Tensor>>(const std::vector<Tensor>&)> value_and_grad(
    TensorFunction f) {
  return [f = std::move(f)](const std::vector<Tensor>& arguments) {
    std::vector<Tensor> leaves;
    for (const auto& argument : arguments) {
      Tensor leaf = argument.detach();
      if (is_floating(leaf.dtype())) leaf.requires_grad_();
      leaves.push_back(leaf);
    }
    const GradMode mode(true);
    const Tensor value = f(leaves);
    std::vector<Tensor> results;
    if (value.requires_grad())
      results = gradients(value, leaves);
    else
      for (const auto& leaf : leaves) results.push_back(zeros_like(leaf));
    return std::pair{value.detach(), results};
  };
}

}  // namespace hearth
