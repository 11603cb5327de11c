// The six functions of the LLVM-C interface that disassembling takes.
#include "isa/disassembler.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

namespace hipemu {
namespace {

struct Llvm {
  void (*initialize_target_info)() = nullptr;
  void (*initialize_target_mc)() = nullptr;
  void (*initialize_disassembler)() = nullptr;
  void* (*create)(const char* triple, const char* cpu, const char* features, void*, int, void*,
                  void*) = nullptr;
  std::size_t (*decode)(void* context, uint8_t* bytes, uint64_t size, uint64_t pc, char* text,
                        std::size_t text_size) = nullptr;
  void (*dispose)(void* context) = nullptr;
  std::string failure;
};

template <class Function>
bool bind(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

Llvm open_llvm() {
  Llvm llvm;
  constexpr std::array names = {"libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM-19.so",
                                "libLLVM.so.20.1", "libLLVM.so.21.1", "libLLVM.so.22.1"};
  void* library = nullptr;
  for (const char* name : names) {
    // Local: a program that has another LLVM of its own must not see this one.
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    llvm.failure =
        "LLVM 19 or later is needed to decode AMD instructions, and no libLLVM was found "
        "(Debian, Ubuntu: apt-get install libllvm19)";
    return llvm;
  }
  const bool complete = bind(library, "LLVMInitializeAMDGPUTargetInfo", llvm.initialize_target_info) &&
                        bind(library, "LLVMInitializeAMDGPUTargetMC", llvm.initialize_target_mc) &&
                        bind(library, "LLVMInitializeAMDGPUDisassembler", llvm.initialize_disassembler) &&
                        bind(library, "LLVMCreateDisasmCPUFeatures", llvm.create) &&
                        bind(library, "LLVMDisasmInstruction", llvm.decode) &&
                        bind(library, "LLVMDisasmDispose", llvm.dispose);
  if (!complete) {
    llvm.failure = fmt::format("the LLVM library found cannot disassemble AMD code: {}", dlerror());
    return llvm;
  }
  llvm.initialize_target_info();
  llvm.initialize_target_mc();
  llvm.initialize_disassembler();
  return llvm;
}

const Llvm& opened_llvm() {
  static const Llvm& instance = *new Llvm(open_llvm());  // never destroyed: kernels are decoded as they run
  return instance;
}

const Llvm& llvm() {
  const Llvm& instance = opened_llvm();
  if (!instance.failure.empty()) throw DisassemblerError(instance.failure);
  return instance;
}

}  // namespace

Disassembler::Disassembler(const Chip& chip, int wave_size) {
  const std::string cpu(chip.processor);
  const char* features = "";
  if (chip.generation != Generation::gfx9)
    features = wave_size == 32 ? "+wavefrontsize32,-wavefrontsize64" : "-wavefrontsize32,+wavefrontsize64";
  context_ = llvm().create("amdgcn-amd-amdhsa", cpu.c_str(), features, nullptr, 0, nullptr, nullptr);
  if (context_ == nullptr) throw DisassemblerError(fmt::format("this LLVM does not know {}", chip.processor));
}

void Disassembler::prepare() noexcept { (void)opened_llvm(); }

Disassembler::~Disassembler() { llvm().dispose(context_); }

Disassembler::Line Disassembler::decode(std::span<const std::byte> code, uint64_t address) {
  std::array<char, 512> text{};
  auto* bytes = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(code.data()));  // only read
  Line line;
  line.size = llvm().decode(context_, bytes, code.size(), address, text.data(), text.size());
  if (line.size > 0) line.text = text.data() + (text[0] == '\t' ? 1 : 0);
  return line;
}

}  // namespace hipemu
