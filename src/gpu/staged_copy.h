// Copies between host and GPU through pinned memory. The host's own memory is pageable: a driver would have
// to wait for its copy, or to pin it, at every call.
#pragma once

#include <memory>

#include "device/backend.h"
#include "gpu/device.h"

namespace hearth::gpu {

// Puts the copy into `stream`. `host` has been read when it returns.
void copy_to_device(GpuDevice& device, void* target, const void* host, std::size_t bytes,
                    StreamHandle stream);
// Copies when the device's stream has come to it; it is done when this returns.
void copy_to_host(GpuDevice& device, void* host, const void* source, std::size_t bytes);
// Into new memory, by the stream for copies.
std::unique_ptr<Upload> start_upload(GpuDevice& device, const void* host, std::size_t bytes);
// To pinned memory, by the stream for copies.
std::unique_ptr<Download> start_download(GpuDevice& device, void* host, std::shared_ptr<Buffer> source,
                                         std::size_t offset, std::size_t bytes);

}  // namespace hearth::gpu
