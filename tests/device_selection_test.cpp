// Which device a name means, and where the drivers look for their libraries.
#include <gtest/gtest.h>

#include <map>

#include "device/selection.h"
#include "expect_error.h"
#include "gpu/driver/library.h"
#include "hearth/error.h"
#include "temporary_folder.h"

namespace hearth {
namespace {

DeviceInfo gpu(DeviceKind kind, int index, const char* architecture, const char* address, bool integrated) {
  return {.device = {kind, static_cast<std::uint8_t>(index)},
          .name = "Some GPU",
          .architecture = architecture,
          .integrated = integrated,
          .pci_address = address};
}

// A desktop: the processor's graphics first, as drivers like to number them, then two cards.
const std::vector<DeviceInfo> desktop = {gpu(DeviceKind::rocm, 0, "gfx1036", "0000:0e:00.0", true),
                                         gpu(DeviceKind::rocm, 1, "gfx1100", "0000:03:00.0", false),
                                         gpu(DeviceKind::cuda, 0, "sm_90", "0001:07:00.0", false)};

DeviceChoices choices(std::vector<DeviceInfo> gpus) {
  return {[gpus] { return gpus; },
          [](DeviceKind kind) {
            return kind == DeviceKind::rocm ? std::string("no libamdhip64 was found")
                                            : std::string("no libcuda was found");
          }};
}

std::string chosen(std::string_view name, std::vector<DeviceInfo> gpus = desktop) {
  return to_string(select_device(name, choices(std::move(gpus))));
}

std::string message(std::string_view name, std::vector<DeviceInfo> gpus = desktop) {
  try {
    return "chose " + chosen(name, std::move(gpus));
  } catch (const DeviceUnavailable& error) {
    return std::string("unavailable: ") + error.what();
  } catch (const ValueError& error) {
    return std::string("value: ") + error.what();
  }
}

TEST(SelectDevice, ByKindAndNumber) {
  EXPECT_EQ(chosen("cpu"), "cpu");
  EXPECT_EQ(chosen("rocm"), "rocm:0");
  EXPECT_EQ(chosen("rocm:1"), "rocm:1");
  EXPECT_EQ(chosen("CUDA:0"), "cuda:0");
}

TEST(SelectDevice, TheCpuOpensNoDriver) {
  const DeviceChoices none{[]() -> std::vector<DeviceInfo> { throw std::logic_error("asked"); }, {}};
  EXPECT_EQ(to_string(select_device("cpu", none)), "cpu");
}

TEST(SelectDevice, IntegratedGpusComeLast) {
  EXPECT_EQ(chosen("gpu"), "rocm:1");
  EXPECT_EQ(chosen("auto"), "rocm:1");
  EXPECT_EQ(chosen("gpu", {desktop[0]}), "rocm:0");
  EXPECT_EQ(chosen("auto", {desktop[0]}), "cpu");
  EXPECT_EQ(chosen("auto", {}), "cpu");
}

TEST(SelectDevice, ByAddressAndArchitecture) {
  EXPECT_EQ(chosen("0000:03:00.0"), "rocm:1");
  EXPECT_EQ(chosen("03:00.0"), "rocm:1");
  EXPECT_EQ(chosen("0E:00.0"), "rocm:0");
  EXPECT_EQ(chosen("0001:07:00.0"), "cuda:0");
  EXPECT_EQ(chosen("gfx1036"), "rocm:0");
  EXPECT_EQ(chosen("sm_90"), "cuda:0");
}

TEST(SelectDevice, AWrongNameListsWhatThereIs) {
  for (const char* name : {"", "abacus", "rocm:", "rocm:x", "rocm:-1", "cuda:256", "cpu:1", "gpu:0", "3:00.0",
                           "03:00.8", "03-00.0", "0g:00.0", "00:03:00.0"}) {
    const std::string text = message(name);
    EXPECT_TRUE(text.starts_with("value: ")) << name << ": " << text;
    EXPECT_NE(text.find("rocm:1 (Some GPU, gfx1100, at 0000:03:00.0)"), std::string::npos) << text;
  }
  for (const char* name : {"rocm:2", "cuda:1", "gfx942", "sm_80", "04:00.0", "0001:03:00.0", "03:00.1"}) {
    const std::string text = message(name);
    EXPECT_TRUE(text.starts_with("unavailable: ")) << name << ": " << text;
    EXPECT_NE(text.find("gfx1036, at 0000:0e:00.0, integrated"), std::string::npos) << text;
  }
}

TEST(SelectDevice, AMissingLibraryIsTheReason) {
  EXPECT_NE(message("rocm", {}).find("no libamdhip64 was found"), std::string::npos);
  EXPECT_NE(message("cuda", {desktop[0]}).find("no libcuda was found"), std::string::npos);
  const std::string both = message("gpu", {});
  EXPECT_NE(both.find("libamdhip64"), std::string::npos) << both;
  EXPECT_NE(both.find("libcuda"), std::string::npos) << both;
}

class Folders : public testing::Test {
 protected:
  std::vector<std::string> found() const {
    std::vector<std::string> names;
    for (const auto& folder : gpu::rocm_library_folders({root.path(), [this](const char* name) {
                                                           const auto value = variables.find(name);
                                                           return value == variables.end() ? ""
                                                                                           : value->second;
                                                         }}))
      names.push_back(folder.empty() ? "(loader)" : folder.lexically_relative(root.path()).string());
    return names;
  }
  std::string make(const char* name) const {
    std::filesystem::create_directories(root / name);
    return (root / name).string();
  }
  test::TemporaryFolder root;
  std::map<std::string, std::string> variables;
};

TEST_F(Folders, WhatTheUserNamedComesFirst) {
  make("opt/rocm/lib");
  make("opt/rocm/core-7.9/lib");
  make("opt/rocm/core-7.10/lib");
  make("opt/rocm-6.4.1/lib");
  make("opt/rocm-5.7.0/lib");
  make("mine/lib");
  variables["ROCM_PATH"] = (root / "mine").string();
  variables["LD_LIBRARY_PATH"] = make("loaded") + "::/nowhere";
  variables["VIRTUAL_ENV"] = (root / "venv").string();
  make("venv/lib/python3.12/site-packages/_rocm_sdk_core/lib");
  EXPECT_EQ(found(),
            (std::vector<std::string>{"mine/lib", "loaded", "opt/rocm/lib", "opt/rocm/core-7.10/lib",
                                      "opt/rocm/core-7.9/lib", "opt/rocm-6.4.1/lib", "opt/rocm-5.7.0/lib",
                                      "(loader)", "venv/lib/python3.12/site-packages/_rocm_sdk_core/lib"}));
}

TEST_F(Folders, AFolderIsSearchedOnce) {
  variables["ROCM_PATH"] = (root / "opt/rocm").string();
  make("opt/rocm/lib");
  EXPECT_EQ(found(), (std::vector<std::string>{"opt/rocm/lib", "(loader)"}));
}

TEST_F(Folders, FailedOpensAreKept) {
  const auto broken = root.put("libbroken.so", "not a library");
  std::vector<gpu::OpenAttempt> attempts;
  const gpu::Library library({(root / "missing.so").string(), broken.string(), "libno-such-thing.so.1"},
                             attempts);
  EXPECT_FALSE(library);
  ASSERT_EQ(attempts.size(), 2u);  // what does not exist is not worth a line
  EXPECT_EQ(attempts[0].name, broken.string());
  EXPECT_FALSE(attempts[0].problem.empty());
}

}  // namespace
}  // namespace hearth
