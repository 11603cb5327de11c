// A training step written by hand and compiled: traced once, then replayed.
#include <hearth/hearth.h>

#include <cstdio>
#include <numbers>

using namespace hearth;

int main() {
  manual_seed(1);
  models::Mlp model({1, 64, 64, 1});
  optim::AdamW optimizer(model.parameters(), {.learning_rate = 3e-3});

  Compiled step = compile([&](const std::vector<Tensor>& batch) {
    const Tensor loss = mse_loss(model(batch[0]), batch[1]);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return std::vector<Tensor>{loss};
  });

  double loss = 0;
  for (int i = 0; i <= 1000; ++i) {
    const Tensor x = uniform({128, 1}, -std::numbers::pi, std::numbers::pi);
    loss = step({x, sin(x)})[0].item();
    if (i % 200 == 0) std::printf("step %4d  loss %.5f\n", i, loss);
  }

  save_safetensors("sine.safetensors", model.state_dict());
  models::Mlp loaded({1, 64, 64, 1});
  loaded.load_state_dict(load_safetensors("sine.safetensors"));
  std::remove("sine.safetensors");
  const Tensor at = tensor<float>({1.0f}, {1, 1});
  std::printf("sin(1) = 0.84147, learned: %.5f\n", loaded(at).item());
  return loss < 1e-2 ? 0 : 1;
}
