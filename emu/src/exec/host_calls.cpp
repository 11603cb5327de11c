// The host's side of the protocol that the device library's hostcall functions speak.
//
// The buffer has two stacks of packets, free and ready, linked by index. A wave takes a free packet, fills in
// one row of eight numbers per lane, pushes it on the ready stack, adds to a signal (which sends an
// interrupt) and waits until the control word says that the reply is there. Here the interrupt is served at
// once, on the thread of the wave.
#include "exec/host_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "exec/control.h"
#include "memory/address_space.h"

namespace hipemu {
namespace {

struct PacketHeader {
  uint64_t next;
  uint64_t active_lanes;
  uint32_t service;
  uint32_t control;  // bit 0: waits for the host
};

struct Payload {
  std::array<std::array<uint64_t, 8>, 64> lanes;
};

struct Signal {
  int64_t kind = 1;
  uint64_t value = 0;
  uint64_t mailbox = 0;  // address; the device sends an interrupt only when there is one
  uint32_t event = 1;
  uint32_t reserved[9] = {};
};

constexpr uint64_t packet_count = 1024, index_mask = packet_count - 1;
constexpr uint32_t service_printf = 2;

struct Buffer {
  // The layout that the device library knows.
  PacketHeader* headers = nullptr;
  Payload* payloads = nullptr;
  Signal* doorbell = nullptr;
  uint64_t free_stack = packet_count, ready_stack = 0;
  uint64_t mask = index_mask;
  uint64_t device = 0;
  // What they point to.
  std::array<PacketHeader, packet_count> header_storage{};
  std::array<Payload, packet_count> payload_storage{};
  Signal signal;
  uint64_t mailbox = 0;

  Buffer() {
    headers = header_storage.data();
    payloads = payload_storage.data();
    doorbell = &signal;
    // An index also carries a tag in its upper bits, so that zero can mean "empty".
    for (uint64_t i = 0; i < packet_count; ++i)
      header_storage[i].next = i + 1 < packet_count ? (i + 1) | packet_count : 0;
    signal.mailbox = reinterpret_cast<uint64_t>(&mailbox);
  }
};

Buffer& buffer() {
  static Buffer& instance = []() -> Buffer& {
    auto* made = new Buffer;  // never freed: a kernel may run while the process ends
    address_space().adopt(made, sizeof *made, MemoryKind::kernarg, 0, "host call buffer");
    return *made;
  }();
  return instance;
}

std::mutex service_mutex;

// A printf arrives in pieces; the first one is given a number that the others repeat.
std::map<uint64_t, std::vector<uint64_t>> messages;
uint64_t next_message = 1;

// One conversion such as %-8.3f, with a '*' for each number taken from the arguments.
std::string format_one(const std::string& specification, std::vector<int64_t> stars, uint64_t argument,
                       const char* text) {
  const char conversion = specification.back();
  std::string format = specification;
  for (const int64_t star : stars) {
    const std::size_t at = format.find('*');
    if (star < 0 && format[at - 1] == '.')
      format.erase(at - 1, 2);  // a negative precision is none
    else
      format.replace(at, 1, std::to_string(star));
  }
  const auto print = [&](auto value) {
    const int length = std::snprintf(nullptr, 0, format.c_str(), value);
    std::string out(static_cast<std::size_t>(std::max(length, 0)) + 1, '\0');
    std::snprintf(out.data(), out.size(), format.c_str(), value);
    out.pop_back();
    return out;
  };
  // Length modifiers are dropped and put back for the size that arguments have here: eight bytes.
  const bool is_wide = format.find('l') != std::string::npos || format.find('j') != std::string::npos ||
                       format.find('z') != std::string::npos || format.find('t') != std::string::npos;
  const std::size_t halves = static_cast<std::size_t>(std::count(format.begin(), format.end(), 'h'));
  std::erase_if(format,
                [](char c) { return c == 'h' || c == 'l' || c == 'j' || c == 'z' || c == 't' || c == 'L'; });
  switch (conversion) {
    case 'd':
    case 'i': {
      int64_t value = is_wide ? static_cast<int64_t>(argument) : static_cast<int32_t>(argument);
      if (halves == 1) value = static_cast<int16_t>(argument);
      if (halves == 2) value = static_cast<int8_t>(argument);
      format.insert(format.size() - 1, "ll");
      return print(static_cast<long long>(value));
    }
    case 'u':
    case 'o':
    case 'x':
    case 'X': {
      uint64_t value = is_wide ? argument : static_cast<uint32_t>(argument);
      if (halves == 1) value = static_cast<uint16_t>(argument);
      if (halves == 2) value = static_cast<uint8_t>(argument);
      format.insert(format.size() - 1, "ll");
      return print(static_cast<unsigned long long>(value));
    }
    case 'c':
      return print(static_cast<int>(argument));
    case 'p':
      return print(reinterpret_cast<void*>(argument));
    case 's':
      return print(text);
    default:
      return print(std::bit_cast<double>(argument));
  }
}

// The bytes of a message: format string, then arguments of eight bytes; strings are in place, padded to
// eight.
std::string format_message(const std::vector<uint64_t>& words, std::size_t position) {
  const auto* bytes = reinterpret_cast<const char*>(words.data());
  const std::size_t size = words.size() * 8;
  std::size_t at = position * 8;
  const auto take_string = [&] {
    const std::size_t length = strnlen(bytes + at, size - at);
    std::string text(bytes + at, length);
    at = std::min(size, at + (length + 1 + 7) / 8 * 8);
    return text;
  };
  const auto take_number = [&] {
    uint64_t value = 0;
    if (at + 8 <= size) std::memcpy(&value, bytes + at, 8);
    at = std::min(size, at + 8);
    return value;
  };
  if (at >= size) return {};
  const std::string format = take_string();
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == '%') {
      out += '%';
      ++i;
      continue;
    }
    const std::size_t end = format.find_first_of("diuoxXfFeEgGaAcspn", i + 1);
    if (end == std::string::npos) {
      out += format.substr(i);
      break;
    }
    const std::string specification = format.substr(i, end - i + 1);
    // What C does not define would make the host's printf read arguments that are not there.
    if (specification.find_first_not_of("-+ #'0123456789.*hlLjzt", 1) != specification.size() - 1) {
      out += '%';
      continue;
    }
    std::vector<int64_t> stars;
    for (const char c : specification)
      if (c == '*') stars.push_back(static_cast<int32_t>(take_number()));
    if (specification.back() == 's') {
      const std::string text = take_string();
      out += format_one(specification, stars, 0, text.c_str());
    } else if (specification.back() == 'n') {
      take_number();
    } else {
      out += format_one(specification, stars, take_number(), nullptr);
    }
    i = end;
  }
  return out;
}

