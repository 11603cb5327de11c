// What parse_code_object() and LoadedCode make of kernels.hip. The expected numbers follow from its source;
// they agree with `llvm-readelf --notes`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "code_object/code_object.h"
#include "code_object/target.h"
#include "inputs.h"

namespace hipemu {
namespace {

using test::File;

const Kernel& kernel_of(const CodeObject& object, std::string_view name) {
  const auto found = std::find_if(object.kernels.begin(), object.kernels.end(),
                                  [&](const Kernel& k) { return k.name == name; });
  if (found == object.kernels.end()) throw std::runtime_error("no kernel " + std::string(name));
  return *found;
}

class EveryVersion : public testing::TestWithParam<int> {};

TEST_P(EveryVersion, KernelsAreAsInTheSource) {
  const std::string name = "v" + std::to_string(GetParam()) + ".co";
  LOAD_INPUT(file, name);
  const CodeObject object = parse_code_object(file);
  EXPECT_EQ(object.target, "gfx1100");
  EXPECT_EQ(object.processor(), "gfx1100");
  EXPECT_EQ(object.abi_version, GetParam());
  EXPECT_EQ(code_object_target(file), "gfx1100");
  ASSERT_EQ(object.kernels.size(), 6u);

  const Kernel& axpy = kernel_of(object, "axpy");
  EXPECT_EQ(axpy.symbol, "axpy.kd");
  ASSERT_EQ(axpy.arguments.size(), 4u);
  const uint32_t offsets[] = {0, 4, 8, 16}, sizes[] = {4, 4, 8, 8};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(axpy.arguments[i].offset, offsets[i]);
    EXPECT_EQ(axpy.arguments[i].size, sizes[i]);
    EXPECT_EQ(axpy.arguments[i].kind, i < 2 ? "by_value" : "global_buffer");
    EXPECT_FALSE(axpy.arguments[i].hidden());
  }
  EXPECT_EQ(axpy.descriptor.kernarg_size, 24u);
  EXPECT_EQ(axpy.explicit_argument_bytes(), 24u);
  EXPECT_EQ(axpy.kernarg_align, 8u);
  EXPECT_EQ(axpy.wavefront_size, 32u);
  EXPECT_TRUE(axpy.descriptor.wave32());
  EXPECT_EQ(axpy.max_flat_workgroup_size, 1024u);
  EXPECT_TRUE(axpy.descriptor.workgroup_id_enabled(0));
  EXPECT_FALSE(axpy.descriptor.private_segment_enabled());
  EXPECT_EQ(axpy.descriptor.user_sgpr_count(), 15u);  // padded by LLVM, so that the block index is in s15

  const Kernel& reverse = kernel_of(object, "_Z7reversePf");
  EXPECT_EQ(reverse.descriptor.group_segment_size, 1024u);
  EXPECT_EQ(reverse.max_flat_workgroup_size, 256u);

  const Kernel& hidden = kernel_of(object, "hidden");
  EXPECT_EQ(hidden.explicit_argument_bytes(), 64u);
  EXPECT_EQ(hidden.arguments[1].offset, 8u);
  EXPECT_EQ(hidden.arguments[1].size, 48u);
  EXPECT_GE(hidden.descriptor.private_segment_size, 512u);
  EXPECT_TRUE(hidden.descriptor.private_segment_enabled());
  const auto first_hidden = std::find_if(hidden.arguments.begin(), hidden.arguments.end(),
                                         [](const auto& a) { return a.hidden(); });
  ASSERT_NE(first_hidden, hidden.arguments.end());
  EXPECT_EQ(first_hidden->offset, 64u);
  EXPECT_EQ(first_hidden->kind, GetParam() == 4 ? "hidden_global_offset_x" : "hidden_block_count_x");
  EXPECT_EQ(hidden.descriptor.kernarg_size, GetParam() == 4 ? 64u + 56 : 64u + 256);

