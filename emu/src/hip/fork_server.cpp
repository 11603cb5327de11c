// Starts the copies and keeps those that are idle.
#include "hip/fork_server.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "hip/compiler.h"
#include "hip/spawn.h"

extern char** environ;

namespace hipemu::hip {
namespace fs = std::filesystem;
namespace {

class Copy {
 public:
  explicit Copy(int socket) : socket_(socket) {}
  Copy(Copy&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  Copy& operator=(Copy&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }
  ~Copy() {
    if (socket_ >= 0) close(socket_);
  }

  bool write(const void* from, size_t size) const {
    const auto* bytes = static_cast<const char*>(from);
    while (size > 0) {
      const ssize_t done = send(socket_, bytes, size, MSG_NOSIGNAL);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return false;
      bytes += done;
      size -= static_cast<size_t>(done);
    }
    return true;
  }
  bool read(void* to, size_t size) const {
    ssize_t done = 0;
    do done = recv(socket_, to, size, MSG_WAITALL);
    while (done < 0 && errno == EINTR);
    return done == static_cast<ssize_t>(size);
  }

 private:
  int socket_;
};

struct Copies {
  std::mutex mutex;
  pid_t owner = getpid();
  std::map<std::string, std::vector<Copy>> idle;
  std::set<std::string> refused;  // programs that do not load the library
};

Copies& copies() {
  static Copies& instance = *new Copies;  // threads may compile until the end
  return instance;
}

// Beside this library.
std::string preloaded_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&preloaded_library), &info) == 0) return "";
  std::error_code error;
  const fs::path path = fs::canonical(info.dli_fname, error).parent_path() / "libhipemu_fork.so";
  return fs::exists(path, error) ? path.string() : "";
}

std::optional<Copy> start(const std::string& program) {
  const std::string library = preloaded_library();
  int ends[2];
  if (library.empty() || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
  Copy ours(ends[0]);
  const Copy theirs(ends[1]);

  std::vector<std::string> texts;
  std::string preload = "LD_PRELOAD=" + library;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (std::string_view(*variable).starts_with("LD_PRELOAD="))
      preload.append(":").append(*variable + sizeof "LD_PRELOAD");
    else
      texts.emplace_back(*variable);
  texts.push_back(preload);
  texts.push_back(std::string(fork_socket_variable) + "=" + std::to_string(ends[1]));
  std::vector<char*> variables;
  for (std::string& text : texts) variables.push_back(text.data());
  variables.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], ends[1]);  // it survives exec
  // Nobody waits for the end of output because of a copy that has not noticed yet that it is over.
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  char* arguments[] = {const_cast<char*>(program.c_str()), nullptr};
  pid_t child = 0;
  const int error = spawn(program, actions, arguments, variables.data(), child);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::nullopt;
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;  // it leaves a child of its own
  return ours;
}

// An idle copy, or a new one, which has not said yet that it is ready.
std::pair<std::optional<Copy>, bool> take(const std::string& program) {
  Copies& all = copies();
  {
    const std::lock_guard lock(all.mutex);
    if (all.owner != getpid()) {  // those of the process that this one was forked from answer to that one
      all.idle.clear();
      all.owner = getpid();
    }
    if (all.refused.contains(program)) return {};
    if (auto& idle = all.idle[program]; !idle.empty()) {
      Copy copy = std::move(idle.back());
      idle.pop_back();
      return {std::move(copy), true};
    }
  }
  return {start(program), false};
}

void add(std::string& texts, std::string_view text) { texts.append(text).push_back('\0'); }

std::optional<int> ask(const Copy& copy, const fs::path& folder, const std::vector<std::string>& arguments) {
  std::string texts;
  ForkRequest request{0, static_cast<uint32_t>(arguments.size()), 0};
  add(texts, folder.native());
  for (const std::string& argument : arguments) add(texts, argument);
  for (char** variable = environ; *variable != nullptr; ++variable, ++request.variables)
    add(texts, *variable);
  request.bytes = static_cast<uint32_t>(texts.size());
  int status = 0;
  if (!copy.write(&request, sizeof request) || !copy.write(texts.data(), texts.size()) ||
      !copy.read(&status, sizeof status))
    return std::nullopt;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

std::optional<int> run_fork(const std::string& program, const fs::path& folder,
                            const std::vector<std::string>& arguments, std::string& log) {
  auto [copy, ready] = take(program);
  if (copy && !ready) {
    char byte = 0;
    if (!copy->read(&byte, 1)) copy.reset();
  }
  Copies& all = copies();
  if (!copy) {
    const std::lock_guard lock(all.mutex);
    all.refused.insert(program);
    return std::nullopt;
  }
  const std::optional<int> status = ask(*copy, folder, arguments);
  if (!status) return std::nullopt;
  const fs::path written = folder / fork_log;
  log = read_text(written).value_or("");
  std::error_code ignored;
  fs::remove(written, ignored);
  const std::lock_guard lock(all.mutex);
  all.idle[program].push_back(std::move(*copy));
  return status;
}

}  // namespace hipemu::hip
