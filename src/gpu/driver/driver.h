// Driver: what HIP and CUDA have in common, as one table of functions over opaque handles.
//
// hip.cpp and cuda.cpp fill it by dlopen; nothing else in Hearth knows a vendor's library. No vendor header
// is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hearth/device.h"

namespace hearth::gpu {

using StreamHandle = void*;
using EventHandle = void*;
using ModuleHandle = void*;
using FunctionHandle = void*;
using GraphHandle = void*;
using GraphExecHandle = void*;
using GraphNodeHandle = void*;
using ProgramHandle = void*;  // of the run-time compiler

// What is asked about a device, and its number in each vendor's list.
enum class Attribute {
  wave_size,
  compute_units,
  physical_units,    // AMD: compute units, where compute_units counts pairs of them
  shared_per_block,  // bytes a block may have without asking
  integrated,
  pci_domain,
  pci_bus,
  pci_device,
  count_,
};

enum class FunctionAttribute { threads_per_block, shared_bytes, constant_bytes, local_bytes, registers };

// A kernel launch as a node of a graph.
struct KernelNode {
  FunctionHandle function = nullptr;
  unsigned x = 1, y = 1, z = 1;  // blocks
  unsigned threads = 1;          // per block
  unsigned shared = 0;           // bytes
  void** arguments = nullptr;    // copied
};

// All functions return 0 for success; `Driver::check` turns anything else into an exception.
struct DriverTable {
  int (*initialise)(unsigned flags) = nullptr;
  int (*driver_version)(int* version) = nullptr;
  int (*runtime_version)(int* version) = nullptr;
  int (*device_count)(int* count) = nullptr;
  int (*device_name)(char* name, int length, int device) = nullptr;
  int (*device_architecture)(char* name, int length, int device) = nullptr;  // "gfx1100", "sm_90"
  int (*device_total_memory)(std::size_t* bytes, int device) = nullptr;
  int (*device_attribute)(int* value, int attribute, int device) = nullptr;
  int (*use_device)(int device) = nullptr;  // for the calling thread
  int (*synchronize_device)() = nullptr;
  int (*can_access_peer)(int* can, int device, int peer) = nullptr;
  int (*enable_peer)(int peer) = nullptr;

  int (*memory_info)(std::size_t* free, std::size_t* total) = nullptr;
  int (*allocate)(void** memory, std::size_t bytes) = nullptr;
  int (*release)(void* memory) = nullptr;
  int (*allocate_host)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
  int (*release_host)(void* memory) = nullptr;
  int (*copy_to_device)(void* device, const void* host, std::size_t bytes, StreamHandle stream) = nullptr;
  int (*copy_to_host)(void* host, const void* device, std::size_t bytes, StreamHandle stream) = nullptr;
  int (*copy_on_device)(void* target, const void* source, std::size_t bytes, StreamHandle stream) = nullptr;
  int (*fill_bytes)(void* target, unsigned char value, std::size_t bytes, StreamHandle stream) = nullptr;

  int (*stream_create)(StreamHandle* stream, unsigned flags) = nullptr;
  int (*stream_synchronize)(StreamHandle stream) = nullptr;
  int (*stream_query)(StreamHandle stream) = nullptr;
  int (*stream_wait)(StreamHandle stream, EventHandle event, unsigned flags) = nullptr;

  int (*event_create)(EventHandle* event, unsigned flags) = nullptr;
  int (*event_destroy)(EventHandle event) = nullptr;
  int (*event_record)(EventHandle event, StreamHandle stream) = nullptr;
  int (*event_query)(EventHandle event) = nullptr;
  int (*event_elapsed)(float* milliseconds, EventHandle begin, EventHandle end) = nullptr;

  int (*module_load)(ModuleHandle* module, const void* image) = nullptr;
  int (*module_unload)(ModuleHandle module) = nullptr;
  int (*module_function)(FunctionHandle* function, ModuleHandle module, const char* name) = nullptr;
  int (*function_attribute)(int* value, int attribute, FunctionHandle function) = nullptr;
  int (*allow_shared)(FunctionHandle function, int bytes) = nullptr;  // more LDS than a kernel gets unasked
  int (*launch)(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared, StreamHandle stream, void** arguments,
                void** extra) = nullptr;

