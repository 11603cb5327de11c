// Modules: naming, state, modes, layers and losses against PyTorch, initial values, mixed precision.
#include "hearth/nn.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <numeric>

#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/init.h"
#include "hearth/optim.h"
#include "nn_golden.h"

namespace hearth {
namespace {

using namespace nn;

struct Net : Module {
  Net() {
    auto layer = std::make_shared<Sequential>();
    layer->add<Conv2d>(1, 2, 3).add<BatchNorm2d>(2).add<ReLU>();
    layer1 = register_module("layer1", layer);
    head = register_module("head", std::make_shared<Linear>(2, 3));
    scale = register_parameter("scale", ones({1}));
  }
  Tensor forward(const Tensor& x) override { return head->forward(mean(layer1->forward(x), {2, 3})) * scale; }
  std::shared_ptr<Sequential> layer1;
  std::shared_ptr<Linear> head;
  Tensor scale;
};

std::vector<std::string> names(const Module::NamedTensors& tensors) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : tensors) result.push_back(name);
  return result;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// ---- the module tree

TEST(Module, NamesAreDotted) {
  Net net;
  EXPECT_EQ(names(net.named_parameters()),
            (std::vector<std::string>{"scale", "layer1.0.weight", "layer1.0.bias", "layer1.1.weight",
                                      "layer1.1.bias", "head.weight", "head.bias"}));
  EXPECT_EQ(names(net.named_buffers()),
            (std::vector<std::string>{"layer1.1.running_mean", "layer1.1.running_var",
                                      "layer1.1.num_batches_tracked"}));
  EXPECT_EQ(net.parameter_count(), 1 + 18 + 2 + 2 + 2 + 6 + 3);
  EXPECT_EQ(net.variables().size(), 10u);
  EXPECT_EQ(net.state_dict().size(), 10u);
  EXPECT_EQ(net.children().size(), 2u);
  EXPECT_EQ(net.modules().size(), 6u);
  int visited = 0;
  net.apply([&](Module& module) {
    ++visited;
    EXPECT_EQ(&module == &net, visited == 6);
  });
}

TEST(Module, SharedVariablesAreListedOnce) {
  struct Tied : Module {
    Tied() {
      first = register_module("first", std::make_shared<Linear>(2, 2, false));
      register_parameter("again", first->weight);
      register_module("second", first);
    }
    std::shared_ptr<Linear> first;
  } tied;
  EXPECT_EQ(names(tied.named_parameters()), std::vector<std::string>{"again"});
  EXPECT_EQ(tied.modules().size(), 2u);
  EXPECT_EQ(tied.state_dict().size(), 3u);
}

TEST(Module, BadNames) {
  struct Bad : Module {
    void add(const std::string& name) { register_parameter(name, ones({1})); }
    void add_null() { register_module("child", std::shared_ptr<Linear>()); }
  } bad;
  bad.add("a");
  EXPECT_THROW(bad.add("a"), ValueError);
  EXPECT_THROW(bad.add("a.b"), ValueError);
  EXPECT_THROW(bad.add(""), ValueError);
  EXPECT_THROW(bad.add_null(), ValueError);
}

TEST(Module, StateRoundTrip) {
  Net source, target;
  const Tensor x = ones({2, 1, 4, 4});
  source(x);  // moves the running statistics
  const LoadReport report = target.load_state_dict(source.state_dict());
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  source.eval();
  target.eval();
  EXPECT_EQ(target(x).to_vector<float>(), source(x).to_vector<float>());
  EXPECT_EQ(target.state_dict().at("layer1.1.num_batches_tracked").item<int>(), 1);

  // The variables stay apart.
  source.scale.assign(zeros({1}));
  EXPECT_EQ(target.scale.item(), 1);
  EXPECT_TRUE(target.scale.requires_grad());
}

TEST(Module, LoadErrorsNameEverything) {
  Net net;
  StateDict state = net.state_dict();
  state.erase("scale");
  state.emplace("extra", ones({1}));
  const std::string strict = message_of([&] { net.load_state_dict(state); });
  EXPECT_NE(strict.find("missing: scale"), std::string::npos) << strict;
  EXPECT_NE(strict.find("unexpected: extra"), std::string::npos) << strict;

  const auto before = net.head->bias.to_vector<float>();
  state["head.bias"] = ones({3}) * 5;
  const LoadReport report = net.load_state_dict(state, false);
  EXPECT_EQ(report.missing, std::vector<std::string>{"scale"});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"extra"});
  EXPECT_EQ(net.head->bias.to_vector<float>(), std::vector<float>(3, 5.0f));

  state["head.bias"] = ones({4});
  state["head.weight"] = zeros({3, 2});
  const std::string shapes = message_of([&] { net.load_state_dict(state, false); });
  EXPECT_NE(shapes.find("head.bias is (3,), got (4,)"), std::string::npos) << shapes;
  EXPECT_NE(net.head->weight.to_vector<float>(), std::vector<float>(6, 0.0f))
      << "nothing is assigned after an error";
}

