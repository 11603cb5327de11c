// Replacing files: what is there before, after, and when something fails.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "expect_error.h"
#include "hearth/error.h"
#include "temporary_folder.h"

// The library's calls of these functions come here, so that a disk can be made to fail at will.
namespace {
int fsync_error = 0, close_error = 0, rename_error = 0;
}
extern "C" int fsync(int descriptor) {
  if (fsync_error) return errno = fsync_error, -1;
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}
extern "C" int close(int descriptor) {
  const auto result = static_cast<int>(::syscall(SYS_close, descriptor));
  if (close_error) return errno = close_error, -1;
  return result;
}
extern "C" int rename(const char* from, const char* to) noexcept {
  if (rename_error) return errno = rename_error, -1;
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace hearth {
namespace {

using test::expect_error;
using test::TemporaryFolder;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class ErrorAt {
 public:
  ErrorAt(int& place, int error) : place_(place) { place_ = error; }
  ~ErrorAt() { place_ = 0; }

 private:
  int& place_;
};

// Runs `body` in a child process; the child's exit status is 0 when it returned true.
template <typename F>
int in_child(F body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 1;
    try {
      status = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class AtomicFileTest : public testing::TestWithParam<AtomicFile::Temporary> {
 protected:
  void replace(std::string_view text) const {
    AtomicFile file(target, GetParam());
    file.write(text);
    file.commit();
  }
  // The old file is whole, and there is nothing beside it.
  void expect_untouched() const {
    EXPECT_EQ(read_text_file(target), "old");
    EXPECT_EQ(folder.files(), std::vector<std::string>{"target"});
  }

  TemporaryFolder folder;
  std::filesystem::path target = folder / "target";
};
INSTANTIATE_TEST_SUITE_P(Both, AtomicFileTest,
                         testing::Values(AtomicFile::Temporary::unnamed_if_possible,
                                         AtomicFile::Temporary::named),
                         [](const auto& which) {
                           return which.param == AtomicFile::Temporary::named ? "Named" : "Unnamed";
                         });

TEST_P(AtomicFileTest, WritesAndReplaces) {
  replace("old");
  expect_untouched();
  replace("new, and longer");
  EXPECT_EQ(read_text_file(target), "new, and longer");
  EXPECT_EQ(folder.files().size(), 1u);
}

TEST_P(AtomicFileTest, NothingIsSeenBeforeCommit) {
  replace("old");
  {
    AtomicFile file(target, GetParam());
    file.write("new");
    EXPECT_EQ(read_text_file(target), "old");
  }
  expect_untouched();
}

TEST_P(AtomicFileTest, OverwritesWhatWasWritten) {
  AtomicFile file(target, GetParam());
  file.write("0123456789");
  file.overwrite(2, bytes_of("ab"));
  file.write("!");
  EXPECT_THROW(file.overwrite(10, bytes_of("xx")), ValueError);
  EXPECT_EQ(file.size(), 11u);
  file.commit();
  EXPECT_EQ(read_text_file(target), "01ab456789!");
  EXPECT_THROW(file.write("more"), ValueError);
  EXPECT_THROW(file.commit(), ValueError);
}

TEST_P(AtomicFileTest, KeepsPermissionsAndRespectsTheMask) {
  const auto old_mask = ::umask(027);
  replace("x");
  ::umask(old_mask);
  const auto mode = [&] { return static_cast<unsigned>(std::filesystem::status(target).permissions()); };
  EXPECT_EQ(mode(), 0640u);
  ::chmod(target.c_str(), 0604);
  replace("y");
  EXPECT_EQ(mode(), 0604u);
}

TEST_P(AtomicFileTest, FollowsALink) {
  std::filesystem::create_directory(folder / "real");
  write_atomically(folder / "real/file", "old");
  std::filesystem::create_symlink("real/file", target);
  replace("new");
  EXPECT_TRUE(std::filesystem::is_symlink(target));
  EXPECT_EQ(read_text_file(folder / "real/file"), "new");
}

TEST_P(AtomicFileTest, FailureAtFsync) {
  replace("old");
  ErrorAt error(fsync_error, ENOSPC);
  expect_error<FileError>([&] { replace("new"); }, {target.string(), "No space left on device"});
  expect_untouched();
}

TEST_P(AtomicFileTest, FailureAtClose) {
  replace("old");
  {
    AtomicFile file(target, GetParam());
    file.write("new");
    ErrorAt error(close_error, ENOSPC);
    expect_error<FileError>([&] { file.commit(); }, {target.string(), "No space left on device"});
  }
  expect_untouched();
}

TEST_P(AtomicFileTest, FailureAtRename) {
  replace("old");
  ErrorAt error(rename_error, EIO);
  expect_error<FileError>([&] { replace("new"); }, {target.string(), "Input/output error"});
  expect_untouched();
}

TEST_P(AtomicFileTest, FailureAtWrite) {
  replace("old");
  // A limit on the size of files stands for a disk that is full after 4096 bytes.
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const auto before = limit.rlim_cur;
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  {
    AtomicFile file(target, GetParam());
    file.write(std::string(4000, 'x'));
    limit.rlim_cur = 4096;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    expect_error<FileError>([&] { file.write(std::string(4000, 'x')); }, {target.string(), "File too large"});
    EXPECT_THROW(file.commit(), ValueError);  // half a file cannot be committed
  }
  limit.rlim_cur = before;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, handler);
  expect_untouched();
}

// A real full disk: a file system of 256 KiB, mounted where only a child process sees it.
TEST_P(AtomicFileTest, FullDisk) {
  constexpr int cannot_mount = 77;
  const int status = in_child([&] {
    const auto disk = folder / "disk";
    std::filesystem::create_directory(disk);
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0)
      return cannot_mount;
    target = disk / "target";
    replace("old");
    expect_error<FileError>([&] { replace(std::string(1 << 20, 'x')); },
                            {target.string(), "No space left on device"});
    EXPECT_EQ(read_text_file(target), "old");
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(disk)) ++files;
    EXPECT_EQ(files, 1u);
    replace(std::string(100 << 10, 'y'));  // the space is free again
    EXPECT_EQ(std::filesystem::file_size(target), 100u << 10);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  if (status == cannot_mount) GTEST_SKIP() << "mounting a small file system is not allowed here";
  EXPECT_EQ(status, 0);
}

TEST_P(AtomicFileTest, UnwritableFolder) {
  replace("old");
  ::chmod(folder.path().c_str(), 0555);
  const int status = in_child([&] {
    // Root may write anywhere; be somebody else.
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 1;
    ::chmod(target.c_str(), 0666);
    expect_error<FileError>([&] { AtomicFile(folder / "other", GetParam()); },
                            {"other", "Permission denied"});
    return testing::Test::HasFailure() ? 1 : 0;
  });
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(status, 0);
  expect_untouched();
}

TEST_P(AtomicFileTest, UnwritableFileIsNotReplaced) {
  replace("old");
  ::chmod(target.c_str(), 0444);
  ::chmod(folder.path().c_str(), 0777);
  const int status = in_child([&] {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 1;
    expect_error<FileError>([&] { replace("new"); }, {"target", "Permission denied"});
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(status, 0);
  expect_untouched();
}

TEST_P(AtomicFileTest, WrongTargets) {
  const auto open = [&](const std::filesystem::path& path) { AtomicFile(path, GetParam()); };
  expect_error<FileError>([&] { open(folder.path()); }, {folder.path().string(), "Is a directory"});
  expect_error<FileError>([&] { open(folder / "absent/file"); },
                          {"absent/file", "No such file or directory"});
  expect_error<FileError>([&] { open(folder / std::string(300, 'x') / "y"); }, {"File name too long"});
  expect_error<FileError>([&] { open("/dev/null"); }, {"/dev/null", "not a regular file"});
  expect_error<FileError>([&] { open(""); }, {"cannot write ''"});
  ::mkfifo(target.c_str(), 0600);
  expect_error<FileError>([&] { open(target); }, {"not a regular file"});
}

TEST_P(AtomicFileTest, ExceptionWhileWriting) {
  replace("old");
  try {
    AtomicFile file(target, GetParam());
    file.write("new");
    throw std::runtime_error("the caller's");
  } catch (const std::runtime_error&) {
  }
  expect_untouched();
}

// A process that saves all the time is killed at any moment: the file is one of those it saved, whole.
TEST_P(AtomicFileTest, KilledWhileSaving) {
  const auto contents = [](char letter) { return std::string(300'000, letter); };
  replace(contents('a'));
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (char letter = 'a';; letter = letter == 'z' ? 'a' : static_cast<char>(letter + 1))
        replace(contents(letter));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(3000 + 1700 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto found = read_text_file(target);
    ASSERT_EQ(found.size(), 300'000u);
    ASSERT_EQ(found, contents(found[0]));
  }
}

TEST(WriteAtomically, ExceptionOfTheWriter) {
  TemporaryFolder folder;
  write_atomically(folder / "f", "old");
  EXPECT_THROW(write_atomically(folder / "f",
                                [](AtomicFile& file) {
                                  file.write("new");
                                  throw ValueError("no");
                                }),
               ValueError);
  EXPECT_EQ(read_text_file(folder / "f"), "old");
  EXPECT_EQ(folder.files().size(), 1u);
}

// As with a whole path: where the file system can, nothing is to be seen before it is complete.
TEST(WriteAtomically, RelativePathsLeaveNothingBehindEither) {
  const TemporaryFolder folder;
  const auto seen_while_writing = [&](const std::filesystem::path& path) {
    AtomicFile file(path);
    file.write("half");
    return folder.files().size();
  };
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const std::size_t relative = seen_while_writing("f");
  std::filesystem::current_path(before);
  EXPECT_EQ(relative, seen_while_writing(folder / "f"));
}

TEST(WriteAtomically, RelativePath) {
  TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_atomically("f", "x");
  std::filesystem::current_path(before);
  EXPECT_EQ(read_text_file(folder / "f"), "x");
}

TEST(WriteAtomically, ManyThreadsOneFile) {
  TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (char letter = 'a'; letter < 'e'; ++letter)
    threads.emplace_back([&, letter] {
      for (int i = 0; i < 20; ++i) write_atomically(folder / "f", std::string(10'000, letter));
    });
  for (auto& thread : threads) thread.join();
  const auto found = read_text_file(folder / "f");
  EXPECT_EQ(found, std::string(10'000, found[0]));
  EXPECT_EQ(folder.files().size(), 1u);
}

TEST(ReadFile, Contents) {
  TemporaryFolder folder;
  const std::string text(100'000, 'q');
  write_atomically(folder / "f", text);
  EXPECT_EQ(read_text_file(folder / "f"), text);
  EXPECT_EQ(read_file(folder / "f"), bytes_of(text));
  const MappedFile mapped(folder / "f");
  EXPECT_EQ(std::vector(mapped.bytes().begin(), mapped.bytes().end()), bytes_of(text));
  EXPECT_EQ(mapped.path(), folder / "f");
  EXPECT_GT(read_file("/proc/self/status").size(), 100u);  // its stated size is 0
}

TEST(ReadFile, EmptyFile) {
  TemporaryFolder folder;
  write_atomically(folder / "f", "");
  EXPECT_TRUE(read_file(folder / "f").empty());
  EXPECT_TRUE(MappedFile(folder / "f").bytes().empty());
}

TEST(ReadFile, Errors) {
  TemporaryFolder folder;
  expect_error<FileError>([&] { read_file(folder / "absent"); }, {"absent", "No such file or directory"});
  expect_error<FileError>([&] { MappedFile(folder / "absent"); }, {"absent", "No such file or directory"});
  expect_error<FileError>([&] { read_file(folder.path()); }, {"Is a directory"});
  expect_error<FileError>([&] { MappedFile{folder.path()}; }, {"not a regular file"});
  ::mkfifo((folder / "pipe").c_str(), 0600);
  expect_error<FileError>([&] { MappedFile(folder / "pipe"); }, {"not a regular file"});
}

// The mapping of a file that has been replaced still shows the old contents.
TEST(MappedFile, OutlivesReplacement) {
  TemporaryFolder folder;
  write_atomically(folder / "f", "old");
  const MappedFile mapped(folder / "f");
  write_atomically(folder / "f", "new");
  EXPECT_EQ(std::vector(mapped.bytes().begin(), mapped.bytes().end()), bytes_of("old"));
}

}  // namespace
}  // namespace hearth
