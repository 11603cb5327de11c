// The command hipemu: what it prints, the environment it makes, its exit codes.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "code_object/elf.h"
#include "inputs.h"

namespace hipemu {
namespace {

#ifdef HIPEMU_TOOL
namespace fs = std::filesystem;
using nlohmann::json;
using test::File;

struct Result {
  int exit_code;
  std::string output;  // stdout and stderr
};

Result run(const std::string& arguments, const std::string& environment = "") {
  // In a sanitizer build the search for leaks takes seconds at the end of each process.
  const std::string command =
      "ASAN_OPTIONS=detect_leaks=0 " + environment + " '" HIPEMU_TOOL "' " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Result result{-1, ""};
  char buffer[4096];
  while (const std::size_t got = fread(buffer, 1, sizeof buffer, pipe)) result.output.append(buffer, got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

// A folder that is gone after the test.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "hipemu-test-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string write(const std::string& name, const File& contents) const {
    std::ofstream(path_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(contents.data()), std::streamsize(contents.size()));
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

json kernel_in(const json& list, std::size_t object, const std::string& name) {
  for (const json& kernel : list.at(object).at("kernels"))
    if (kernel.at("name") == name) return kernel;
  return {};
}

std::string input(const std::string& name) { return std::string(HIPEMU_INPUTS "/") + name; }

TEST(HipemuKernels, OccupancyWorkedOutByHand) {
  LOAD_INPUT(file, "v5.co");
  const Result result = run("kernels --json " + input("v5.co"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const json list = json::parse(result.output);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["target"], "gfx1100");
  // 200 registers are allocated as 216, the next multiple of 24: 1536 / 216 = 7 waves on each of 4 SIMDs,
  // which is room for three blocks of 8 waves.
  json kernel = kernel_in(list, 0, "many_registers");
  EXPECT_EQ(kernel["vgprs"], 200);
  EXPECT_EQ(kernel["occupancy"]["waves_per_simd"], 6);
  EXPECT_EQ(kernel["occupancy"]["limited_by"], "vector registers");
  // 128 KiB hold three blocks of 40 KiB, of 8 waves each, on four SIMDs.
  kernel = kernel_in(list, 0, "much_lds");
  EXPECT_EQ(kernel["lds_bytes"], 40960);
  EXPECT_EQ(kernel["occupancy"]["waves_per_simd"], 6);
  EXPECT_EQ(kernel["occupancy"]["limited_by"], "LDS");
  kernel = kernel_in(list, 0, "_Z7reversePf");
  EXPECT_EQ(kernel["demangled"], "reverse(float*)");
  EXPECT_EQ(kernel["occupancy"]["limited_by"], "the chip");
  EXPECT_EQ(kernel["max_block"], 256);
}

TEST(HipemuKernels, OccupancyOfCdna) {
  LOAD_INPUT(file, "gfx90a.co");
  const json list = json::parse(run("kernels --json " + input("gfx90a.co")).output);
  EXPECT_EQ(kernel_in(list, 0, "many_registers")["occupancy"]["waves_per_simd"], 2);  // 512 / 200
  EXPECT_EQ(kernel_in(list, 0, "much_lds")["occupancy"]["waves_per_simd"],
            1);  // one block, 4 waves on 4 SIMDs
  EXPECT_EQ(kernel_in(list, 0, "registers")["agprs"], 8);
}

TEST(HipemuKernels, Table) {
  LOAD_INPUT(file, "v5.co");
  const Result result = run("kernels " + input("v5.co"));
  EXPECT_NE(result.output.find("gfx1100 (code object version 5, 6 kernels)"), std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find("6/16  vector registers"), std::string::npos) << result.output;
}

// A program for x86-64 with a section .hip_fatbin and nothing else.
File program_with(const File& fatbin) {
  const std::string names = std::string("\0.shstrtab\0.hip_fatbin\0", 23);
  File file(sizeof(elf::Header));
  elf::SectionHeader sections[3] = {};
  sections[1].name = 1;
  sections[1].offset = file.size();
  sections[1].size = names.size();
  test::append(file, std::string_view(names));
  file.resize(128);
  sections[2].name = 11;
  sections[2].type = 1;
  sections[2].offset = file.size();
  sections[2].size = fatbin.size();
  file.insert(file.end(), fatbin.begin(), fatbin.end());
  elf::Header header{};
  std::memcpy(header.magic,
              "\x7f"
              "ELF",
              4);
  header.file_class = 2, header.data = 1, header.version = 1;
  header.type = 2, header.machine = 62, header.section_offset = file.size();
  header.section_entry_size = sizeof(elf::SectionHeader), header.section_count = 3, header.names_index = 1;
  for (const elf::SectionHeader& section : sections) test::append(file, section);
  return test::patched(file, 0, header);
}

TEST(HipemuKernels, ProgramWithSeveralBundles) {
  const Folder folder;
  File fatbin = test::make_bundle({{"host-x86_64-unknown-linux-gnu-", {}},
                                   {"hipv4-amdgcn-amd-amdhsa--gfx1100", test::seed("axpy_gfx1100.co")},
                                   {"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", test::seed("axpy_gfx90a.co")}});
  fatbin.resize((fatbin.size() + 4095) / 4096 * 4096);
  const File second = test::seed("zstd_v2.hipfb");
  fatbin.insert(fatbin.end(), second.begin(), second.end());
  const std::string program = folder.write("program", program_with(fatbin));
  const json all = json::parse(run("kernels --json " + program).output);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["target"], "gfx1100");
  EXPECT_EQ(all[1]["target"], "gfx90a:xnack-");
  EXPECT_EQ(all[2]["target"], "gfx1100");
  EXPECT_EQ(json::parse(run("kernels --json --arch gfx90a " + program).output).size(), 1u);
  EXPECT_EQ(json::parse(run("kernels --json --arch gfx1100 " + program).output).size(), 2u);
  const Result none = run("kernels --arch gfx1030 " + program);
  EXPECT_EQ(none.exit_code, 125);
  EXPECT_NE(none.output.find("no code for gfx1030"), std::string::npos) << none.output;
  EXPECT_NE(none.output.find("gfx1100, gfx90a:xnack-"), std::string::npos) << none.output;
}

TEST(HipemuKernels, FilesThatHaveNone) {
  const Folder folder;
  const std::pair<std::string, const char*> cases[] = {
      {"/nonexistent", "cannot read /nonexistent"},
      {folder.path(), "cannot read"},
      {folder.write("empty", {}), "neither an ELF file nor an offload bundle"},
      {"/proc/self/exe", "no section .hip_fatbin"}};
  for (const auto& [path, message] : cases) {
    const Result result = run("kernels " + path);
    EXPECT_EQ(result.exit_code, 125);
    EXPECT_NE(result.output.find(message), std::string::npos) << result.output;
  }
}

class HipemuRun : public testing::Test {
 protected:
  void SetUp() override { folder_.write("libamdhip64.so.6", {}); }
  Result run_with_library(const std::string& arguments, const std::string& more = "") const {
    return run(arguments, "env -u HIPEMU -u HIPEMU_CHECK -u LD_LIBRARY_PATH HIPEMU_LIB_DIR=" +
                              folder_.path() + " " + more);
  }
  Folder folder_;
};

TEST_F(HipemuRun, SetsTheEnvironment) {
  const Result result =
      run_with_library("run --chip gfx1100,gfx942 --check on --seed 5 -- env", "LD_LIBRARY_PATH=/other");
  EXPECT_EQ(result.exit_code, 0);
  for (const std::string& expected :
       {std::string("HIPEMU=gfx1100,gfx942\n"), std::string("HIPEMU_CHECK=on\n"),
        std::string("HIPEMU_SEED=5\n"), "LD_LIBRARY_PATH=" + folder_.path() + ":/other\n"})
    EXPECT_NE(result.output.find(expected), std::string::npos) << expected << "in\n" << result.output;
  const Result plain = run_with_library("run env");
  EXPECT_EQ(plain.output.find("HIPEMU="), std::string::npos) << plain.output;
  EXPECT_EQ(plain.output.find("HIPEMU_CHECK"), std::string::npos) << plain.output;
}

TEST_F(HipemuRun, TraceAndStats) {
  EXPECT_NE(run_with_library("trace -- env").output.find("HIPEMU_TRACE=stderr\n"), std::string::npos);
  EXPECT_NE(run_with_library("trace -o /tmp/t env").output.find("HIPEMU_TRACE=/tmp/t\n"), std::string::npos);
  const std::string stats = run_with_library("stats --json -o out.json env").output;
  EXPECT_NE(stats.find("HIPEMU_STATS=" + fs::absolute("out.json").string() + "\n"), std::string::npos)
      << stats;
  EXPECT_NE(stats.find("HIPEMU_STATS_FORMAT=json\n"), std::string::npos) << stats;
}

TEST_F(HipemuRun, ArgumentsArePassedAsTheyAre) {
  EXPECT_EQ(run_with_library("run echo --chip foo -- --seed").output, "--chip foo -- --seed\n");
  EXPECT_EQ(run_with_library("run --chip gfx1100 -- echo --chip foo -- -x").output, "--chip foo -- -x\n");
}

TEST_F(HipemuRun, ExitCodes) {
  EXPECT_EQ(run_with_library("run -- sh -c 'exit 7'").exit_code, 7);
  EXPECT_EQ(run_with_library("run -- ./no_such_program").exit_code, 127);
  EXPECT_EQ(run_with_library("run -- /tmp").exit_code, 126);
  EXPECT_EQ(run_with_library("run").exit_code, 125);
  EXPECT_EQ(run_with_library("run --").exit_code, 125);
  EXPECT_EQ(run_with_library("run --check maybe -- env").exit_code, 125);
  EXPECT_EQ(run_with_library("run --check race,bounds -- true").exit_code, 0);
  const Result unknown = run_with_library("run --chip gfx1100,sm_90 -- env");
  EXPECT_EQ(unknown.exit_code, 125);
  EXPECT_NE(unknown.output.find("unknown chip \"sm_90\"; known are gfx90a, gfx942"), std::string::npos)
      << unknown.output;
  EXPECT_NE(run("run -- env", "HIPEMU_LIB_DIR=/nonexistent").output.find("/nonexistent holds no libamdhip64"),
            std::string::npos);
}

TEST(Hipemu, HelpAndChips) {
  EXPECT_EQ(run("--help").exit_code, 0);
  EXPECT_EQ(run("run --help").exit_code, 0);
  EXPECT_EQ(run("").exit_code, 125);
  EXPECT_NE(run("chips").output.find("gfx1100"), std::string::npos);
  EXPECT_EQ(json::parse(run("chips --json").output)[0]["processor"], "gfx90a");
}
#else
TEST(Hipemu, Tool) { GTEST_SKIP() << "the command is not built (needs CLI11)"; }
#endif

}  // namespace
}  // namespace hipemu
