// The `hearth` command as a user or a script meets it: output, errors, exit statuses.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "temporary_folder.h"

namespace hearth {
namespace {

struct Ran {
  int status = -1;
  std::string output, errors;
};

Ran run(const std::string& arguments) {
#ifdef HEARTH_COMMAND
  const test::TemporaryFolder folder;
  const std::string command = std::string("'") + HEARTH_COMMAND + "' " + arguments + " >'" +
                              (folder / "output").string() + "' 2>'" + (folder / "errors").string() + "'";
  const auto contents = [&](const char* name) {
    std::ifstream file(folder / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  Ran ran;
  const int status = std::system(command.c_str());
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.output = contents("output");
  ran.errors = contents("errors");
  return ran;
#else
  (void)arguments;
  return {};
#endif
}

class Command : public testing::Test {
 protected:
  void SetUp() override {
#ifndef HEARTH_COMMAND
    GTEST_SKIP() << "the hearth command was not built";
#endif
  }
};

TEST_F(Command, VersionAndHelp) {
  const Ran version = run("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.output.starts_with("hearth ")) << version.output;
  EXPECT_TRUE(version.errors.empty());
  for (const char* arguments :
       {"--help", "demo --help", "train --help", "train mnist --help", "devices --help", "tune --help"}) {
    const Ran help = run(arguments);
    EXPECT_EQ(help.status, 0) << arguments;
    EXPECT_NE(help.output.find("Usage:"), std::string::npos) << help.output;
  }
}

TEST_F(Command, WrongUseIsStatus2) {
  for (const char* arguments :
       {"", "nonsense", "--nonsense", "train", "train mnist --epochs 0", "train mnist --lr -1",
        "train mnist --precision f8", "train mnist --resume", "devices more", "tune --show --clear",
        "tune --model none", "tune --shapes 1,2"}) {
    const Ran wrong = run(arguments);
    EXPECT_EQ(wrong.status, 2) << arguments;
    EXPECT_TRUE(wrong.errors.starts_with("hearth: error: ")) << wrong.errors;
    EXPECT_NE(wrong.errors.find("--help"), std::string::npos);
    EXPECT_TRUE(wrong.output.empty()) << wrong.output;
  }
}

TEST_F(Command, TuningIsShownAndForgotten) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "hearth");
  std::ofstream(folder / "hearth" / "tuning.json")
      << R"({"format": 1, "unfinished": [], "trusted": [], "entries": {"chip matmul f32 9x9x9 nn": {
             "seconds": {"own": 2e-6, "library #0": 1e-6}, "kernels": "x", "exhaustive": false}}})";
  setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  const Ran shown = run("tune --show");
  EXPECT_EQ(shown.status, 0) << shown.errors;
  EXPECT_NE(shown.output.find("library #0"), std::string::npos) << shown.output;
  const Ran json = run("tune --show --json");
  EXPECT_EQ(nlohmann::json::parse(json.output)["statistics"]["entries"], 1);
  EXPECT_EQ(run("tune --clear").status, 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "hearth" / "tuning.json"));
  EXPECT_EQ(run("tune --device cpu").status, 1);
  unsetenv("XDG_CACHE_HOME");
}

TEST_F(Command, FailuresAreStatus1) {
  const test::TemporaryFolder empty;
  const Ran data = run("train mnist --data '" + empty.path().string() + "'");
  EXPECT_EQ(data.status, 1);
  EXPECT_TRUE(data.errors.starts_with("hearth: error: " + empty.path().string())) << data.errors;
  const Ran device = run("train mnist --device abacus");
  EXPECT_EQ(device.status, 1);
  EXPECT_TRUE(device.errors.starts_with("hearth: error: ")) << device.errors;
}

TEST_F(Command, ListsDevices) {
  const Ran table = run("devices");
  EXPECT_EQ(table.status, 0);
  EXPECT_NE(table.output.find("cpu"), std::string::npos);
  const auto json = nlohmann::json::parse(run("devices --json").output);
  ASSERT_GE(json.size(), 1u);
  EXPECT_EQ(json[0]["device"], "cpu");
  EXPECT_GT(json[0]["total_memory"].get<std::uint64_t>(), 0u);
}

}  // namespace
}  // namespace hearth
