// Options of the runtime.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "hearth/dtype.h"

namespace hearth {

// conservative: no fusion, every operation as written. balanced: fusion and common subexpressions.
// aggressive: also what changes results in the last place: divisions by a number become multiplications,
// and products and convolutions are computed in the way that was measured to be fastest.
// explain() shows what a level did.
enum class OptimizationLevel { conservative, balanced, aggressive };

// How MIOpen looks for its ways to convolve when ways are measured. fast: what its database or its heuristic
// names, at once. hybrid: where its database does not know a shape, it compiles and times all its ways, which
// takes seconds to minutes per shape. normal: it does so for every shape.
enum class MiopenFindMode { fast, hybrid, normal };

struct Config {
  OptimizationLevel optimization_level = OptimizationLevel::balanced;
  bool enable_operator_fusion = true;  // false: every operation is a step of its own
  bool enable_graph_replay = true;     // false: a GPU is given every kernel of a plan by itself
  bool enable_memory_pooling = true;   // false: memory goes back to the system at once
  // Most memory that a device's pool keeps for later use; below 0: 8 of the host's, all of a GPU's own.
  double memory_pool_size_gb = -1;
  double max_memory_fraction = 0.9;   // of the device's memory; beyond it OutOfMemory is thrown
  double max_memory_gb = 0;           // a further limit, per device; 0: none
  bool enable_oom_protection = true;  // false: neither of the two is enforced
  double pinned_pool_size_mb = 256;   // most memory of the host that is pinned for copies, per GPU
  // The host waits while a GPU has been given work on more memory than this and has not finished it, so that
  // it runs ahead by a bounded amount. One plan may always wait behind another.
  double max_in_flight_gb = 2;
  // A wait for a GPU that lasts longer than this many seconds ends with a DeviceError: the GPU hangs.
  double device_timeout_s = 300;
  DType default_precision =
      DType::f32;          // f32, f16 or bf16: what layers multiply matrices in without an Autocast
  bool allow_fp16 = true;  // false: Autocast to f16 is refused
  bool allow_bf16 = true;  // false: Autocast to bf16 is refused
  bool enable_mixed_precision = true;  // false: Autocast and default_precision have no effect
  bool enable_profiling = false;       // record the time of every step; profile_summary() shows it
  bool enable_strict_validation =
      false;                        // check every step's floating results for NaN and infinity: KernelError
  bool enable_matrix_cores = true;  // false: products and attention on a GPU use plain multiply-adds
  bool vendor_blas_enabled = true;  // false: rocBLAS, hipBLASLt and cuBLASLt are not even opened
  bool vendor_dnn_enabled = true;   // false: MIOpen and cuDNN are not even opened
  MiopenFindMode miopen_find_mode = MiopenFindMode::fast;
  // true: the first time the shape of a product or a convolution is met, the ways to compute it are timed and
  // the fastest is remembered in the tuning file. The level `aggressive` does so too.
  bool enable_tuning = false;
  std::string tuning_file{};             // empty: ~/.cache/hearth/tuning.json; "off": nothing is read or kept
  int threads = 0;                       // CPU threads; 0 = one per core
  std::size_t plan_cache_entries = 256;  // plans kept for graphs seen before
};

// The process-wide configuration. Safe from any thread; a change holds for plans made afterwards.
Config config();
// Throws ConfigError that names the option when a value is out of range.
void set_config(const Config& config);

// By name and text, as from a file or a command line: {"optimization_level", "aggressive"}. Throws
// ConfigError for an unknown name (with the nearest known one) or a wrong value.
Config config_from_text(const std::map<std::string, std::string>& options, Config base = {});

}  // namespace hearth
