// hipStream*.
#include <algorithm>
#include <thread>

#include "hip/event.h"
#include "hip/graph.h"
#include "hip/stream_table.h"
#include "hip/work.h"
#include "memory/address_space.h"

namespace hipemu::hip {
namespace {

constexpr int least_priority = 1, greatest_priority = -1;

void create(hipStream_t* stream, unsigned flags, int priority) {
  require(stream && flags <= hipStreamNonBlocking, hipErrorInvalidValue);
  Device& device = current_device();
  const auto kind = flags & hipStreamNonBlocking ? Stream::Kind::non_blocking : Stream::Kind::blocking;
  auto made =
      std::make_shared<Stream>(device, kind, flags, std::clamp(priority, greatest_priority, least_priority));
  made->handle = stream_table().insert(made);
  const std::lock_guard lock(device.mutex);
  device.streams.push_back(made);
  *stream = made->handle;
}

void wait_event(hipStream_t stream, hipEvent_t event, unsigned flags) {
  require(flags <= 1, hipErrorInvalidValue);
  auto on = resolve_stream(stream);
  auto found = require(event_table().find(event), hipErrorInvalidHandle);
  if (capture_event_wait(*on, *found)) return;
  // Waiting for work outside of the capture would tie the graph to it.
  if (is_capturing(*on)) {
    require(!found->last_record() || flags == 1, hipErrorStreamCaptureIsolation);
    return;
  }
  const auto record = found->last_record();
  if (record && !record->ticket.done()) on->enqueue([] {}, {record->ticket});
}

// hipStreamQuery: work that the null stream waits for counts as its own.
hipError_t query(Stream& stream) {
  refuse_while_capturing(stream);
  bool idle = stream.idle();
  if (stream.kind == Stream::Kind::null) {
    const std::lock_guard lock(stream.device.mutex);
    for (const auto& other : stream.device.streams)
      idle = idle && (other->kind != Stream::Kind::blocking || other->idle());
  }
  if (!idle) return hipErrorNotReady;
  check_sticky(stream.device);
  return hipSuccess;
}

// A word that the device can reach.
template <class Word>
void check_word(void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  require(address % sizeof(Word) == 0, hipErrorInvalidValue);
  const auto* allocation = address_space().find(pointer);
  require(allocation && allocation->contains(address, sizeof(Word)), hipErrorInvalidValue);
}

// Waits in the stream until the program, another stream or another process has written the word.
template <class Word>
void wait_value(hipStream_t stream, void* pointer, Word value, unsigned flags, Word mask) {
  check_word<Word>(pointer);
  require(flags <= 3, hipErrorInvalidValue);
  auto on = resolve_stream(stream);
  refuse_while_capturing(*on);
  on->enqueue([=] {
    const auto holds = [&] {
      const Word now = __atomic_load_n(static_cast<Word*>(pointer), __ATOMIC_ACQUIRE) & mask;
      switch (flags) {
        case 0:
          return static_cast<std::make_signed_t<Word>>(now - value) >= 0;
        case 1:
          return now == value;
        case 2:
          return (now & value) != 0;
        default:
          return static_cast<Word>(~(now | value)) != 0;
      }
    };
    while (!holds() && !shutting_down()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  });
}

template <class Word>
void write_value(hipStream_t stream, void* pointer, Word value) {
  check_word<Word>(pointer);
  auto on = resolve_stream(stream);
  refuse_while_capturing(*on);
  on->enqueue([=] {
    __atomic_store_n(static_cast<Word*>(pointer), value, __ATOMIC_RELEASE);
    address_space().mark_written(pointer, sizeof value);
  });
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;

HIP_API hipError_t hipStreamCreate(hipStream_t* stream) {
  return api([&] { create(stream, 0, 0); });
}
HIP_API hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  return api([&] { create(stream, flags, 0); });
}
HIP_API hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority) {
  return api([&] { create(stream, flags, priority); });
}
HIP_API hipError_t hipExtStreamCreateWithCUMask(hipStream_t* stream, uint32_t words, const uint32_t* mask) {
  return api([&] {
    require(words > 0 && mask, hipErrorInvalidValue);
    create(stream, 0, 0);  // the mask only decides where work runs
  });
}

HIP_API hipError_t hipStreamDestroy(hipStream_t stream) {
  return api([&] {
    require(stream && stream != HIPEMU_STREAM_LEGACY && stream != HIPEMU_STREAM_PER_THREAD,
            hipErrorInvalidHandle);
    auto gone = require(stream_table().remove(stream), hipErrorContextIsDestroyed);
    abandon_capture(*gone);
    gone->close();  // what is queued still runs
  });
}

HIP_API hipError_t hipStreamSynchronize(hipStream_t stream) {
  return api([&] {
    auto on = resolve_stream(stream);
    refuse_while_capturing(*on);
    synchronize_stream(*on);
  });
}
HIP_API hipError_t hipStreamSynchronize_spt(hipStream_t stream) {
  return hipStreamSynchronize(per_thread(stream));
}

HIP_API hipError_t hipStreamQuery(hipStream_t stream) {
  return api([&] { return query(*resolve_stream(stream)); });
}
HIP_API hipError_t hipStreamQuery_spt(hipStream_t stream) { return hipStreamQuery(per_thread(stream)); }

HIP_API hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  return api([&] { wait_event(stream, event, flags); });
}
HIP_API hipError_t hipStreamWaitEvent_spt(hipStream_t stream, hipEvent_t event, unsigned flags) {
  return hipStreamWaitEvent(per_thread(stream), event, flags);
}

HIP_API hipError_t hipStreamGetFlags(hipStream_t stream, unsigned* flags) {
  return api([&] {
    require(flags, hipErrorInvalidValue);
    *flags = resolve_stream(stream)->flags;
  });
}
HIP_API hipError_t hipStreamGetFlags_spt(hipStream_t stream, unsigned* flags) {
  return hipStreamGetFlags(per_thread(stream), flags);
}

HIP_API hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
  return api([&] {
    require(priority, hipErrorInvalidValue);
    *priority = resolve_stream(stream)->priority;
  });
}
HIP_API hipError_t hipStreamGetPriority_spt(hipStream_t stream, int* priority) {
  return hipStreamGetPriority(per_thread(stream), priority);
}

