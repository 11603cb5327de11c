// The workloads of `hearth kernels build`. Sizes are those of real use: kernels are chosen by them.
#include "cli/kernel_workloads.h"

#include <fmt/format.h>

#include "hearth/hearth.h"
#include "hearth/llm.h"
#include "llm/model.h"
#include "llm/random_model.h"

namespace hearth::cli {
namespace {

// An input that is in memory already.
Tensor given(const Shape& shape, DType dtype = DType::f32) {
  Tensor x = zeros(shape, dtype);
  x.eval();
  return x;
}

// One plan for a function of these inputs and its gradients.
template <class F>
void with_gradients(std::vector<Tensor> inputs, const F& f) {
  for (Tensor& x : inputs)
    if (is_floating(x.dtype())) x.requires_grad_();
  const Tensor y = f(inputs);
  y.backward(given(y.shape(), y.dtype()));
  std::vector<Tensor> results{y};
  for (const Tensor& x : inputs)
    if (x.grad().defined()) results.push_back(x.grad());
  eval(results);
}

// ---- models

// A compiled step with AdamW, then a forward pass for evaluation.
void train(nn::Module& model, DType precision, const std::function<Tensor()>& loss) {
  const Autocast autocast(precision == DType::f32 ? std::nullopt : std::optional(precision));
  eval(model.variables());
  optim::AdamW optimizer(model.parameters());
  eval(optimizer.variables());
  Compiled step([&](const std::vector<Tensor>&) {
    const Tensor value = loss();
    value.backward();
    optimizer.step();
    optimizer.zero_grad();
    return std::vector<Tensor>{value};
  });
  step({});
  model.eval();
  const NoGrad no_grad;
  loss().eval();
}

void train_classifier(nn::Module& model, DType precision, const Shape& images) {
  const Tensor x = given(images), labels = given({images[0]}, DType::i64);
  train(model, precision, [&] { return cross_entropy(full_precision(model.forward(x)), labels); });
}

void train_mlp(DType precision) {
  models::Mlp model({784, 512, 256, 10}, 0.1);
  train_classifier(model, precision, {128, 1, 28, 28});
}
void train_cnn(DType precision) {
  models::MnistCnn model;
  train_classifier(model, precision, {128, 1, 28, 28});
}
void train_resnet(DType precision) {
  models::CifarResNet model(20);
  train_classifier(model, precision, {128, 3, 32, 32});
}
void train_gpt(DType precision) {
  models::Gpt model({.vocabulary = 4096, .context = 256, .layers = 2, .heads = 6, .features = 384});
  const Tensor tokens = given({16, 256}, DType::i64), targets = given({16, 256}, DType::i64);
  train(model, precision, [&] { return model.loss(tokens, targets); });
}

void train_llama(DType precision) {
  models::Llama model({.vocabulary = 8192,
                       .context = 512,
                       .layers = 2,
                       .width = 512,
                       .heads = 8,
                       .groups = 4,
                       .feed_forward = 1536});
  const Tensor tokens = given({16, 512}, DType::i64), targets = given({16, 512}, DType::i64);
  train(model, precision, [&] { return model.loss(tokens, targets); });
}

// ---- generating text

// Prompts of several lengths, tokens one by one, and of several sequences at once.
void generate(DType type) {
  llm::ModelConfig config = llm::find_known_shape("llama-3.2-1b").config;
  config.layers = 1;
  config.vocabulary = 4096;
  config.windows.resize(1);
  for (const DType cache : {DType::f16, DType::bf16, DType::f32, DType::q8_0}) {
    const llm::Model model = llm::make_random_model(
        config, {.type = type, .tied = true},
        {.device = default_device(), .context = 4096, .cache_dtype = cache, .sequences = 4});
    llm::Session session(model);
    for (const std::size_t tokens : {1, 20, 512}) session.feed(std::vector<TokenId>(tokens, 1));
    // Steps that are begun before the host knows the tokens of those before.
    llm::Session* const one = &session;
    const llm::Sampler drawing({.temperature = 1});
    const llm::Sampler* const sampler = &drawing;
    const std::vector<std::vector<TokenId>> next{{1}};
    llm::Session::feed_for_best({&one, 1}, next);
    llm::Session::feed_together({&one, 1}, next, {&sampler, 1});
  }
  for (const std::size_t sequences : {4, 64}) {
    const llm::Model model = llm::make_random_model(
        config, {.type = type, .tied = true},
        {.device = default_device(), .context = 4096, .sequences = static_cast<std::int64_t>(sequences)});
    model.state()->kept_from = 0;
    std::vector<llm::Session> sessions;
    std::vector<llm::Session*> all;
    std::vector<llm::Sampler> samplers(sequences, llm::Sampler({.temperature = 0}));
    std::vector<llm::Sampler*> choosers;
    for (std::size_t i = 0; i < sequences; ++i) sessions.emplace_back(model);
    for (llm::Session& session : sessions) all.push_back(&session);
    for (llm::Sampler& sampler : samplers) choosers.push_back(&sampler);
    const std::vector<std::vector<TokenId>> tokens(sequences, {1});
    choose_together(choosers, llm::Session::feed_together(all, tokens));
  }
}

// The choice of the next token.
void choose(DType) {
  const Tensor scores = given({1, 32000});
  const auto [best, places] = topk(reshape(scores, {32000}), 40);
  eval({argmax(scores, -1), softmax(best / 0.8), places});
}

// ---- operations

void elementwise_work(DType dtype) {
  const Shape shape{1024, 4096};
  const Tensor a = given(shape, dtype), b = given(shape, dtype), row = given({4096}, dtype),
               column = given({1024, 1}, dtype), wide = given({4096, 1024}, dtype);
  eval({a + b});
  eval({a * row + column});
  eval({a + transpose(wide, 0, 1)});
  eval({contiguous(transpose(a, 0, 1))});
  eval({contiguous(slice(a, {{0, Slice::open, 2}, {1, Slice::open, 2}}))});
  eval({contiguous(permute(reshape(a, {64, 16, 64, 64}), {0, 2, 1, 3}))});
  eval({where(a > b, a, b)});
  for (const DType other : {DType::f32, DType::f16, DType::bf16, DType::i32})
    if (other != dtype) eval({a.to(other)});
  for (const auto f : {exp, log, tanh, erf}) eval({f(a)});
  for (const auto f : {relu, gelu, silu}) with_gradients({a}, [&](const auto& x) { return f(x[0]); });
  with_gradients({a, b}, [](const auto& x) { return silu(x[0]) * x[1]; });
  eval({pow(a, 2.5)});
}

void integer_work() {
  for (const DType dtype : {DType::i8, DType::i64}) {
    const Tensor a = given({4096, 1024}, dtype), b = given({4096, 1024}, dtype);
    eval({a + b});
    eval({a * b == a});
    eval({contiguous(transpose(a, 0, 1))});
    eval({sum(a), max(a, {1}), sum(a, {0})});
  }
  const Tensor mask = given({4096, 1024}, DType::bool_);
  eval({logical_not(mask)});
  eval({any(mask), all(mask, {1})});
}

void reduction_work(DType dtype) {
  const Tensor x = given({4096, 1024}, dtype), flat = given({1 << 22}, dtype),
               image = given({64, 64, 32, 32}, dtype);
  for (const auto f : {hearth::sum, hearth::max}) {
    eval({f(x, {}, false)});
    eval({f(x, {0}, false)});
    eval({f(x, {1}, false)});
  }
  eval({sum(image, {0, 2, 3})});
  eval({norm(flat)});
  eval({var(x, {1})});
  for (const std::int64_t axis : {0, 1}) eval({argmax(x, axis), argmin(x, axis)});
  eval({argmax(flat)});
}

void normalisation_work(DType dtype) {
  for (const std::int64_t features : {64, 4096, 100000}) {
    const Tensor x = given({512, features}, dtype), weight = given({features}, dtype),
                 bias = given({features}, dtype);
    with_gradients({x}, [](const auto& in) { return softmax(in[0]); });
    with_gradients({x}, [](const auto& in) { return log_softmax(in[0]); });
    with_gradients({x, weight, bias},
                   [&](const auto& in) { return layer_norm(in[0], {features}, in[1], in[2]); });
    with_gradients({x, weight}, [](const auto& in) { return rms_norm(in[0], in[1]); });
  }
  with_gradients({given({1, 1 << 20}, dtype)}, [](const auto& in) { return softmax(in[0]); });
  const Tensor image = given({32, 64, 32, 32}, dtype), weight = given({64}, dtype), bias = given({64}, dtype);
  with_gradients({image}, [](const auto& in) { return softmax(in[0], 1); });
  with_gradients({image, weight, bias}, [](const auto& in) { return group_norm(in[0], 8, in[1], in[2]); });
  with_gradients({image, weight, bias},
                 [](const auto& in) { return batch_norm_train(in[0], in[1], in[2]).output; });
}

void order_work(DType dtype) {
  const Tensor x = given({64, 1000}, dtype), flat = given({1 << 20}, dtype);
  for (const Tensor& values : {x, flat}) {
    eval({sort(values), argsort(values, -1, true)});
    const auto [best, places] = topk(values, 50);
    eval({best, places});
    eval({cumsum(values, -1)});
    eval({cumprod(values, -1)});
  }
  eval({sort(x, 0), cumsum(x, 0)});
}

void indexing_work(DType dtype) {
  const Tensor table = given({32000, 768}, dtype), tokens = given({8, 512}, DType::i64),
               x = given({1024, 512}, dtype), places = given({1024, 64}, DType::i64),
               source = given({1024, 64}, dtype);
  with_gradients({table}, [&](const auto& in) { return embedding(tokens, in[0]); });
  with_gradients({x}, [&](const auto& in) { return gather(in[0], 1, places); });
  eval({take(x, given({100}, DType::i32), 1)});
  eval({scatter(x, 1, places, source)});
  with_gradients({x, source}, [&](const auto& in) { return scatter_add(in[0], 1, places, in[1]); });
  eval({concat({x, x}, 0)});
  eval({concat({x, source}, 1)});
  eval({pad(x, {{1, 1}, {3, 2}})});
  with_gradients({x}, [](const auto& in) { return narrow(in[0], 1, 7, 100); });
  eval({one_hot(tokens, 1000, dtype)});
  eval({tril(given({512, 512}, dtype))});
  eval({roll(x, 3, 1), flip(x, {1})});
}

void random_work(DType dtype) {
  const Shape shape{1024, 1000};
  eval({rand(shape, dtype)});
  eval({randn(shape, dtype)});
  eval({truncated_normal(shape, 0.02, dtype)});
  eval({bernoulli(shape, 0.5)});
  eval({randint(0, 1000, shape)});
  with_gradients({given(shape, dtype)}, [](const auto& in) { return dropout(in[0], 0.1); });
  eval({arange(0, 1000, 1, dtype)});
}

void rope_work(DType dtype) {
  for (const std::int64_t head : {64, 128})
    for (const bool interleaved : {false, true})
      with_gradients({given({4, 16, 512, head}, dtype)},
                     [&](const auto& in) { return rope(in[0], 10000.0, 0, interleaved); });
}

void attention_work(DType dtype) {
  for (const std::int64_t head : {64, 128})
    for (const std::int64_t length : {1, 512})
      for (const bool causal : {false, true}) {
        const Tensor q = given({2, 16, length, head}, dtype), k = given({2, 4, 512, head}, dtype),
                     v = given({2, 4, 512, head}, dtype);
        eval({attention(q, k, v, {.causal = causal})});
        if (length > 1)
          with_gradients({q, k, v},
                         [&](const auto& in) { return attention(in[0], in[1], in[2], {.causal = causal}); });
      }
  for (const std::int64_t length : {20, 50, 82}) {
    const Tensor x = given({64, 8, length, 64}, dtype);
    eval({attention(x, x, x)});
    with_gradients({given({64, length, 24, 64}, dtype)}, [&](const auto& in) {
      const auto heads = [&](std::int64_t first) { return transpose(narrow(in[0], 2, first, 8), 1, 2); };
      return attention(rope(heads(0), 10000.0), rope(heads(8), 10000.0), heads(16));
    });
  }
}

// All transposes; large, small, tall, batched, with one row, with an epilogue, and with one of both halves.
void matmul_work(DType dtype) {
  struct Sizes {
    std::int64_t stack, rows, columns, depth;
  };
  for (const Sizes& s : {Sizes{1, 4096, 4096, 4096}, Sizes{1, 100, 60, 200}, Sizes{1, 64, 64, 16384},
                         Sizes{1, 1, 4096, 4096}, Sizes{1, 4096, 1, 4096}, Sizes{8, 512, 512, 64}})
    for (const bool flip_a : {false, true})
      for (const bool flip_b : {false, true}) {
        const auto matrix = [&](std::int64_t rows, std::int64_t columns, bool flipped) {
          return flipped ? transpose(given({s.stack, columns, rows}, dtype), 1, 2)
                         : given({s.stack, rows, columns}, dtype);
        };
        eval({matmul(matrix(s.rows, s.depth, flip_a), matrix(s.depth, s.columns, flip_b))});
      }
  if (!is_floating(dtype)) return;
  const Tensor x = given({512, 1024}, dtype), weight = given({4096, 1024}, dtype),
               bias = given({4096}, dtype);
  eval({linear(x, weight, bias)});
  eval({gelu(linear(x, weight, bias))});
  const Tensor gate_up = linear(given({8192, 1024}, dtype), weight);
  eval({silu(narrow(gate_up, 1, 0, 2048)) * narrow(gate_up, 1, 2048, 2048)});
}

// Weights in a block format, with one row, with few, with those of a batch, and with many.
void quantised_work(DType format) {
  const std::vector<std::byte> blocks(static_cast<std::size_t>(storage_bytes(format, 4096 * 4096)));
  const Tensor weight = from_blocks(blocks, {4096, 4096}, format);
  for (const std::int64_t rows : {1, 4, 8, 16, 64, 100, 512})
    eval({linear(given({rows, 4096}, DType::f16), weight)});
  eval({linear(given({64, 2048}, DType::f16), reshape(weight, {8192, 2048}))});
  eval({dequantise(weight, DType::f16)});
  eval({take(weight, given({8}, DType::i64), 0)});
}

void convolution_work(DType dtype) {
  const auto conv = [&](const Shape& image, const Shape& kernel, const ConvOptions& options) {
    with_gradients({given(image, dtype), given(kernel, dtype)},
                   [&](const auto& in) { return conv2d(in[0], in[1], {}, options); });
  };
  conv({32, 64, 56, 56}, {64, 64, 3, 3}, {.padding = {1}});
  conv({32, 64, 56, 56}, {128, 64, 1, 1}, {.stride = {2}});
  conv({32, 3, 224, 224}, {64, 3, 7, 7}, {.stride = {2}, .padding = {3}});
  conv({32, 64, 56, 56}, {64, 1, 3, 3}, {.padding = {1}, .groups = 64});
  const Tensor image = given({32, 64, 56, 56}, dtype);
  with_gradients({image}, [](const auto& in) {
    return max_pool2d(in[0], {.kernel = {3}, .stride = {2}, .padding = {1}});
  });
  with_gradients({image}, [](const auto& in) { return avg_pool2d(in[0], {.kernel = {2}}); });
}

}  // namespace

std::vector<Workload> kernel_workloads() {
  std::vector<Workload> list;
  const auto add = [&](const char* name, void (*run)(DType), std::initializer_list<DType> dtypes) {
    for (const DType dtype : dtypes)
      list.push_back({fmt::format("{} {}", name, dtype_name(dtype)), [=] { run(dtype); }});
  };
  const auto f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16;
  add("mlp", train_mlp, {f32, bf16});
  add("cnn", train_cnn, {f32, bf16});
  add("resnet", train_resnet, {f32, bf16});
  add("gpt", train_gpt, {f32, bf16});
  add("llama", train_llama, {f32, bf16});
  add("generate", generate, {f32, f16, bf16, DType::q4_0, DType::q8_0, DType::q4_k, DType::q6_k});
  add("choose", choose, {f32});
  add("elementwise", elementwise_work, {f32, f16, bf16});
  list.push_back({"integers", integer_work});
  add("reductions", reduction_work, {f32, f16, bf16});
  add("norms", normalisation_work, {f32, f16, bf16});
  add("order", order_work, {f32, f16});
  add("indexing", indexing_work, {f32, bf16});
  add("random", random_work, {f32, bf16});
  add("rope", rope_work, {f32, f16, bf16});
  add("attention", attention_work, {f32, f16, bf16});
  add("matmul", matmul_work, {f32, f16, bf16, DType::i8});
  add("quantised", quantised_work,
      {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::q2_k, DType::q3_k, DType::q4_k,
       DType::q5_k, DType::q6_k, DType::iq4_xs, DType::iq4_nl, DType::mxfp4});
  add("convolution", convolution_work, {f32, bf16});
  return list;
}

}  // namespace hearth::cli
