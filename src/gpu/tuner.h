// Tuner: which of several ways to compute a problem is the fastest, measured once and remembered.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "gpu/tuning_file.h"
#include "hearth/tuning.h"

namespace hearth::gpu {

// One way to compute a problem.
struct TuningCandidate {
  std::string name;
  // Empty for our own kernels. A library's name with the architecture: its calls are noted in the file before
  // they are made, until it has computed something, and where one never returned none is made again.
  std::string library;
  std::function<void()> check;      // compares with our own kernel; throws what is wrong. Empty: trusted
  std::function<double()> measure;  // seconds of one run; throws where it fails
};

// Safe from any thread; one problem is measured at a time. Problems with the file are warnings: at worst
// everything is measured again.
class Tuner {
 public:
  // `file` may be empty: nothing is read or kept. `kernels` stands for the versions of our own kernels: times
  // that were measured with others do not count.
  Tuner(std::filesystem::path file, std::string kernels);

  // Runs `question`, which asks a library ("gfx1100 MIOpen 3.4.0") for its ways; false, and nothing is run,
  // where a process did not survive a call of it.
  bool ask(const std::string& library, const std::function<void()>& question);

  // What was measured for a problem; counts as a hit or a miss.
  std::optional<TuningEntry> find(const std::string& problem);

  // Whether a library's candidate may be used: not refused, and right when it was checked, which happens here
  // the first time.
  bool admit(const std::string& problem, const TuningCandidate& candidate);
  // Times the candidates that are admitted and remembers. The fastest is first in the ranking, which is empty
  // when none works.
  TuningEntry measure(const std::string& problem, std::span<const TuningCandidate> candidates,
                      bool exhaustive);
  // It failed after it had been admitted.
  void refuse(const std::string& problem, const std::string& candidate, const std::string& reason);

  TuningStats stats() const;
  std::map<std::string, TuningEntry> entries() const;
  void clear();  // and removes the file
  const std::filesystem::path& file() const { return file_; }

 private:
  bool guarded(const std::string& library, const std::function<void()>& work);
  bool checked(const std::string& problem, const TuningCandidate& candidate);
  void save(const std::string& problem = "");

  std::filesystem::path file_;
  std::string kernels_;
  mutable std::mutex mutex_;
  TuningRecord record_;
  std::set<std::string> avoided_;   // libraries that were unfinished when the file was read
  std::set<std::string> returned_;  // those that were unfinished in this process and then returned
  TuningStats stats_;
  bool warned_ = false;
};

// That of the file which Config::tuning_file names.
Tuner& tuner();
std::filesystem::path default_tuning_file();

// For `hearth tune`: measure more candidates, and again where fewer were measured before.
void set_exhaustive_tuning(bool exhaustive);
bool exhaustive_tuning();

}  // namespace hearth::gpu
