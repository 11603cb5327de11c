// hipEvent*.
#include "hip/event.h"

#include "hip/graph.h"
#include "hip/stream_table.h"

namespace hipemu::hip {

HandleTable<hipEvent_t, Event>& event_table() {
  static auto& table = *new HandleTable<hipEvent_t, Event>;
  return table;
}

void record_event(Event& event, Stream& stream) {
  require(event.device == &stream.device, hipErrorInvalidHandle);
  {
    const std::lock_guard lock(capture_mutex());
    if (is_capturing(stream)) {
      capture_event_record(stream, event);
      return;
    }
    event.capture.reset();
    event.captured.clear();
  }
  auto record = std::make_shared<Event::Record>();
  const std::lock_guard lock(event.mutex);
  record->ticket = stream.enqueue([record] { record->stamp(); });
  event.record = std::move(record);
}

namespace {

std::shared_ptr<Event> find_event(hipEvent_t handle) {
  return require(event_table().find(handle), hipErrorInvalidHandle);
}

void create(hipEvent_t* event, unsigned flags) {
  require(event, hipErrorInvalidValue);
  constexpr unsigned known = hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess |
                             hipEventDisableSystemFence | hipEventReleaseToDevice | hipEventReleaseToSystem;
  require((flags & ~known) == 0, hipErrorInvalidValue);
  require((flags & hipEventReleaseToDevice) == 0 || (flags & hipEventReleaseToSystem) == 0,
          hipErrorInvalidValue);
  require((flags & hipEventInterprocess) == 0, hipErrorNotSupported);
  auto made = std::make_shared<Event>(flags, current_device());
  made->handle = event_table().insert(made);
  *event = made->handle;
}

void refuse_captured(Event& event) {
  const std::lock_guard lock(capture_mutex());
  if (!event.capture) return;
  event.capture->invalid = true;
  throw Failure(hipErrorCapturedEvent);
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;

HIP_API hipError_t hipEventCreate(hipEvent_t* event) {
  return api([&] { create(event, 0); });
}
HIP_API hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return api([&] { create(event, flags); });
}
HIP_API hipError_t hipEventDestroy(hipEvent_t event) {
  return api([&] { require(event_table().remove(event), hipErrorInvalidHandle); });
}

HIP_API hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return api([&] {
    auto found = find_event(event);
    record_event(*found, *resolve_stream(stream));
  });
}
HIP_API hipError_t hipEventRecord_spt(hipEvent_t event, hipStream_t stream) {
  return hipEventRecord(event, per_thread(stream));
}
HIP_API hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags) {
  return api([&] {
    require(flags <= 1, hipErrorInvalidValue);
    auto found = find_event(event);
    record_event(*found, *resolve_stream(stream));
  });
}

HIP_API hipError_t hipEventSynchronize(hipEvent_t event) {
  return api([&] {
    auto found = find_event(event);
    refuse_captured(*found);
    const auto record = found->last_record();
    if (record) record->ticket.wait();
    check_sticky(*found->device);
  });
}

HIP_API hipError_t hipEventQuery(hipEvent_t event) {
  return api([&] {
    auto found = find_event(event);
    refuse_captured(*found);
    const auto record = found->last_record();
    if (record && !record->ticket.done()) return hipErrorNotReady;
    check_sticky(*found->device);
    return hipSuccess;
  });
}

HIP_API hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop) {
  return api([&] {
    require(milliseconds, hipErrorInvalidValue);
    auto first = find_event(start);
    auto second = find_event(stop);
    require(first->device == second->device, hipErrorInvalidHandle);
    require(((first->flags | second->flags) & hipEventDisableTiming) == 0, hipErrorInvalidHandle);
    const auto from = require(first->last_record(), hipErrorInvalidHandle);
    const auto to = require(second->last_record(), hipErrorInvalidHandle);
    if (!from->ticket.done() || !to->ticket.done()) return hipErrorNotReady;
    const std::chrono::steady_clock::duration elapsed(to->time.load() - from->time.load());
    *milliseconds = std::chrono::duration<float, std::milli>(elapsed).count();
    return hipSuccess;
  });
}
