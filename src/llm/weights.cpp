// Weights from a file to a device.
#include "llm/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/ops.h"
#include "llm/refuse.h"
#include "tensor/repacked.h"
#include "tensor/variable.h"

namespace hearth::llm {
namespace {

class Loader {
 public:
  Loader(const ModelFile& file, std::vector<Placement> placements, std::int64_t context, bool repack,
         const std::function<void(double)>& progress)
      : file_(file),
        placements_(std::move(placements)),
        context_(context),
        repack_(repack),
        progress_(progress) {}
  // Only looks at the shapes.
  explicit Loader(const ModelFile& file)
      : file_(file),
        placements_{{Device{}, 0, file.config.layers}},
        context_(0),
        repack_(false),
        loads_(false) {}

  Weights run() {
    const ModelConfig& c = file_.config;
    Weights weights;
    // Without an output matrix of its own, the embedding serves as one.
    const bool tied = !file_.contains("output.weight"), together = placements_.size() == 1;
    device_ = placements_.front().device;
    weights.embedding = tied && together ? matrix("token_embd.weight", {c.vocabulary, c.width})
                                         : as_in_file("token_embd.weight", {c.vocabulary, c.width});
    for (const Placement& placement : placements_) {
      device_ = placement.device;
      const Rotation rope = rotation(c.rope);
      const Rotation local = c.local_rope.frequencies.empty() ? rope : rotation(c.local_rope);
      for (std::int64_t i = placement.first; i < placement.end; ++i) {
        const auto at = static_cast<std::size_t>(i);
        weights.layers.push_back(layer(fmt::format("blk.{}.", i)));
        if (c.without_rope.empty() || !c.without_rope[at])
          weights.layers.back().rope = c.windows[at] > 0 ? local : rope;
        if (progress_) progress_(static_cast<double>(i + 1) / static_cast<double>(c.layers));
      }
    }
    weights.norm = vector("output_norm.weight", c.width);
    if (!tied)
      weights.output = projection("output", c.vocabulary, c.width);
    else
      weights.output = {together ? weights.embedding : matrix("token_embd.weight", {c.vocabulary, c.width}),
                        {},
                        {"token_embd.weight"},
                        {}};
    return weights;
  }

 private:
  LayerWeights layer(const std::string& prefix) {
    const ModelConfig& c = file_.config;
    const std::int64_t queries = c.heads * c.head_size, keys = c.groups * c.head_size;
    LayerWeights w;
    if (c.pre_norms) w.attention_norm = vector(prefix + "attn_norm.weight", c.width);
    // Where attention does not end with a norm, GPT-OSS calls this one by that name.
    const std::string after_attention = prefix + "post_attention_norm.weight";
    const bool other_name =
        !c.post_norms && !file_.contains(prefix + "ffn_norm.weight") && file_.contains(after_attention);
    if (c.pre_norms)
      w.feed_forward_norm = vector(other_name ? after_attention : prefix + "ffn_norm.weight", c.width);
    if (file_.contains(prefix + "attn_qkv.weight")) {
      w.qkv = projection(prefix + "attn_qkv", queries + 2 * keys, c.width);
    } else if (auto all = stacked(
                   {{prefix + "attn_q", queries}, {prefix + "attn_k", keys}, {prefix + "attn_v", keys}},
                   c.width)) {
      w.qkv = std::move(*all);
    } else {
      w.q = projection(prefix + "attn_q", queries, c.width);
      w.k = projection(prefix + "attn_k", keys, c.width);
      w.v = projection(prefix + "attn_v", keys, c.width);
    }
    w.out = projection(prefix + "attn_output", c.width, queries);
    if (c.attention_sinks) w.sinks = vector(prefix + "attn_sinks.weight", c.heads);
    if (c.query_key_norms) {
      w.q_norm = vector(prefix + "attn_q_norm.weight", c.norms_join_heads ? queries : c.head_size);
      w.k_norm = vector(prefix + "attn_k_norm.weight", c.norms_join_heads ? keys : c.head_size);
    }
    if (c.post_norms) {
      w.post_attention_norm = vector(prefix + "post_attention_norm.weight", c.width);
      w.post_feed_forward_norm = vector(prefix + "post_ffw_norm.weight", c.width);
    }
    if (c.experts > 0 && file_.contains(prefix + "ffn_gate_inp.weight"))
      w.experts = experts(prefix);
    else
      w.feed_forward = feed_forward(prefix, "", c.feed_forward);
    return w;
  }

