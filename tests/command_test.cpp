// The `hearth` command as a user or a script meets it: output, errors, exit statuses.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "hearth/device.h"
#include "temporary_folder.h"
#include "tokenizer_libraries.h"

namespace hearth {
namespace {

struct Ran {
  int status = -1;
  std::string output, errors;
};

// `variables` are set for the command alone: "NAME=value ".
Ran run(const std::string& arguments, const std::string& variables = {}) {
#ifdef HEARTH_COMMAND
  const test::TemporaryFolder folder;
  const std::string command = variables + "'" + HEARTH_COMMAND + "' " + arguments + " >'" +
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
  (void)variables;
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

TEST_F(Command, AnUnknownCommandIsNamed) {
  const Ran unknown = run("nonsense --help");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.errors.find("there is no command 'nonsense'"), std::string::npos) << unknown.errors;
}

TEST_F(Command, WhatCannotBeWrittenIsAnError) {
  if (std::filesystem::exists("/dev/full")) {
    EXPECT_EQ(run("devices >/dev/full 2>/dev/null; exit $?").status, 1);
    EXPECT_EQ(run("--help >/dev/full 2>/dev/null; exit $?").status, 1);
  }
  EXPECT_EQ(run("devices >/dev/null; exit $?").status, 0);
  // Before the work whose results would be lost.
  for (const char* work :
       {"bench llm --shape tiny --device cpu --profile /nonexistent/x", "hrm generate -o /nonexistent/x",
        "kernels build --arch gfx1100 --workload 'rope f16' --markdown /nonexistent/x",
        "imatrix '" HEARTH_MODELS_DIR "/storyteller.gguf' '" HEARTH_MODELS_DIR
        "/storyteller.gguf' -o /nonexistent/x"}) {
    const Ran ran = run(work);
    EXPECT_EQ(ran.status, 1) << work;
    EXPECT_EQ(ran.output, "") << work;
    EXPECT_EQ(ran.errors, "hearth: error: cannot write /nonexistent/x: there is no folder /nonexistent\n")
        << work;
  }
}

// Before texts are made tokens, and puzzles are made.
TEST_F(Command, ARunNeedsAFolder) {
  const test::TemporaryFolder folder;
  const std::string file = folder.put("file", "text").string();
  for (const std::string work :
       {"hrm train --device cpu --steps 1 -o ", "train lm --device cpu --data /nonexistent/text -o "})
    for (const std::string& place : {file, file + "/run/"}) {
      const Ran ran = run(work + "'" + place + "'");
      EXPECT_EQ(ran.status, 1) << work;
      EXPECT_EQ(ran.errors, "hearth: error: " + file + " is no folder\n") << work;
    }
}

// Two runs would take each other's checkpoints for their own; one that fails before it has any leaves
// nothing.
TEST_F(Command, ARunHasAFolderForItself) {
  const test::TemporaryFolder folder;
  const std::string taken = (folder / "taken").string(), free = (folder / "free").string();
  std::filesystem::create_directory(taken);
  const int lock = ::open(taken.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  for (const std::string work :
       {"hrm train --device cpu --steps 1 -o ", "train lm --device cpu --data /nonexistent/text -o "}) {
    const Ran ran = run(work + "'" + taken + "'");
    EXPECT_EQ(ran.status, 1) << work;
    EXPECT_EQ(ran.errors, "hearth: error: another run is writing to " + taken + ": give another --output\n");
  }
  ::close(lock);
  for (const std::string& place : {taken, free}) {
    const Ran ran = run("train lm --device cpu --data /nonexistent/text -o '" + place + "'");
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.errors.find("/nonexistent/text"), std::string::npos) << ran.errors;
  }
  EXPECT_TRUE(std::filesystem::exists(taken));
  EXPECT_FALSE(std::filesystem::exists(free));
}

TEST_F(Command, PuzzlesReplaceAFileOnlyByForce) {
  const test::TemporaryFolder folder;
  folder.put("puzzles.csv", "old");
  const std::string generate = "hrm generate --count 2 -o '" + (folder / "puzzles.csv").string() + "'";
  EXPECT_EQ(run(generate).status, 1);
  EXPECT_EQ(std::filesystem::file_size(folder / "puzzles.csv"), 3u);
  EXPECT_EQ(run(generate + " --force").status, 0);
  EXPECT_GT(std::filesystem::file_size(folder / "puzzles.csv"), 100u);
  folder.put("model.safetensors", "old");
  const Ran import = run("hrm import nothing.pt '" + (folder / "model.safetensors").string() + "'");
  EXPECT_EQ(import.status, 1);
  EXPECT_NE(import.errors.find("is there already"), std::string::npos) << import.errors;
}

TEST_F(Command, AFileWithoutPuzzlesIsAnError) {
  const test::TemporaryFolder folder;
  folder.put("none.csv", "source,question,answer,rating\n");
  const Ran none = run("hrm eval '" HEARTH_MODELS_DIR "/sudoku.safetensors' --device cpu --data '" +
                       (folder / "none.csv").string() + "'");
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.errors.find("has no puzzles"), std::string::npos) << none.errors;
}

// As names in files and of files may be; JSON is UTF-8.
TEST_F(Command, NamesThatAreNotUtf8ArePartOfJsonAllTheSame) {
  const test::TemporaryFolder folder;
  folder.put("puzzles.csv",
             "source,question,answer\n"
             "caf\xe9,53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79,"
             "534678912672195348198342567859761423426853791713924856961537284287419635345286179\n");
  const Ran ran = run("hrm eval '" HEARTH_MODELS_DIR "/sudoku.safetensors' --device cpu --json --data '" +
                      (folder / "puzzles.csv").string() + "'");
  EXPECT_EQ(ran.status, 0) << ran.errors;
  const auto json = nlohmann::json::parse(ran.output, nullptr, false);
  ASSERT_TRUE(json.is_array()) << ran.output;
  EXPECT_EQ(json[0]["set"], "caf\ufffd");
}

// What is said to whoever watches may be lost, and nothing else with it.
TEST_F(Command, WorksWhenNobodyCanBeTold) {
  SKIP_WITHOUT_TOKENIZERS();
  const std::string story =
      "run '" HEARTH_MODELS_DIR "/storyteller.gguf' 'Once upon' --device cpu -n 2 --temp 0 ";
  const std::string text = run(story).output;
  EXPECT_FALSE(text.empty());
  if (!std::filesystem::exists("/dev/full")) return;
  const test::TemporaryFolder folder;
  for (const std::string lost : {" 2>&-", " 2>/dev/full"}) {
    const auto path = folder / "text";
    EXPECT_EQ(run(story + ">'" + path.string() + "'" + lost + "; exit $?").status, 0) << lost;
    std::ifstream file(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text) << lost;
    EXPECT_EQ(run("inspect /nonexistent" + lost + "; exit $?").status, 1) << lost;
  }
}

TEST_F(Command, TakesAPromptInWords) {
  SKIP_WITHOUT_TOKENIZERS();
  const std::string model = "run '" HEARTH_MODELS_DIR "/storyteller.gguf' ",
                    rest = " --device cpu --temp 0 -q";
  EXPECT_EQ(run(model + "Once upon a time -n 2" + rest).output,
            run(model + "'Once upon a time' -n 2" + rest).output);
  EXPECT_TRUE(
      run(model + "'[INST] hi, you [/INST]' -n 2" + rest).output.starts_with("[INST] hi, you [/INST]"));
  EXPECT_EQ(run(model + "Once upon --unknown" + rest).status, 2);
  EXPECT_TRUE(run(model + "-n 2" + rest + " -- -hello -- you").output.starts_with("-hello -- you"));
  const std::string told = run(model + "'Once upon a time' -n 2" + rest).output;
  for (const std::string from : {"", " -"})
    EXPECT_EQ(run(model + from + " -n 2" + rest, "echo Once upon a time | ").output, told) << from;
  const Ran stopped = run(model + "'Once upon a time' --stop '[x]' --stop ' there' -n 20" + rest);
  EXPECT_EQ(stopped.output, "Once upon a time,\n") << stopped.errors;
}

// Options that may be given several times, too.
TEST_F(Command, WhatFollowsAnOptionsValueIsNotPartOfIt) {
  SKIP_WITHOUT_TOKENIZERS();
  const Ran biased = run("run --logit-bias 5=1 '" HEARTH_MODELS_DIR
                         "/storyteller.gguf' --device cpu -n 1 --logit-bias 6=1 --logit-bias 7=-inf Once -q");
  EXPECT_EQ(biased.status, 0) << biased.errors;
  EXPECT_TRUE(biased.output.starts_with("Once")) << biased.output;
  const Ran bench = run("bench llm --device cpu -n 1 --repeats 1 --json --lengths 4,8 '" HEARTH_MODELS_DIR
                        "/storyteller.gguf'");
  ASSERT_EQ(bench.status, 0) << bench.errors;
  EXPECT_EQ(nlohmann::json::parse(bench.output)["rows"].size(), 2u);
}

TEST_F(Command, OptionsOutOfRangeAreNamedBeforeAModelIsLoaded) {
  const Ran context = run("run /nonexistent hi --ctx 0");
  EXPECT_EQ(context.status, 2);
  EXPECT_NE(context.errors.find("--ctx: 0 is not a positive number"), std::string::npos) << context.errors;
  const Ran tokens = run("run /nonexistent hi --tokens -3 --temperature 0");
  EXPECT_NE(tokens.errors.find("--tokens: -3 is not a number from -1 on"), std::string::npos)
      << tokens.errors;
  const Ran top = run("run /nonexistent hi --top-k -5");
  EXPECT_NE(top.errors.find("top_k is out of range: -5; it must be 0 or more"), std::string::npos)
      << top.errors;
}

// As of a variable that a script has not set: a limit or a key that is asked for and not there.
TEST_F(Command, OptionsThatAreEmptyAreRefused) {
  std::vector<std::string> options = {"run --grammar", "run --json-schema", "run --draft", "chat --template"};
#ifdef HEARTH_HAVE_HTTPLIB
  options.insert(options.end(), {"serve --template", "serve --api-key"});
#endif
  for (const std::string& option : options) {
    const Ran ran = run(option + " '' '" HEARTH_MODELS_DIR "/none.gguf' <&-");
    EXPECT_EQ(ran.status, 2) << option << ": " << ran.errors;
    EXPECT_NE(ran.errors.find("is empty"), std::string::npos) << ran.errors;
  }
  EXPECT_EQ(run("run --seed -1 '" HEARTH_MODELS_DIR "/none.gguf' Once").status, 2);
  for (const char* arguments : {"hrm train --steps 1 -o ''",
                                "hrm train --steps 1 --data ''",
                                "hrm eval --data ''",
                                "hrm eval ''",
                                "hrm generate -o ''",
                                "hrm import x ''",
                                "hrm solve x --model ''",
                                "train lm --data x -o ''",
                                "train lm --data '' -o x",
                                "train lm --data x -o x --tokenizer ''",
                                "train lm --data x -o x --profile ''",
                                "train tokenizer --data x -o ''",
                                "train mnist --checkpoint ''",
                                "train mnist --data ''",
                                "train mnist --profile ''",
                                "quantize x y --type q4_0 --imatrix ''",
                                "quantize x '' --type q4_0",
                                "convert x ''",
                                "imatrix x y -o ''",
                                "bench llm x --profile ''",
                                "kernels build --arch gfx1100 --markdown ''"}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.status, 2) << arguments;
    EXPECT_NE(ran.errors.find("is empty"), std::string::npos) << ran.errors;
  }
}

