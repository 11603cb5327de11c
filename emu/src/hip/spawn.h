// Starting other programs.
#pragma once

#include <spawn.h>

#include <csignal>
#include <string>

namespace hipemu::hip {

// The program is looked for on the path. Signals that this thread blocks are not blocked in it: it could not
// be stopped. Returns 0, or errno.
inline int spawn(const std::string& program, const posix_spawn_file_actions_t& actions,
                 char* const arguments[], char* const variables[], pid_t& child) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error = posix_spawnp(&child, program.c_str(), &actions, &attributes, arguments, variables);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace hipemu::hip