  FeedForward feed_forward(const std::string& prefix, const std::string& suffix, std::int64_t size) {
    const std::int64_t width = file_.config.width;
    FeedForward w;
    if (!file_.contains(prefix + "ffn_gate" + suffix + ".weight")) {
      w.gate_up = projection(prefix + "ffn_up" + suffix, 2 * size, width);
    } else if (auto both = stacked({{prefix + "ffn_gate" + suffix, size}, {prefix + "ffn_up" + suffix, size}},
                                   width)) {
      w.gate_up = std::move(*both);
    } else {
      w.gate = projection(prefix + "ffn_gate" + suffix, size, width);
      w.up = projection(prefix + "ffn_up" + suffix, size, width);
    }
    w.down = projection(prefix + "ffn_down" + suffix, width, size);
    return w;
  }

  Experts experts(const std::string& prefix) {
    const ModelConfig& c = file_.config;
    Experts w;
    w.router = projection(prefix + "ffn_gate_inp", c.experts, c.width);
    const std::string gate = prefix + "ffn_gate_exps", up = prefix + "ffn_up_exps";
    const Shape shape{c.experts, c.expert_feed_forward, c.width};
    w.gate_bias = bias_of_experts(gate + ".bias", c.expert_feed_forward);
    w.up_bias = bias_of_experts(up + ".bias", c.expert_feed_forward);
    w.down_bias = bias_of_experts(prefix + "ffn_down_exps.bias", c.width);
    if (auto both = stacked_experts(gate + ".weight", up + ".weight", shape);
        both && w.gate_bias.defined() == w.up_bias.defined()) {
      w.gate_up = std::move(*both);
      if (w.gate_bias.defined()) w.gate_up_bias = concat({w.gate_bias, w.up_bias}, 1).eval();
      w.gate_bias = w.up_bias = Tensor();
    } else {
      w.gate = matrix(gate + ".weight", shape);
      w.up = matrix(up + ".weight", shape);
    }
    w.down = matrix(prefix + "ffn_down_exps.weight", {c.experts, c.width, c.expert_feed_forward});
    if (c.shared_feed_forward > 0) {
      w.shared = feed_forward(prefix, "_shexp", c.shared_feed_forward);
      w.shared_gate = projection(prefix + "ffn_gate_inp_shexp", 1, c.width);
    }
    return w;
  }

  // Keys stay in the cache as they were turned, so that the context decides, not the length so far.
  Rotation rotation(const RopeConfig& rope) {
    const bool is_long = !rope.long_frequencies.empty() && context_ > rope.short_context;
    const Tensor frequencies = tensor<double>(is_long ? rope.long_frequencies : rope.frequencies);
    return {frequencies.to(device_).eval(), rope.scale};
  }

  Projection projection(const std::string& name, std::int64_t rows, std::int64_t columns) {
    Projection result{matrix(name + ".weight", {rows, columns}), {}, {name + ".weight"}, {}};
    if (file_.contains(name + ".bias")) result.bias = vector(name + ".bias", rows);
    return result;
  }

  struct Part {
    std::string name;
    std::int64_t rows;
  };
  // Projections of the same thing as one: fewer and larger products are faster. None where the parts differ
  // in type, or where the CPU reads weights where the file has them.
  std::optional<Projection> stacked(const std::vector<Part>& parts, std::int64_t columns) {
    const bool on_cpu = device_.kind == DeviceKind::cpu;
    if (on_cpu && !repacks()) return std::nullopt;
    std::vector<Tensor> weights, biases;
    std::int64_t rows = 0;
    Projection result;
    for (const Part& part : parts) {
      weights.push_back(checked(part.name + ".weight", {part.rows, columns}));
      if (file_.contains(part.name + ".bias")) biases.push_back(vector(part.name + ".bias", part.rows));
      result.names.push_back(part.name + ".weight");
      rows += part.rows;
    }
    const DType dtype = weights[0].dtype();
    const auto keep_apart = [&] {
      for (std::size_t i = 0; i < parts.size(); ++i) loaded_.emplace(result.names[i], weights[i]);
      return std::nullopt;
    };
    if (std::any_of(weights.begin(), weights.end(), [&](const Tensor& t) { return t.dtype() != dtype; }) ||
        (!biases.empty() && biases.size() != parts.size()))
      return keep_apart();
    if (on_cpu) {
      auto weight = repacked(weights, {rows, columns});
      if (!weight) return keep_apart();
      result.weight = std::move(*weight);
      for (const std::string& name : result.names) forget(name);
    } else {
      std::vector<std::byte> bytes;
      bytes.reserve(static_cast<std::size_t>(storage_bytes(dtype, rows * columns)));
      for (const Tensor& weight : weights) {
        const std::vector<std::byte> some = weight.to_bytes();
        bytes.insert(bytes.end(), some.begin(), some.end());
      }
      result.weight = from_host(bytes, {rows, columns}, dtype, device_);
    }
    if (!biases.empty()) result.bias = concat(biases, 0).eval();
    return result;
  }