// Within a measurement that would take minutes; what does not stop is killed.
TEST_F(Command, BenchStopsWhereItIsInterrupted) {
  const Ran stopped = run("bench llm --shape tiny --device cpu --lengths 16 --ctx 131072 -n 131000",
                          "timeout --preserve-status -s INT -k 30 3 ");
  EXPECT_EQ(stopped.status, 130) << stopped.errors;
  EXPECT_EQ(stopped.output, "");
}

TEST_F(Command, BenchTakesLengthsThatFitTheModel) {
  SKIP_WITHOUT_TOKENIZERS();
  const Ran bench =
      run("bench llm '" HEARTH_MODELS_DIR "/storyteller.gguf' --device cpu -n 2 --repeats 1 --json");
  ASSERT_EQ(bench.status, 0) << bench.errors;
  EXPECT_EQ(nlohmann::json::parse(bench.output)["rows"].back()["length"], 510);
}

#ifdef HEARTH_COMMAND
// On a terminal, where a talk goes on after an error; script(1) is one.
TEST_F(Command, ChatForgetsAMessageThatCannotBeAnswered) {
  SKIP_WITHOUT_TOKENIZERS();
  if (std::system("command -v script >/dev/null") != 0) GTEST_SKIP() << "there is no script(1)";
  const test::TemporaryFolder folder;
  std::ofstream(folder / "template") << "{% for m in messages %}{% if 'bad' in m['content'] %}"
                                        "{{ raise_exception('no bad words') }}{% endif %}"
                                        "{{ m['content'] }} {% endfor %}";
  std::ofstream(folder / "input") << "bad\nOnce upon a time\n/exit\n";
  const Ran talk =
      run("--version; script -qec \"'" HEARTH_COMMAND "' chat '" HEARTH_MODELS_DIR
          "/storyteller.gguf' --device cpu -n 2 --template '" +
          (folder / "template").string() + "'\" /dev/null <'" + (folder / "input").string() + "'");
  EXPECT_NE(talk.output.find("no bad words"), std::string::npos) << talk.output;
  EXPECT_NE(talk.output.find("generated 2"), std::string::npos) << talk.output;
}
#endif

