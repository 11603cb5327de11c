// The file in which measurements are kept.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hearth::gpu {

// What is known about one problem on one architecture: the ways to compute it, by name.
struct TuningEntry {
  std::map<std::string, double> seconds;       // of those that were timed
  std::set<std::string> verified;              // of a library's: compared with our own kernel
  std::map<std::string, std::string> refused;  // wrong or failing, and why
  std::string kernels;                         // what our kernels were at the time (a hash of their texts)
  bool exhaustive = false;                     // all ways were tried, not the likely ones alone

  std::vector<std::string> ranking() const;  // fastest first
};

struct TuningRecord {
  std::map<std::string, TuningEntry> entries;  // by problem
  // Libraries ("gfx1100 rocBLAS 4.3") of which a call never returned, as far as the file knows: some abort
  // the process.
  std::set<std::string> unfinished;
  std::set<std::string> trusted;  // those that have computed something
};

// Empty when there is no file. A file that is damaged, or of another version of the format, counts as empty;
// `problem` says so.
TuningRecord read_tuning_file(const std::filesystem::path& path, std::string& problem);
// Replaces the file. Throws FileError.
void write_tuning_file(const std::filesystem::path& path, const TuningRecord& record);

}  // namespace hearth::gpu
