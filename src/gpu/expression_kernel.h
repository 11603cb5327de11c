// What the kernels that evaluate an expression share: their parameters, the loads and stores of one element,
// and the way from a row-major index to places in strided memory.
#pragma once

#include <string>
#include <vector>

#include "device/step.h"
#include "gpu/constant.h"
#include "gpu/device.h"
#include "gpu/nest.h"

namespace hearth::gpu {

class ExpressionCode {
 public:
  explicit ExpressionCode(const Step& step);

  const Expression& expression() const { return expression_; }
  const std::vector<DType>& inputs() const { return inputs_; }
  const std::vector<DType>& outputs() const { return outputs_; }

  // "const f32* in0, ..., f32* out0, ..., f32 c0, ...": each is followed by ", ".
  std::string parameters() const;
  std::vector<Constant> constants(const Number* numbers) const;
  // The values of those parameters. What is given must live until the launch.
  void add_to(Arguments& values, const KernelArguments& arguments,
              const std::vector<Constant>& constants) const;

  // v0.. from the inputs, for the element whose place in input i is the text `place(i)`.
  template <class Place>
  std::string loads(std::string_view indent, const Place& place) const {
    std::string text;
    for (std::size_t i = 0; i < inputs_.size(); ++i) text += load(indent, i, place(i));
    return text;
  }
  // The outputs from number `first` on, to the places `place(k)`.
  template <class Place>
  std::string stores(std::string_view indent, const Place& place, std::size_t first = 0) const {
    std::string text;
    for (std::size_t k = first; k < outputs_.size(); ++k) text += store(indent, k, place(k));
    return text;
  }

 private:
  std::string load(std::string_view indent, std::size_t input, const std::string& place) const;
  std::string store(std::string_view indent, std::size_t output, const std::string& place) const;

  Expression expression_;
  std::vector<DType> inputs_, outputs_;
};

// Statements that take the row-major index `from` apart into <axis>0, <axis>1, ... for axes of the sizes
// n<axis>0, ...; all of the type Index.
std::string index_statements(std::string_view indent, std::string_view from, std::string_view axis,
                             std::size_t axes);
// "x0 * s3_x0 + x1 * s3_x1": the place in operand 3 at x0, x1.
std::string place_text(std::size_t operand, std::string_view axis, std::size_t axes);
// ", i64 nx0, ..." and ", i64 s0_x0, ...", for that many operands.
std::string size_parameters(std::string_view axis, std::size_t axes);
std::string stride_parameters(std::string_view axis, std::size_t axes, std::size_t operands);

// Whether `pointer` may be read in packets of `packet` elements, up to 16 bytes at a time.
bool aligned(const void* pointer, DType dtype, int packet);

}  // namespace hearth::gpu
