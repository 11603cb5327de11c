// Tensors, gradients and what evaluation does, in one page.
#include <hearth/hearth.h>

#include <cstdio>

using namespace hearth;

int main() {
  // Tensors are made, combined and looked at.
  Tensor a = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor b = a * 2 + tensor<float>({10, 20, 30});  // broadcasts as in NumPy
  std::printf("%s\n\n", b.eval().to_string().c_str());

  // Nothing is computed before a value is needed; explain() says what will be done.
  Tensor c = sum(sqrt(abs(b - 25)) * exp(a * -0.1), {1});
  std::printf("%s\n", explain({c}).c_str());

  // Gradients: of leaves, by backward() ...
  Tensor w = tensor<float>({0.5f, -1.0f, 2.0f});
  w.requires_grad_();
  Tensor loss = sum(square(matmul(a, w) - 1));
  loss.backward();
  std::printf("loss %.3f, gradient %s\n\n", loss.item(), w.grad().eval().to_string().c_str());

  // ... or of a function.
  const auto f = value_and_grad([](const std::vector<Tensor>& x) { return sum(sin(x[0]) * x[1]); });
  const auto [value, gradients] = f({tensor<float>({0, 1}), tensor<float>({2, 3})});
  std::printf("value %.3f, first gradient %s\n\n", value.item(), gradients[0].eval().to_string().c_str());

  // Mistakes are found at the call, and say what was wrong.
  try {
    matmul(a, b);
  } catch (const ShapeError& error) {
    std::printf("%s\n", error.what());
  }
}
