// Preloaded into clang and lld: the program waits for requests and runs its main in a fork for each, so that
// it is loaded and relocated once. That is a fifth of the time of compiling a small kernel. See
// fork_server.cpp.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "hip/fork_server.h"

namespace {

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;

bool read_all(int from, void* to, size_t size) {
  auto* bytes = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t done = read(from, bytes, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

// `count` texts that end in zeros, from `text` on.
std::vector<char*> pointers_to(char*& text, uint32_t count) {
  std::vector<char*> pointers;
  for (uint32_t i = 0; i < count; ++i, text += std::strlen(text) + 1) pointers.push_back(text);
  return pointers;
}

int run_request(std::string& texts, const hipemu::hip::ForkRequest& request, int argc, char** argv) {
  char* text = texts.data();
  const char* folder = pointers_to(text, 1)[0];
  // What the program was started with comes first: a script's interpreter has the script there.
  std::vector<char*> arguments(argv, argv + argc);
  for (char* each : pointers_to(text, request.arguments)) arguments.push_back(each);
  arguments.push_back(nullptr);
  std::vector<char*> variables = pointers_to(text, request.variables);
  variables.push_back(nullptr);
  environ = variables.data();
  if (chdir(folder) != 0) return 127;
  const int log = open(hipemu::hip::fork_log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) return 127;
  if (log > STDERR_FILENO) close(log);
  return program_main(static_cast<int>(arguments.size()) - 1, arguments.data(), environ);
}

int serve(int argc, char** argv, char** variables) {
  const char* number = std::getenv(hipemu::hip::fork_socket_variable);
  if (number == nullptr) return program_main(argc, argv, variables);
  const int socket = std::atoi(number);
  // What the other process has open it may want closed, to the last copy.
  if (socket > 3) close_range(3, static_cast<unsigned>(socket) - 1, 0);
  close_range(static_cast<unsigned>(socket) + 1, ~0U, 0);
  std::signal(SIGCHLD, SIG_DFL);
  if (fork() != 0) _exit(0);  // not a child of the process that asks, which may wait for all of its own
  const char ready = 1;
  if (send(socket, &ready, 1, MSG_NOSIGNAL) != 1) return 1;
  hipemu::hip::ForkRequest request;
  while (read_all(socket, &request, sizeof request)) {
    std::string texts(request.bytes, '\0');
    if (!read_all(socket, texts.data(), texts.size())) break;
    const pid_t child = fork();
    if (child == 0) {
      close(socket);
      return run_request(texts, request, argc, argv);
    }
    int status = 1;
    if (child > 0)
      while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (send(socket, &status, sizeof status, MSG_NOSIGNAL) != sizeof status) break;
  }
  _exit(0);
}

}  // namespace

// glibc's, which calls main.
extern "C" __attribute__((visibility("default"))) int __libc_start_main(Main main, int argc, char** argv,
                                                                        void (*init)(), void (*fini)(),
                                                                        void (*end_of_loader)(),
                                                                        void* stack) {
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  program_main = main;
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(serve, argc, argv, init, fini, end_of_loader, stack);
}
