// Puts reports together.
#include "exec/check/report.h"

#include <fmt/format.h>

namespace hipemu {

std::string_view describe_access(AccessKind kind) {
  switch (kind) {
    case AccessKind::load:
      return "load";
    case AccessKind::store:
      return "store";
    case AccessKind::atomic:
      return "atomic";
  }
  return "access";
}

std::string describe_allocation(const Allocation& allocation) {
  return fmt::format("allocation {} ({}, {} bytes{})", allocation.id, allocation.origin, allocation.size,
                     allocation.freed ? ", freed" : "");
}

std::string describe_address(uint64_t address, uint64_t bytes) {
  if (address < 65536) return address == 0 ? "a null pointer" : "a null pointer with an offset";
  const Allocation* allocation = address_space().nearest(reinterpret_cast<const void*>(address));
  if (allocation == nullptr) return "no memory has been allocated";
  const std::string name = describe_allocation(*allocation);
  if (allocation->contains(address, 1)) {
    if (allocation->freed || allocation->contains(address, bytes))
      return fmt::format("{} bytes into {}", address - allocation->begin(), name);
    return fmt::format("runs {} bytes past the end of {}", address + bytes - allocation->end(), name);
  }
  if (address >= allocation->end()) {
    // Far away, the nearest allocation has nothing to do with it.
    const uint64_t distance = address - allocation->end();
    if (distance > (1ull << 32)) return "far from any allocation";
    return fmt::format("{} bytes past the end of {}", distance, name);
  }
  const uint64_t distance = allocation->begin() - address;
  if (distance > (1ull << 32)) return "far from any allocation";
  return fmt::format("{} bytes before the start of {}", distance, name);
}

std::string describe(const KernelFault& fault, const Wave& wave) {
  std::string report = fault.message;
  const auto add = [&](std::string line) {
    report += "\n  ";
    report += line;
  };
  const Dispatch* dispatch = wave.dispatch;
  const Launch* launch = dispatch != nullptr ? dispatch->launch : nullptr;
  if (launch != nullptr && launch->kernel != nullptr)
    add(fmt::format("kernel       {}", launch->kernel->readable_name()));
  if (wave.operation != nullptr) {
    std::string place;
    if (launch != nullptr && launch->code != nullptr) {
      const auto* code = reinterpret_cast<const void*>(wave.operation_pc);
      place = fmt::format(" at {:#x}", launch->code->virtual_address(code));
      const std::string line = launch->code->source_line(code);
      if (!line.empty()) place += fmt::format(", {}", line);
    }
    add(fmt::format("instruction  {}{}", wave.operation->instruction.text, place));
  }
  if (wave.group != nullptr) {
    const auto& id = wave.group->id;
    std::string who = fmt::format("workgroup    ({}, {}, {}), wave {}", id[0], id[1], id[2], wave.number);
    if (fault.lane >= 0) {
      const auto thread = thread_of(wave, fault.lane);
      who += fmt::format(", lane {}, thread ({}, {}, {})", fault.lane, thread[0], thread[1], thread[2]);
    }
    add(std::move(who));
  }
  return report;
}

}  // namespace hipemu