TEST_F(Command, ChatForgetsTheOldestMessagesWhereItMay) {
  SKIP_WITHOUT_TOKENIZERS();
  const test::TemporaryFolder folder;
  std::ofstream(folder / "template") << "{% for m in messages %}{{ m['content'] }} {% endfor %}";
  std::ofstream(folder / "input") << "Once upon a time there was a little cat\nThe cat saw a big dog in the "
                                     "garden\nThe dog was very happy to see the cat\n/save "
                                  << (folder / "saved").string() << "\n";
  const std::string talk = "chat '" HEARTH_MODELS_DIR
                           "/storyteller.gguf' --device cpu -n 6 --ctx 32 --system Hello --template '" +
                           (folder / "template").string() + "' <'" + (folder / "input").string() + "' ";
  const Ran full = run(talk);
  EXPECT_EQ(full.status, 1);
  EXPECT_NE(full.errors.find("--keep forgets the oldest messages"), std::string::npos) << full.errors;
  EXPECT_EQ(run(talk + "--keep 2").status, 0);
  std::ifstream saved(folder / "saved");
  EXPECT_EQ(nlohmann::json::parse(saved).size(), 7u);  // all of them, with the system's
}

#ifdef HEARTH_COMMAND
// What was said before it is still there.
TEST_F(Command, ChatKeepsTheConversationWhereAMessageIsTooLong) {
  SKIP_WITHOUT_TOKENIZERS();
  if (std::system("command -v script >/dev/null") != 0) GTEST_SKIP() << "there is no script(1)";
  const test::TemporaryFolder folder;
  folder.put("template", "{% for m in messages %}{{ m['content'] }} {% endfor %}");
  std::string message = "The dog";
  for (int i = 0; i < 40; ++i) message += " ran";
  folder.put("input", "Once upon a time there was\n" + message + "\n/again\n/exit\n");
  const Ran talk =
      run("--version; script -qec \"'" HEARTH_COMMAND "' chat '" HEARTH_MODELS_DIR
          "/storyteller.gguf' --device cpu -n 2 --ctx 32 --keep 2 --template '" +
          (folder / "template").string() + "'\" /dev/null <'" + (folder / "input").string() + "'");
  EXPECT_NE(talk.output.find("the conversation has"), std::string::npos) << talk.output;
  const auto first = talk.output.find("generated 2");
  ASSERT_NE(first, std::string::npos) << talk.output;
  EXPECT_NE(talk.output.find("generated 2", first + 1), std::string::npos) << talk.output;
}
#endif

// Who is not there to ask on is not answered on.
TEST_F(Command, ChatEndsWhereItIsInterruptedUnlessItIsATalk) {
  SKIP_WITHOUT_TOKENIZERS();
  const test::TemporaryFolder folder;
  folder.put("template", "{% for m in messages %}{{ m['content'] }} {% endfor %}");
  folder.put("input", "Once upon a time\nThe cat\nThe dog\n");
  for (const std::string signal : {"INT", "TERM"}) {
    const Ran talk = run("chat '" HEARTH_MODELS_DIR
                         "/storyteller.gguf' --device cpu -n -1 --keep 4 --logit-bias "
                         "0=-inf --template '" +
                             (folder / "template").string() + "' <'" + (folder / "input").string() + "'",
                         "timeout --preserve-status -s " + signal + " -k 30 3 ");
    EXPECT_TRUE(talk.status == 130 || talk.status == 128 + SIGTERM) << talk.status << talk.errors;
  }
}

TEST_F(Command, ChatTakesMessagesOfSeveralLines) {
  SKIP_WITHOUT_TOKENIZERS();
  const test::TemporaryFolder folder;
  folder.put("template", "{% for m in messages %}{{ m['content'] }} {% endfor %}");
  folder.put("input", "Once upon\\\na time\n/save " + (folder / "saved").string() + "\nThe end\\");
  const Ran talk = run("chat '" HEARTH_MODELS_DIR "/storyteller.gguf' --device cpu -n 2 --template '" +
                       (folder / "template").string() + "' <'" + (folder / "input").string() + "'");
  EXPECT_EQ(talk.status, 0) << talk.errors;
  std::ifstream saved(folder / "saved");
  const auto messages = nlohmann::json::parse(saved, nullptr, false);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0]["content"], "Once upon\na time");
}

// From where lines end in two characters; and a command that is not one is no message that got lost.
TEST_F(Command, ChatTakesLinesOfOtherSystemsAndKnowsItsCommands) {
  SKIP_WITHOUT_TOKENIZERS();
  const test::TemporaryFolder folder;
  folder.put("template", "{% for m in messages %}{{ m['content'] }} {% endfor %}");
  const std::string talk = "chat '" HEARTH_MODELS_DIR "/storyteller.gguf' --device cpu -n 2 --template '" +
                           (folder / "template").string() + "' <'" + (folder / "input").string() + "'";
  folder.put("input",
             "Once upon\\\r\na time\r\n/save " + (folder / "saved").string() + "\r\n/exit\r\nThe end\r\n");
  const Ran fine = run(talk);
  EXPECT_EQ(fine.status, 0) << fine.errors;
  std::ifstream saved(folder / "saved");
  const auto messages = nlohmann::json::parse(saved, nullptr, false);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0]["content"], "Once upon\na time");
  EXPECT_EQ(fine.errors.find("generated 2, ", fine.errors.find("generated 2, ") + 1), std::string::npos)
      << fine.errors;

  folder.put("input", "/savee it\n");
  const Ran wrong = run(talk);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.errors.find("there is no command /savee"), std::string::npos) << wrong.errors;
}