HIP_API hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* device) {
  return api([&] {
    require(device, hipErrorInvalidValue);
    *device = resolve_stream(stream)->device.index;
  });
}

HIP_API int hipGetStreamDeviceId(hipStream_t stream) {
  int device = -1;
  return hipStreamGetDevice(stream, &device) == hipSuccess ? device : -1;
}

HIP_API hipError_t hipExtStreamGetCUMask(hipStream_t stream, uint32_t words, uint32_t* mask) {
  return api([&] {
    require(words > 0 && mask, hipErrorInvalidValue);
    const int units = resolve_stream(stream)->device.chip->compute_units;
    for (uint32_t word = 0; word < words; ++word) {
      const int left = units - static_cast<int>(word) * 32;
      mask[word] = left >= 32 ? ~0u : left > 0 ? (1u << left) - 1 : 0u;
    }
  });
}

HIP_API hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api([&] {
    current_device();
    if (least) *least = least_priority;
    if (greatest) *greatest = greatest_priority;
  });
}

HIP_API hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void* data,
                                        unsigned flags) {
  return api([&] {
    require(callback && flags == 0, hipErrorInvalidValue);
    auto on = resolve_stream(stream);
    refuse_while_capturing(*on);
    on->enqueue([callback, data, stream, &device = on->device] {
      callback(stream, device.sticky.load(std::memory_order_acquire), data);
    });
  });
}
HIP_API hipError_t hipStreamAddCallback_spt(hipStream_t stream, hipStreamCallback_t callback, void* data,
                                            unsigned flags) {
  return hipStreamAddCallback(per_thread(stream), callback, data, flags);
}

HIP_API hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* data) {
  return api([&] {
    require(function, hipErrorInvalidValue);
    submit(*resolve_stream(stream), HostWork{function, data});
  });
}
HIP_API hipError_t hipLaunchHostFunc_spt(hipStream_t stream, hipHostFn_t function, void* data) {
  return hipLaunchHostFunc(per_thread(stream), function, data);
}

HIP_API hipError_t hipStreamWaitValue32(hipStream_t stream, void* pointer, uint32_t value, unsigned flags,
                                        uint32_t mask) {
  return api([&] { wait_value<uint32_t>(stream, pointer, value, flags, mask); });
}
HIP_API hipError_t hipStreamWaitValue64(hipStream_t stream, void* pointer, uint64_t value, unsigned flags,
                                        uint64_t mask) {
  return api([&] { wait_value<uint64_t>(stream, pointer, value, flags, mask); });
}
HIP_API hipError_t hipStreamWriteValue32(hipStream_t stream, void* pointer, uint32_t value, unsigned) {
  return api([&] { write_value<uint32_t>(stream, pointer, value); });
}
HIP_API hipError_t hipStreamWriteValue64(hipStream_t stream, void* pointer, uint64_t value, unsigned) {
  return api([&] { write_value<uint64_t>(stream, pointer, value); });
}
