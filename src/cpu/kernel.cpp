// A kernel made from a function.
#include "cpu/kernels.h"

namespace hearth::cpu {
namespace {

class FunctionKernel : public Kernel {
 public:
  explicit FunctionKernel(RunFunction run) : run_(std::move(run)) {}
  void run(const KernelArguments& arguments) const override { run_(arguments); }

 private:
  RunFunction run_;
};

}  // namespace

std::unique_ptr<Kernel> kernel(RunFunction run) { return std::make_unique<FunctionKernel>(std::move(run)); }

}  // namespace hearth::cpu
