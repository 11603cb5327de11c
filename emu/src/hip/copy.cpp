// Copies: hipMemcpy in all its kinds.
#include <fmt/core.h>

#include <cstring>

#include "hip/graph.h"
#include "hip/memory.h"
#include "hip/module.h"

namespace hipemu::hip {
namespace {

void check_kind(hipMemcpyKind kind) {
  require((kind >= hipMemcpyHostToHost && kind <= hipMemcpyDefault) || kind == hipMemcpyDeviceToDeviceNoCU,
          hipErrorInvalidMemcpyDirection);
}

}  // namespace

CopyWork linear_copy(void* to, const void* from, size_t bytes, hipMemcpyKind kind) {
  check_kind(kind);
  CopyWork work;
  work.to = {static_cast<std::byte*>(to), bytes, bytes, false};
  work.from = {static_cast<std::byte*>(const_cast<void*>(from)), bytes, bytes, false};
  work.width = bytes;
  work.kind = kind;
  return work;
}

void copy(Stream& stream, CopyWork work, bool blocking) {
  const bool capturing = is_capturing(stream);
  if (blocking) {
    if (capturing) refuse_while_capturing(stream);
    // The legacy stream waits for blocking streams, and a capture cannot be waited for.
    if (stream.kind == Stream::Kind::null) refuse_unsafe_call();
  }
  if (work.width == 0 || work.height == 0 || work.depth == 0) return;
  check_box(work.to, work.width, work.height, work.depth);
  check_box(work.from, work.width, work.height, work.depth);
  check_sticky(stream.device);
  if (capturing) {
    submit(stream, std::move(work));
    return;
  }
  bool wait = blocking;
  if (!blocking && !work.to.tracked) wait = true;
  if (!wait && !work.from.tracked) {
    auto staged = std::make_shared<std::vector<std::byte>>(work.width * work.height * work.depth);
    std::byte* out = staged->data();
    for (size_t z = 0; z < work.depth; ++z)
      for (size_t y = 0; y < work.height; ++y, out += work.width)
        std::memcpy(out, work.from.base + z * work.from.slice + y * work.from.pitch, work.width);
    work.from.pitch = work.width;
    work.from.slice = work.width * work.height;
    work.staged = std::move(staged);
  }
  const Ticket ticket = submit(stream, std::move(work));
  if (!wait) return;
  ticket.wait();
  check_sticky(stream.device);
}

namespace {

void copy_linear(void* to, const void* from, size_t bytes, hipMemcpyKind kind, hipStream_t stream,
                 bool blocking) {
  CopyWork work = linear_copy(to, from, bytes, kind);
  copy(*resolve_stream(stream), std::move(work), blocking);
}

void copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
             hipMemcpyKind kind, hipStream_t stream, bool blocking) {
  check_kind(kind);
  auto on = resolve_stream(stream);
  if (width == 0 || height == 0) return;
  require(to && from, hipErrorInvalidValue);
  require(to_pitch >= width && from_pitch >= width, hipErrorInvalidPitchValue);
  CopyWork work;
  work.to = {static_cast<std::byte*>(to), to_pitch, to_pitch * height, false};
  work.from = {static_cast<std::byte*>(const_cast<void*>(from)), from_pitch, from_pitch * height, false};
  work.width = width;
  work.height = height;
  work.kind = kind;
  copy(*on, std::move(work), blocking);
}

void copy_3d(const hipMemcpy3DParms* parameters, hipStream_t stream, bool blocking) {
  copy(*resolve_stream(stream), box_copy(parameters), blocking);
}

void copy_param_2d(const hip_Memcpy2D* p, hipStream_t stream, bool blocking) {
  require(p, hipErrorInvalidValue);
  require(!p->srcArray && !p->dstArray, hipErrorNotSupported);
  // Which of the pointers counts is said by the memory type; the numbers differ between ROCm 5 and 6.
  const bool from_host = p->srcMemoryType == memory_type_number(MemoryType::host);
  const bool to_host = p->dstMemoryType == memory_type_number(MemoryType::host);
  const void* from = from_host || !p->srcDevice ? p->srcHost : p->srcDevice;
  void* to = to_host || !p->dstDevice ? p->dstHost : p->dstDevice;
  require(from && to, hipErrorInvalidValue);
  const size_t from_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes;
  const size_t to_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes;
  copy_2d(static_cast<std::byte*>(to) + p->dstY * to_pitch + p->dstXInBytes, to_pitch,
          static_cast<const std::byte*>(from) + p->srcY * from_pitch + p->srcXInBytes, from_pitch,
          p->WidthInBytes, p->Height, hipMemcpyDefault, stream, blocking);
}

void copy_to_symbol(const void* symbol, const void* from, size_t bytes, size_t offset, hipMemcpyKind kind,
                    hipStream_t stream, bool blocking) {
  const CopyWork work = symbol_copy(symbol, const_cast<void*>(from), bytes, offset, kind, true);
  copy(*resolve_stream(stream), work, blocking);
}

void copy_from_symbol(void* to, const void* symbol, size_t bytes, size_t offset, hipMemcpyKind kind,
                      hipStream_t stream, bool blocking) {
  const CopyWork work = symbol_copy(symbol, to, bytes, offset, kind, false);
  copy(*resolve_stream(stream), work, blocking);
}

}  // namespace

