// Devices: which there are, what they say about themselves, and what the environment decides.
#include <cstring>
#include <thread>

#include "hip_library.h"

using namespace hip_test;

namespace {

TEST(HipDevice, TheDefaultIsOneGfx1100) {
  int count = 0;
  ASSERT_HIP(hipGetDeviceCount(&count));
  EXPECT_EQ(count, 1);
  char name[64];
  ASSERT_HIP(hipDeviceGetName(name, sizeof name, 0));
  EXPECT_STREQ(name, "AMD Radeon RX 7900 XTX");
}

TEST(HipDevice, PropertiesInBothLayoutsAgree) {
  const auto new_layout = symbol<hipError_t(hipDeviceProp_tR0600*, int)>("hipGetDevicePropertiesR0600");
  const auto old_layout = symbol<hipError_t(hipDeviceProp_tR0000*, int)>("hipGetDeviceProperties");
  hipDeviceProp_tR0600 now{};
  hipDeviceProp_tR0000 then{};
  ASSERT_HIP(new_layout(&now, 0));
  ASSERT_HIP(old_layout(&then, 0));
  EXPECT_STREQ(now.gcnArchName, "gfx1100");
  EXPECT_STREQ(then.gcnArchName, "gfx1100");
  EXPECT_EQ(then.gcnArch, 1100);
  EXPECT_EQ(now.totalGlobalMem, then.totalGlobalMem);
  EXPECT_EQ(now.warpSize, 32);
  EXPECT_EQ(then.warpSize, 32);
  EXPECT_EQ(now.major, 11);
  EXPECT_EQ(now.sharedMemPerBlock, 65536u);
  EXPECT_EQ(now.multiProcessorCount, then.multiProcessorCount);
  EXPECT_EQ(new_layout(&now, 1), hipErrorInvalidDevice);
  EXPECT_EQ(new_layout(nullptr, 0), hipErrorInvalidValue);
  EXPECT_EQ(old_layout(&then, -1), hipErrorInvalidDevice);
}

TEST(HipDevice, AttributesHaveTheNumbersOfRocm) {
  const auto attribute = [](int number) {
    int value = -1;
    EXPECT_HIP(hipDeviceGetAttribute(&value, static_cast<hipDeviceAttribute_t>(number), 0));
    return value;
  };
  EXPECT_EQ(attribute(87), 32);     // warp size
  EXPECT_EQ(attribute(63), 48);     // multiprocessors: WGPs
  EXPECT_EQ(attribute(10015), 96);  // compute units
  EXPECT_EQ(attribute(56), 1024);   // threads per block
  EXPECT_EQ(attribute(74), 65536);  // LDS
  EXPECT_EQ(attribute(23), 11);
  EXPECT_EQ(attribute(10), 1);  // cooperative launch
  int value = 0;
  EXPECT_EQ(hipDeviceGetAttribute(&value, static_cast<hipDeviceAttribute_t>(5555), 0), hipErrorInvalidValue);
  EXPECT_EQ(hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, 7), hipErrorInvalidDevice);
}

TEST(HipDevice, TheCurrentDeviceBelongsToTheThread) {
  EXPECT_EQ(hipSetDevice(3), hipErrorInvalidDevice);
  EXPECT_HIP(hipSetDevice(0));
  hipError_t elsewhere = hipSuccess;
  EXPECT_EQ(hipSetDevice(-1), hipErrorInvalidDevice);
  EXPECT_EQ(hipPeekAtLastError(), hipErrorInvalidDevice);
  std::thread([&] { elsewhere = hipPeekAtLastError(); }).join();
  EXPECT_EQ(elsewhere, hipSuccess) << "the last error is that of the thread";
  EXPECT_EQ(hipGetLastError(), hipErrorInvalidDevice);
  EXPECT_EQ(hipGetLastError(), hipSuccess);
}

TEST(HipDevice, ErrorsHaveNamesAndTexts) {
  const auto name = symbol<const char*(hipError_t)>("hipGetErrorName");
  const auto text = symbol<const char*(hipError_t)>("hipGetErrorString");
  EXPECT_STREQ(name(hipErrorIllegalAddress), "hipErrorIllegalAddress");
  EXPECT_STREQ(text(hipSuccess), "no error");
  EXPECT_STREQ(name(static_cast<hipError_t>(4711)), "hipErrorUnknown");
}