  EXPECT_EQ(kernel_of(object, "registers").vgpr_count, 41u);
}

INSTANTIATE_TEST_SUITE_P(CodeObject, EveryVersion, testing::Values(4, 5, 6));

TEST(CodeObject, AccumulationRegistersFollowTheVectorRegisters) {
  LOAD_INPUT(file, "gfx90a.co");
  const CodeObject object = parse_code_object(file);
  const Kernel& kernel = kernel_of(object, "registers");
  EXPECT_EQ(kernel.agpr_count, 8u);
  EXPECT_EQ(kernel.vgpr_count, 52u);
  EXPECT_EQ(kernel.wavefront_size, 64u);
  EXPECT_FALSE(kernel.descriptor.wave32());
}

TEST(CodeObject, TargetsWithFeatures) {
  const std::pair<const char*, const char*> expected[] = {
      {"gfx90a.co", "gfx90a"},         {"gfx90a_xnack_off.co", "gfx90a:xnack-"},
      {"gfx942.co", "gfx942"},         {"gfx90a_xnack_on.co", "gfx90a:sramecc+:xnack+"},
      {"generic.co", "gfx11-generic"}, {"gfx1030.co", "gfx1030"},
      {"gfx1201.co", "gfx1201"},
  };
  for (const auto& [name, target] : expected) {
    LOAD_INPUT(file, name);
    EXPECT_EQ(parse_code_object(file).target, target);
    EXPECT_EQ(code_object_target(file), target);
  }
}

TEST(CodeObject, VariablesAndRelocations) {
  LOAD_INPUT(file, "v5.co");
  const CodeObject object = parse_code_object(file);
  std::set<std::string> names;
  for (const GlobalVariable& variable : object.variables)
    if (!variable.name.starts_with("__hip_cuid")) names.insert(variable.name);
  EXPECT_EQ(names, (std::set<std::string>{"table", "scale", "pointer_to_scale", "zeros"}));
  ASSERT_EQ(object.relocations.size(), 1u);
  EXPECT_EQ(object.relocations[0].type, 13u);

  const LoadedCode code(object, file);
  const auto pointer = [&](const char* name) {
    return reinterpret_cast<std::byte*>(code.find_variable(name)->address);
  };
  EXPECT_EQ(code.find_variable("zeros")->size, 4000u);
  EXPECT_EQ(code.find_variable("nothing"), nullptr);
  int table[4];
  std::memcpy(table, pointer("table"), sizeof table);
  EXPECT_EQ(table[0], 11);
  EXPECT_EQ(table[3], 44);
  float scale;
  std::memcpy(&scale, pointer("scale"), 4);
  EXPECT_EQ(scale, 2.5f);
  std::byte* target;
  std::memcpy(&target, pointer("pointer_to_scale"), 8);
  EXPECT_EQ(target, pointer("scale"));
  for (int i = 0; i < 4000; ++i) ASSERT_EQ(pointer("zeros")[i], std::byte{0});
  std::memset(pointer("zeros"), 1, 4000);  // variables can be written
}

TEST(LoadedCode, AddressesAreRebased) {
  LOAD_INPUT(file, "v5.co");
  const CodeObject object = parse_code_object(file);
  const LoadedCode code(object, file);
  EXPECT_EQ(code.target(), "gfx1100");
  ASSERT_EQ(code.kernels().size(), object.kernels.size());
  for (std::size_t i = 0; i < object.kernels.size(); ++i) {
    const Kernel& loaded = code.kernels()[i];
    const auto* entry = reinterpret_cast<const std::byte*>(loaded.entry);
    EXPECT_EQ(code.find_kernel(loaded.name), &loaded);
    EXPECT_EQ(code.virtual_address(entry), object.kernels[i].entry);
    EXPECT_GE(entry, code.code().data());
    EXPECT_LT(entry, code.code().data() + code.code().size());
    EXPECT_EQ(loaded.entry % 256, 0u);
    // The instructions are those of the file.
    for (const Segment& segment : object.segments) {
      if (!segment.executable) continue;
      EXPECT_EQ(std::memcmp(entry, segment.bytes.data() + (object.kernels[i].entry - segment.address), 64),
                0);
    }
  }
  EXPECT_EQ(code.find_kernel("none"), nullptr);
  EXPECT_GE(code.code().data(), code.image().data());
}

TEST(LoadedCode, SourceLines) {
  LOAD_INPUT(file, "debug.co");
  const LoadedCode code(parse_code_object(file), file);
  const Kernel* kernel = code.find_kernel("axpy");
  ASSERT_NE(kernel, nullptr);
  const std::string line = code.source_line(reinterpret_cast<const void*>(kernel->entry));
  if (line.empty()) GTEST_SKIP() << "no llvm-symbolizer";
  EXPECT_NE(line.find("kernels.hip:"), std::string::npos) << line;
  EXPECT_EQ(code.source_line(reinterpret_cast<const void*>(kernel->entry)), line);

  LOAD_INPUT(plain, "v5.co");
  const LoadedCode without(parse_code_object(plain), plain);
  EXPECT_EQ(without.source_line(reinterpret_cast<const void*>(without.find_kernel("axpy")->entry)), "");
}

TEST(TargetId, TextAndBack) {
  EXPECT_EQ(parse_target_id("gfx90a:xnack-:sramecc+").text(), "gfx90a:sramecc+:xnack-");
  EXPECT_EQ(parse_target_id("gfx1100").text(), "gfx1100");
  for (const char* bad : {"", "sm_90", "gfx90a:", "gfx90a:xnack", "gfx90a:+", "gfx90a:xnack+:xnack-",
                          "gfx90a:wide+", "gfx 90a"})
    EXPECT_THROW(parse_target_id(bad), CodeObjectError) << bad;
}

TEST(TargetId, Suitability) {
  const auto score = [](const char* code, const char* chip) {
    return suitability(parse_target_id(code), parse_target_id(chip));
  };
  EXPECT_FALSE(score("gfx1100", "gfx1101"));
  EXPECT_FALSE(score("gfx90a:xnack+", "gfx90a:sramecc+:xnack-"));
  EXPECT_TRUE(score("gfx90a", "gfx90a:sramecc+:xnack-"));
  EXPECT_GT(score("gfx90a:xnack-", "gfx90a:sramecc+:xnack-"), score("gfx90a", "gfx90a:sramecc+:xnack-"));
  EXPECT_GT(score("gfx90a:xnack-", "gfx90a"), score("gfx90a:xnack+", "gfx90a"));
  EXPECT_TRUE(score("gfx11-generic", "gfx1151"));
  EXPECT_FALSE(score("gfx11-generic", "gfx1201"));
  EXPECT_FALSE(score("gfx9-generic", "gfx90a"));
  EXPECT_TRUE(score("gfx9-4-generic", "gfx942:sramecc+:xnack-"));
  EXPECT_GT(score("gfx1100", "gfx1100"), score("gfx11-generic", "gfx1100"));
}

}  // namespace
}  // namespace hipemu
