// Names, flags and compatibility of targets. The numbers are EF_AMDGPU_MACH_* of LLVM's BinaryFormat/ELF.h.
#include "code_object/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "code_object/code_object.h"

namespace hipemu {
namespace {

struct Machine {
  uint8_t number;
  std::string_view processor;
};

constexpr Machine machines[] = {
    {0x2c, "gfx900"},         {0x2d, "gfx902"},          {0x2e, "gfx904"},          {0x2f, "gfx906"},
    {0x30, "gfx908"},         {0x31, "gfx909"},          {0x32, "gfx90c"},          {0x33, "gfx1010"},
    {0x34, "gfx1011"},        {0x35, "gfx1012"},         {0x36, "gfx1030"},         {0x37, "gfx1031"},
    {0x38, "gfx1032"},        {0x39, "gfx1033"},         {0x3d, "gfx1035"},         {0x3e, "gfx1034"},
    {0x3f, "gfx90a"},         {0x40, "gfx940"},          {0x41, "gfx1100"},         {0x42, "gfx1013"},
    {0x43, "gfx1150"},        {0x44, "gfx1103"},         {0x45, "gfx1036"},         {0x46, "gfx1101"},
    {0x47, "gfx1102"},        {0x48, "gfx1200"},         {0x49, "gfx1250"},         {0x4a, "gfx1151"},
    {0x4b, "gfx941"},         {0x4c, "gfx942"},          {0x4e, "gfx1201"},         {0x4f, "gfx950"},
    {0x51, "gfx9-generic"},   {0x52, "gfx10-1-generic"}, {0x53, "gfx10-3-generic"}, {0x54, "gfx11-generic"},
    {0x55, "gfx1152"},        {0x58, "gfx1153"},         {0x59, "gfx12-generic"},   {0x5a, "gfx1251"},
    {0x5f, "gfx9-4-generic"},
};

struct GenericProcessor {
  std::string_view name;
  std::initializer_list<std::string_view> covers;
};

const GenericProcessor generic_processors[] = {
    {"gfx9-generic", {"gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"}},
    {"gfx9-4-generic", {"gfx940", "gfx941", "gfx942", "gfx950"}},
    {"gfx10-1-generic", {"gfx1010", "gfx1011", "gfx1012", "gfx1013"}},
    {"gfx10-3-generic", {"gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"}},
    {"gfx11-generic",
     {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"}},
    {"gfx12-generic", {"gfx1200", "gfx1201"}},
};

void append_feature(std::string& text, std::string_view name, std::optional<bool> value) {
  if (value) text += fmt::format(":{}{}", name, *value ? '+' : '-');
}

// Fields of two bits: 0 not supported, 1 any, 2 off, 3 on.
std::optional<bool> feature_of_bits(uint32_t bits) {
  if (bits == 2) return false;
  if (bits == 3) return true;
  return std::nullopt;
}

std::optional<int> feature_score(std::optional<bool> code, std::optional<bool> chip, bool usual) {
  if (!code) return 1;
  if (chip && *code != *chip) return std::nullopt;
  return *code == chip.value_or(usual) ? 2 : 0;
}

}  // namespace

std::string TargetId::text() const {
  std::string text = processor;
  append_feature(text, "sramecc", sramecc);
  append_feature(text, "xnack", xnack);
  return text;
}

TargetId parse_target_id(std::string_view text) {
  const auto malformed = [&] {
    return CodeObjectError(
        fmt::format("[code object] \"{}\" is not a target id such as gfx90a:xnack-", text.substr(0, 80)));
  };
  TargetId id;
  std::size_t end = std::min(text.find(':'), text.size());
  id.processor = text.substr(0, end);
  const bool name_is_plain = std::all_of(id.processor.begin(), id.processor.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-';
  });
  if (!id.processor.starts_with("gfx") || id.processor.size() > 40 || !name_is_plain) throw malformed();
  while (end < text.size()) {
    std::string_view feature = text.substr(end + 1);
    feature = feature.substr(0, feature.find(':'));
    end += 1 + feature.size();
    if (feature.size() < 2 || (feature.back() != '+' && feature.back() != '-')) throw malformed();
    const bool on = feature.back() == '+';
    feature.remove_suffix(1);
    std::optional<bool>* place = nullptr;
    if (feature == "sramecc") place = &id.sramecc;
    if (feature == "xnack") place = &id.xnack;
    if (!place || *place) throw malformed();
    *place = on;
  }
  return id;
}

std::string_view processor_of_flags(uint32_t flags) {
  for (const Machine& machine : machines)
    if (machine.number == (flags & 0xff)) return machine.processor;
  return {};
}

std::optional<TargetId> target_of_flags(uint32_t flags) {
  const std::string_view processor = processor_of_flags(flags);
  if (processor.empty()) return std::nullopt;
  return TargetId{std::string(processor), feature_of_bits((flags >> 10) & 3),
                  feature_of_bits((flags >> 8) & 3)};
}

bool is_generic(std::string_view processor) { return processor.ends_with("-generic"); }

bool generic_covers(std::string_view generic, std::string_view processor) {
  for (const GenericProcessor& candidate : generic_processors)
    if (candidate.name == generic)
      return std::find(candidate.covers.begin(), candidate.covers.end(), processor) != candidate.covers.end();
  return false;
}

std::optional<int> suitability(const TargetId& code, const TargetId& chip) {
  const bool exact = code.processor == chip.processor;
  if (!exact && !generic_covers(code.processor, chip.processor)) return std::nullopt;
  const auto sramecc = feature_score(code.sramecc, chip.sramecc, true);
  const auto xnack = feature_score(code.xnack, chip.xnack, false);
  if (!sramecc || !xnack) return std::nullopt;
  return (exact ? 10 : 0) + *sramecc + *xnack;
}

}  // namespace hipemu
