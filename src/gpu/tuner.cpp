// Measuring, refusing, remembering.
#include "gpu/tuner.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>

#include "base/say.h"
#include "gpu/compiler.h"
#include "gpu/kernel_cache.h"
#include "hearth/config.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

void warn(const std::string& text) { say("hearth: warning: {}\n", text); }

std::atomic<bool> exhaustive_wanted = false;

// Of the texts that our kernels are made of.
std::string kernels_of_this_version() {
  Hasher hasher;
  for (const KernelHeader& header : kernel_headers()) {
    add_text(hasher, header.name);
    add_text(hasher, header.text);
  }
  return fmt::format("{:016x}", hasher.finish().low);
}

}  // namespace

Tuner::Tuner(std::filesystem::path file, std::string kernels)
    : file_(std::move(file)), kernels_(std::move(kernels)) {
  if (file_.empty()) return;
  std::string problem;
  record_ = read_tuning_file(file_, problem);
  if (!problem.empty()) warn(fmt::format("{}; what was measured is measured again", problem));
  avoided_ = record_.unfinished;
  for (const std::string& library : avoided_)
    warn(fmt::format(
        "{} is not used: a process that tried it did not survive (`hearth tune --clear` forgets)", library));
}

std::optional<TuningEntry> Tuner::find(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  const auto found = record_.entries.find(problem);
  const bool known =
      found != record_.entries.end() && !found->second.seconds.empty() && found->second.kernels == kernels_;
  ++(known ? stats_.hits : stats_.misses);
  return known ? std::optional(found->second) : std::nullopt;
}

// With the lock held. A call of a library that has not computed anything yet is noted before it is made, and
// so is that it returned; where the device was lost in it, the first note stays.
bool Tuner::guarded(const std::string& library, const std::function<void()>& work) {
  if (avoided_.contains(library)) return false;
  if (library.empty() || record_.trusted.contains(library)) {
    work();
    return true;
  }
  record_.unfinished.insert(library);
  returned_.erase(library);
  save();
  const auto returned = [&] {
    record_.unfinished.erase(library);
    returned_.insert(library);
    save();
  };
  try {
    work();
  } catch (const DeviceError&) {
    throw;
  } catch (const Error&) {
    returned();
    throw;
  }
  returned();
  return true;
}

bool Tuner::ask(const std::string& library, const std::function<void()>& question) {
  const std::lock_guard lock(mutex_);
  return guarded(library, question);
}

// With the lock held.
bool Tuner::checked(const std::string& problem, const TuningCandidate& candidate) {
  if (!candidate.check) return true;
  TuningEntry& entry = record_.entries[problem];
  if (entry.refused.contains(candidate.name) || avoided_.contains(candidate.library)) return false;
  if (entry.verified.contains(candidate.name)) return true;
  bool right = false;
  try {
    guarded(candidate.library, candidate.check);
    entry.verified.insert(candidate.name);
    right = true;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const DeviceError& error) {
    entry.refused[candidate.name] = error.what();
    save(problem);
    throw;
  } catch (const Error& error) {
    entry.refused[candidate.name] = error.what();
  }
  if (!candidate.library.empty()) record_.trusted.insert(candidate.library);
  save(problem);
  return right;
}

bool Tuner::admit(const std::string& problem, const TuningCandidate& candidate) {
  const std::lock_guard lock(mutex_);
  return checked(problem, candidate);
}

TuningEntry Tuner::measure(const std::string& problem, std::span<const TuningCandidate> candidates,
                           bool exhaustive) {
  const std::lock_guard lock(mutex_);
  TuningEntry& entry = record_.entries[problem];
  entry.seconds.clear();
  for (const TuningCandidate& candidate : candidates) {
    if (!checked(problem, candidate)) continue;
    try {
      entry.seconds[candidate.name] = candidate.measure();
    } catch (const OutOfMemory&) {
      throw;
    } catch (const DeviceError&) {
      throw;
    } catch (const Error& error) {
      entry.refused[candidate.name] = error.what();
    }
  }
  entry.kernels = kernels_;
  entry.exhaustive = exhaustive;
  ++stats_.tuned;
  save(problem);
  return entry;
}

void Tuner::refuse(const std::string& problem, const std::string& candidate, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  TuningEntry& entry = record_.entries[problem];
  entry.refused[candidate] = reason;
  entry.seconds.erase(candidate);
  entry.verified.erase(candidate);
  save(problem);
}

// Other processes may have added to the file: theirs is kept but for this problem, if any. With the lock
// held.
void Tuner::save(const std::string& problem) {
  if (file_.empty()) return;
  try {
    std::string damaged;
    TuningRecord kept = read_tuning_file(file_, damaged);
    if (!problem.empty()) kept.entries[problem] = record_.entries[problem];
    for (const std::string& library : record_.trusted) kept.unfinished.erase(library);
    for (const std::string& library : returned_) kept.unfinished.erase(library);
    kept.unfinished.insert(record_.unfinished.begin(), record_.unfinished.end());
    kept.trusted.insert(record_.trusted.begin(), record_.trusted.end());
    for (const auto& [other, entry] : record_.entries) kept.entries.emplace(other, entry);
    write_tuning_file(file_, kept);
    record_.entries.merge(kept.entries);
  } catch (const FileError& error) {
    if (!warned_) warn(fmt::format("what is measured is not kept: {}", error.what()));
    warned_ = true;
  }
}

TuningStats Tuner::stats() const {
  const std::lock_guard lock(mutex_);
  TuningStats stats = stats_;
  for (const auto& [problem, entry] : record_.entries) {
    stats.entries += !entry.seconds.empty();
    stats.refused += entry.refused.size();
  }
  return stats;
}

std::map<std::string, TuningEntry> Tuner::entries() const {
  const std::lock_guard lock(mutex_);
  return record_.entries;
}

void Tuner::clear() {
  const std::lock_guard lock(mutex_);
  record_ = {};
  avoided_.clear();
  returned_.clear();
  stats_ = {};
  if (file_.empty()) return;
  std::error_code error;
  std::filesystem::remove(file_, error);
  if (error) throw FileError(fmt::format("{}: cannot be removed: {}", file_.string(), error.message()));
}

std::filesystem::path default_tuning_file() {
  const std::filesystem::path folder = user_cache_folder();
  return folder.empty() ? folder : folder / "tuning.json";
}

Tuner& tuner() {
  static std::mutex mutex;
  static auto& tuners = *new std::map<std::string, std::unique_ptr<Tuner>>;  // kernels may outlive main()
  static const std::string& kernels = *new std::string(kernels_of_this_version());
  const std::string wanted = config().tuning_file;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Tuner>& found = tuners[wanted];
  if (!found)
    found = std::make_unique<Tuner>(wanted.empty()    ? default_tuning_file()
                                    : wanted == "off" ? std::filesystem::path()
                                                      : std::filesystem::path(wanted),
                                    kernels);
  return *found;
}

void set_exhaustive_tuning(bool exhaustive) { exhaustive_wanted = exhaustive; }
bool exhaustive_tuning() { return exhaustive_wanted; }

}  // namespace hearth::gpu

namespace hearth {

TuningStats tuning_stats() { return gpu::tuner().stats(); }

}  // namespace hearth
