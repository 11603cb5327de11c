// The frame of the benchmarks: timing by medians, rows of results.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hearth/device.h"

namespace hearth::bench {

struct Row {
  std::string group, name;
  double value = 0;
  std::string unit;
  double ratio = -1;  // to the yardstick measured in the same run; -1: none
  std::string yardstick;
  double target = -1;    // what the ratio should reach (at least); -1: none
  bool at_most = false;  // the target is an upper bound of `value`
};

class Report {
 public:
  void add(Row row);
  const std::vector<Row>& rows() const { return rows_; }
  // To files, where their names are not empty; `command` is what made them.
  void write(const std::string& json, const std::string& markdown, Device device,
             const std::string& command) const;

 private:
  std::vector<Row> rows_;
};

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Median seconds of one call, after warming up. The candidates take turns, so that what disturbs the machine
// disturbs all of them.
std::vector<double> medians(const std::vector<std::function<void()>>& candidates, double seconds_each = 0.6);
// The same, each candidate for a while on its own before the next takes its turn: for libraries whose threads
// go on spinning after a call.
std::vector<double> medians_apart(const std::vector<std::function<void()>>& candidates,
                                  double seconds_each = 0.6);
inline double median_of(const std::function<void()>& f, double seconds = 0.6) {
  return medians({f}, seconds)[0];
}

struct Options {
  bool quick = false;    // shorter runs, for trying out
  bool profile = false;  // training: also print where the time goes
};

// Copy bandwidth of the machine, bytes read plus bytes written per second, on all threads.
double copy_bandwidth(std::size_t bytes);

void memory_bound(Report& report, const Options& options);
void dense(Report& report, const Options& options);
void quantised(Report& report, const Options& options);
void plans(Report& report, const Options& options);
void training(Report& report, const Options& options);
void tokenizer(Report& report, const Options& options);

}  // namespace hearth::bench