TEST(Module, TrainAndEval) {
  Net net;
  EXPECT_TRUE(net.training());
  net.eval();
  for (Module* module : net.modules()) EXPECT_FALSE(module->training());
  net.train();
  for (Module* module : net.modules()) EXPECT_TRUE(module->training());
}

TEST(Module, GradientsAndFreezing) {
  Net net;
  sum(net(ones({2, 1, 4, 4}))).backward();
  for (const auto& [name, parameter] : net.named_parameters())
    EXPECT_TRUE(parameter.grad().defined()) << name;
  net.zero_grad();
  for (const Tensor& parameter : net.parameters()) EXPECT_FALSE(parameter.grad().defined());
  net.head->requires_grad_(false);
  sum(net(ones({2, 1, 4, 4}))).backward();
  EXPECT_FALSE(net.head->weight.grad().defined());
  EXPECT_TRUE(net.scale.grad().defined());
}

TEST(Module, ToDType) {
  Net net;
  net.to(DType::bf16);
  EXPECT_EQ(net.head->weight.dtype(), DType::bf16);
  EXPECT_TRUE(net.head->weight.requires_grad());
  const StateDict state = net.state_dict();
  EXPECT_EQ(state.at("layer1.1.running_mean").dtype(), DType::bf16);
  EXPECT_EQ(state.at("layer1.1.num_batches_tracked").dtype(), DType::i64);
  const Tensor y = net(ones({2, 1, 4, 4}, DType::bf16));
  EXPECT_EQ(y.dtype(), DType::bf16);
  sum(y).backward();
  EXPECT_EQ(net.head->weight.grad().dtype(), DType::bf16);
  EXPECT_THROW(net.to(DType::i32), DTypeError);
}

TEST(Module, ForwardOfAnotherSignatureThrows) {
  ModuleList<> list({std::make_shared<Identity>()});
  EXPECT_EQ(list.size(), 1u);
  EXPECT_THROW(list(ones({1})), Error);
}

TEST(Module, TrainsInACompiledStep) {
  Sequential model;
  model.add<Linear>(2, 16).add<Tanh>().add<BatchNorm1d>(16).add<Linear>(16, 1);
  optim::AdamW optimizer(model.parameters(), {.learning_rate = 0.02});
  MSELoss loss;
  Compiled train = compile([&](const std::vector<Tensor>& batch) {
    const Tensor value = loss(model(batch[0]), batch[1]);
    value.backward();
    optimizer.step();
    optimizer.zero_grad();
    return std::vector<Tensor>{value};
  });
  manual_seed(3);
  const Tensor x = randn({64, 2});
  const Tensor y = sum(x * x, {1}, true);
  double first = 0, last = 0;
  for (int i = 0; i < 200; ++i) {
    last = train({x, y})[0].item();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, first * 0.1);
  EXPECT_EQ(train.traces(), 1u);
  EXPECT_EQ(model.state_dict().at("2.num_batches_tracked").item<int>(), 200);
}