// Here no file may have more than 4096 bytes, elsewhere a disk is full.
TEST_F(Command, ChatKeepsTheFileThatItCannotReplace) {
  SKIP_WITHOUT_TOKENIZERS();
  const test::TemporaryFolder folder;
  folder.put("template", "{{ messages }}");
  folder.put("saved", "what was said before");
  const std::string long_talk = R"([{"role": "user", "content": ")" + std::string(20000, 'a') + R"("}])";
  folder.put("input", "/load " + folder.put("talk", long_talk).string() + "\n/save " +
                          (folder / "saved").string() + "\n");
  const Ran talk = run("chat '" HEARTH_MODELS_DIR "/storyteller.gguf' --device cpu -q --template '" +
                           (folder / "template").string() + "' <'" + (folder / "input").string() + "'",
                       "trap '' XFSZ; ulimit -f 8; ");
  EXPECT_EQ(talk.status, 1);
  EXPECT_NE(talk.errors.find((folder / "saved").string()), std::string::npos) << talk.errors;
  std::ifstream saved(folder / "saved");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(saved), {}), "what was said before");
}

TEST_F(Command, ChatLoadsConversationsOnly) {
  SKIP_WITHOUT_TOKENIZERS();
  const test::TemporaryFolder folder;
  folder.put("template", "{{ messages }}");
  for (const auto& [text, expected] : {std::pair{std::string("[1]"), "not a conversation"},
                                       std::pair{std::string(200000, '['), "nested too deep"}}) {
    folder.put("input", "/load " + folder.put("talk", text).string() + "\n");
    const Ran talk = run("chat '" HEARTH_MODELS_DIR "/storyteller.gguf' --device cpu --template '" +
                         (folder / "template").string() + "' <'" + (folder / "input").string() + "'");
    EXPECT_EQ(talk.status, 1);
    EXPECT_NE(talk.errors.find(expected), std::string::npos) << talk.errors;
  }
}

