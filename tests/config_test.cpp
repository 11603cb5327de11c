// The configuration: every option has an effect, wrong values are refused by name.
#include <gtest/gtest.h>

#include "hearth/config.h"
#include "hearth/device.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/nn.h"
#include "hearth/ops.h"
#include "hearth/precision.h"
#include "hearth/profile.h"
#include "hearth/random.h"

namespace hearth {
namespace {

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override { before_ = config(); }
  void TearDown() override { set_config(before_); }
  void set(const std::map<std::string, std::string>& options) {
    set_config(config_from_text(options, before_));
  }

 private:
  Config before_;
};

void expect_config_error(const std::map<std::string, std::string>& options, const std::string& named) {
  try {
    config_from_text(options);
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
  }
}

TEST_F(ConfigTest, WrongValuesAreRefusedByName) {
  expect_config_error({{"optimization_level", "fast"}}, "optimization_level");
  expect_config_error({{"max_memory_fraction", "1.5"}}, "max_memory_fraction");
  expect_config_error({{"max_memory_fraction", "0"}}, "max_memory_fraction");
  expect_config_error({{"max_memory_gb", "-1"}}, "max_memory_gb");
  expect_config_error({{"pinned_pool_size_mb", "0"}}, "pinned_pool_size_mb");
  expect_config_error({{"max_in_flight_gb", "0"}}, "max_in_flight_gb");
  expect_config_error({{"device_timeout_s", "0"}}, "device_timeout_s");
  expect_config_error({{"memory_pool_size_gb", "nan"}}, "memory_pool_size_gb");
  expect_config_error({{"threads", "-2"}}, "threads");
  expect_config_error({{"threads", "1.5"}}, "threads");
  expect_config_error({{"enable_profiling", "maybe"}}, "enable_profiling");
  expect_config_error({{"default_precision", "fp64"}}, "default_precision");
  expect_config_error({{"default_precision", "fp16"}, {"allow_fp16", "false"}}, "allow_fp16");
  expect_config_error({{"memory_pool_size_gb", "many"}}, "memory_pool_size_gb");
}

TEST_F(ConfigTest, UnknownNamesSuggestTheNearest) {
  expect_config_error({{"enable_operator_fusoin", "true"}}, "did you mean enable_operator_fusion?");
}

TEST_F(ConfigTest, SetConfigRefusesAndKeepsTheOldOne) {
  Config bad = config();
  bad.max_memory_fraction = -1;
  EXPECT_THROW(set_config(bad), ConfigError);
  EXPECT_GT(config().max_memory_fraction, 0);
}

TEST_F(ConfigTest, OperatorFusion) {
  const Tensor x = randn({16}).eval();
  set({{"enable_operator_fusion", "false"}});
  (x * 2 + 1).eval();
  EXPECT_EQ(last_plan_stats().steps, 2u);
  set({});
  (x * 2 + 1).eval();
  EXPECT_EQ(last_plan_stats().steps, 1u);
}

TEST_F(ConfigTest, MemoryPooling) {
  set({{"enable_memory_pooling", "false"}});
  empty_cache();
  { copy(zeros({1000})).eval(); }
  EXPECT_EQ(memory_stats().reserved, memory_stats().allocated);
  set({});
  { copy(zeros({1000})).eval(); }
  EXPECT_GT(memory_stats().reserved, memory_stats().allocated);
  set({{"memory_pool_size_gb", "0"}});
  EXPECT_EQ(memory_stats().reserved, memory_stats().allocated);
}

TEST_F(ConfigTest, MemoryLimit) {
  const std::size_t total = device_info(Device{}).total_memory;
  const double fraction = 1e8 / static_cast<double>(total);  // 100 MB
  set({{"max_memory_fraction", std::to_string(fraction)}});
  EXPECT_THROW(copy(zeros({200 << 20}, DType::u8)).eval(), OutOfMemory);
  EXPECT_NO_THROW(copy(zeros({1000})).eval());
  set({{"max_memory_gb", "0.1"}});
  EXPECT_THROW(copy(zeros({200 << 20}, DType::u8)).eval(), OutOfMemory);
  set({{"max_memory_fraction", std::to_string(fraction)}, {"enable_oom_protection", "false"}});
  EXPECT_NO_THROW(copy(zeros({200 << 20}, DType::u8)).eval());
}

TEST_F(ConfigTest, Precision) {
  nn::Linear layer(4, 4);
  const Tensor x = randn({2, 4});
  const auto low_steps = [&] { return explain({layer(x)}).find("cast") != std::string::npos; };
  EXPECT_FALSE(low_steps());
  set({{"default_precision", "bf16"}});
  EXPECT_EQ(Autocast::active(), DType::bf16);
  EXPECT_TRUE(low_steps());
  set({{"default_precision", "bf16"}, {"enable_mixed_precision", "false"}});
  EXPECT_FALSE(low_steps());
  set({{"allow_fp16", "false"}});
  EXPECT_THROW(Autocast{DType::f16}, ConfigError);
  EXPECT_NO_THROW(Autocast{DType::bf16});
  set({{"allow_bf16", "false"}});
  EXPECT_THROW(Autocast{DType::bf16}, ConfigError);
}

TEST_F(ConfigTest, Profiling) {
  clear_profile();
  matmul(ones({8, 8}), ones({8, 8})).eval();
  EXPECT_TRUE(profile_summary().empty());
  set({{"enable_profiling", "true"}});
  matmul(ones({8, 8}), ones({8, 8})).eval();
  const auto summary = profile_summary();
  ASSERT_TRUE(summary.contains("matmul"));
  EXPECT_EQ(summary.find("matmul")->second.count, 1u);
  EXPECT_GT(summary.find("matmul")->second.total, 0.0);
}

TEST_F(ConfigTest, StrictValidation) {
  set({{"enable_strict_validation", "true"}});
  EXPECT_THROW(log(full({3}, -1.0)).eval(), KernelError);
  set({});
  EXPECT_NO_THROW(log(full({3}, -1.0)).eval());
}

TEST_F(ConfigTest, Threads) {
  set({{"threads", "1"}});
  EXPECT_EQ(device_info(Device{}).compute_units, 1);
  set({{"threads", "3"}});
  EXPECT_EQ(device_info(Device{}).compute_units, 3);
}

TEST_F(ConfigTest, Tuning) {
  expect_config_error({{"enable_tuning", "perhaps"}}, "enable_tuning");
  expect_config_error({{"enable_matrix_cores", "2"}}, "enable_matrix_cores");
  expect_config_error({{"vendor_blas_enabled", ""}}, "vendor_blas_enabled");
  expect_config_error({{"vendor_dnn_enabled", "some"}}, "vendor_dnn_enabled");
  expect_config_error({{"miopen_find_mode", "slow"}}, "fast, hybrid, normal");
  const Config read = config_from_text({{"enable_tuning", "on"},
                                        {"enable_matrix_cores", "off"},
                                        {"vendor_blas_enabled", "off"},
                                        {"vendor_dnn_enabled", "off"},
                                        {"miopen_find_mode", "NORMAL"},
                                        {"tuning_file", "/tmp/t.json"}});
  EXPECT_TRUE(read.enable_tuning);
  EXPECT_FALSE(read.enable_matrix_cores);
  EXPECT_FALSE(read.vendor_blas_enabled);
  EXPECT_FALSE(read.vendor_dnn_enabled);
  EXPECT_EQ(read.miopen_find_mode, MiopenFindMode::normal);
  EXPECT_EQ(read.tuning_file, "/tmp/t.json");
  // Plans made with other options are not taken for these: tests of the GPU show what they do there.
  clear_plan_cache();
  const auto plans = [] {
    (ones({11}) * 2).eval();
    return plan_cache_stats().entries;
  };
  EXPECT_EQ(plans(), 1u);
  set({{"enable_matrix_cores", "off"}});
  EXPECT_EQ(plans(), 2u);
  set({{"vendor_blas_enabled", "off"}});
  EXPECT_EQ(plans(), 3u);
  set({{"enable_tuning", "on"}});
  EXPECT_EQ(plans(), 4u);
  set({{"vendor_dnn_enabled", "off"}});
  EXPECT_EQ(plans(), 5u);
}

TEST_F(ConfigTest, PlanCache) {
  set({{"plan_cache_entries", "0"}});
  clear_plan_cache();
  for (int i = 0; i < 3; ++i) (ones({7}) * 2).eval();
  EXPECT_EQ(plan_cache_stats().hits, 0u);
  EXPECT_EQ(plan_cache_stats().entries, 0u);
}

}  // namespace
}  // namespace hearth
