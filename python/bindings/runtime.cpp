// Configuration, memory, profiles, tuning.
#include <nanobind/stl/map.h>

#include "bindings.h"
#include "hearth/config.h"
#include "hearth/profile.h"
#include "hearth/tuning.h"

namespace hearth::python {
namespace {

nb::dict dict_of(const Profile& profile) {
  nb::dict result;
  for (const auto& [name, entry] : profile) {
    nb::dict row;
    row["count"] = entry.count;
    row["total_ms"] = entry.total * 1e3;
    row["avg_ms"] = entry.count ? entry.total / static_cast<double>(entry.count) * 1e3 : 0.0;
    row["min_ms"] = entry.shortest * 1e3;
    row["max_ms"] = entry.longest * 1e3;
    result[name.c_str()] = row;
  }
  return result;
}

nb::dict dict_of(const MemoryStats& stats) {
  nb::dict result;
  result["allocated"] = stats.allocated;
  result["reserved"] = stats.reserved;
  result["peak"] = stats.peak;
  result["requested"] = stats.requested;
  result["limit"] = stats.limit;
  result["allocations"] = stats.allocations;
  result["cache_hits"] = stats.cache_hits;
  result["fragmentation"] = stats.fragmentation();
  result["pinned_allocated"] = stats.pinned_allocated;
  result["pinned_reserved"] = stats.pinned_reserved;
  result["in_flight"] = stats.in_flight;
  nb::dict purposes;
  for (std::size_t i = 0; i < memory_purposes; ++i)
    purposes[to_string(static_cast<MemoryPurpose>(i)).c_str()] = stats.by_purpose[i].allocated;
  result["by_purpose"] = purposes;
  return result;
}

class Region {
 public:
  explicit Region(std::string name) : name_(std::move(name)) {}
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  void enter() { begun_.push_back(std::make_unique<ProfileRegion>(name_)); }
  void exit() { begun_.pop_back(); }

 private:
  std::string name_;
  std::vector<std::unique_ptr<ProfileRegion>> begun_;
};

}  // namespace

void bind_runtime(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_runtime", "Configuration, memory, profiles, tuning.");
  m.def(
      "set_config",
      [](const std::map<std::string, std::string>& options) {
        set_config(config_from_text(options, config()));
      },
      "options"_a);
  m.def("get_config", [] {
    const Config c = config();
    nb::dict d;
    constexpr const char* levels[] = {"conservative", "balanced", "aggressive"};
    d["optimization_level"] = levels[static_cast<int>(c.optimization_level)];
    constexpr const char* find_modes[] = {"fast", "hybrid", "normal"};
    d["miopen_find_mode"] = find_modes[static_cast<int>(c.miopen_find_mode)];
    d["default_precision"] = std::string(dtype_name(c.default_precision));
#define HEARTH_OPTION(name) d[#name] = c.name
    HEARTH_OPTION(enable_operator_fusion);
    HEARTH_OPTION(enable_graph_replay);
    HEARTH_OPTION(enable_memory_pooling);
    HEARTH_OPTION(memory_pool_size_gb);
    HEARTH_OPTION(max_memory_fraction);
    HEARTH_OPTION(max_memory_gb);
    HEARTH_OPTION(enable_oom_protection);
    HEARTH_OPTION(pinned_pool_size_mb);
    HEARTH_OPTION(max_in_flight_gb);
    HEARTH_OPTION(device_timeout_s);
    HEARTH_OPTION(allow_fp16);
    HEARTH_OPTION(allow_bf16);
    HEARTH_OPTION(enable_mixed_precision);
    HEARTH_OPTION(enable_profiling);
    HEARTH_OPTION(enable_strict_validation);
    HEARTH_OPTION(enable_matrix_cores);
    HEARTH_OPTION(vendor_blas_enabled);
    HEARTH_OPTION(vendor_dnn_enabled);
    HEARTH_OPTION(enable_tuning);
    HEARTH_OPTION(tuning_file);
    HEARTH_OPTION(threads);
    HEARTH_OPTION(plan_cache_entries);
#undef HEARTH_OPTION
    return d;
  });

  m.def(
      "memory_stats",
      [](const std::optional<DeviceIn>& device) { return dict_of(memory_stats(device_or_default(device))); },
      "device"_a = nb::none());
  m.def(
      "memory_summary",
      [](const std::optional<DeviceIn>& device) {
        return to_string(memory_stats(device_or_default(device)));
      },
      "device"_a = nb::none());
  m.def(
      "reset_peak_memory",
      [](const std::optional<DeviceIn>& device) { reset_peak_memory(device_or_default(device)); },
      "device"_a = nb::none());
  m.def(
      "empty_cache", [](const std::optional<DeviceIn>& device) { empty_cache(device_or_default(device)); },
      "device"_a = nb::none());
  m.def(
      "warm_up",
      [](const std::optional<DeviceIn>& device, std::size_t bytes) {
        const Device on = device_or_default(device);
        const nb::gil_scoped_release unlocked;
        warm_up(on, bytes);
      },
      "device"_a = nb::none(), "bytes"_a = 0);

  nb::class_<Region>(m, "Region")
      .def(nb::init<std::string>(), "name"_a)
      .def("__enter__",
           [](nb::handle_t<Region> self) {
             nb::inst_ptr<Region>(self)->enter();
             return nb::borrow(self);
           })
      .def("__exit__", [](Region& self, const nb::args&) { self.exit(); });
  m.def("profile_summary", [] { return dict_of(profile_summary()); });
  m.def("profile_regions", [] { return dict_of(profile_regions()); });
  m.def("profile_table", &profile_table);
  m.def("write_profile_trace", &write_profile_trace, "path"_a);
  m.def("clear_profile", &clear_profile);

  m.def("tuning_stats", [] {
    const TuningStats stats = tuning_stats();
    nb::dict result;
    result["entries"] = stats.entries;
    result["refused"] = stats.refused;
    result["hits"] = stats.hits;
    result["misses"] = stats.misses;
    result["tuned"] = stats.tuned;
    return result;
  });
}

}  // namespace hearth::python