TEST_F(Command, VersionAndHelp) {
  const Ran version = run("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.output.starts_with("hearth ")) << version.output;
  EXPECT_TRUE(version.errors.empty());
  for (const char* arguments :
       {"--help", "demo --help", "train --help", "train mnist --help", "devices --help", "doctor --help",
        "kernels --help", "kernels build --help", "tune --help", "run --help", "inspect --help",
        "tokenize --help", "convert --help", "quantize --help", "imatrix --help", "perplexity --help",
        "bench --help", "bench llm --help"}) {
    const Ran help = run(arguments);
    EXPECT_EQ(help.status, 0) << arguments;
    EXPECT_NE(help.output.find("Usage:"), std::string::npos) << help.output;
  }
}

TEST_F(Command, WhatIsOftenTypedIsShortEverywhere) {
  for (const auto& [option, commands] :
       {std::pair{"-f,--force", std::vector{"convert", "quantize", "imatrix", "hrm generate", "hrm import",
                                            "train tokenizer"}},
        {"-q,--quiet", {"run", "chat", "hrm solve", "hrm train", "train mnist", "train lm"}}})
    for (const std::string command : commands)
      EXPECT_NE(run(command + " --help").output.find(option), std::string::npos) << command;
}

TEST_F(Command, WrongUseIsStatus2) {
  for (const char* arguments : {"",
                                "nonsense",
                                "--nonsense",
                                "train",
                                "train mnist --epochs 0",
                                "train mnist --lr -1",
                                "train mnist --precision f8",
                                "train mnist --resume",
                                "devices more",
                                "doctor more",
                                "kernels",
                                "kernels list --json --markdown",
                                "kernels build --jobs 0",
                                "tune --show --clear",
                                "tune --model none",
                                "tune --shapes 1,2",
                                "inspect",
                                "tokenize",
                                "tokenize m t --decode 1",
                                "quantize a b",
                                "quantize a --type q4_0",
                                "convert a b --type q4_0",
                                "imatrix a b",
                                "perplexity a",
                                "perplexity a b --window 1",
                                "run a b --seed 18446744073709551616",
                                "train lm --data a -o b --seed -1",
                                "train mnist --data a --seed -1",
                                "demo --data a --seed -1",
                                "hrm train --data a --seed -1",
                                "hrm eval a --seed 1.5",
                                "hrm generate --count 1 -o /nonexistent/x --seed -1",
                                "bench",
                                "bench llm m --shape tiny",
                                "bench llm m --type q4_0",
                                "bench llm --lengths 0"}) {
    const Ran wrong = run(arguments);
    EXPECT_EQ(wrong.status, 2) << arguments;
    EXPECT_TRUE(wrong.errors.starts_with("hearth: error: ")) << wrong.errors;
    EXPECT_NE(wrong.errors.find("--help"), std::string::npos);
    EXPECT_TRUE(wrong.output.empty()) << wrong.output;
  }
}

// Whatever it was that was asked for.
TEST_F(Command, JsonIsAllThatIsPrintedWhereItIsWanted) {
  SKIP_WITHOUT_TOKENIZERS();
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "Once upon a time there was cat number " + std::to_string(i) + ".\n";
  const Ran prepared =
      run("train lm --device cpu --vocabulary 280 --tokens 1k --batch 1 --context 16 --prepare "
          "--json --data '" +
          folder.put("text", text).string() + "' -o '" + (folder / "run").string() + "'");
  EXPECT_EQ(prepared.status, 0) << prepared.errors;
  const auto json = nlohmann::json::parse(prepared.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << prepared.output;
  EXPECT_EQ(json["tokens_per_step"], 16);
  EXPECT_EQ(json["steps_planned"], 63);
  const auto cleared = nlohmann::json::parse(
      run("tune --clear --json", "XDG_CACHE_HOME='" + folder.path().string() + "' ").output, nullptr, false);
  ASSERT_TRUE(cleared.is_object());
  EXPECT_TRUE(cleared["entries"].empty());
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

// A service's account may have none.
TEST_F(Command, WithoutAHomeNothingIsKept) {
  const std::string homeless = "env -u HOME -u XDG_CACHE_HOME -u HEARTH_KERNEL_CACHE ";
  for (const char* arguments : {"kernels list", "kernels clear", "tune --clear", "tune --show"}) {
    const Ran ran = run(arguments, homeless);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    EXPECT_NE(ran.output.find("there is no home folder"), std::string::npos) << ran.output;
  }
}

TEST_F(Command, FailuresAreStatus1) {
  const test::TemporaryFolder empty;
  const Ran data = run("train mnist --data '" + empty.path().string() + "'");
  EXPECT_EQ(data.status, 1);
  EXPECT_TRUE(data.errors.starts_with("hearth: error: " + empty.path().string())) << data.errors;
  const Ran device = run("train mnist --device abacus");
  EXPECT_EQ(device.status, 1);
  EXPECT_TRUE(device.errors.starts_with("hearth: error: ")) << device.errors;
  EXPECT_NE(device.errors.find("the devices are cpu"), std::string::npos) << device.errors;
  const Ran architecture = run("kernels build --arch abacus");
  EXPECT_EQ(architecture.status, 1);
  EXPECT_NE(architecture.errors.find("\"abacus\" is not an architecture"), std::string::npos);
  const Ran workload = run("kernels build --arch gfx1100 --workload abacus");
  EXPECT_EQ(workload.status, 1);
  EXPECT_NE(workload.errors.find("there is no workload \"abacus\""), std::string::npos);
}

TEST_F(Command, ListsDevices) {
  const Ran table = run("devices");
  EXPECT_EQ(table.status, 0);
  EXPECT_NE(table.output.find("cpu"), std::string::npos);
  const auto json = nlohmann::json::parse(run("devices --json").output);
  ASSERT_GE(json.size(), 1u);
  EXPECT_EQ(json[0]["device"], "cpu");
  EXPECT_GT(json[0]["total_memory"].get<std::uint64_t>(), 0u);
  for (const auto& device : json) {
    if (device["device"] == "cpu") continue;
    EXPECT_GT(device["wave_size"].get<int>(), 0);
    EXPECT_TRUE(device["pci_address"].get<std::string>().starts_with("0000:")) << device;
    EXPECT_NE(table.output.find(device["architecture"].get<std::string>()), std::string::npos);
    EXPECT_NE(table.output.find(device["library"].get<std::string>()), std::string::npos);
    ASSERT_TRUE(device.contains("dnn_library"));
    EXPECT_TRUE(device["dnn_library"].is_null() || device["dnn_library"].is_string()) << device;
  }
}

TEST_F(Command, TheDoctorsStatusIsItsVerdict) {
  const Ran json = run("doctor --json");
  const auto report = nlohmann::json::parse(json.output);
  EXPECT_EQ(json.status, report["healthy"].get<bool>() ? 0 : 1);
  ASSERT_GE(report["findings"].size(), 3u);
  for (const auto& finding : report["findings"]) EXPECT_FALSE(finding["found"].get<std::string>().empty());
  if (std::getenv("HIPEMU") != nullptr) {
    EXPECT_EQ(json.status, 0) << json.output;
    EXPECT_EQ(report["device"], "rocm:0");
    const Ran text = run("doctor");
    EXPECT_NE(text.output.find("rocm:0 works"), std::string::npos) << text.output;
    EXPECT_NE(text.output.find("Healthy: rocm:0"), std::string::npos) << text.output;
  }
  EXPECT_EQ(run("doctor --device cpu").status, 0);
  const Ran missing = run("doctor --device gfx700");
  EXPECT_EQ(missing.status, 1);
  EXPECT_NE(missing.output.find("no GPU has this architecture"), std::string::npos) << missing.output;
}

TEST_F(Command, KernelsAreBuiltListedAndCleared) {
  const test::TemporaryFolder cache;
  const std::string variable = "HEARTH_KERNEL_CACHE='" + cache.path().string() + "' ";
  if (std::getenv("HIPEMU") != nullptr) {
    const auto page = cache / "page.md";
    const Ran built = run("kernels build --arch gfx1101 --workload 'rope f16' --jobs 2 --json --markdown '" +
                              page.string() + "'",
                          variable);
    ASSERT_EQ(built.status, 0) << built.errors;
    EXPECT_NE(built.errors.find(" compiled"), std::string::npos) << built.errors;
    const auto kernels = nlohmann::json::parse(built.output);
    ASSERT_GE(kernels.size(), 4u);
    std::set<std::string> names;
    for (const auto& kernel : kernels) {
      names.insert(kernel["kernel"]);
      EXPECT_EQ(kernel["architecture"], "gfx1101");
      EXPECT_GT(kernel["vector_registers"].get<int>(), 0) << kernel;
      EXPECT_EQ(kernel["vector_spills"], 0) << kernel;
      EXPECT_EQ(kernel["scratch_bytes"], 0) << kernel;
      EXPECT_GT(kernel["occupancy"].get<int>(), 0) << kernel;
      EXPECT_GT(kernel["threads"].get<int>(), 0) << kernel;
      if (kernel["kernel"] == "rope: rotate") {
        EXPECT_GT(kernel.value("wide_loads", 1), 0) << kernel;
      }
    }
    EXPECT_TRUE(names.contains("rope: rotate") && names.contains("elementwise"));
    const auto list = nlohmann::json::parse(run("kernels list --json", variable).output);
    EXPECT_EQ(list["kernels"], kernels.size());
    EXPECT_EQ(list["architectures"][0]["architecture"], "gfx1101");
    std::ifstream file(page);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(text.find("\n| kernel | chips |"), std::string::npos) << text;
    EXPECT_NE(text.find("| rope: rotate | gfx1101 |"), std::string::npos) << text;
  }
  EXPECT_EQ(run("kernels clear", variable).status, 0);
  EXPECT_EQ(nlohmann::json::parse(run("kernels list --json", variable).output)["kernels"], 0);
}

// ---- model files

const std::filesystem::path models = std::filesystem::path(HEARTH_SHARED_DIR) / "models";
const std::string stories_folder = (models / "tinystories-656K" / "f32").string(),
                  stories_file = (models / "stories260K" / "stories260K.gguf").string();

class ModelCommand : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    if (!std::filesystem::exists(models)) GTEST_SKIP() << models << " is not there";
  }
};

TEST_F(ModelCommand, InspectsFilesAndFolders) {
  const Ran table = run("inspect '" + stories_file + "'");
  EXPECT_EQ(table.status, 0) << table.errors;
  EXPECT_NE(table.output.find("GGUF version 3"), std::string::npos) << table.output;
  EXPECT_NE(table.output.find("\", ...] (512 values)"), std::string::npos) << table.output;
  EXPECT_NE(table.output.find("(512, 64)"), std::string::npos) << table.output;
  const auto json = nlohmann::json::parse(run("inspect --json '" + stories_file + "'").output);
  EXPECT_EQ(json["metadata"]["llama.block_count"], 5);
  EXPECT_EQ(json["metadata"]["tokenizer.ggml.tokens"].size(), 512u);
  EXPECT_EQ(json["total"]["tensors"], json["tensors"].size());
  EXPECT_EQ(json["types"]["F32"]["bytes"], json["total"]["bytes"]);
  std::uint64_t bytes = 0;
  for (const auto& tensor : json["tensors"]) bytes += tensor["bytes"].get<std::uint64_t>();
  EXPECT_EQ(json["total"]["bytes"], bytes);

  const auto folder = nlohmann::json::parse(run("inspect --json '" + stories_folder + "'").output);
  EXPECT_EQ(folder["metadata"]["hidden_size"], 128);
  EXPECT_EQ(folder["types"]["F32"]["elements"], 656000);
  const Ran file = run("inspect '" + (models / "tinystories-656K" / "bf16").string() + "/model.safetensors'");
  EXPECT_EQ(file.status, 0) << file.errors;
  EXPECT_NE(file.output.find("BF16"), std::string::npos) << file.output;
  for (const char* pattern : {"attn_q", "blk.*.attn_q.*"}) {
    const auto some = nlohmann::json::parse(
        run("inspect --json --tensors '" + std::string(pattern) + "' '" + stories_file + "'").output);
    EXPECT_EQ(some["tensors"].size(), 5u) << pattern;
  }

  const test::TemporaryFolder empty;
  const auto error = [&](const std::string& arguments) {
    const Ran ran = run("inspect " + arguments);
    EXPECT_EQ(ran.status, 1) << ran.output;
    EXPECT_TRUE(ran.errors.starts_with("hearth: error: ")) << ran.errors;
    return ran.errors;
  };
  EXPECT_NE(error("'" + empty.path().string() + "'").find("no safetensors file"), std::string::npos);
  EXPECT_NE(error("'" + empty.put("text", "hello hello hello").string() + "'")
                .find("neither a GGUF file nor safetensors"),
            std::string::npos);
  error("'" + empty.put("short", "").string() + "'");
  error("'" + empty.put("cut.gguf", "GGUF\3").string() + "'");
  error("'" + (empty / "none").string() + "'");
  empty.put("config.json", "{\"x\": " + std::string(200000, '[') + std::string(200000, ']') + "}");
  EXPECT_NE(error("'" + empty.path().string() + "'").find("nested too deep"), std::string::npos);
  EXPECT_NE(error("--tensors nothing '" + stories_file + "'").find("no tensor is named like"),
            std::string::npos);
}

// However the shell has completed it.
TEST_F(ModelCommand, AModelIsCalledAsItsFolder) {
  const std::string rest = " Once -n 1 --device cpu";
  for (const Ran& ran :
       {run("run '" + stories_folder + "'" + rest), run("run '" + stories_folder + "/'" + rest),
        run("run ." + rest, "cd '" + stories_folder + "' && ")}) {
    EXPECT_EQ(ran.status, 0);
    EXPECT_NE(ran.errors.find("\nf32: llama"), std::string::npos) << ran.errors;
  }
}

TEST_F(ModelCommand, Tokenizes) {
  const auto json =
      nlohmann::json::parse(run("tokenize '" + stories_folder + "' --json Once upon a time").output);
  EXPECT_EQ(json["count"], json["ids"].size());
  EXPECT_EQ(json["ids"][0], 1);
  EXPECT_EQ(json["pieces"][0], "<|start_story|>");
  std::string ids;
  for (const auto& id : json["ids"]) ids += (ids.empty() ? "" : ",") + id.dump();
  EXPECT_EQ(run("tokenize '" + stories_folder + "' --decode " + ids).output,
            "<|start_story|> Once upon a time\n");
  const Ran list = run("tokenize '" + stories_folder + "' 'Once upon' 'a time'");
  EXPECT_NE(list.output.find("      1  \"<|start_story|>\"  special\n"), std::string::npos) << list.output;
  EXPECT_EQ(std::count(list.output.begin(), list.output.end(), '\n'), json["count"].get<int>());
  const test::TemporaryFolder folder;
  const std::string input = " <'" + folder.put("text", "Once upon a time").string() + "'";
  EXPECT_EQ(run("tokenize '" + stories_folder + "' --count" + input).output, json["count"].dump() + "\n");
  EXPECT_EQ(run("tokenize '" + stories_folder + "' --count --bare" + input).output,
            std::to_string(json["count"].get<int>() - 1) + "\n");
  EXPECT_EQ(run("tokenize '" + stories_file + "' --special --bare --json '</s>'").output.find("[2]") !=
                std::string::npos,
            true);
  EXPECT_EQ(run("tokenize '" + stories_file + "' --bare --json '</s>'").output.find("[2]"),
            std::string::npos);
  // What is not UTF-8 comes out as something that is.
  folder.put("bytes", "\xff\xfe a\0b");
  EXPECT_EQ(run("tokenize '" + stories_file + "' --json <'" + (folder / "bytes").string() + "'").status, 0);
  EXPECT_EQ(run("tokenize '" + stories_folder + "' --decode 1,two").status, 1);
  EXPECT_EQ(run("tokenize '" + stories_folder + "' --decode 99999").status, 1);
}

TEST_F(ModelCommand, ConvertsQuantizesAndMeasures) {
  const test::TemporaryFolder folder;
  const auto in = [&](const char* name) { return "'" + (folder / name).string() + "' "; };
  const std::string text =
      "'" + (models.parent_path() / "data" / "text" / "tinystories_smallgpt.txt").string() + "' ";
  const Ran converted = run("convert '" + stories_folder + "' " + in("model.gguf"));
  ASSERT_EQ(converted.status, 0) << converted.errors;
  const std::string prompt = " 'Once upon a time' --json --temp 0 -n 30 --cache f32 --device cpu";
  const auto text_of = [&](const std::string& model) {
    return nlohmann::json::parse(run("run " + model + prompt).output)["tokens"];
  };
  EXPECT_EQ(text_of(in("model.gguf")), text_of("'" + stories_folder + "'"));

  ASSERT_EQ(
      run("imatrix " + in("model.gguf") + text + "-n 600 --device cpu -o " + in("importance.gguf")).status,
      0);
  const Ran quantized = run("quantize " + in("model.gguf") + in("small.gguf") + "--type Q4_K --imatrix " +
                            in("importance.gguf"));
  ASSERT_EQ(quantized.status, 0) << quantized.errors;
  EXPECT_NE(quantized.output.find("rows do not divide into the 256 elements of a block of q4_k"),
            std::string::npos)
      << quantized.output;
  EXPECT_NE(quantized.output.find("15 of them weighed by importance"), std::string::npos) << quantized.output;
  const std::string measure = text + "-n 400 --window 128 --device cpu --json";
  const auto perplexity = [&](const char* name) {
    const auto json = nlohmann::json::parse(run("perplexity " + in(name) + measure).output);
    EXPECT_EQ(json["tokens"], 399);
    return json["perplexity"].get<double>();
  };
  EXPECT_NEAR(perplexity("small.gguf") / perplexity("model.gguf"), 1, 0.05);

  const Ran unknown = run("quantize " + in("model.gguf") + in("x.gguf") + "--type q9");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_NE(unknown.errors.find("there is no type q9; there are "), std::string::npos) << unknown.errors;
  const Ran again = run("quantize " + in("small.gguf") + in("x.gguf") + "--type q4_0");
  EXPECT_EQ(again.status, 1);
  EXPECT_NE(again.errors.find("--requantize"), std::string::npos) << again.errors;
  // Nothing is lost by going back to numbers.
  EXPECT_EQ(run("convert " + in("small.gguf") + in("wide.gguf") + "--type f32").status, 0);
  const Ran wrong =
      run("quantize " + in("model.gguf") + in("x.gguf") + "--type q4_0 --imatrix " + in("model.gguf"));
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.errors.find("not of importance"), std::string::npos) << wrong.errors;
  EXPECT_FALSE(std::filesystem::exists(folder / "x.gguf"));
}

