// Operations against PyTorch: every case of golden/ops.safetensors, values and gradients, in every floating
// dtype.
//
// A new case needs a line in golden/make_op_golden.py and, if its function is new, one in `table` below.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "compare.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "test_devices.h"

namespace hearth::testing {
namespace {

using nlohmann::json;

struct Stored {
  Shape shape;
  DType dtype = DType::f32;
  std::vector<double> values;
};

struct Golden {
  std::string name, function, number;
  json attributes;
  std::vector<std::optional<char>> inputs;  // kinds: f, i, b
  std::vector<std::size_t> gradients;
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

struct File {
  std::vector<Golden> cases;
  std::map<std::string, Stored> tensors;
};

template <typename T>
std::vector<double> read_as(const std::string& bytes) {
  std::vector<double> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

// The file is in the safetensors format: 8 bytes with the length of a JSON header, the header, the data. It
// is read here without the library's own reader, which has its own tests.
File read_file() {
  const std::string path = std::string(HEARTH_GOLDEN_DIR) + "/ops.safetensors";
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw FileError("cannot open " + path);
  const std::string content((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, content.data(), sizeof header_size);
  const auto header = json::parse(content.substr(8, header_size));
  const auto data = content.substr(8 + header_size);

  File file;
  for (const auto& [key, entry] : header.items()) {
    if (key == "__metadata__") continue;
    Stored stored;
    for (const auto& size : entry["shape"]) stored.shape.push_back(size.get<std::int64_t>());
    const auto begin = entry["data_offsets"][0].get<std::size_t>(),
               end = entry["data_offsets"][1].get<std::size_t>();
    const auto bytes = data.substr(begin, end - begin);
    const auto type = entry["dtype"].get<std::string>();
    if (type == "F32")
      stored.values = read_as<float>(bytes), stored.dtype = DType::f32;
    else if (type == "F64")
      stored.values = read_as<double>(bytes), stored.dtype = DType::f64;
    else if (type == "I64")
      stored.values = read_as<std::int64_t>(bytes), stored.dtype = DType::i64;
    else if (type == "BOOL")
      stored.values = read_as<std::uint8_t>(bytes), stored.dtype = DType::bool_;
    else
      throw FormatError("unexpected dtype " + type);
    file.tensors[key] = std::move(stored);
  }
  for (const auto& entry : json::parse(header["__metadata__"]["cases"].get<std::string>())) {
    Golden golden;
    golden.name = entry["name"];
    golden.function = entry["function"];
    golden.attributes = entry["attributes"];
    for (const auto& kind : entry["inputs"])
      golden.inputs.push_back(kind.is_null() ? std::optional<char>() : kind.get<std::string>()[0]);
    for (const auto& i : entry["gradients"]) golden.gradients.push_back(i.get<std::size_t>());
    golden.number = std::to_string(1000 + file.cases.size()).substr(1);
    file.cases.push_back(std::move(golden));
  }
  return file;
}

const File& file() {
  static const File loaded = read_file();
  return loaded;
}

// What a line of the table sees of a case: its inputs in the dtype of the run, and its attributes.
struct Call {
  const json& attributes;
  std::vector<Tensor> inputs;

  Tensor in(std::size_t i) const { return i < inputs.size() ? inputs[i] : Tensor(); }
  bool has(const char* key) const { return attributes.contains(key); }
  double number(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    if (attributes[key].is_string()) return std::stod(attributes[key].get<std::string>());  // "inf"
    return attributes[key].get<double>();
  }
  std::optional<double> optional_number(const char* key) const {
    return has(key) ? std::optional(number(key, 0)) : std::nullopt;
  }
  std::int64_t integer(const char* key) const { return attributes.at(key).get<std::int64_t>(); }
  bool flag(const char* key) const { return attributes.value(key, false); }
  std::string text(const char* key) const { return attributes.at(key).get<std::string>(); }
  std::vector<std::int64_t> list(const char* key, std::vector<std::int64_t> otherwise = {}) const {
    if (!has(key)) return otherwise;
    if (attributes[key].is_number()) return {attributes[key].get<std::int64_t>()};
    return attributes[key].get<std::vector<std::int64_t>>();
  }
  Axes axes(const char* key = "axes") const {
    const auto values = list(key);
    return Axes(values.begin(), values.end());
  }
  std::int64_t axis() const { return integer("axis"); }
  double epsilon() const { return number("epsilon", 1e-5); }
  ConvOptions conv() const {
    return {list("stride", {1}), list("padding", {0}), list("dilation", {1}),
            has("groups") ? integer("groups") : 1, list("output_padding", {0})};
  }
  PoolOptions pool() const {
    return {list("kernel"), list("stride"), list("padding", {0}),
            attributes.value("count_include_pad", true)};
  }
  Reduction reduction() const {
    const auto name = text("reduction");
    return name == "none" ? Reduction::none : name == "mean" ? Reduction::mean : Reduction::sum;
  }
  ClassLossOptions class_loss() const {
    ClassLossOptions options;
    options.reduction = reduction();
    if (has("ignore_index")) options.ignore_index = integer("ignore_index");
    options.weight = in(2);
    options.label_smoothing = number("label_smoothing", 0);
    return options;
  }
  AttentionOptions attention() const {
    AttentionOptions options;
    options.causal = flag("causal");
    options.window = has("window") ? integer("window") : 0;
    options.scale = optional_number("scale");
    options.mask = in(3);
    return options;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> widths() const {
    const auto flat = list("widths");
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (std::size_t i = 0; i < flat.size(); i += 2) pairs.emplace_back(flat[i], flat[i + 1]);
    return pairs;
  }
};

// clang-format off
const std::map<std::string, std::function<Tensor(const Call&)>> table = {
  // convolution
  {"conv1d", [](const Call& c) { return conv1d(c.in(0), c.in(1), c.in(2), c.conv()); }},
  {"conv2d", [](const Call& c) { return conv2d(c.in(0), c.in(1), c.in(2), c.conv()); }},
  {"conv3d", [](const Call& c) { return conv3d(c.in(0), c.in(1), c.in(2), c.conv()); }},
  {"conv_transpose1d", [](const Call& c) { return conv_transpose1d(c.in(0), c.in(1), c.in(2), c.conv()); }},
  {"conv_transpose2d", [](const Call& c) { return conv_transpose2d(c.in(0), c.in(1), c.in(2), c.conv()); }},
  {"conv_transpose3d", [](const Call& c) { return conv_transpose3d(c.in(0), c.in(1), c.in(2), c.conv()); }},
  // pooling, interpolation
  {"max_pool1d", [](const Call& c) { return max_pool1d(c.in(0), c.pool()); }},
  {"max_pool2d", [](const Call& c) { return max_pool2d(c.in(0), c.pool()); }},
  {"max_pool3d", [](const Call& c) { return max_pool3d(c.in(0), c.pool()); }},
  {"avg_pool1d", [](const Call& c) { return avg_pool1d(c.in(0), c.pool()); }},
  {"avg_pool2d", [](const Call& c) { return avg_pool2d(c.in(0), c.pool()); }},
  {"avg_pool3d", [](const Call& c) { return avg_pool3d(c.in(0), c.pool()); }},
  {"adaptive_avg_pool1d", [](const Call& c) { return adaptive_avg_pool1d(c.in(0), c.integer("size")); }},
  {"adaptive_avg_pool2d", [](const Call& c) { return adaptive_avg_pool2d(c.in(0), c.list("size")); }},
  {"adaptive_avg_pool3d", [](const Call& c) { return adaptive_avg_pool3d(c.in(0), c.list("size")); }},
  {"adaptive_max_pool1d", [](const Call& c) { return adaptive_max_pool1d(c.in(0), c.integer("size")); }},
  {"adaptive_max_pool2d", [](const Call& c) { return adaptive_max_pool2d(c.in(0), c.list("size")); }},
  {"interpolate", [](const Call& c) { return interpolate(c.in(0), c.list("size"), c.text("mode") == "nearest" ? Interpolation::nearest : Interpolation::linear, c.flag("align_corners")); }},
  // normalisation
  {"layer_norm", [](const Call& c) { return layer_norm(c.in(0), c.axes("normalized"), c.in(1), c.in(2), c.epsilon()); }},
  {"rms_norm", [](const Call& c) { return rms_norm(c.in(0), c.in(1), c.epsilon()); }},
  {"group_norm", [](const Call& c) { return group_norm(c.in(0), c.integer("groups"), c.in(1), c.in(2), c.epsilon()); }},
  {"instance_norm", [](const Call& c) { return instance_norm(c.in(0), c.in(1), c.in(2), c.epsilon()); }},
  {"batch_norm", [](const Call& c) { return batch_norm(c.in(0), c.in(1), c.in(2), c.in(3), c.in(4), c.epsilon()); }},
  {"batch_norm_train", [](const Call& c) { return batch_norm_train(c.in(0), c.in(1), c.in(2), c.epsilon()).output; }},
  {"batch_norm_train_mean", [](const Call& c) { return batch_norm_train(c.in(0)).mean; }},
  {"batch_norm_train_variance", [](const Call& c) { return batch_norm_train(c.in(0)).variance; }},
  // reductions
  {"sum", [](const Call& c) { return sum(c.in(0), c.axes(), c.flag("keepdims")); }},
  {"mean", [](const Call& c) { return mean(c.in(0), c.axes(), c.flag("keepdims")); }},
  {"prod", [](const Call& c) { return prod(c.in(0), c.axes(), c.flag("keepdims")); }},
  {"max", [](const Call& c) { return max(c.in(0), c.axes(), c.flag("keepdims")); }},
  {"min", [](const Call& c) { return min(c.in(0), c.axes(), c.flag("keepdims")); }},
  {"argmax", [](const Call& c) { return c.has("axis") ? argmax(c.in(0), c.axis()) : argmax(c.in(0)); }},
  {"argmin", [](const Call& c) { return argmin(c.in(0), c.axis()); }},
  {"var", [](const Call& c) { return var(c.in(0), c.axes(), c.number("correction", 1), c.flag("keepdims")); }},
  {"std", [](const Call& c) { return hearth::std(c.in(0), c.axes(), c.number("correction", 1), c.flag("keepdims")); }},
  {"logsumexp", [](const Call& c) { return logsumexp(c.in(0), c.axes(), c.flag("keepdims")); }},
  {"norm", [](const Call& c) { return norm(c.in(0), c.number("p", 2), c.axes(), c.flag("keepdims")); }},
  // along an axis
  {"softmax", [](const Call& c) { return softmax(c.in(0), c.axis()); }},
  {"log_softmax", [](const Call& c) { return log_softmax(c.in(0), c.axis()); }},
  {"cumsum", [](const Call& c) { return cumsum(c.in(0), c.axis()); }},
  {"cumprod", [](const Call& c) { return cumprod(c.in(0), c.axis()); }},
  {"sort", [](const Call& c) { return sort(c.in(0), c.axis(), c.flag("descending")); }},
  {"argsort", [](const Call& c) { return argsort(c.in(0), c.axis(), c.flag("descending")); }},
  {"topk", [](const Call& c) { return topk(c.in(0), c.integer("k"), c.axis(), c.flag("largest")).first; }},
  {"topk_indices", [](const Call& c) { return topk(c.in(0), c.integer("k"), c.axis(), c.flag("largest")).second; }},
  // attention
  {"attention", [](const Call& c) { return attention(c.in(0), c.in(1), c.in(2), c.attention()); }},
  {"rope", [](const Call& c) { return rope(c.in(0), c.number("base", 0), c.integer("offset"), c.flag("interleaved")); }},
  {"rope_positions", [](const Call& c) { return rope(c.in(0), c.in(1), c.number("base", 0), c.flag("interleaved")); }},
  // losses
  {"mse_loss", [](const Call& c) { return mse_loss(c.in(0), c.in(1), c.reduction()); }},
  {"l1_loss", [](const Call& c) { return l1_loss(c.in(0), c.in(1), c.reduction()); }},
  {"smooth_l1_loss", [](const Call& c) { return smooth_l1_loss(c.in(0), c.in(1), c.reduction(), c.number("beta", 1)); }},
  {"huber_loss", [](const Call& c) { return huber_loss(c.in(0), c.in(1), c.reduction(), c.number("delta", 1)); }},
  {"bce_loss", [](const Call& c) { return bce_loss(c.in(0), c.in(1), c.reduction()); }},
  {"bce_with_logits_loss", [](const Call& c) { return bce_with_logits_loss(c.in(0), c.in(1), c.reduction()); }},
  {"nll_loss", [](const Call& c) { return nll_loss(c.in(0), c.in(1), c.class_loss()); }},
  {"cross_entropy", [](const Call& c) { return cross_entropy(c.in(0), c.in(1), c.class_loss()); }},
  {"kl_div_loss", [](const Call& c) { return kl_div_loss(c.in(0), c.in(1), c.reduction(), c.flag("log_target")); }},
  {"cosine_similarity", [](const Call& c) { return cosine_similarity(c.in(0), c.in(1), c.axis()); }},
  {"cosine_embedding_loss", [](const Call& c) { return cosine_embedding_loss(c.in(0), c.in(1), c.in(2), c.number("margin", 0), c.reduction()); }},
  {"triplet_margin_loss", [](const Call& c) { return triplet_margin_loss(c.in(0), c.in(1), c.in(2), c.number("margin", 1), c.number("p", 2), c.reduction()); }},
  // indexing
  {"embedding", [](const Call& c) { return embedding(c.in(0), c.in(1), c.has("padding_index") ? std::optional(c.integer("padding_index")) : std::nullopt); }},
  {"gather", [](const Call& c) { return gather(c.in(0), c.axis(), c.in(1)); }},
  {"scatter", [](const Call& c) { return scatter(c.in(0), c.axis(), c.in(1), c.in(2)); }},
  {"scatter_add", [](const Call& c) { return scatter_add(c.in(0), c.axis(), c.in(1), c.in(2)); }},
  {"take", [](const Call& c) { return take(c.in(0), c.in(1), c.axis()); }},
  // contraction
  {"einsum", [](const Call& c) { return einsum(c.text("equation"), c.inputs); }},
  {"matmul", [](const Call& c) { return matmul(c.in(0), c.in(1)); }},
  {"batch_matmul", [](const Call& c) { return batch_matmul(c.in(0), c.in(1)); }},
  {"linear", [](const Call& c) { return linear(c.in(0), c.in(1), c.in(2)); }},
  {"outer", [](const Call& c) { return outer(c.in(0), c.in(1)); }},
  {"dot", [](const Call& c) { return dot(c.in(0), c.in(1)); }},
  // shape
  {"pad", [](const Call& c) { return pad(c.in(0), c.widths(), c.number("value", 0)); }},
  {"roll", [](const Call& c) { return roll(c.in(0), c.integer("shift"), c.axis()); }},
  {"flip", [](const Call& c) { return flip(c.in(0), c.axes()); }},
  {"tile", [](const Call& c) { return tile(c.in(0), c.list("repeats")); }},
  {"tril", [](const Call& c) { return tril(c.in(0), c.integer("diagonal")); }},
  {"triu", [](const Call& c) { return triu(c.in(0), c.integer("diagonal")); }},
  {"repeat_interleave", [](const Call& c) { return repeat_interleave(c.in(0), c.integer("repeats"), c.axis()); }},
  {"diagonal", [](const Call& c) { return diagonal(c.in(0)); }},
  {"concat", [](const Call& c) { return concat(c.inputs, c.axis()); }},
  {"stack", [](const Call& c) { return stack(c.inputs, c.axis()); }},
  // elementwise
  {"relu", [](const Call& c) { return relu(c.in(0)); }},
  {"relu6", [](const Call& c) { return relu6(c.in(0)); }},
  {"selu", [](const Call& c) { return selu(c.in(0)); }},
  {"hardsigmoid", [](const Call& c) { return hardsigmoid(c.in(0)); }},
  {"hardswish", [](const Call& c) { return hardswish(c.in(0)); }},
  {"softsign", [](const Call& c) { return softsign(c.in(0)); }},
  {"tanhshrink", [](const Call& c) { return tanhshrink(c.in(0)); }},
  {"silu", [](const Call& c) { return silu(c.in(0)); }},
  {"gelu", [](const Call& c) { return gelu(c.in(0)); }},
  {"gelu_tanh", [](const Call& c) { return gelu_tanh(c.in(0)); }},
  {"mish", [](const Call& c) { return mish(c.in(0)); }},
  {"softplus", [](const Call& c) { return softplus(c.in(0)); }},
  {"logsigmoid", [](const Call& c) { return logsigmoid(c.in(0)); }},
  {"sigmoid", [](const Call& c) { return sigmoid(c.in(0)); }},
  {"tanh", [](const Call& c) { return tanh(c.in(0)); }},
  {"leaky_relu", [](const Call& c) { return leaky_relu(c.in(0), c.number("slope", 0)); }},
  {"elu", [](const Call& c) { return elu(c.in(0), c.number("alpha", 0)); }},
  {"celu", [](const Call& c) { return celu(c.in(0), c.number("alpha", 0)); }},
  {"hardtanh", [](const Call& c) { return hardtanh(c.in(0), c.number("low", 0), c.number("high", 0)); }},
  {"softshrink", [](const Call& c) { return softshrink(c.in(0), c.number("lambda", 0)); }},
  {"hardshrink", [](const Call& c) { return hardshrink(c.in(0), c.number("lambda", 0)); }},
  {"clamp", [](const Call& c) { return clamp(c.in(0), c.optional_number("low"), c.optional_number("high")); }},
  {"prelu", [](const Call& c) { return prelu(c.in(0), c.in(1)); }},
  {"glu", [](const Call& c) { return glu(c.in(0), c.axis()); }},
  {"lerp", [](const Call& c) { return lerp(c.in(0), c.in(1), c.in(2)); }},
  {"where", [](const Call& c) { return where(c.in(0), c.in(1), c.in(2)); }},
  {"masked_fill", [](const Call& c) { return masked_fill(c.in(0), c.in(1), c.number("value", 0)); }},
  {"maximum", [](const Call& c) { return maximum(c.in(0), c.in(1)); }},
  {"minimum", [](const Call& c) { return minimum(c.in(0), c.in(1)); }},
  {"pow", [](const Call& c) { return pow(c.in(0), c.in(1)); }},
  {"remainder", [](const Call& c) { return remainder(c.in(0), c.in(1)); }},
  {"fmod", [](const Call& c) { return fmod(c.in(0), c.in(1)); }},
  {"atan2", [](const Call& c) { return atan2(c.in(0), c.in(1)); }},
};
// clang-format on

Tensor to_tensor(const Stored& stored, char kind, DType floating, bool through_bf16) {
  if (kind == 'i') {
    std::vector<std::int64_t> values(stored.values.begin(), stored.values.end());
    return tensor(values, stored.shape);
  }
  if (kind == 'b') return tensor(stored.values, stored.shape).to(DType::bool_);
  auto values = stored.values;
  if (through_bf16)
    for (auto& v : values) v = static_cast<float>(bfloat16(static_cast<float>(v)));
  return tensor(values, stored.shape).to(floating);
}

Call prepare(const Golden& golden, DType dtype, bool through_bf16) {
  Call call{golden.attributes, {}};
  for (std::size_t i = 0; i < golden.inputs.size(); ++i)
    call.inputs.push_back(golden.inputs[i]
                              ? to_tensor(file().tensors.at(golden.number + ".in" + std::to_string(i)),
                                          *golden.inputs[i], dtype, through_bf16)
                              : Tensor());
  return call;
}

class GoldenOps : public ::testing::TestWithParam<Golden> {
 protected:
  // Errors grow with the number of roundings (`roundings`, of a chain of the length these small cases have)
  // and with the size of the terms that are added up, for which the largest result stands.
  static void compare(const Tensor& got, const Stored& expected, const Golden& golden, Device device,
                      DType dtype, const char* what, double roundings) {
    const auto where =
        golden.name + " on " + to_string(device) + " in " + std::string(dtype_name(dtype)) + ", " + what;
    ASSERT_EQ(got.shape(), expected.shape) << where;
    // The case says by how much it amplifies rounding errors.
    const double unit = unit_roundoff(dtype) * roundings * golden.attributes.value("condition", 1.0);
    std::vector<double> allowed(expected.values.size(), 0.0);
    if (is_floating(expected.dtype))
      for (std::size_t i = 0; i < allowed.size(); ++i)
        allowed[i] = unit * (std::abs(expected.values[i]) + largest_finite_magnitude(expected.values)) +
                     underflow(dtype);
    EXPECT_EQ(first_difference(got.to_vector<double>(), expected.values, expected.shape, dtype, allowed), "")
        << where;
  }

  static void values_and_gradients(DType dtype) {
    const auto& golden = GetParam();
    ASSERT_TRUE(table.contains(golden.function))
        << golden.function << " has no line in the table of this file";
    const auto& function = table.at(golden.function);
    for (const auto device : tested_devices()) {
      const OnDevice here(device);
      auto call = prepare(golden, dtype, false);
      std::vector<Tensor> leaves;
      for (auto i : golden.gradients) leaves.push_back(call.inputs[i].requires_grad_());
      const auto output = function(call);
      const auto& expected = file().tensors.at(golden.number + ".out");
      EXPECT_EQ(output.dtype(), is_floating(expected.dtype) ? dtype : expected.dtype) << golden.name;
      compare(output, expected, golden, device, dtype, "value", 16);
      if (leaves.empty()) continue;
      const auto found =
          gradients(output, leaves, to_tensor(file().tensors.at(golden.number + ".seed"), 'f', dtype, false));
      ASSERT_EQ(found.size(), leaves.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        const auto which = std::to_string(golden.gradients[i]);
        compare(found[i], file().tensors.at(golden.number + ".grad" + which), golden, device, dtype,
                ("gradient of input " + which).c_str(), 32);
      }
    }
  }

  static void values_in_half(DType dtype) {
    const auto& golden = GetParam();
    ASSERT_TRUE(table.contains(golden.function));
    const auto expected = file().tensors.find(golden.number + ".half");
    if (expected == file().tensors.end()) GTEST_SKIP() << "integer result, or not meant for half precision";
    for (const auto device : tested_devices()) {
      const OnDevice here(device);
      const auto output = table.at(golden.function)(prepare(golden, dtype, true));
      EXPECT_EQ(output.dtype(), dtype) << golden.name;
      compare(output, expected->second, golden, device, dtype, "value", 2);
    }
  }
};

TEST_P(GoldenOps, F32) { values_and_gradients(DType::f32); }
TEST_P(GoldenOps, F64) { values_and_gradients(DType::f64); }
TEST_P(GoldenOps, F16) { values_in_half(DType::f16); }
TEST_P(GoldenOps, BF16) { values_in_half(DType::bf16); }

INSTANTIATE_TEST_SUITE_P(All, GoldenOps, ::testing::ValuesIn(file().cases), [](const auto& parameter) {
  std::string name = parameter.param.number + "_";
  for (char c : parameter.param.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

TEST(GoldenTable, EveryFunctionHasCases) {
  for (const auto& [name, function] : table) {
    const bool used = std::any_of(file().cases.begin(), file().cases.end(),
                                  [&](const Golden& g) { return g.function == name; });
    EXPECT_TRUE(used) << name;
  }
}

}  // namespace
}  // namespace hearth::testing
