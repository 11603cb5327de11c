// The tuner chooses, refuses, remembers, and survives what it finds on disk.
#include "gpu/tuner.h"

#include <gtest/gtest.h>

#include <fstream>

#include "hearth/config.h"
#include "hearth/error.h"
#include "temporary_folder.h"

namespace hearth::gpu {
namespace {

TuningCandidate right(const std::string& name, double seconds, int* runs = nullptr) {
  const auto count = [runs] {
    if (runs != nullptr) ++*runs;
  };
  return {name, "chip " + name, count, [seconds] { return seconds; }};
}
TuningCandidate own(double seconds) {
  return {"own", "", {}, [seconds] { return seconds; }};
}
TuningCandidate wrong(const std::string& name) {
  return {name, "chip " + name, [] { throw BlasError("differs"); }, [] { return 1e-9; }};
}
TuningCandidate failing(const std::string& name) {
  return {name, "chip " + name, [] {}, []() -> double { throw BlasError("status 7"); }};
}

class TunerTest : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "below" / "tuning.json";
};

TEST_F(TunerTest, TheFastestRightOneIsChosenAndRemembered) {
  const std::vector<TuningCandidate> candidates = {own(3), right("a", 2), wrong("b"), failing("c"),
                                                   right("d", 5)};
  {
    Tuner tuner(file_, "v1");
    EXPECT_FALSE(tuner.find("p"));
    const TuningEntry entry = tuner.measure("p", candidates, false);
    EXPECT_EQ(entry.ranking(), (std::vector<std::string>{"a", "own", "d"}));
    EXPECT_EQ(entry.refused.at("b"), "differs");
    EXPECT_EQ(entry.refused.at("c"), "status 7");
    EXPECT_EQ(tuner.stats().misses, 1u);
    EXPECT_EQ(tuner.stats().tuned, 1u);
  }
  Tuner later(file_, "v1");
  const auto entry = later.find("p");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->ranking().front(), "a");
  EXPECT_EQ(later.stats().hits, 1u);
  EXPECT_EQ(later.stats().entries, 1u);
  EXPECT_EQ(later.stats().refused, 2u);
}

TEST_F(TunerTest, ChecksHappenOncePerProblem) {
  int runs = 0;
  {
    Tuner tuner(file_, "v1");
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(tuner.admit("p", right("a", 1, &runs)));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(tuner.admit("p", wrong("b")));
  }
  Tuner later(file_, "v1");
  EXPECT_TRUE(later.admit("p", right("a", 1, &runs)));
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(later.admit("p", right("b", 1, &runs)));  // refused before
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(later.admit("another", right("b", 1, &runs)));
  EXPECT_EQ(runs, 2);
}

TEST_F(TunerTest, TimesOfOtherKernelsDoNotCount) {
  {
    Tuner tuner(file_, "v1");
    tuner.measure("p", std::vector{own(1), wrong("b")}, false);
  }
  Tuner later(file_, "v2");
  EXPECT_FALSE(later.find("p"));
  EXPECT_FALSE(later.admit("p", right("b", 1)));  // what was refused stays so
}

TEST_F(TunerTest, WhatFailsLaterIsRefused) {
  Tuner tuner(file_, "v1");
  tuner.measure("p", std::vector{own(2), right("a", 1)}, false);
  tuner.refuse("p", "a", "status 1");
  EXPECT_EQ(tuner.find("p")->ranking().front(), "own");
  EXPECT_EQ(Tuner(file_, "v1").find("p")->ranking().front(), "own");
}

TEST_F(TunerTest, DamagedAndForeignFilesAreRebuilt) {
  std::filesystem::create_directories(file_.parent_path());
  for (const char* text : {"", "{", "[]", "{\"format\": 99}", "{\"format\": 1, \"entries\": 3}", "\xff\xfe",
                           "{\"format\": 1, \"entries\": {\"p\": {\"seconds\": {\"a\": \"x\"}}}}"}) {
    std::ofstream(file_) << text;
    testing::internal::CaptureStderr();
    Tuner tuner(file_, "v1");
    EXPECT_NE(testing::internal::GetCapturedStderr().find("warning"), std::string::npos) << text;
    EXPECT_FALSE(tuner.find("p"));
    tuner.measure("p", std::vector{own(1)}, false);
    EXPECT_TRUE(Tuner(file_, "v1").find("p")) << text;
  }
}