TEST(HipDevice, EntryPointsByName) {
  const auto find = symbol<hipError_t(const char*, void**, int, uint64_t, hipDriverProcAddressQueryResult*)>(
      "hipGetProcAddress");
  void* function = nullptr;
  hipDriverProcAddressQueryResult status;
  ASSERT_HIP(find("hipMalloc", &function, 602, 0, &status));
  EXPECT_EQ(function, reinterpret_cast<void*>(hip_test::hipMalloc));
  ASSERT_HIP(find("hipGetDeviceProperties", &function, 602, 0, &status));
  EXPECT_EQ(function, dlsym(library(), "hipGetDevicePropertiesR0600"));
  EXPECT_NE(find("hipNoSuchThing", &function, 602, 0, &status), hipSuccess);
  EXPECT_EQ(status, HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST(HipDevice, EverySonameIsTheSameFile) {
  for (const char* name :
       {"/libamdhip64.so", "/libamdhip64.so.5", "/libamdhip64.so.6", "/libamdhip64.so.7"}) {
    void* other = dlopen((std::string(HIPEMU_LIBRARY_FOLDER) + name).c_str(), RTLD_NOW);
    EXPECT_EQ(other, library()) << name;
  }
}

// What the children report: the names of the devices they see, or the error.
TEST(DISABLED_HipDeviceChild, ListDevices) {
  int count = 0;
  const hipError_t error = hipGetDeviceCount(&count);
  std::string list = error == hipSuccess ? "" : "error " + std::to_string(error);
  for (int device = 0; device < count; ++device) {
    hipDeviceProp_tR0600 properties{};
    symbol<hipError_t(hipDeviceProp_tR0600*, int)>("hipGetDevicePropertiesR0600")(&properties, device);
    list += std::string(properties.gcnArchName) + "@" + std::to_string(properties.pciBusID) + " ";
  }
  std::printf("devices: %s\n", list.c_str());
}

std::string devices_with(std::vector<std::string> environment) {
  const ChildResult child = run_child("DISABLED_HipDeviceChild.ListDevices", environment);
  const size_t at = child.output.find("devices: ");
  if (at == std::string::npos) return child.output;
  return child.output.substr(at + 9, child.output.find('\n', at) - at - 9);
}

TEST(HipDevice, TheEnvironmentNamesTheChips) {
  EXPECT_EQ(devices_with({"HIPEMU=gfx942"}), "gfx942:sramecc+:xnack-@1 ");
  EXPECT_EQ(devices_with({"HIPEMU=gfx1100, gfx90a,gfx1100"}),
            "gfx1100@1 gfx90a:sramecc+:xnack-@2 gfx1100@3 ");
}

TEST(HipDevice, AChipCanGoByAnotherName) {
  EXPECT_EQ(devices_with({"HIPEMU=gfx1100=gfx4711,gfx942"}), "gfx4711@1 gfx942:sramecc+:xnack-@2 ");
}

TEST(HipDevice, AnUnknownChipIsNamed) {
  const ChildResult child = run_child("DISABLED_HipDeviceChild.ListDevices", {"HIPEMU=gfx4711"});
  EXPECT_NE(child.output.find("'gfx4711'"), std::string::npos) << child.output;
  EXPECT_NE(child.output.find("gfx1100"), std::string::npos) << child.output;
  EXPECT_NE(child.output.find("devices: error 100"), std::string::npos) << child.output;
}

TEST(HipDevice, VisibilityFiltersLikeRocm) {
  const std::string chips = "HIPEMU=gfx1100,gfx90a,gfx1030";
  EXPECT_EQ(devices_with({chips, "HIP_VISIBLE_DEVICES=2,0"}), "gfx1030@3 gfx1100@1 ");
  EXPECT_EQ(devices_with({chips, "CUDA_VISIBLE_DEVICES=1"}), "gfx90a:sramecc+:xnack-@2 ");
  // ROCr filters first, HIP counts among what is left.
  EXPECT_EQ(devices_with({chips, "ROCR_VISIBLE_DEVICES=1,2", "HIP_VISIBLE_DEVICES=1"}), "gfx1030@3 ");
  // The first index that is none ends the list.
  EXPECT_EQ(devices_with({chips, "HIP_VISIBLE_DEVICES=1,9,0"}), "gfx90a:sramecc+:xnack-@2 ");
  EXPECT_EQ(devices_with({chips, "HIP_VISIBLE_DEVICES=-1"}), "error 100");
  // Empty says nothing to HIP, and "none" to ROCr.
  EXPECT_EQ(devices_with({chips, "HIP_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=0"}), "gfx1100@1 ");
  EXPECT_EQ(devices_with({chips, "ROCR_VISIBLE_DEVICES="}), "error 100");
}

}  // namespace
