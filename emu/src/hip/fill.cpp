// hipMemset and its relatives.
#include "hip/graph.h"
#include "hip/memory.h"

namespace hipemu::hip {

void fill(Stream& stream, FillWork work, bool blocking) {
  const bool capturing = is_capturing(stream);
  if (blocking) {
    if (capturing) refuse_while_capturing(stream);
    if (stream.kind == Stream::Kind::null) refuse_unsafe_call();
  }
  if (work.width == 0 || work.height == 0 || work.depth == 0) return;
  check_box(work.to, work.width * work.element_size, work.height, work.depth);
  // Unlike a copy, a memset is done by the device, which cannot reach the program's pageable memory.
  require(work.to.tracked, hipErrorInvalidValue);
  check_sticky(stream.device);
  const Ticket ticket = submit(stream, work);
  if (!blocking) return;
  ticket.wait();
  check_sticky(stream.device);
}

namespace {

void fill_linear(void* to, unsigned element_size, uint32_t value, size_t count, hipStream_t stream,
                 bool blocking) {
  require(reinterpret_cast<uintptr_t>(to) % element_size == 0, hipErrorInvalidValue);
  FillWork work;
  work.to.base = static_cast<std::byte*>(to);
  work.element_size = element_size;
  work.value = value;
  work.width = count;
  auto on = resolve_stream(stream);
  if (count > 0) require(to && count <= SIZE_MAX / element_size, hipErrorInvalidValue);
  fill(*on, work, blocking);
}

void fill_2d(void* to, size_t pitch, int value, size_t width, size_t height, hipStream_t stream,
             bool blocking) {
  auto on = resolve_stream(stream);
  if (width == 0 || height == 0) return;
  require(pitch >= width, hipErrorInvalidValue);
  FillWork work;
  work.to = {static_cast<std::byte*>(to), pitch, pitch * height, false};
  work.value = static_cast<uint32_t>(value);
  work.width = width;
  work.height = height;
  fill(*on, work, blocking);
}

void fill_3d(const hipPitchedPtr& to, int value, const hipExtent& extent, hipStream_t stream, bool blocking) {
  auto on = resolve_stream(stream);
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return;
  require(to.pitch >= extent.width && to.ysize >= extent.height, hipErrorInvalidValue);
  FillWork work;
  work.to = {static_cast<std::byte*>(to.ptr), to.pitch, to.pitch * to.ysize, false};
  work.value = static_cast<uint32_t>(value);
  work.width = extent.width;
  work.height = extent.height;
  work.depth = extent.depth;
  fill(*on, work, blocking);
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;

HIP_API hipError_t hipMemset(void* to, int value, size_t bytes) {
  return api([&] { fill_linear(to, 1, static_cast<uint32_t>(value), bytes, nullptr, true); });
}
HIP_API hipError_t hipMemset_spt(void* to, int value, size_t bytes) {
  return api(
      [&] { fill_linear(to, 1, static_cast<uint32_t>(value), bytes, HIPEMU_STREAM_PER_THREAD, true); });
}
HIP_API hipError_t hipMemsetAsync(void* to, int value, size_t bytes, hipStream_t stream) {
  return api([&] { fill_linear(to, 1, static_cast<uint32_t>(value), bytes, stream, false); });
}
HIP_API hipError_t hipMemsetAsync_spt(void* to, int value, size_t bytes, hipStream_t stream) {
  return api([&] { fill_linear(to, 1, static_cast<uint32_t>(value), bytes, per_thread(stream), false); });
}
HIP_API hipError_t hipMemsetD8(hipDeviceptr_t to, unsigned char value, size_t count) {
  return api([&] { fill_linear(to, 1, value, count, nullptr, true); });
}
HIP_API hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t count,
                                    hipStream_t stream) {
  return api([&] { fill_linear(to, 1, value, count, stream, false); });
}
HIP_API hipError_t hipMemsetD16(hipDeviceptr_t to, unsigned short value, size_t count) {
  return api([&] { fill_linear(to, 2, value, count, nullptr, true); });
}
HIP_API hipError_t hipMemsetD16Async(hipDeviceptr_t to, unsigned short value, size_t count,
                                     hipStream_t stream) {
  return api([&] { fill_linear(to, 2, value, count, stream, false); });
}
HIP_API hipError_t hipMemsetD32(hipDeviceptr_t to, int value, size_t count) {
  return api([&] { fill_linear(to, 4, static_cast<uint32_t>(value), count, nullptr, true); });
}
HIP_API hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t count, hipStream_t stream) {
  return api([&] { fill_linear(to, 4, static_cast<uint32_t>(value), count, stream, false); });
}
HIP_API hipError_t hipMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return api([&] { fill_2d(to, pitch, value, width, height, nullptr, true); });
}
HIP_API hipError_t hipMemset2D_spt(void* to, size_t pitch, int value, size_t width, size_t height) {
  return api([&] { fill_2d(to, pitch, value, width, height, HIPEMU_STREAM_PER_THREAD, true); });
}
HIP_API hipError_t hipMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                                    hipStream_t stream) {
  return api([&] { fill_2d(to, pitch, value, width, height, stream, false); });
}
HIP_API hipError_t hipMemset2DAsync_spt(void* to, size_t pitch, int value, size_t width, size_t height,
                                        hipStream_t stream) {
  return api([&] { fill_2d(to, pitch, value, width, height, per_thread(stream), false); });
}
HIP_API hipError_t hipMemset3D(hipPitchedPtr to, int value, hipExtent extent) {
  return api([&] { fill_3d(to, value, extent, nullptr, true); });
}
HIP_API hipError_t hipMemset3D_spt(hipPitchedPtr to, int value, hipExtent extent) {
  return api([&] { fill_3d(to, value, extent, HIPEMU_STREAM_PER_THREAD, true); });
}
HIP_API hipError_t hipMemset3DAsync(hipPitchedPtr to, int value, hipExtent extent, hipStream_t stream) {
  return api([&] { fill_3d(to, value, extent, stream, false); });
}
HIP_API hipError_t hipMemset3DAsync_spt(hipPitchedPtr to, int value, hipExtent extent, hipStream_t stream) {
  return api([&] { fill_3d(to, value, extent, per_thread(stream), false); });
}