TEST_F(ModelCommand, FilesAreReplacedOnlyByForce) {
  const test::TemporaryFolder folder;
  folder.put("model.gguf", "old");
  const std::string out = "'" + (folder / "model.gguf").string() + "'";
  const std::string convert = "convert '" + stories_folder + "' " + out;
  const auto text = models.parent_path() / "data" / "text" / "tinystories_smallgpt.txt";
  for (const std::string& arguments :
       {convert, "quantize --type q4_0 '" + stories_folder + "' " + out,
        "imatrix '" + stories_folder + "' '" + text.string() + "' -n 10 --device cpu -o " + out}) {
    const Ran refused = run(arguments);
    EXPECT_EQ(refused.status, 1) << arguments;
    EXPECT_NE(refused.errors.find("is there already; --force replaces it"), std::string::npos)
        << refused.errors;
    EXPECT_EQ(std::filesystem::file_size(folder / "model.gguf"), 3u);
  }
  EXPECT_EQ(run(convert + " --force").status, 0);
  EXPECT_GT(std::filesystem::file_size(folder / "model.gguf"), 1000000u);
  // A model may replace itself: what is read stays there until the new file is complete.
  EXPECT_EQ(run("quantize --force --type q8_0 " + out + " " + out).status, 0);
  EXPECT_EQ(run("run " + out + " Once -n 2 --device cpu").status, 0);
  EXPECT_EQ(run("convert '" + stories_folder + "' '" + folder.path().string() + "'").status, 1);
  EXPECT_EQ(folder.files().size(), 1u);
}