TEST_F(TunerTest, AFileThatCannotBeWrittenIsAWarning) {
  std::ofstream(folder_ / "plain") << "x";
  testing::internal::CaptureStderr();
  Tuner tuner(folder_ / "plain" / "tuning.json", "v1");
  tuner.measure("p", std::vector{own(1)}, false);
  tuner.measure("q", std::vector{own(1)}, false);
  EXPECT_TRUE(tuner.find("p"));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("not kept"), std::string::npos);
  EXPECT_EQ(said.find("not kept"), said.rfind("not kept"));
}

TEST_F(TunerTest, TwoProcessesKeepEachOthersEntries) {
  Tuner one(file_, "v1"), two(file_, "v1");
  one.measure("p", std::vector{own(1)}, false);
  two.measure("q", std::vector{own(1)}, false);
  Tuner later(file_, "v1");
  EXPECT_TRUE(later.find("p"));
  EXPECT_TRUE(later.find("q"));
}

TEST_F(TunerTest, ALibraryThatEndsTheProcessIsNotTriedAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "hearth-tuner-death.json";
  const TuningCandidate deadly{"a #0", "chip a", [] { std::abort(); }, {}};
  EXPECT_DEATH(Tuner(file, "v1").admit("p", deadly), "");
  testing::internal::CaptureStderr();
  Tuner later(file, "v1");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("chip a is not used"), std::string::npos);
  EXPECT_FALSE(later.admit("p", deadly));
  EXPECT_FALSE(later.admit("q", deadly));
  EXPECT_TRUE(later.admit("p", right("b", 1)));
  later.clear();
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_TRUE(later.admit("p", right("a", 1)));
  later.clear();
}

TEST_F(TunerTest, ALibraryThatEndsTheProcessWhenAskedIsNotAskedAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "hearth-tuner-asked.json";
  {
    // One that answers has computed nothing yet: it may still end the process later.
    Tuner tuner(file, "v1");
    EXPECT_TRUE(tuner.ask("chip a", [] {}));
    EXPECT_THROW(tuner.ask("chip a", [] { throw DnnError("status 3"); }), DnnError);
    std::string problem;
    EXPECT_TRUE(read_tuning_file(file, problem).unfinished.empty());
    EXPECT_TRUE(read_tuning_file(file, problem).trusted.empty());
  }
  EXPECT_DEATH(Tuner(file, "v1").ask("chip a", [] { std::abort(); }), "");
  testing::internal::CaptureStderr();
  Tuner later(file, "v1");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("chip a is not used"), std::string::npos);
  bool asked = false;
  EXPECT_FALSE(later.ask("chip a", [&] { asked = true; }));
  EXPECT_FALSE(asked);
  EXPECT_FALSE(later.admit("p", right("a", 1)));
  EXPECT_TRUE(later.ask("chip b", [&] { asked = true; }));
  EXPECT_TRUE(asked);
  later.clear();
}

TEST_F(TunerTest, NoMemoryIsNobodysFault) {
  Tuner tuner(file_, "v1");
  const TuningCandidate large{"a", "chip a", [] { throw OutOfMemory("no room", 1, 0); }, {}};
  EXPECT_THROW(tuner.admit("p", large), OutOfMemory);
  EXPECT_TRUE(tuner.admit("p", right("a", 1)));
}

TEST_F(TunerTest, TheConfigurationNamesTheFile) {
  const Config before = config();
  set_config(config_from_text({{"tuning_file", file_.string()}}, before));
  EXPECT_EQ(tuner().file(), file_);
  tuner().measure("p", std::vector{own(1)}, false);
  EXPECT_TRUE(std::filesystem::exists(file_));
  EXPECT_EQ(tuning_stats().entries, 1u);
  set_config(config_from_text({{"tuning_file", "off"}}, before));
  EXPECT_TRUE(tuner().file().empty());
  EXPECT_EQ(tuning_stats().entries, 0u);
  set_config(before);
}

}  // namespace
}  // namespace hearth::gpu
