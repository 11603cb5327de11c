// Offload bundles, and the choice of the code object in them that suits a chip.
//
//   magic "__CLANG_OFFLOAD_BUNDLE__", number of entries u64
//   for each entry: offset u64 (from the magic), size u64, length of the id u64, id
#include "code_object/bundle.h"

#include <algorithm>
#include <optional>

#include "code_object/elf.h"
#include "code_object/target.h"

namespace hipemu {
namespace {

constexpr std::string_view magic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr uint64_t max_id_bytes = 1024;

bool is_plain_bundle(Bytes image) {
  return image.size() >= magic.size() && std::memcmp(image.data(), magic.data(), magic.size()) == 0;
}

// The target id at the end of an entry's id, empty for what does not run on an AMD GPU under HIP. An id is
// kind-architecture-vendor-system-environment-target, where older compilers left out the environment.
std::string_view target_of_id(std::string_view id) {
  const std::string_view kind = id.substr(0, id.find('-'));
  if (kind != "hip" && kind != "hipv4") return {};
  constexpr std::string_view triple = "amdgcn-amd-amdhsa-";
  std::string_view rest = id.substr(std::min(id.size(), kind.size() + 1));
  if (!rest.starts_with(triple)) return {};
  rest.remove_prefix(triple.size());
  if (rest.starts_with("gfx")) return rest;
  const std::size_t dash = rest.find('-');
  return dash == std::string_view::npos ? std::string_view() : rest.substr(dash + 1);
}

// `size` is where the last entry ends. With `check_code`, entries must lie inside the image.
struct PlainBundle {
  std::vector<BundleEntry> entries;
  uint64_t size = 0;
};

PlainBundle read_plain_bundle(Bytes image, bool check_code) {
  constexpr std::string_view what = "offload bundle";
  PlainBundle bundle;
  uint64_t at = magic.size();
  const auto count = read<uint64_t>(image, at, what);
  at += 8;
  // Each entry takes 24 bytes or more, so a false count ends at the end of the image.
  for (uint64_t i = 0; i < count; ++i) {
    const auto offset = read<uint64_t>(image, at, what);
    const auto size = read<uint64_t>(image, at + 8, what);
    const auto id_size = read<uint64_t>(image, at + 16, what);
    if (id_size > max_id_bytes)
      throw CodeObjectError(fmt::format("[offload bundle] entry {} has an id of {} bytes", i, id_size));
    const Bytes id = slice(image, at + 24, id_size, what);
    at += 24 + id_size;
    BundleEntry entry;
    entry.id.assign(reinterpret_cast<const char*>(id.data()), id.size());
    entry.target = target_of_id(entry.id);
    if (check_code) entry.code = slice(image, offset, size, "entry of an offload bundle");
    bundle.size = std::max({bundle.size, at, checked_sum(offset, size, what)});
    bundle.entries.push_back(std::move(entry));
  }
  bundle.size = std::max(bundle.size, at);
  return bundle;
}

[[noreturn]] void unknown_image(Bytes image) {
  std::string start;
  for (const std::byte byte : image.first(std::min<std::size_t>(8, image.size())))
    start += fmt::format("{:02x} ", unsigned(byte));
  throw CodeObjectError(fmt::format("[code object] neither an ELF file nor an offload bundle; begins with {}",
                                    start.empty() ? "nothing" : start));
}

}  // namespace

Bundle::Bundle(Bytes image) {
  if (is_compressed_bundle(image)) {
    decompressed_ = decompress_bundle(image);
    image = decompressed_.bytes();
    if (!is_plain_bundle(image)) throw CodeObjectError("[compressed bundle] holds no offload bundle");
  }
  if (is_plain_bundle(image)) {
    entries_ = read_plain_bundle(image, true).entries;
  } else if (elf::is_elf(image)) {
    const uint64_t size = elf::file_size(image);
    entries_.push_back({"", code_object_target(image), slice(image, 0, size, "ELF file")});
  } else {
    unknown_image(image);
  }
}

std::vector<std::byte> select_code_object(std::span<const std::byte> bytes, std::string_view processor) {
  const TargetId chip = parse_target_id(processor);
  const Bundle bundle(bytes);
  const BundleEntry* best = nullptr;
  int best_score = -1;
  std::string present;
  for (const BundleEntry& entry : bundle.entries()) {
    if (entry.code.empty()) continue;  // the host's entry
    present += present.empty() ? "" : ", ";
    present += entry.target.empty() ? entry.id : entry.target;
    if (entry.target.empty()) continue;
    const std::optional<int> score = suitability(parse_target_id(entry.target), chip);
    if (!score || *score <= best_score) continue;
    best = &entry;
    best_score = *score;
  }
  if (!best)
    throw CodeObjectError(fmt::format("[code object] no code for {}; there is code for {}", processor,
                                      present.empty() ? "nothing" : present));
  return {best->code.begin(), best->code.end()};
}

std::size_t image_size(const std::byte* image, std::size_t limit) {
  const Bytes bytes(image, limit);
  uint64_t size = 0;
  if (is_compressed_bundle(bytes))
    size = compressed_bundle_size(bytes);
  else if (is_plain_bundle(bytes))
    size = read_plain_bundle(bytes, false).size;
  else if (elf::is_elf(bytes))
    size = elf::file_size(bytes);
  else
    unknown_image(bytes);
  if (size > limit)
    throw CodeObjectError(fmt::format("[code object] claims {} bytes where only {} can be", size, limit));
  return size;
}

}  // namespace hipemu