// First word: flags (1 begin, 2 end), number of words in bits 5 to 7, number of the message above. The reply
// is that word for the next piece, and at the end how many characters were printed.
void serve_printf(std::array<uint64_t, 8>& row) {
  constexpr uint64_t begin = 1, end = 2;
  const uint64_t descriptor = row[0];
  uint64_t number = descriptor >> 8;
  if ((descriptor & begin) != 0) number = next_message++;
  std::vector<uint64_t>& words = messages[number];
  const std::size_t count = std::min<std::size_t>((descriptor >> 5) & 7, 7);
  words.insert(words.end(), row.begin() + 1, row.begin() + 1 + static_cast<std::ptrdiff_t>(count));
  if ((descriptor & end) == 0) {
    row[0] = number << 8 | (descriptor & 0xfe & ~end);
    return;
  }
  std::string text;
  std::FILE* stream = stdout;
  if (!words.empty()) {
    if ((words[0] & 1) != 0) stream = stderr;
    text = format_message(words, 1);
  }
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
  messages.erase(number);
  row[0] = text.size();
}

void serve_packet(PacketHeader& header, Payload& payload) {
  for (int lane = 0; lane < 64; ++lane) {
    if ((header.active_lanes >> lane & 1) == 0) continue;
    if (header.service == service_printf)
      serve_printf(payload.lanes[static_cast<std::size_t>(lane)]);
    else
      throw KernelFault{
          Fault::Kind::abort,
          fmt::format("the kernel asked the host for service {}, which is not there", header.service)};
  }
  std::atomic_ref(header.control).fetch_and(~1u, std::memory_order_release);
}

}  // namespace

uint64_t host_call_buffer() { return reinterpret_cast<uint64_t>(&buffer()); }

void serve_host_calls(Wave&) {
  const std::lock_guard lock(service_mutex);
  uint64_t ready = std::atomic_ref(buffer().ready_stack).exchange(0, std::memory_order_acq_rel);
  // A kernel can write to all of the buffer: neither are its pointers followed, nor is a list that has no
  // end.
  for (uint64_t count = 0; ready != 0 && count < packet_count; ++count) {
    const uint64_t index = ready & index_mask;
    PacketHeader& header = buffer().header_storage[index];
    ready = header.next;
    serve_packet(header, buffer().payload_storage[index]);
  }
}

}  // namespace hipemu