TEST_F(ModelCommand, AFullDiskLeavesTheOldFile) {
  const test::TemporaryFolder folder;
  folder.put("model.gguf", "old");
  // A file may not grow past 100 kB here, and the signal for it is ignored: writing fails as on a full disk.
  const Ran full = run("convert --force '" + stories_folder + "' '" + (folder / "model.gguf").string() + "'",
                       "ulimit -f 200; trap '' XFSZ; ");
  EXPECT_EQ(full.status, 1);
  EXPECT_NE(full.errors.find("model.gguf"), std::string::npos) << full.errors;
  std::ifstream file(folder / "model.gguf");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "old");
  EXPECT_EQ(folder.files().size(), 1u);
}

TEST_F(ModelCommand, AnInterruptEndsAMeasurementWithItsFiguresSoFar) {
  const auto text = models.parent_path() / "data" / "text" / "tinyshakespeare.txt";
  const Ran ran = run("perplexity '" + stories_folder + "' '" + text.string() + "' --device cpu --json",
                      "timeout --preserve-status --signal INT 4 ");
  EXPECT_EQ(ran.status, 130) << ran.errors;
  if (!ran.output.empty()) {
    EXPECT_EQ(nlohmann::json::parse(ran.output)["complete"], false);
  }
}

// Where there is a GPU, a command uses it without being told.
TEST_F(Command, TheDefaultIsAGpuIfThereIsOne) {
  const auto json = nlohmann::json::parse(
      run("bench llm --shape tiny --type q4_0 --lengths 4 -n 2 --repeats 1 --json").output);
  const std::string device = json["device"];
  const auto gpus = nlohmann::json::parse(run("devices --json").output);
  bool any = false;
  for (const auto& one : gpus) any = any || one["device"] != "cpu";
  EXPECT_EQ(device != "cpu", any) << device;
}

TEST_F(ModelCommand, GeneratesAsTold) {
  const test::TemporaryFolder folder;
  const std::string once = "run '" + stories_file + "' 'Once upon a time' --device cpu --json ";
  const auto result_of = [&](const std::string& options) {
    const Ran ran = run(once + options);
    EXPECT_EQ(ran.status, 0) << options << ": " << ran.errors;
    return nlohmann::json::parse(ran.output);
  };
  const int number = std::stoi(
      result_of("--seed 3 --json-schema '{\"type\": \"integer\", \"minimum\": 30, \"maximum\": 41}'")["text"]
          .get<std::string>());
  EXPECT_TRUE(number >= 30 && number <= 41) << number;
  folder.put("answer.gbnf", "root ::= \"yes\" | \"no\"");
  folder.put("wrong.gbnf", "root ::= root \"a\" | \"a\"");
  folder.put("array.json", R"({"const": ["x", 1]})");
  const auto at = [&](const char* name) { return "'" + (folder / name).string() + "'"; };
  const std::string answer = result_of("--grammar " + at("answer.gbnf"))["text"];
  EXPECT_TRUE(answer == "yes" || answer == "no") << answer;
  EXPECT_EQ(result_of("--json-schema " + at("array.json"))["text"], R"(["x",1])");
  const Ran wrong = run(once + "--grammar " + at("wrong.gbnf"));
  EXPECT_NE(wrong.errors.find((folder / "wrong.gbnf").string() + ": "), std::string::npos) << wrong.errors;
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.errors.find("begins with itself"), std::string::npos) << wrong.errors;
  EXPECT_EQ(run(once + "--grammar " + at("answer.gbnf") + " --json-schema '{}'").status, 2);

  const auto plain = result_of("-n 40 --temp 0 --logprobs 2");
  EXPECT_EQ(plain["log_probabilities"].size(), 40u);
  EXPECT_EQ(plain["log_probabilities"][0]["best"].size(), 2u);
  const auto guessed = result_of("-n 40 --temp 0 --draft '" + stories_file + "' --draft-tokens 4");
  EXPECT_EQ(guessed["tokens"], plain["tokens"]);
  EXPECT_EQ(guessed["accepted_tokens"], guessed["drafted_tokens"]);
  EXPECT_EQ(result_of("-n 40 --temp 0 --lookup 2")["tokens"], plain["tokens"]);
  EXPECT_GT(result_of("-n 60 --ctx 32 --keep 4 --ignore-eos")["shifts"], 1);
  EXPECT_EQ(result_of("-n 3 --temp 0 --logit-bias 432=100")["tokens"], nlohmann::json({432, 432, 432}));
  EXPECT_EQ(run(once + "--logit-bias x=1").status, 2);
  EXPECT_EQ(run(once + "--mirostat 3").status, 2);
}