TEST(Module, LoadedModulesStayApartInACompiledStep) {
  BatchNorm1d online(2), target(2);
  target.load_state_dict(online.state_dict());
  target.eval();
  Compiled step = compile([&](const std::vector<Tensor>& batch) {
    return std::vector<Tensor>{online(batch[0]), target(batch[0])};
  });
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 60}, {3, 2});
  const auto first = step({x})[1].to_vector<float>();
  EXPECT_EQ(step({x})[1].to_vector<float>(), first);
  EXPECT_EQ(target.num_batches_tracked.item<int>(), 0);
  EXPECT_EQ(online.num_batches_tracked.item<int>(), 2);
}

// ---- layers against PyTorch. The options are those of the case of this name in make_optim_golden.py.

struct LayerCase {
  std::shared_ptr<Module> module;
  std::function<Tensor(const std::vector<Tensor>&)> call = {};  // default: forward of the only input
};

template <typename M, typename... Arguments>
LayerCase layer(Arguments&&... arguments) {
  return {std::make_shared<M>(std::forward<Arguments>(arguments)...)};
}

LayerCase heads(const MultiheadAttentionOptions& options, const AttentionMask& mask) {
  auto module = std::make_shared<MultiheadAttention>(4, 2, options);
  return {module, [=](const std::vector<Tensor>& x) { return module->forward(x[0], x[1], x[2], mask); }};
}

LayerCase layer_case(const std::string& name) {
  const auto mask = [](const char* which) { return golden_tensor(golden().at("masks").at(which)); };
  const std::map<std::string, std::function<LayerCase()>> cases{
      {"linear", [] { return layer<Linear>(3, 4); }},
      {"linear_plain", [] { return layer<Linear>(3, 4, false); }},
      {"conv1d",
       [] {
         return layer<Conv1d>(4, 6, 3,
                              ConvOptions{.stride = {2}, .padding = {2}, .dilation = {2}, .groups = 2});
       }},
      {"conv2d",
       [] {
         return layer<Conv2d>(2, 3, std::vector<std::int64_t>{3, 2},
                              ConvOptions{.stride = {2, 1}, .padding = {1, 0}});
       }},
      {"conv2d_depthwise",
       [] { return layer<Conv2d>(4, 4, 3, ConvOptions{.padding = {1}, .groups = 4}, false); }},
      {"conv3d", [] { return layer<Conv3d>(2, 2, 2, ConvOptions{.stride = {2}}); }},
      {"conv_transpose1d",
       [] {
         return layer<ConvTranspose1d>(3, 2, 3,
                                       ConvOptions{.stride = {2}, .padding = {1}, .output_padding = {1}});
       }},
      {"conv_transpose2d",
       [] { return layer<ConvTranspose2d>(4, 2, 3, ConvOptions{.stride = {2}, .groups = 2}); }},
      {"embedding", [] { return layer<Embedding>(6, 3, 2); }},
      {"prelu", [] { return layer<PReLU>(3); }},
      {"layer_norm", [] { return layer<LayerNorm>(5); }},
      {"layer_norm_two_axes",
       [] {
         return layer<LayerNorm>(Shape{3, 5}, 1e-3);
       }},
      {"rms_norm", [] { return layer<RMSNorm>(5); }},
      {"group_norm", [] { return layer<GroupNorm>(2, 4); }},
      {"instance_norm", [] { return layer<InstanceNorm>(3, 1e-5, true); }},
      {"batch_norm1d", [] { return layer<BatchNorm1d>(3); }},
      {"batch_norm1d_length", [] { return layer<BatchNorm1d>(3, BatchNormOptions{.momentum = 0.3}); }},
      {"batch_norm2d", [] { return layer<BatchNorm2d>(3, BatchNormOptions{.epsilon = 1e-3}); }},
      {"batch_norm2d_average",
       [] { return layer<BatchNorm2d>(2, BatchNormOptions{.momentum = std::nullopt, .affine = false}); }},
      {"batch_norm2d_untracked",
       [] { return layer<BatchNorm2d>(2, BatchNormOptions{.track_running_stats = false}); }},
      {"batch_norm3d", [] { return layer<BatchNorm3d>(2); }},
      {"multihead", [] { return heads({}, {}); }},
      {"multihead_plain", [] { return heads({.bias = false}, {}); }},
      {"multihead_sizes", [] { return heads({.key_features = 3, .value_features = 5}, {}); }},
      {"multihead_causal",
       [] {
         auto module = std::make_shared<MultiheadAttention>(4, 2);
         return LayerCase{module, [=](const std::vector<Tensor>& x) {
                            return module->forward(x[0], x[0], x[0], {.causal = true});
                          }};
       }},
      {"multihead_masks", [&] { return heads({}, {.mask = mask("pair"), .key_mask = mask("key")}); }},
      {"multihead_added_mask", [&] { return heads({}, {.mask = mask("added")}); }},
      {"multihead_extended",
       [&] {
         return heads({.add_bias_kv = true, .add_zero_attn = true},
                      {.mask = mask("pair"), .key_mask = mask("key")});
       }},
      {"multihead_weights",
       [&] {
         auto module = std::make_shared<MultiheadAttention>(4, 2);
         const Tensor pair = mask("pair");
         return LayerCase{module, [=](const std::vector<Tensor>& x) {
                            return module->weights(x[0], x[1], {.mask = pair});
                          }};
       }},
      {"self_attention",
       [] {
         return layer<SelfAttention>(
             8, 4, AttentionLayerOptions{.key_heads = 2, .causal = true, .rope_base = 10000.0});
       }},
      {"cross_attention",
       [] {
         auto module = std::make_shared<CrossAttention>(
             4, 2, AttentionLayerOptions{.context_features = 6, .bias = false});
         return LayerCase{module, [=](const std::vector<Tensor>& x) { return module->forward(x[0], x[1]); }};
       }},
      {"block", [] { return layer<TransformerBlock>(4, 2); }},
      {"block_llama",
       [] {
         return layer<TransformerBlock>(
             8, 4,
             TransformerBlockOptions{
                 .hidden = 12,
                 .norm = Norm::rms,
                 .epsilon = 1e-6,
                 .mlp = Mlp::swiglu,
                 .attention = {.key_heads = 2, .bias = false, .causal = true, .rope_base = 10000.0},
                 .bias = false});
       }},
  };
  return cases.at(name)();
}

