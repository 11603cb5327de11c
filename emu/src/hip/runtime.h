// The state of the process: the devices that it sees, the current one of each thread, and how it ends.
//
// All of it is made at the first call and never destroyed: worker threads outlive main(), and a program's own
// static objects call into the library after this library's would be gone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "exec/launch.h"
#include "hip/api.h"
#include "isa/chip.h"

namespace hipemu::hip {

class Stream;

struct Device {
  int index = 0;     // as the program counts
  int physical = 0;  // in HIPEMU's list, before the *_VISIBLE_DEVICES filters: decides the PCI address
  const Chip* chip = nullptr;
  std::string target;  // what it says its architecture is; the chip's own unless HIPEMU says otherwise

  // The first fault of a kernel. Once set, no more work is done for this device and every call that
  // synchronises reports it, until hipDeviceReset.
  std::atomic<hipError_t> sticky{hipSuccess};

  std::mutex mutex;  // guards all that follows, and the order in which work enters the streams
  std::shared_ptr<Stream> null_stream;
  std::vector<std::shared_ptr<Stream>> streams;  // that may have work; the null stream is not among them
  std::set<int> peers;                           // devices whose memory this one was given access to
  unsigned flags = 0;
  hipFuncCache_t cache_config = hipFuncCachePreferNone;
  hipSharedMemConfig shared_config = hipSharedMemBankSizeFourByte;
  std::array<size_t, 3> limits{1024, 1 << 20, 8 << 20};  // stack, printf, heap; bytes
  unsigned primary_context_users = 0;
};

// Throws Failure(hipErrorNoDevice) when there are none.
const std::vector<std::unique_ptr<Device>>& devices();
Device& device_at(int index);  // throws hipErrorInvalidDevice
Device& current_device();
int current_device_index();
void set_current_device(int index);
void check_sticky(const Device& device);  // throws the device's sticky error

// A kernel went wrong: prints the report (once) and makes the error stick. Aborts under HIPEMU_ABORT=1.
void report_fault(Device& device, const Fault& fault, const std::string& kernel);

// The program was built for ROCm 5: it has found the library under the name libamdhip64.so.5, or the
// environment says HIPEMU_HIP_ABI=5. hipMemoryType and hipGraphNodeType have other numbers there.
bool old_abi();
int memory_type_number(MemoryType type);

// The threads of streams are counted, so that exit can wait for them: from before one is started...
void expect_worker();
// ...until this, the first thing in the thread's function, is gone.
class WorkerScope {
 public:
  WorkerScope();
  ~WorkerScope();
  WorkerScope(const WorkerScope&) = delete;
  WorkerScope& operator=(const WorkerScope&) = delete;
};

}  // namespace hipemu::hip
