// Memory that programs ask for: allocations, and the checks that copies go through.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "hip/work.h"
#include "memory/address_space.h"

namespace hipemu::hip {

// New memory; throws hipErrorOutOfMemory. `size` must not be 0.
Allocation& allocate_memory(size_t size, MemoryKind kind, Device& device, std::string origin,
                            unsigned flags = 0);
// Gives it back; false when it is not the start of an allocation.
bool release_memory(void* pointer);

// Fills in `tracked` and throws hipErrorInvalidValue when the box leaves the allocation it begins in, or
// begins in one that was freed.
void check_box(Box& box, size_t width, size_t height, size_t depth);

// Runs a copy in the stream. Blocking: returns when it is done. Otherwise as HIP does it: what comes from
// pageable memory is read before the call returns, and a copy to pageable memory is waited for.
void copy(Stream& stream, CopyWork work, bool blocking);
// Copies as work, with their arguments checked.
CopyWork linear_copy(void* to, const void* from, size_t bytes, hipMemcpyKind kind);
CopyWork box_copy(const hipMemcpy3DParms* parameters);
CopyWork symbol_copy(const void* symbol, void* other, size_t bytes, size_t offset, hipMemcpyKind kind,
                     bool to_symbol);
void fill(Stream& stream, FillWork work, bool blocking);

}  // namespace hipemu::hip