class LayerGolden : public testing::TestWithParam<std::string> {};

TEST_P(LayerGolden, OutputAndGradients) {
  const auto& expected = golden_case("modules", GetParam());
  const LayerCase layer = layer_case(GetParam());
  layer.module->load_state_dict(golden_state(expected.at("state")));

  if (expected.contains("first_input")) layer.module->forward(golden_tensor(expected.at("first_input")));
  std::vector<Tensor> inputs;
  for (const auto& array : expected.at("inputs")) {
    inputs.push_back(golden_tensor(array));
    if (is_floating(inputs.back().dtype())) inputs.back().requires_grad_();
  }
  const Tensor output = layer.call ? layer.call(inputs) : layer.module->forward(inputs[0]);
  expect_golden(output, expected.at("output"), "output");
  output.backward(golden_tensor(expected.at("seed")));

  constexpr double tolerance = 5e-5;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& gradient = expected.at("input_gradients").at(i);
    if (!gradient.is_null()) {
      expect_golden(inputs[i].grad(), gradient, "gradient of input " + std::to_string(i), tolerance);
    }
  }
  for (const auto& [name, parameter] : layer.module->named_parameters()) {
    const auto& gradient = expected.at("parameter_gradients").at(name);
    if (parameter.grad().defined()) {
      expect_golden(parameter.grad(), gradient, "gradient of " + name, tolerance);
    } else {  // not part of the graph, as out_proj of the attention weights
      for (const double value : gradient.at("data").get<std::vector<double>>()) EXPECT_EQ(value, 0) << name;
    }
  }
  const auto buffers = layer.module->named_buffers();
  EXPECT_EQ(buffers.size(), expected.at("after").size());
  for (const auto& [name, buffer] : buffers) expect_golden(buffer, expected.at("after").at(name), name);
  if (expected.contains("evaluated")) {
    layer.module->eval();
    expect_golden(layer.module->forward(golden_tensor(expected.at("first_input"))), expected.at("evaluated"),
                  "evaluated");
  }
}

