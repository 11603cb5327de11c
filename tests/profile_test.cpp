// Where the time goes: steps, regions, the table and the trace.
#include "hearth/profile.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "hearth/config.h"
#include "hearth/error.h"
#include "hearth/ops.h"
#include "temporary_folder.h"

namespace hearth {
namespace {

class ProfileTest : public testing::Test {
 protected:
  ProfileTest() {
    Config config = before_;
    config.enable_profiling = true;
    set_config(config);
    clear_profile();
  }
  ~ProfileTest() override {
    set_config(before_);
    clear_profile();
  }
  static void sleep(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }

 private:
  Config before_ = config();
};

TEST_F(ProfileTest, RegionsNest) {
  {
    const ProfileRegion epoch("epoch");
    for (int i = 0; i < 3; ++i) {
      const ProfileRegion forward("forward");
      sleep(2);
      matmul(ones({8, 8}), ones({8, 8})).eval();
    }
    const ProfileRegion backward("backward");
  }
  { const ProfileRegion forward("forward"); }
  const Profile regions = profile_regions();
  ASSERT_EQ(regions.size(), 4u);
  EXPECT_EQ(regions.find("epoch")->second.count, 1u);
  EXPECT_EQ(regions.find("epoch/forward")->second.count, 3u);
  EXPECT_EQ(regions.find("epoch/backward")->second.count, 1u);
  EXPECT_EQ(regions.find("forward")->second.count, 1u);
  EXPECT_GE(regions.find("epoch/forward")->second.shortest, 2e-3);
  EXPECT_GE(regions.find("epoch")->second.total, regions.find("epoch/forward")->second.total);
  EXPECT_EQ(profile_summary().find("matmul")->second.count, 3u);
}

TEST_F(ProfileTest, NamesAreTakenAsTheyAre) {
  {
    const ProfileRegion odd("a/b");
    const ProfileRegion inner("\xff\"c\n");
  }
  const ProfileRegion plain("d");
  EXPECT_TRUE(profile_regions().contains("a/b"));
  EXPECT_TRUE(profile_regions().contains("a/b/\xff\"c\n"));
  const test::TemporaryFolder folder;
  EXPECT_NO_THROW(write_profile_trace(folder.path() / "trace.json"));
}

TEST_F(ProfileTest, ThreadsHaveRegionsOfTheirOwn) {
  const ProfileRegion outer("outer");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int k = 0; k < 100; ++k) {
        const ProfileRegion a("worker");
        const ProfileRegion b("inner");
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(profile_regions().find("worker/inner")->second.count, 400u);
}

TEST_F(ProfileTest, NothingIsRecordedWithoutProfiling) {
  set_config({});
  { const ProfileRegion region("quiet"); }
  EXPECT_TRUE(profile_regions().empty());
}

TEST_F(ProfileTest, TheTableShowsRegionsWithinRegions) {
  {
    const ProfileRegion epoch("epoch");
    const ProfileRegion forward("forward");
    matmul(ones({8, 8}), ones({8, 8})).eval();
  }
  { const ProfileRegion other("epoch-two"); }
  const std::string table = profile_table();
  const auto epoch = table.find("\nepoch "), forward = table.find("\n  forward "),
             other = table.find("\nepoch-two "), step = table.find("\n[matmul] ");
  EXPECT_LT(epoch, forward);
  EXPECT_LT(forward, other) << table;
  EXPECT_LT(other, step);
  EXPECT_NE(step, std::string::npos) << table;
}

TEST_F(ProfileTest, TheTraceHoldsEverySpan) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "trace.json";
  {
    const ProfileRegion epoch("epoch");
    const ProfileRegion forward("forward");
    matmul(ones({8, 8}), ones({8, 8})).eval();
  }
  write_profile_trace(path);
  std::ifstream file(path);
  const auto trace = nlohmann::json::parse(file);
  std::map<std::string, nlohmann::json> events;
  for (const auto& event : trace["traceEvents"]) events[event["name"]] = event;
  const auto& outer = events.at("epoch");
  for (const char* name : {"forward", "matmul"}) {
    const auto& inner = events.at(name);
    EXPECT_EQ(inner["ph"], "X");
    EXPECT_EQ(inner["tid"], outer["tid"]);
    EXPECT_GE(inner["ts"].get<double>(), outer["ts"].get<double>());
    EXPECT_LE(inner["ts"].get<double>() + inner["dur"].get<double>(),
              outer["ts"].get<double>() + outer["dur"].get<double>() + 1e-3);
  }
  EXPECT_EQ(events.at("forward")["cat"], "region");
  EXPECT_EQ(events.at("matmul")["cat"], "step");
  EXPECT_THROW(write_profile_trace(folder.path() / "no such folder" / "trace.json"), FileError);
}

}  // namespace
}  // namespace hearth