TEST_F(ModelCommand, SaysWhatFitsBeforeItLoads) {
  const std::string once = "run '" + stories_file + "' Once -n 2 --device cpu ";
  const Ran fits = run(once);
  EXPECT_NE(fits.errors.find("of weights"), std::string::npos) << fits.errors;
  const Ran without = run(once + "--draft /nowhere.gguf");
  EXPECT_EQ(without.status, 1);
  EXPECT_NE(without.errors.find("/nowhere.gguf"), std::string::npos) << without.errors;
  EXPECT_EQ(without.errors.find("of weights"), std::string::npos) << without.errors;
  EXPECT_EQ(fits.status, 0) << fits.errors;
  EXPECT_NE(fits.errors.find("1.2 MB of weights, 1.3 MB for 2048 tokens of context; "), std::string::npos)
      << fits.errors;
  const Ran more = run(once + "--ctx 4096");
  EXPECT_EQ(more.status, 0) << more.errors;
  EXPECT_NE(more.errors.find("--ctx 4096 is more than the model has; its context is 2048"), std::string::npos)
      << more.errors;
  const Ran little = run(once + "--memory 0.002");
  EXPECT_EQ(little.status, 1);
  EXPECT_NE(little.errors.find("kB are missing; it would fit with --ctx 1024, or weights in q8_0"),
            std::string::npos)
      << little.errors;
  EXPECT_EQ(run(once + "--memory 0.002 --ctx 1024").status, 0);
  const Ran less = run(once + "--memory 0.0005");
  EXPECT_NE(less.errors.find("are missing; "), std::string::npos) << less.errors;
  // A text is looked for before a model; so is a template.
  std::vector<std::string> talks = {"chat"};
#ifdef HEARTH_HAVE_HTTPLIB
  talks.push_back("serve --port 0");
#endif
  for (const std::string& talk : talks) {
    const Ran none = run(talk + " nothing.gguf --device cpu --template /nowhere/template");
    EXPECT_EQ(none.status, 1);
    EXPECT_NE(none.errors.find("/nowhere/template"), std::string::npos) << none.errors;
  }
  const Ran no_text = run("perplexity nothing.gguf /nowhere/text.txt");
  EXPECT_EQ(no_text.status, 1);
  EXPECT_NE(no_text.errors.find("/nowhere/text.txt"), std::string::npos) << no_text.errors;
}

// Where not all layers fit a GPU, the CPU runs the others.
TEST_F(ModelCommand, LayersThatDoNotFitAGpuStayOnTheCpu) {
  SKIP_WITHOUT_TOKENIZERS();
  const std::string once = "run '" + stories_file + "' Once -n 4 --temp 0 --ctx 64 --json ";
  const auto plain = nlohmann::json::parse(run(once + "--device cpu").output);
  for (const std::string layers : {"1", "4", "5", "99"}) {
    const auto parts = nlohmann::json::parse(run(once + "--device cpu --gpu-layers " + layers).output);
    EXPECT_EQ(parts["tokens"], plain["tokens"]);
  }
  EXPECT_EQ(run(once + "--gpu-layers 0").status, 2);
  const auto known = devices();
  if (known.back().kind == DeviceKind::cpu) GTEST_SKIP() << "no GPU";
  const std::string teller =
      "run '" HEARTH_MODELS_DIR "/storyteller.gguf' Once -n 2 --temp 0 --ctx 256 --json ";
  const Ran split = run(teller + "--memory 0.02 --device " + to_string(known.back()));
  ASSERT_EQ(split.status, 0) << split.errors;
  EXPECT_NE(split.errors.find("layers fit; the others run on the CPU"), std::string::npos) << split.errors;
  EXPECT_NE(split.errors.find(" layers) and the CPU"), std::string::npos) << split.errors;
  EXPECT_EQ(nlohmann::json::parse(split.output)["tokens"],
            nlohmann::json::parse(run(teller + "--device cpu").output)["tokens"]);
}

TEST_F(ModelCommand, MeasuresSpeed) {
  const auto json = nlohmann::json::parse(
      run("bench llm --shape tiny --type q4_0 --lengths 8,16 -n 4 --repeats 1 --device cpu --json").output);
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][1]["length"], 16);
  EXPECT_GT(json["rows"][1]["tokens_per_second"].get<double>(), 0);
  EXPECT_GT(json["bandwidth"].get<double>(), 1e8);
  EXPECT_EQ(json["bandwidth_by"], "sum");
  // Two layers and the output in 4.5 bits, norms in 32, and the keys and values of 16 to 20 tokens.
  const double matrices = 2 * (256 * 512 + 256 * 256 + 3 * 256 * 768) + 512 * 256, norms = 5 * 256;
  EXPECT_NEAR(json["rows"][1]["bytes_per_token"].get<double>(),
              matrices * 4.5 / 8 + norms * 4 + 18 * 2 * 2 * 128 * 2, 1);
  // 64 sequences grow at once; a step reads the weights once for all of them.
  const auto many = nlohmann::json::parse(run("bench llm --shape tiny --type q8_0 --cache q8_0 --sequences "
                                              "64 --lengths 8 -n 4 --repeats 1 --device cpu --json")
                                              .output);
  EXPECT_EQ(many["sequences"], 64);
  constexpr double cached = 2 * 2 * 128 * 8.5 / 8;
  EXPECT_EQ(many["cache_bytes"].get<double>(), 64 * 32 * cached);
  EXPECT_NEAR(many["rows"][0]["bytes_per_token"].get<double>(),
              (matrices * 8.5 / 8 + norms * 4) / 64 + 10 * cached, 1);
  EXPECT_GT(many["rows"][0]["tokens_per_second"].get<double>(), 0);
  const Ran table = run("bench llm '" + stories_file + "' --lengths 8 -n 4 --repeats 1 --device cpu");
  EXPECT_EQ(table.status, 0) << table.errors;
  EXPECT_NE(table.output.find("of bandwidth"), std::string::npos) << table.output;
  const Ran long_one = run("bench llm '" + stories_file + "' --lengths 1000000 --device cpu");
  EXPECT_EQ(long_one.status, 1);
  EXPECT_NE(long_one.errors.find("do not fit a context of 2048"), std::string::npos) << long_one.errors;
}

}  // namespace
}  // namespace hearth