std::vector<std::string> golden_names(const char* list) {
  std::vector<std::string> result;
  for (const auto& entry : golden().at(list)) result.push_back(entry.at("name"));
  return result;
}
INSTANTIATE_TEST_SUITE_P(All, LayerGolden, testing::ValuesIn(golden_names("modules")),
                         [](const auto& test) { return test.param; });

TEST(Loss, Golden) {
  const auto pair = [](auto loss) {
    return [loss](const std::vector<Tensor>& x) { return (*loss)(x[0], x[1]); };
  };
  const auto triple = [](auto loss) {
    return [loss](const std::vector<Tensor>& x) { return (*loss)(x[0], x[1], x[2]); };
  };
  const std::map<std::string, std::function<Tensor(const std::vector<Tensor>&)>> cases{
      {"mse", pair(std::make_shared<MSELoss>())},
      {"mse_none", pair(std::make_shared<MSELoss>(Reduction::none))},
      {"l1", pair(std::make_shared<L1Loss>(Reduction::sum))},
      {"smooth_l1", pair(std::make_shared<SmoothL1Loss>(Reduction::mean, 0.7))},
      {"huber", pair(std::make_shared<HuberLoss>(Reduction::mean, 0.7))},
      {"bce", pair(std::make_shared<BCELoss>())},
      {"bce_with_logits", pair(std::make_shared<BCEWithLogitsLoss>(Reduction::sum))},
      {"nll", pair(std::make_shared<NLLLoss>())},
      {"cross_entropy", pair(std::make_shared<CrossEntropyLoss>(ClassLossOptions{.label_smoothing = 0.1}))},
      {"kl_div", pair(std::make_shared<KLDivLoss>(Reduction::mean, true))},
      {"cosine_embedding", triple(std::make_shared<CosineEmbeddingLoss>(0.1))},
      {"triplet_margin", triple(std::make_shared<TripletMarginLoss>(0.5))},
  };
  EXPECT_EQ(golden().at("losses").size(), cases.size());
  for (const auto& [name, loss] : cases) {
    const auto& expected = golden_case("losses", name);
    std::vector<Tensor> inputs;
    for (const auto& array : expected.at("inputs")) inputs.push_back(golden_tensor(array));
    inputs[0].requires_grad_();
    const Tensor value = loss(inputs);
    expect_golden(value, expected.at("output"), name);
    sum(value).backward();
    expect_golden(inputs[0].grad(), expected.at("gradient"), "gradient of " + name);
  }
}

// ---- layers without parameters

TEST(Layer, ActivationsAreTheirFunctions) {
  const Tensor x = tensor<float>({-3, -0.5, 0, 0.2, 4, 7});
  const std::vector<std::pair<std::shared_ptr<Module>, Tensor>> cases{
      {std::make_shared<ReLU>(), relu(x)},
      {std::make_shared<ReLU6>(), relu6(x)},
      {std::make_shared<GELU>(), gelu(x)},
      {std::make_shared<GELU>(true), gelu_tanh(x)},
      {std::make_shared<SiLU>(), silu(x)},
      {std::make_shared<Mish>(), mish(x)},
      {std::make_shared<Tanh>(), tanh(x)},
      {std::make_shared<Sigmoid>(), sigmoid(x)},
      {std::make_shared<LogSigmoid>(), logsigmoid(x)},
      {std::make_shared<Softplus>(), softplus(x)},
      {std::make_shared<Softsign>(), softsign(x)},
      {std::make_shared<SELU>(), selu(x)},
      {std::make_shared<ELU>(0.5), elu(x, 0.5)},
      {std::make_shared<CELU>(0.5), celu(x, 0.5)},
      {std::make_shared<LeakyReLU>(0.2), leaky_relu(x, 0.2)},
      {std::make_shared<Hardtanh>(-2, 2), hardtanh(x, -2, 2)},
      {std::make_shared<Hardsigmoid>(), hardsigmoid(x)},
      {std::make_shared<Hardswish>(), hardswish(x)},
      {std::make_shared<Softshrink>(), softshrink(x)},
      {std::make_shared<Hardshrink>(), hardshrink(x)},
      {std::make_shared<Tanhshrink>(), tanhshrink(x)},
      {std::make_shared<GLU>(), glu(x)},
      {std::make_shared<Softmax>(), softmax(x)},
      {std::make_shared<LogSoftmax>(), log_softmax(x)},
      {std::make_shared<Identity>(), x},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(cases[i].first->forward(x).to_vector<float>(), cases[i].second.to_vector<float>())
        << "case " << i;
  }
}

