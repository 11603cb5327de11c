// From a name to a device.
#include "device/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "hearth/error.h"

namespace hearth {
namespace {

using Infos = std::vector<DeviceInfo>;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string list(const Infos& gpus) {
  std::string text = "the devices are cpu";
  for (const DeviceInfo& gpu : gpus)
    text += fmt::format(", {} ({}, {}, at {}{})", to_string(gpu.device), gpu.name, gpu.architecture,
                        gpu.pci_address, gpu.integrated ? ", integrated" : "");
  return text;
}

[[noreturn]] void not_there(std::string_view name, const std::string& why, const Infos& gpus) {
  throw DeviceUnavailable(fmt::format("[device] {} is not available: {}; {}", name, why, list(gpus)));
}

template <class Predicate>
std::optional<Device> first(const Infos& gpus, const Predicate& wanted) {
  const auto found = std::find_if(gpus.begin(), gpus.end(), wanted);
  return found == gpus.end() ? std::nullopt : std::optional(found->device);
}

std::optional<Device> first_discrete(const Infos& gpus) {
  return first(gpus, [](const DeviceInfo& gpu) { return !gpu.integrated; });
}

// "03:00.0" or "0000:03:00.0", in lower case: domain, bus, slot and function.
bool is_pci_address(std::string_view text) {
  constexpr std::string_view form = "0000:00:00.7";
  if (text.size() != 7 && text.size() != form.size()) return false;
  const std::string_view expected = form.substr(form.size() - text.size());
  return std::equal(text.begin(), text.end(), expected.begin(), [](char c, char at) {
    if (at == '0') return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    return at == '7' ? c >= '0' && c <= '7' : c == at;
  });
}

// "rocm", "cuda:1".
Device by_number(DeviceKind kind, std::string_view name, std::string_view digits,
                 const DeviceChoices& choices) {
  int index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  const Infos gpus = choices.gpus();
  if (error != std::errc{} || end != digits.data() + digits.size() || index < 0 || index > 255)
    throw ValueError(fmt::format("[device] \"{}\" is not a device name; {}", name, list(gpus)));
  const Device device{kind, static_cast<std::uint8_t>(index)};
  if (first(gpus, [&](const DeviceInfo& gpu) { return gpu.device == device; })) return device;
  const auto count =
      std::count_if(gpus.begin(), gpus.end(), [&](const DeviceInfo& gpu) { return gpu.device.kind == kind; });
  not_there(name,
            count == 0 ? choices.unavailable_reason(kind)
                       : fmt::format("there {} {} of this kind", count == 1 ? "is" : "are", count),
            gpus);
}

}  // namespace

Device select_device(std::string_view name, const DeviceChoices& choices) {
  const std::string wanted = lower_case(name);
  if (wanted == "cpu" || wanted == "cpu:0") return {};
  for (const auto& [kind, prefix] : {std::pair{DeviceKind::rocm, "rocm"}, {DeviceKind::cuda, "cuda"}}) {
    if (wanted == prefix) return by_number(kind, name, "0", choices);
    if (wanted.starts_with(std::string(prefix) + ":"))
      return by_number(kind, name, std::string_view(wanted).substr(5), choices);
  }

  const Infos gpus = choices.gpus();
  if (wanted == "auto") return first_discrete(gpus).value_or(Device{});
  if (wanted == "gpu") {
    if (gpus.empty())
      not_there(name,
                fmt::format("{}; {}", choices.unavailable_reason(DeviceKind::rocm),
                            choices.unavailable_reason(DeviceKind::cuda)),
                gpus);
    return first_discrete(gpus).value_or(gpus.front().device);
  }
  if (is_pci_address(wanted)) {
    const std::string address = wanted.size() == 7 ? "0000:" + wanted : wanted;
    if (const auto found = first(gpus, [&](const DeviceInfo& gpu) { return gpu.pci_address == address; }))
      return *found;
    not_there(name, "no GPU has this address", gpus);
  }
  if (wanted.starts_with("gfx") || wanted.starts_with("sm_")) {
    if (const auto found = first(gpus, [&](const DeviceInfo& gpu) { return gpu.architecture == wanted; }))
      return *found;
    not_there(name, "no GPU has this architecture", gpus);
  }
  throw ValueError(
      fmt::format("[device] \"{}\" is not a device name; expected cpu, gpu, auto, rocm[:N], cuda[:N], a PCI "
                  "address or an "
                  "architecture; {}",
                  name, list(gpus)));
}

}  // namespace hearth