CopyWork box_copy(const hipMemcpy3DParms* p) {
  require(p, hipErrorInvalidValue);
  require(!p->srcArray && !p->dstArray,
          hipErrorNotSupported);  // arrays are for textures, which are not emulated
  check_kind(p->kind);
  CopyWork work;
  work.kind = p->kind;
  if (p->extent.width == 0 || p->extent.height == 0 || p->extent.depth == 0) return work;
  require(p->srcPtr.ptr && p->dstPtr.ptr, hipErrorInvalidValue);
  require((p->extent.height == 1 && p->extent.depth == 1) ||
              (p->srcPtr.pitch >= p->extent.width && p->dstPtr.pitch >= p->extent.width),
          hipErrorInvalidPitchValue);
  const auto box = [&](const hipPitchedPtr& pointer, const hipPos& position) {
    const size_t rows = pointer.ysize ? pointer.ysize : p->extent.height;
    Box result;
    result.pitch = pointer.pitch;
    result.slice = pointer.pitch * rows;
    result.base = static_cast<std::byte*>(pointer.ptr) + position.z * result.slice +
                  position.y * result.pitch + position.x;
    return result;
  };
  work.to = box(p->dstPtr, p->dstPos);
  work.from = box(p->srcPtr, p->srcPos);
  work.width = p->extent.width;
  work.height = p->extent.height;
  work.depth = p->extent.depth;
  return work;
}

CopyWork symbol_copy(const void* symbol, void* other, size_t bytes, size_t offset, hipMemcpyKind kind,
                     bool to_symbol) {
  const std::span<std::byte> variable = registered_variable(symbol, current_device());
  require(offset <= variable.size() && bytes <= variable.size() - offset, hipErrorInvalidValue);
  require(kind == hipMemcpyDefault || kind == hipMemcpyDeviceToDevice ||
              kind == (to_symbol ? hipMemcpyHostToDevice : hipMemcpyDeviceToHost),
          hipErrorInvalidMemcpyDirection);
  std::byte* address = variable.data() + offset;
  return to_symbol ? linear_copy(address, other, bytes, kind) : linear_copy(other, address, bytes, kind);
}

}  // namespace hipemu::hip

using namespace hipemu::hip;

HIP_API hipError_t hipMemcpy(void* to, const void* from, size_t bytes, hipMemcpyKind kind) {
  return api([&] { copy_linear(to, from, bytes, kind, nullptr, true); });
}
HIP_API hipError_t hipMemcpy_spt(void* to, const void* from, size_t bytes, hipMemcpyKind kind) {
  return api([&] { copy_linear(to, from, bytes, kind, HIPEMU_STREAM_PER_THREAD, true); });
}
HIP_API hipError_t hipMemcpyWithStream(void* to, const void* from, size_t bytes, hipMemcpyKind kind,
                                       hipStream_t stream) {
  return api([&] { copy_linear(to, from, bytes, kind, stream, true); });
}
HIP_API hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind kind,
                                  hipStream_t stream) {
  return api([&] { copy_linear(to, from, bytes, kind, stream, false); });
}
HIP_API hipError_t hipMemcpyAsync_spt(void* to, const void* from, size_t bytes, hipMemcpyKind kind,
                                      hipStream_t stream) {
  return api([&] { copy_linear(to, from, bytes, kind, per_thread(stream), false); });
}

HIP_API hipError_t hipMemcpyHtoD(hipDeviceptr_t to, void* from, size_t bytes) {
  return api([&] { copy_linear(to, from, bytes, hipMemcpyHostToDevice, nullptr, true); });
}
HIP_API hipError_t hipMemcpyDtoH(void* to, hipDeviceptr_t from, size_t bytes) {
  return api([&] { copy_linear(to, from, bytes, hipMemcpyDeviceToHost, nullptr, true); });
}
HIP_API hipError_t hipMemcpyDtoD(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes) {
  return api([&] { copy_linear(to, from, bytes, hipMemcpyDeviceToDevice, nullptr, true); });
}
HIP_API hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, void* from, size_t bytes, hipStream_t stream) {
  return api([&] { copy_linear(to, from, bytes, hipMemcpyHostToDevice, stream, false); });
}
HIP_API hipError_t hipMemcpyDtoHAsync(void* to, hipDeviceptr_t from, size_t bytes, hipStream_t stream) {
  return api([&] { copy_linear(to, from, bytes, hipMemcpyDeviceToHost, stream, false); });
}
HIP_API hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes,
                                      hipStream_t stream) {
  return api([&] { copy_linear(to, from, bytes, hipMemcpyDeviceToDevice, stream, false); });
}

