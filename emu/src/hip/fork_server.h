// Running a program many times without loading it each time: a copy that libhipemu_fork.so was preloaded into
// runs its main in a fork for each request.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hipemu::hip {

// On the socket: a byte from the copy when it is ready; then a request and the texts, each with a zero behind
// it (the folder, arguments, environment); then what waitpid says of the fork, an int.
struct ForkRequest {
  uint32_t bytes, arguments, variables;
};
constexpr const char* fork_socket_variable = "HIPEMU_FORK_SOCKET";
constexpr const char* fork_log = "hipemu_log";  // in the folder: what the fork wrote

// The exit status, or nothing where the program cannot be run so. Runs at the same time have a copy each;
// copies end with this process. Safe from any thread.
std::optional<int> run_fork(const std::string& program, const std::filesystem::path& folder,
                            const std::vector<std::string>& arguments, std::string& log);

}  // namespace hipemu::hip