TEST(Layer, PoolingShapes) {
  const Tensor one = randn({2, 3, 8}), two = randn({2, 3, 8, 6}), three = randn({2, 3, 8, 6, 4});
  EXPECT_EQ(MaxPool1d({.kernel = {2}})(one).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(MaxPool2d({.kernel = {3}, .stride = {2}, .padding = {1}})(two).shape(), (Shape{2, 3, 4, 3}));
  EXPECT_EQ(MaxPool3d({.kernel = {2}})(three).shape(), (Shape{2, 3, 4, 3, 2}));
  EXPECT_EQ(AvgPool1d({.kernel = {4}})(one).shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(AvgPool2d({.kernel = {2, 3}})(two).shape(), (Shape{2, 3, 4, 2}));
  EXPECT_EQ(AvgPool3d({.kernel = {2}})(three).shape(), (Shape{2, 3, 4, 3, 2}));
  EXPECT_EQ(AdaptiveAvgPool1d(5)(one).shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(AdaptiveAvgPool2d({1, 2})(two).shape(), (Shape{2, 3, 1, 2}));
  EXPECT_EQ(AdaptiveAvgPool3d({1, 2, 2})(three).shape(), (Shape{2, 3, 1, 2, 2}));
  EXPECT_EQ(AdaptiveMaxPool1d(5)(one).shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(AdaptiveMaxPool2d({3, 2})(two).shape(), (Shape{2, 3, 3, 2}));
  EXPECT_EQ(Flatten()(two).shape(), (Shape{2, 144}));
  expect_close(GlobalAvgPool2d()(two), mean(two, {2, 3}).to_vector<double>(), "global average");
}

TEST(Layer, DropoutInBothModes) {
  manual_seed(1);
  const Tensor x = ones({50, 40});
  Dropout dropout(0.25);
  const auto values = dropout(x).to_vector<float>();
  const auto zeros = std::count(values.begin(), values.end(), 0.0f);
  EXPECT_NEAR(static_cast<double>(zeros) / 2000, 0.25, 0.04);
  for (const float value : values) ASSERT_TRUE(value == 0.0f || std::abs(value - 4.0f / 3) < 1e-6f);
  EXPECT_NE(values, dropout(x).to_vector<float>());
  dropout.eval();
  EXPECT_EQ(dropout(x).to_vector<float>(), x.to_vector<float>());
  EXPECT_THROW(Dropout(1.0), ValueError);
  EXPECT_THROW(Dropout(-0.1), ValueError);
}

TEST(Layer, ChannelDropoutZeroesWholeChannels) {
  manual_seed(2);
  Dropout2d dropout(0.5);
  const auto values = dropout(ones({8, 8, 3, 3})).to_vector<float>();
  int dropped = 0;
  for (std::size_t channel = 0; channel < 64; ++channel) {
    for (std::size_t i = 1; i < 9; ++i) ASSERT_EQ(values[channel * 9 + i], values[channel * 9]);
    dropped += values[channel * 9] == 0.0f;
  }
  EXPECT_GT(dropped, 15);
  EXPECT_LT(dropped, 49);
  EXPECT_EQ(Dropout1d(0.5)(ones({2, 3, 4})).shape(), (Shape{2, 3, 4}));
  EXPECT_THROW(dropout(ones({2, 3})), ShapeError);
  dropout.eval();
  EXPECT_EQ(dropout(ones({1, 1, 1, 1})).item(), 1);
}

TEST(Layer, AlphaDropoutKeepsMoments) {
  manual_seed(4);
  AlphaDropout dropout(0.3);
  const Tensor y = dropout(randn({200, 200}));
  EXPECT_NEAR(mean(y).item(), 0, 0.02);
  EXPECT_NEAR(var(y).item(), 1, 0.03);
}

TEST(Layer, AttentionDropoutOnlyInTraining) {
  MultiheadAttention attention(4, 2, {.dropout = 0.5});
  const Tensor x = randn({1, 6, 4});
  EXPECT_NE(attention(x).to_vector<float>(), attention(x).to_vector<float>());
  attention.eval();
  EXPECT_EQ(attention(x).to_vector<float>(), attention(x).to_vector<float>());
}

TEST(Layer, BadArguments) {
  EXPECT_THROW(Linear(0, 3), ValueError);
  EXPECT_THROW(Conv2d(3, 4, 3, {.groups = 2}), ValueError);
  EXPECT_THROW(Conv2d(2, 4, std::vector<std::int64_t>{3, 3, 3}), ValueError);
  EXPECT_THROW(Conv2d(2, 4, 0), ValueError);
  EXPECT_THROW(Embedding(4, 2, 4), IndexError);
  EXPECT_THROW(GroupNorm(3, 4), ValueError);
  EXPECT_THROW(MultiheadAttention(4, 3), ValueError);
  EXPECT_THROW(SelfAttention(8, 4, {.key_heads = 3}), ValueError);
  EXPECT_THROW(CrossAttention(8, 4, {.rope_base = 10000.0}), ValueError);
  EXPECT_THROW(SelfAttention(4, 2)(ones({3, 4})), ShapeError);
  EXPECT_THROW(BatchNorm2d(3)(ones({2, 3})), ShapeError);
  EXPECT_THROW(BatchNorm1d(3)(ones({1, 3})), ShapeError);
}

// ---- initial values

struct Moments {
  double mean, deviation, low, high;
};
Moments moments(const Tensor& x) { return {mean(x).item(), std(x).item(), min(x).item(), max(x).item()}; }

TEST(Init, Distributions) {
  manual_seed(5);
  const Shape shape{100, 64, 3};  // fan in 192, fan out 300
  const auto check = [](const Tensor& x, double deviation, std::optional<double> bound) {
    const Moments m = moments(x);
    EXPECT_NEAR(m.mean, 0, 4 * deviation / std::sqrt(19200.0));
    EXPECT_NEAR(m.deviation, deviation, 0.03 * deviation);
    if (bound) {
      EXPECT_LE(m.high, *bound);
      EXPECT_GE(m.low, -*bound);
      EXPECT_GT(m.high, 0.98 * *bound);
    }
  };
  check(init::uniform(shape, -2, 2), 2 / std::sqrt(3.0), 2);
  check(init::normal(shape, 0, 0.3), 0.3, {});
  const double xavier = std::sqrt(2.0 / 492);
  check(init::xavier_uniform(shape), xavier, std::sqrt(3.0) * xavier);
  check(init::xavier_normal(shape, 2.0), 2 * xavier, {});
  check(init::kaiming_uniform(shape, {.slope = std::sqrt(5.0)}), 1 / std::sqrt(3.0 * 192),
        1 / std::sqrt(192.0));
  check(init::kaiming_normal(shape, {.fan = init::Fan::out, .nonlinearity = init::Nonlinearity::relu}),
        std::sqrt(2.0 / 300), {});
  // The normal distribution cut at two deviations has the deviation 0.8796.
  check(init::truncated_normal(shape, 0, 0.5, -1, 1), 0.5 * 0.87962566, 1);
  EXPECT_EQ(init::constant({2}, 3).to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_THROW(init::xavier_uniform({3}), ShapeError);
  EXPECT_THROW(init::truncated_normal(shape, 0, 1, 2, 1), ValueError);
  EXPECT_DOUBLE_EQ(init::gain(init::Nonlinearity::tanh), 5.0 / 3.0);
}

TEST(Init, Orthogonal) {
  for (const Shape& shape : {Shape{6, 6}, Shape{4, 9}, Shape{9, 2, 2}}) {
    const Tensor q = init::orthogonal(shape, 2.0).reshape({shape[0], -1});
    const bool wide = q.size(0) < q.size(1);
    const Tensor product = wide ? matmul(q, q.t()) : matmul(q.t(), q);
    const std::int64_t n = product.size(0);
    expect_close(product, (eye(n) * 4.0).to_vector<double>(), to_string(shape));
  }
}

TEST(Init, DefaultsOfLayers) {
  manual_seed(6);
  const Moments linear = moments(Linear(400, 50).weight);
  EXPECT_LE(linear.high, 0.05);
  EXPECT_GT(linear.high, 0.049);
  const Moments bias = moments(Linear(400, 500).bias);
  EXPECT_LE(bias.high, 0.05);
  EXPECT_GT(bias.high, 0.045);
  const Moments conv = moments(Conv2d(16, 32, 5).weight);
  EXPECT_LE(conv.high, 0.05);
  EXPECT_GT(conv.high, 0.049);
  const Moments table = moments(Embedding(100, 50).weight);
  EXPECT_NEAR(table.deviation, 1, 0.05);
  const Embedding padded(4, 2, -1);
  EXPECT_EQ(padded.weight[3].to_vector<float>(), (std::vector<float>{0, 0}));
  const MultiheadAttention attention(8, 2);
  EXPECT_LE(moments(attention.in_proj_weight).high, std::sqrt(6.0 / 32));
  EXPECT_EQ(max(abs(attention.out_proj->bias)).item(), 0);
}

// ---- mixed precision

TEST(Autocast, CastsMatrixLayersOnly) {
  Linear linear(4, 4);
  LayerNorm norm(4);
  const Tensor x = randn({2, 4});
  EXPECT_EQ(linear(x).dtype(), DType::f32);
  {
    const Autocast autocast(DType::bf16);
    EXPECT_EQ(linear(x).dtype(), DType::bf16);
    EXPECT_EQ(norm(linear(x)).dtype(), DType::f32);
    EXPECT_EQ(Softmax()(linear(x)).dtype(), DType::f32);
    EXPECT_EQ(MSELoss()(linear(x), x).dtype(), DType::f32);
    EXPECT_EQ(Conv1d(4, 4, 1)(x.unsqueeze(2)).dtype(), DType::bf16);
    EXPECT_EQ(MultiheadAttention(4, 2)(x.unsqueeze(0)).dtype(), DType::bf16);
    {
      const Autocast off(std::nullopt);
      EXPECT_EQ(linear(x).dtype(), DType::f32);
    }
    const Autocast half(DType::f16);
    EXPECT_EQ(linear(x).dtype(), DType::f16);
  }
  EXPECT_FALSE(Autocast::active());
  EXPECT_THROW(Autocast(DType::f64), DTypeError);
}

TEST(Autocast, GradientsAreFull) {
  TransformerBlock block(8, 2);
  const Tensor x = randn({2, 3, 8});
  sum(square(block(x))).backward();
  std::vector<std::vector<double>> exact;
  for (const Tensor& parameter : block.parameters()) exact.push_back(parameter.grad().to_vector<double>());
  block.zero_grad();
  {
    const Autocast autocast;
    sum(square(block(x))).backward();
  }
  std::size_t i = 0;
  for (const auto& [name, parameter] : block.named_parameters()) {
    EXPECT_EQ(parameter.grad().dtype(), DType::f32) << name;
    const auto values = parameter.grad().to_vector<double>();
    double error = 0, size = 0;
    for (std::size_t k = 0; k < values.size(); ++k) {
      error += std::pow(values[k] - exact[i][k], 2);
      size += std::pow(exact[i][k], 2);
    }
    EXPECT_LE(error, 0.03 * 0.03 * size + 1e-4) << name;
    ++i;
  }
}

}  // namespace
}  // namespace hearth