HIP_API hipError_t hipMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  return api([&] {
    device_at(to_device);
    device_at(from_device);
    // Ordered after the work of both devices.
    synchronize_device(device_at(from_device));
    copy_linear(to, from, bytes, hipMemcpyDeviceToDevice, nullptr, true);
  });
}
HIP_API hipError_t hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                      size_t bytes, hipStream_t stream) {
  return api([&] {
    device_at(to_device);
    device_at(from_device);
    copy_linear(to, from, bytes, hipMemcpyDeviceToDevice, stream, false);
  });
}

HIP_API hipError_t hipMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                               size_t height, hipMemcpyKind kind) {
  return api([&] { copy_2d(to, to_pitch, from, from_pitch, width, height, kind, nullptr, true); });
}
HIP_API hipError_t hipMemcpy2D_spt(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                   size_t width, size_t height, hipMemcpyKind kind) {
  return api(
      [&] { copy_2d(to, to_pitch, from, from_pitch, width, height, kind, HIPEMU_STREAM_PER_THREAD, true); });
}
HIP_API hipError_t hipMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                    size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream) {
  return api([&] { copy_2d(to, to_pitch, from, from_pitch, width, height, kind, stream, false); });
}
HIP_API hipError_t hipMemcpy2DAsync_spt(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                        size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream) {
  return api(
      [&] { copy_2d(to, to_pitch, from, from_pitch, width, height, kind, per_thread(stream), false); });
}

HIP_API hipError_t hipMemcpyParam2D(const hip_Memcpy2D* parameters) {
  return api([&] { copy_param_2d(parameters, nullptr, true); });
}
HIP_API hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D* parameters, hipStream_t stream) {
  return api([&] { copy_param_2d(parameters, stream, false); });
}
HIP_API hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D* parameters) {
  return api([&] { copy_param_2d(parameters, nullptr, true); });
}

HIP_API hipError_t hipMemcpy3D(const hipMemcpy3DParms* parameters) {
  return api([&] { copy_3d(parameters, nullptr, true); });
}
HIP_API hipError_t hipMemcpy3D_spt(const hipMemcpy3DParms* parameters) {
  return api([&] { copy_3d(parameters, HIPEMU_STREAM_PER_THREAD, true); });
}
HIP_API hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms* parameters, hipStream_t stream) {
  return api([&] { copy_3d(parameters, stream, false); });
}
HIP_API hipError_t hipMemcpy3DAsync_spt(const hipMemcpy3DParms* parameters, hipStream_t stream) {
  return api([&] { copy_3d(parameters, per_thread(stream), false); });
}

HIP_API hipError_t hipMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                                     hipMemcpyKind kind) {
  return api([&] { copy_to_symbol(symbol, from, bytes, offset, kind, nullptr, true); });
}
HIP_API hipError_t hipMemcpyToSymbol_spt(const void* symbol, const void* from, size_t bytes, size_t offset,
                                         hipMemcpyKind kind) {
  return api([&] { copy_to_symbol(symbol, from, bytes, offset, kind, HIPEMU_STREAM_PER_THREAD, true); });
}
HIP_API hipError_t hipMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                          hipMemcpyKind kind, hipStream_t stream) {
  return api([&] { copy_to_symbol(symbol, from, bytes, offset, kind, stream, false); });
}
HIP_API hipError_t hipMemcpyToSymbolAsync_spt(const void* symbol, const void* from, size_t bytes,
                                              size_t offset, hipMemcpyKind kind, hipStream_t stream) {
  return api([&] { copy_to_symbol(symbol, from, bytes, offset, kind, per_thread(stream), false); });
}
HIP_API hipError_t hipMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                       hipMemcpyKind kind) {
  return api([&] { copy_from_symbol(to, symbol, bytes, offset, kind, nullptr, true); });
}
HIP_API hipError_t hipMemcpyFromSymbol_spt(void* to, const void* symbol, size_t bytes, size_t offset,
                                           hipMemcpyKind kind) {
  return api([&] { copy_from_symbol(to, symbol, bytes, offset, kind, HIPEMU_STREAM_PER_THREAD, true); });
}
HIP_API hipError_t hipMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                            hipMemcpyKind kind, hipStream_t stream) {
  return api([&] { copy_from_symbol(to, symbol, bytes, offset, kind, stream, false); });
}
HIP_API hipError_t hipMemcpyFromSymbolAsync_spt(void* to, const void* symbol, size_t bytes, size_t offset,
                                                hipMemcpyKind kind, hipStream_t stream) {
  return api([&] { copy_from_symbol(to, symbol, bytes, offset, kind, per_thread(stream), false); });
}
