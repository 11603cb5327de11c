// The process-wide configuration.
#include "hearth/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/config_listeners.h"
#include "hearth/error.h"

namespace hearth {
namespace {

std::shared_mutex mutex;
Config current;
std::vector<ConfigListener>& listeners() {
  static std::vector<ConfigListener> list;
  return list;
}

void check_range(bool fine, const char* name, double value, const char* allowed) {
  if (!fine)
    throw ConfigError(fmt::format("[config] {} = {} is out of range; allowed: {}", name, value, allowed));
}

void check(const Config& config) {
  check_range(!std::isnan(config.memory_pool_size_gb), "memory_pool_size_gb", config.memory_pool_size_gb,
              "0 or more, or below 0 for what suits the device");
  check_range(config.max_memory_fraction > 0 && config.max_memory_fraction <= 1, "max_memory_fraction",
              config.max_memory_fraction, "above 0, up to 1");
  check_range(config.max_memory_gb >= 0, "max_memory_gb", config.max_memory_gb, "0 (no limit) or more");
  check_range(config.pinned_pool_size_mb > 0, "pinned_pool_size_mb", config.pinned_pool_size_mb, "above 0");
  check_range(config.max_in_flight_gb > 0, "max_in_flight_gb", config.max_in_flight_gb, "above 0");
  check_range(config.device_timeout_s > 0, "device_timeout_s", config.device_timeout_s, "above 0");
  check_range(config.threads >= 0 && config.threads <= 1024, "threads", config.threads,
              "0 (all cores) to 1024");
  check_range(config.default_precision != DType::f16 || config.allow_fp16, "allow_fp16", 0,
              "true, where default_precision is f16");
  check_range(config.default_precision != DType::bf16 || config.allow_bf16, "allow_bf16", 0,
              "true, where default_precision is bf16");
  if (config.default_precision != DType::f32 && config.default_precision != DType::f16 &&
      config.default_precision != DType::bf16)
    throw ConfigError(fmt::format("[config] default_precision = {}; allowed: f32, f16, bf16",
                                  dtype_name(config.default_precision)));
}

bool parse_bool(const std::string& name, const std::string& text) {
  if (text == "true" || text == "1" || text == "on" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "off" || text == "no") return false;
  throw ConfigError(fmt::format("[config] {} = \"{}\"; allowed: true, false", name, text));
}

double parse_number(const std::string& name, const std::string& text) {
  try {
    std::size_t used = 0;
    const double value = std::stod(text, &used);
    if (used == text.size()) return value;
  } catch (const std::exception&) {
  }
  throw ConfigError(fmt::format("[config] {} = \"{}\" is not a number", name, text));
}

OptimizationLevel parse_level(const std::string& name, const std::string& text) {
  if (text == "conservative") return OptimizationLevel::conservative;
  if (text == "balanced") return OptimizationLevel::balanced;
  if (text == "aggressive") return OptimizationLevel::aggressive;
  throw ConfigError(
      fmt::format("[config] {} = \"{}\"; allowed: conservative, balanced, aggressive", name, text));
}

DType parse_precision(const std::string& name, const std::string& text) {
  if (text == "fp32" || text == "f32") return DType::f32;
  if (text == "fp16" || text == "f16") return DType::f16;
  if (text == "bf16") return DType::bf16;
  throw ConfigError(fmt::format("[config] {} = \"{}\"; allowed: fp32, fp16, bf16", name, text));
}

MiopenFindMode parse_find_mode(const std::string& name, const std::string& text) {
  if (text == "fast" || text == "FAST") return MiopenFindMode::fast;
  if (text == "hybrid" || text == "HYBRID") return MiopenFindMode::hybrid;
  if (text == "normal" || text == "NORMAL") return MiopenFindMode::normal;
  throw ConfigError(fmt::format("[config] {} = \"{}\"; allowed: fast, hybrid, normal", name, text));
}

int parse_int(const std::string& name, const std::string& text) {
  const double value = parse_number(name, text);
  if (value != static_cast<int>(value))
    throw ConfigError(fmt::format("[config] {} = {} is not a whole number", name, text));
  return static_cast<int>(value);
}

std::string parse_text(const std::string&, const std::string& text) { return text; }

struct Option {
  const char* name;
  void (*set)(Config&, const std::string& name, const std::string& text);
};

#define HEARTH_OPTION(field, parse)                                                                       \
  Option {                                                                                                \
#field,                                                                                               \
        [](Config & c, const std::string& name, const std::string& text) { c.field = parse(name, text); } \
  }
const std::vector<Option> options = {
    HEARTH_OPTION(optimization_level, parse_level),
    HEARTH_OPTION(enable_operator_fusion, parse_bool),
    HEARTH_OPTION(enable_graph_replay, parse_bool),
    HEARTH_OPTION(enable_memory_pooling, parse_bool),
    HEARTH_OPTION(memory_pool_size_gb, parse_number),
    HEARTH_OPTION(max_memory_fraction, parse_number),
    HEARTH_OPTION(max_memory_gb, parse_number),
    HEARTH_OPTION(enable_oom_protection, parse_bool),
    HEARTH_OPTION(pinned_pool_size_mb, parse_number),
    HEARTH_OPTION(max_in_flight_gb, parse_number),
    HEARTH_OPTION(device_timeout_s, parse_number),
    HEARTH_OPTION(default_precision, parse_precision),
    HEARTH_OPTION(allow_fp16, parse_bool),
    HEARTH_OPTION(allow_bf16, parse_bool),
    HEARTH_OPTION(enable_mixed_precision, parse_bool),
    HEARTH_OPTION(enable_profiling, parse_bool),
    HEARTH_OPTION(enable_strict_validation, parse_bool),
    HEARTH_OPTION(enable_matrix_cores, parse_bool),
    HEARTH_OPTION(vendor_blas_enabled, parse_bool),
    HEARTH_OPTION(vendor_dnn_enabled, parse_bool),
    HEARTH_OPTION(miopen_find_mode, parse_find_mode),
    HEARTH_OPTION(enable_tuning, parse_bool),
    HEARTH_OPTION(tuning_file, parse_text),
    HEARTH_OPTION(threads, parse_int),
    HEARTH_OPTION(plan_cache_entries, parse_int),
};
#undef HEARTH_OPTION

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

Config config() {
  std::shared_lock lock(mutex);
  return current;
}

void set_config(const Config& config) {
  check(config);
  std::vector<ConfigListener> called;
  {
    std::unique_lock lock(mutex);
    current = config;
    called = listeners();
  }
  for (auto listener : called) listener(config);
}

void on_config_change(ConfigListener listener) {
  Config now;
  {
    std::unique_lock lock(mutex);
    listeners().push_back(listener);
    now = current;
  }
  listener(now);
}

Config config_from_text(const std::map<std::string, std::string>& texts, Config base) {
  for (const auto& [name, text] : texts) {
    const auto option =
        std::find_if(options.begin(), options.end(), [&](const Option& o) { return name == o.name; });
    if (option == options.end()) {
      const auto nearest =
          std::min_element(options.begin(), options.end(), [&](const Option& a, const Option& b) {
            return edit_distance(name, a.name) < edit_distance(name, b.name);
          });
      throw ConfigError(fmt::format("[config] unknown option \"{}\"; did you mean {}?", name, nearest->name));
    }
    option->set(base, name, text);
  }
  check(base);
  return base;
}

}  // namespace hearth
