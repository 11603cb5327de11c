// Executes work: launches, copies, fills.
#include "hip/work.h"

#include <fmt/core.h>

#include <cstring>
#include <exception>
#include <string>

#include "hip/graph.h"
#include "hip/memory.h"
#include "memory/address_space.h"

namespace hipemu::hip {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

void perform_kernel(Device& device, const KernelWork& work) {
  const std::string& name = work.launch.kernel->name;
  try {
    if (const auto fault = run(work.launch)) report_fault(device, *fault, name);
  } catch (const std::exception& error) {
    // Not of the kernel's making (the host is out of memory, say); the program is told all the same.
    report_fault(
        device,
        {Fault::Kind::abort, fmt::format("hipemu: kernel {} could not be run: {}", name, error.what())},
        name);
  }
}

// A copy is checked when it is asked for; by the time it runs the memory may be gone.
bool still_there(Device& device, const Box& box, const char* what) {
  if (!box.tracked || address_space().find(box.base)) return true;
  Fault fault;
  fault.kind = Fault::Kind::illegal_address;
  fault.report = fmt::format("hipemu: a {} uses memory at {} that was freed before the stream came to it",
                             what, static_cast<const void*>(box.base));
  report_fault(device, fault, what);
  return false;
}

void copy_row(const CopyWork& work, std::byte* to, const std::byte* from, size_t bytes) {
  std::memmove(to, from, bytes);
  if (!work.to.tracked) return;
  if (work.from.tracked && !work.staged)
    address_space().copy_written(to, from, bytes);
  else
    address_space().mark_written(to, bytes);
}

void perform_copy(Device& device, const CopyWork& work) {
  if (work.width == 0 || work.height == 0 || work.depth == 0) return;
  if (!still_there(device, work.to, "copy") || (!work.staged && !still_there(device, work.from, "copy")))
    return;
  const std::byte* from = work.staged ? work.staged->data() : work.from.base;
  const bool rows_touch = work.height == 1 || (work.to.pitch == work.width && work.from.pitch == work.width);
  const bool slices_touch = work.depth == 1 || (rows_touch && work.to.slice == work.width * work.height &&
                                                work.from.slice == work.width * work.height);
  if (rows_touch && slices_touch) {
    copy_row(work, work.to.base, from, work.width * work.height * work.depth);
    return;
  }
  for (size_t z = 0; z < work.depth; ++z)
    for (size_t y = 0; y < work.height; ++y)
      copy_row(work, work.to.base + z * work.to.slice + y * work.to.pitch,
               from + z * work.from.slice + y * work.from.pitch, work.width);
}

void perform_fill(Device& device, const FillWork& work) {
  if (work.width == 0 || work.height == 0 || work.depth == 0) return;
  if (!still_there(device, work.to, "memset")) return;
  const size_t bytes = work.width * work.element_size;
  for (size_t z = 0; z < work.depth; ++z)
    for (size_t y = 0; y < work.height; ++y) {
      std::byte* row = work.to.base + z * work.to.slice + y * work.to.pitch;
      if (work.element_size == 1)
        std::memset(row, static_cast<int>(work.value & 0xff), bytes);
      else
        for (size_t at = 0; at < bytes; at += work.element_size)
          std::memcpy(row + at, &work.value, work.element_size);
      if (work.to.tracked) address_space().mark_written(row, bytes);
    }
}

}  // namespace

void perform(Device& device, const Work& work) {
  const bool failed = device.sticky.load(std::memory_order_acquire) != hipSuccess;
  std::visit(Overloaded{
                 [&](const KernelWork& kernel) {
                   if (!failed) perform_kernel(device, kernel);
                 },
                 [&](const CopyWork& copy) {
                   if (!failed) perform_copy(device, copy);
                 },
                 [&](const FillWork& fill) {
                   if (!failed) perform_fill(device, fill);
                 },
                 [&](const HostWork& host) { host.function(host.data); },
                 [&](const EventRecordWork& event) {
                   if (const auto record = event.event->last_record()) record->stamp();
                 },
                 [&](const ChildGraphWork& child) { perform_graph(device, *child.graph); },
                 [](const FreeWork& free) {
                   if (!free.of_graph) release_memory(free.pointer);
                 },
                 [](const EventWaitWork&) {},
                 [](const EmptyWork&) {},
                 [](const AllocateWork&) {},
             },
             work);
}

Ticket submit(Stream& stream, Work work) {
  {
    const std::lock_guard lock(capture_mutex());
    if (is_capturing(stream)) {
      capture(stream, std::move(work));
      return {};
    }
  }
  // A std::function must be copyable, and work is moved once: it lives in a shared cell.
  auto cell = std::make_shared<const Work>(std::move(work));
  Device& device = stream.device;
  return stream.enqueue([&device, cell] { perform(device, *cell); });
}

}  // namespace hipemu::hip