  // CUDA 12 on sm_90 and later: describes an array of up to five axes to the copy engine; null elsewhere.
  int (*encode_tensor_map)(void* map, int dtype, unsigned axes, void* address, const std::uint64_t* sizes,
                           const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* steps,
                           int interleave, int swizzle, int promotion, int fill) = nullptr;

  int (*capture_begin)(StreamHandle stream, int mode) = nullptr;
  int (*capture_end)(StreamHandle stream, GraphHandle* graph) = nullptr;
  int (*graph_create)(GraphHandle* graph, unsigned flags) = nullptr;
  int (*graph_add_kernel)(GraphNodeHandle* node, GraphHandle graph, const GraphNodeHandle* after,
                          std::size_t count, const KernelNode& kernel) = nullptr;
  int (*graph_update_kernel)(GraphExecHandle executable, GraphNodeHandle node,
                             const KernelNode& kernel) = nullptr;
  // The kernel `node` follows the kernel `after`, and is started before that has ended; null where kernels
  // cannot be.
  int (*graph_follow_early)(GraphHandle graph, GraphNodeHandle after, GraphNodeHandle node) = nullptr;
  // A whole graph as one node; it is copied.
  int (*graph_add_child)(GraphNodeHandle* node, GraphHandle graph, const GraphNodeHandle* after,
                         std::size_t count, GraphHandle child) = nullptr;
  int (*graph_update_child)(GraphExecHandle executable, GraphNodeHandle node, GraphHandle child) = nullptr;
  int (*graph_instantiate)(GraphExecHandle* executable, GraphHandle graph) = nullptr;
  int (*graph_launch)(GraphExecHandle executable, StreamHandle stream) = nullptr;
  int (*graph_destroy)(GraphHandle graph) = nullptr;
  int (*graph_exec_destroy)(GraphExecHandle executable) = nullptr;

  int (*error_name)(int code, const char** text) = nullptr;
  int (*error_text)(int code, const char** text) = nullptr;

  // The run-time compiler. Its codes are its own.
  int (*compiler_version)(int* major, int* minor) = nullptr;
  int (*program_create)(ProgramHandle* program, const char* source, const char* name, int headers,
                        const char* const* header_texts, const char* const* header_names) = nullptr;
  int (*program_compile)(ProgramHandle program, int options, const char* const* texts) = nullptr;
  int (*program_log_size)(ProgramHandle program, std::size_t* bytes) = nullptr;
  int (*program_log)(ProgramHandle program, char* log) = nullptr;
  int (*program_code_size)(ProgramHandle program, std::size_t* bytes) = nullptr;
  int (*program_code)(ProgramHandle program, char* code) = nullptr;
  int (*program_destroy)(ProgramHandle* program) = nullptr;
  const char* (*compiler_error)(int code) = nullptr;
};

// Codes that mean something to us, by vendor.
struct DriverCodes {
  int out_of_memory = 2;
  int not_ready = 600;
  int peer_already_enabled = 704;
  int attributes[static_cast<int>(Attribute::count_)] = {};  // -1: not known to this vendor
};

// One library that was tried, for `hearth doctor`.
struct OpenAttempt {
  std::string name;     // path or file name given to dlopen
  std::string problem;  // empty: it was opened
};

struct Driver {
  DeviceKind kind = DeviceKind::rocm;
  std::string name;                  // "HIP" or "CUDA"
  std::string library;               // file that was opened
  std::string compiler_library;      // empty: there is none. There may be one where the driver is unavailable
  bool compiles_in_parallel = true;  // the compiler may be called from several threads at once
  std::vector<OpenAttempt> attempts;
  std::string unavailable;  // why it cannot be used; empty when it can
  DriverTable call;
  DriverCodes codes;
  int version = 0;  // of the runtime, as the vendor counts

  bool usable() const { return unavailable.empty(); }
  // Throws DeviceError (OutOfMemory for that code) naming the call unless code is 0.
  void check(int code, const char* what) const;
  void check_compiler(int code, const char* what) const;
  int attribute(Attribute attribute, int device) const;  // 0 when the vendor has no such attribute
  std::string version_text() const;                      // "7.0.51831", "12.4"
  std::string compiler_version_text() const;             // empty when there is no compiler
};

// The drivers of this process, opened on first use and kept open.
const Driver& hip_driver();
const Driver& cuda_driver();
const Driver& driver_of(DeviceKind kind);  // of a GPU's kind

}  // namespace hearth::gpu
