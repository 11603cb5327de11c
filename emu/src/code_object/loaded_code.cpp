// LoadedCode: a code object in memory.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "code_object/bytes.h"
#include "code_object/code_object.h"
#include "code_object/relocation.h"
#include "code_object/source_lines.h"

namespace hipemu {
namespace {

uint64_t round_down(uint64_t value, uint64_t multiple) { return value / multiple * multiple; }
uint64_t round_up(uint64_t value, uint64_t multiple) { return round_down(value + multiple - 1, multiple); }

// Below 2^47: gfx12 code sign-extends addresses of 48 bits that it makes from the program counter, and on
// some hosts (aarch64) ordinary mappings are above.
void* reserve_low(uint64_t bytes) {
  constexpr uint64_t limit = 1ull << 47, step = 1ull << 24;
  static std::atomic<uint64_t> next{1ull << 44};
  for (int attempt = 0; attempt < 16; ++attempt) {
    const uint64_t hint = next.fetch_add((bytes + step) / step * step);
    void* at = mmap(reinterpret_cast<void*>(hint), bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || reinterpret_cast<uint64_t>(at) + bytes <= limit) return at;
    munmap(at, bytes);
  }
  return mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

}  // namespace

LoadedCode::LoadedCode(CodeObject object, std::vector<std::byte> file)
    : object_(std::move(object)), file_(std::move(file)), source_lines_(std::make_unique<SourceLines>()) {
  for (const Kernel& kernel : object_.kernels) kernels_by_name_.emplace(kernel.name, &kernel);
  for (const GlobalVariable& variable : object_.variables)
    variables_by_name_.emplace(variable.name, &variable);

  // From here on nothing throws but a failed mapping, so the destructor is not missed.
  // The image begins where the lowest segment's alignment begins, so that every address keeps the alignment
  // it has in the file; a page without rights on either side stops code that runs off its end.
  const auto page = uint64_t(sysconf(_SC_PAGESIZE));
  uint64_t alignment = page, lowest = UINT64_MAX, highest = 0;
  for (const Segment& segment : object_.segments) {
    alignment = std::max(alignment, segment.alignment);
    lowest = std::min(lowest, segment.address);
    highest = std::max(highest, segment.address + segment.memory_size);
  }
  if (object_.segments.empty()) throw CodeObjectError("[code object] nothing to load (no segments)");
  lowest_address_ = round_down(lowest, alignment);
  const uint64_t size = round_up(highest - lowest_address_, page);
  const uint64_t reserved = size + alignment + 2 * page;
  void* reservation = reserve_low(reserved);
  if (reservation == MAP_FAILED)
    throw CodeObjectError(fmt::format("[code object] no memory for {} bytes of code: {}", size,
                                      std::generic_category().message(errno)));
  mapping_ = {static_cast<std::byte*>(reservation), reserved};
  const auto start = reinterpret_cast<uint64_t>(reservation);
  auto* base = reinterpret_cast<std::byte*>(round_up(start + page, alignment));
  if (mprotect(base, size, PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    munmap(reservation, reserved);
    throw CodeObjectError(fmt::format("[code object] no memory for {} bytes of code: {}", size,
                                      std::generic_category().message(error)));
  }
  image_ = {base, size};

  const auto in_image = [&](uint64_t address) { return base + (address - lowest_address_); };
  const std::byte *code_begin = nullptr, *code_end = nullptr;
  for (Segment& segment : object_.segments) {
    std::byte* place = in_image(segment.address);
    if (!segment.bytes.empty()) std::memcpy(place, segment.bytes.data(), segment.bytes.size());
    if (segment.executable) {
      code_begin = code_begin ? std::min<const std::byte*>(code_begin, place) : place;
      code_end = std::max<const std::byte*>(code_end, place + segment.memory_size);
    }
    segment.bytes = {};  // the image has them now
  }
  if (code_begin) code_ = {code_begin, code_end};

  const uint64_t bias = reinterpret_cast<uint64_t>(base) - lowest_address_;
  for (const Relocation& entry : object_.relocations) {
    const uint64_t value = relocation::result(entry, bias);
    std::memcpy(in_image(entry.address), &value, entry.width);
  }
  for (Kernel& kernel : object_.kernels) kernel.entry += bias;
  for (GlobalVariable& variable : object_.variables) variable.address += bias;
}

LoadedCode::~LoadedCode() { munmap(mapping_.data(), mapping_.size()); }

const Kernel* LoadedCode::find_kernel(std::string_view name) const {
  const auto entry = kernels_by_name_.find(name);
  return entry == kernels_by_name_.end() ? nullptr : entry->second;
}

const GlobalVariable* LoadedCode::find_variable(std::string_view name) const {
  const auto entry = variables_by_name_.find(name);
  return entry == variables_by_name_.end() ? nullptr : entry->second;
}

uint64_t LoadedCode::virtual_address(const void* in_image) const {
  return reinterpret_cast<uint64_t>(in_image) - reinterpret_cast<uint64_t>(image_.data()) + lowest_address_;
}

std::string LoadedCode::source_line(const void* instruction) const {
  if (file_.empty()) return {};
  return source_lines_->find(file_, virtual_address(instruction));
}

}  // namespace hipemu
