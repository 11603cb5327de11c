// A pool of worker threads for data-parallel loops.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace hearth {

// A reference to a callable void(begin, end); the callable must outlive the call.
class RangeFunction {
 public:
  template <typename F>
  RangeFunction(const F& f)  // NOLINT: implicit by design, so that a lambda can be passed
      : object_(&f), call_([](const void* object, std::int64_t begin, std::int64_t end) {
          (*static_cast<const F*>(object))(begin, end);
        }) {}
  void operator()(std::int64_t begin, std::int64_t end) const { call_(object_, begin, end); }

 private:
  const void* object_;
  void (*call_)(const void*, std::int64_t, std::int64_t);
};

// Calls `body(begin, end)` on disjoint ranges that cover [0, count), each at least `grain` long (but the
// last), on the pool's threads and the calling one. Ranges do not depend on timing only when count <= grain.
// The first exception thrown by a body is rethrown here. Nested calls run in the calling thread. Safe from
// any thread: concurrent callers take turns. So is a process that was forked: it gets threads of its own.
void parallel_for(std::int64_t count, std::int64_t grain, RangeFunction body);

// Number of threads parallel_for uses, the caller included.
int thread_count();

// Changes it; 0 means one per available core. Waits for a running loop.
void set_thread_count(int count);

}  // namespace hearth
