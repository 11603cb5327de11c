// Runs every kernel of the corpus on every emulated chip, compiled without and with optimisation, and
// compares what it leaves in memory with what the same source does on the host.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "cases.h"
#include "code_object/code_object.h"
#include "exec/launch.h"
#include "isa/chip.h"
#include "memory/address_space.h"

namespace {

using namespace hipemu;

struct Target {
  const char* processor;
  corpus::ChipSet bit;
};
constexpr Target targets[] = {{"gfx1030", corpus::gfx1030},
                              {"gfx1100", corpus::gfx1100},
                              {"gfx1201", corpus::gfx1201},
                              {"gfx90a", corpus::gfx90a},
                              {"gfx942", corpus::gfx942}};
constexpr const char* levels[] = {"O0", "O3"};

// Code is loaded when the first kernel of a file is asked for. Null when the file was not compiled.
std::shared_ptr<const LoadedCode> load(const std::string& subject, const char* processor, const char* level) {
  static std::map<std::string, std::shared_ptr<const LoadedCode>> loaded;
  const std::string path = fmt::format("{}/{}_{}_{}.co", HIPEMU_CORPUS, subject, processor, level);
  const auto known = loaded.find(path);
  if (known != loaded.end()) return known->second;
  std::shared_ptr<const LoadedCode> code;
  std::ifstream file(path, std::ios::binary);
  if (file) {
    std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    CodeObject object = parse_code_object(bytes);
    code = std::make_shared<LoadedCode>(std::move(object), std::move(bytes));
    address_space().adopt(code->image().data(), code->image().size(), MemoryKind::code, 0, subject);
  }
  loaded[path] = code;
  return code;
}

struct Buffers {
  std::vector<std::byte*> addresses;  // one per argument; null for values
  Buffers() = default;
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers() {
    for (std::byte* base : bases_) address_space().release(base);
  }
  std::byte* allocate(const corpus::Argument& argument, uint64_t seed) {
    Allocation* allocation =
        address_space().allocate(argument.bytes() + argument.misalignment, MemoryKind::device, 0, "corpus");
    bases_.push_back(allocation->base);
    std::byte* start = allocation->base + argument.misalignment;
    argument.write(start, seed);
    address_space().mark_written(allocation->base, allocation->size);
    return start;
  }

 private:
  std::vector<std::byte*> bases_;
};

class Corpus : public testing::Test {
 public:
  Corpus(const corpus::Entry& entry, const Target& target, const char* level)
      : entry_(entry), target_(target), level_(level) {}

  void TestBody() override {
    const Chip* chip = find_chip(target_.processor);
    ASSERT_NE(chip, nullptr);
    const auto code = load(entry_.subject, target_.processor, level_);
    if (code == nullptr)
      GTEST_SKIP() << entry_.subject << " was not compiled: the device libraries are missing";
    const Kernel* kernel = code->find_kernel(entry_.name);
    ASSERT_NE(kernel, nullptr) << "not in the code object";

    const corpus::Case made = entry_.make();
    Launch launch;
    launch.code = code;
    launch.kernel = kernel;
    launch.chip = chip;
    launch.grid = made.shape.grid;
    launch.block = made.shape.block;
    launch.dynamic_lds = made.shape.dynamic_lds;

    // The host gets its own copies of the buffers, and the arguments as a C struct.
    Buffers buffers;
    std::vector<std::vector<std::byte>> expected(made.arguments.size());
    std::vector<std::byte> host_arguments;
    uint64_t seed = 0x9e3779b97f4a7c15;
    for (const char* c = entry_.name; *c != 0; ++c) seed = (seed ^ static_cast<uint64_t>(*c)) * 0x100000001b3;
    for (std::size_t i = 0; i < made.arguments.size(); ++i) {
      const corpus::Argument& argument = made.arguments[i];
      ASSERT_LT(i, kernel->arguments.size());
      const KernelArgument& parameter = kernel->arguments[i];
      std::vector<std::byte> device_value, host_value;
      if (argument.buffer) {
        std::byte* start = buffers.allocate(argument, seed + i);
        buffers.addresses.push_back(start);
        expected[i].assign(start, start + argument.bytes());
        device_value = bytes_of(start);
        host_value = bytes_of(expected[i].data());
      } else {
        buffers.addresses.push_back(nullptr);
        device_value.assign(argument.value, argument.value + argument.size);
        host_value = device_value;
      }
      ASSERT_EQ(parameter.size, device_value.size()) << "argument " << i;
      place(launch.arguments, parameter.offset, device_value);
      place(host_arguments,
            (host_arguments.size() + argument.alignment - 1) / argument.alignment * argument.alignment,
            host_value);
    }
    const auto fault = run(launch);
    ASSERT_FALSE(fault.has_value()) << fault->report;
    corpus::run_reference(entry_, made, chip->wave_size, host_arguments.data());
    for (std::size_t i = 0; i < made.arguments.size(); ++i)
      if (made.arguments[i].buffer) {
        EXPECT_EQ(corpus::differences(made.arguments[i], expected[i].data(), buffers.addresses[i]), "")
            << "argument " << i;
      }
  }

 private:
  template <class T>
  static std::vector<std::byte> bytes_of(T value) {
    std::vector<std::byte> bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  static void place(std::vector<std::byte>& block, std::size_t at, const std::vector<std::byte>& value) {
    block.resize(std::max(block.size(), at + value.size()));
    std::memcpy(block.data() + at, value.data(), value.size());
  }

  const corpus::Entry& entry_;
  const Target& target_;
  const char* level_;
};

}  // namespace

// Tests are called gfx1100_O3.add_f32 and so on.
int main(int argc, char** argv) {
  for (const Target& target : targets)
    for (const char* level : levels)
      for (const corpus::Entry& entry : corpus::entries())
        if ((entry.make().shape.chips & target.bit) != 0)
          testing::RegisterTest(fmt::format("{}_{}", target.processor, level).c_str(), entry.name, nullptr,
                                nullptr, __FILE__, __LINE__, [&entry, &target, level]() -> testing::Test* {
                                  return new Corpus(entry, target, level);
                                });
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