  // The same of experts: the second part of each behind its first. Only on GPUs.
  std::optional<Tensor> stacked_experts(const std::string& first, const std::string& second,
                                        const Shape& shape) {
    if (device_.kind == DeviceKind::cpu) return std::nullopt;
    const Tensor parts[] = {checked(first, shape), checked(second, shape)};
    const DType dtype = parts[0].dtype();
    if (parts[1].dtype() != dtype) {
      loaded_.emplace(first, parts[0]);
      loaded_.emplace(second, parts[1]);
      return std::nullopt;
    }
    const std::vector<std::byte> bytes[] = {parts[0].to_bytes(), parts[1].to_bytes()};
    const auto each = static_cast<std::ptrdiff_t>(storage_bytes(dtype, shape[1] * shape[2]));
    std::vector<std::byte> all;
    all.reserve(2 * bytes[0].size());
    for (std::int64_t expert = 0; expert < shape[0]; ++expert)
      for (const auto& part : bytes)
        all.insert(all.end(), part.begin() + expert * each, part.begin() + (expert + 1) * each);
    return from_host(all, {shape[0], 2 * shape[1], shape[2]}, dtype, device_);
  }

  bool repacks() const { return repack_ && device_.kind == DeviceKind::cpu; }

  void forget(const std::string& name) {
    if (file_.forget) file_.forget(name);
  }

  Tensor checked(const std::string& name, const Shape& expected) {
    if (const auto found = loaded_.extract(name)) return found.mapped();
    if (!file_.contains(name)) refuse(file_.path, fmt::format("there is no tensor {}", name));
    Tensor tensor = file_.tensor(name);
    if (!(tensor.shape() == expected))
      refuse(file_.path, fmt::format("tensor {} is {}, the configuration says {}", name,
                                     to_string(tensor.shape()), to_string(expected)));
    return tensor;
  }
  Tensor bias_of_experts(const std::string& name, std::int64_t size) {
    return file_.contains(name) ? placed(checked(name, {file_.config.experts, size}).to(DType::f32))
                                : Tensor();
  }
  Tensor vector(const std::string& name, std::int64_t size) {
    return placed(checked(name, {size}).to(DType::f32));
  }
  // To be multiplied with.
  Tensor matrix(const std::string& name, const Shape& shape) {
    const Tensor tensor = checked(name, shape);
    if (repacks())
      if (const auto better = repacked({&tensor, 1}, shape)) {
        forget(name);
        return *better;
      }
    return placed(tensor);
  }
  Tensor as_in_file(const std::string& name, const Shape& shape) { return placed(checked(name, shape)); }
  Tensor placed(Tensor tensor) {
    if (!loads_) return tensor;
    if (tensor.dtype() == DType::f64) tensor = tensor.to(DType::f32);
    return tensor.to(device_).eval();
  }

  const ModelFile& file_;
  const std::vector<Placement> placements_;
  Device device_;  // where tensors go now
  const std::int64_t context_;
  const bool repack_;  // on the CPU
  const bool loads_ = true;
  std::map<std::string, Tensor> loaded_;  // and not used yet
  const std::function<void(double)> progress_ = {};
};

}  // namespace

Weights load_weights(const ModelFile& file, const std::vector<Placement>& placements, std::int64_t context,
                     bool repack, const std::function<void(double)>& progress) {
  return Loader(file, placements, context, repack, progress).run();
}

void check_weights(const ModelFile& file) { Loader(file).run(); }

std::vector<Placement> placements_of(const ModelConfig& config, const LoadOptions& options) {
  if (options.gpu_layers < 0 || options.gpu_layers >= config.layers)
    return {{options.device, 0, config.layers}};
  if (options.gpu_layers == 0)
    throw ValueError(fmt::format("[Model::load] no layers on {}", to_string(options.device)));
  const std::int64_t before = config.layers - options.gpu_layers;
  return {{Device{}, 0, before}, {options.device, before, config.layers}};
}

void FileSize::add(std::string_view name, std::size_t size, std::int64_t count) {
  bytes += size;
  numbers += count;
  if (name.find("token_embd.") != name.npos || name.find("embed_tokens.") != name.npos) embedding += size;
  for (const std::string_view before : {"blk.", "layers."}) {
    const auto at = name.find(before);
    if (at == name.npos) continue;
    const std::string_view rest = name.substr(at + before.size());
    std::size_t layer = 0;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    if (parsed.ec == std::errc() && layer < layers.size()) layers[layer] += size;
    return;
  }
}

ModelFile open_model(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) ? open_folder_model(path) : open_gguf_model(path);
}

}  // namespace hearth::llm
