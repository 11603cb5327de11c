// The worker threads behind parallel_for.
#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace hearth {
namespace {

thread_local bool inside_loop = false;

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

// Threads are started by the first loop.
class ThreadPool {
 public:
  explicit ThreadPool(int count) : size_(count) {}
  ~ThreadPool() { stop(); }

  int size() const { return size_.load(std::memory_order_relaxed); }

  void resize(int count) {
    std::lock_guard turn(turn_);
    stop();
    size_.store(count > 0 ? count : available_cores(), std::memory_order_relaxed);
  }

  // In the child of a fork, which has none of the threads: what they hold or wait for is left as it is, and
  // a pool begins anew in its place.
  void begin_anew() {
    // They can be neither joined nor destroyed.
    static auto* const gone = new std::vector<std::vector<std::thread>>;
    gone->push_back(std::move(workers_));
    new (this) ThreadPool(size());
  }

  void run(std::int64_t count, std::int64_t grain, RangeFunction body) {
    std::lock_guard turn(turn_);
    if (workers_.empty()) start();
    // A few ranges per thread even out uneven work; more would only cost.
    const std::int64_t chunk = std::max(grain, (count + size() * 4 - 1) / (size() * 4));
    {
      std::lock_guard lock(mutex_);
      body_ = &body;
      count_ = count;
      chunk_ = chunk;
      next_.store(0, std::memory_order_relaxed);
      working_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
      failure_ = nullptr;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    inside_loop = true;
    take_ranges();
    inside_loop = false;
    wait_until_done();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void start() {
    stopping_ = false;
    const auto generation = generation_.load();
    for (int i = 1; i < size(); ++i) workers_.emplace_back([this, generation] { work(generation); });
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (auto& worker : workers_) worker.join();
    workers_.clear();
  }

  void work(std::uint64_t seen) {
    inside_loop = true;
    for (;;) {
      wait_for_work(seen);
      seen = generation_.load(std::memory_order_acquire);
      {
        std::lock_guard lock(mutex_);
        if (stopping_) return;
      }
      take_ranges();
      if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        std::lock_guard lock(mutex_);
        done_.notify_one();
      }
    }
  }

  // Loops often follow each other within microseconds: look a while before going to sleep.
  void wait_for_work(std::uint64_t seen) {
    for (int i = 0; i < spin_rounds; ++i) {
      if (generation_.load(std::memory_order_acquire) != seen) return;
      pause();
    }
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return generation_.load(std::memory_order_acquire) != seen; });
  }

  void wait_until_done() {
    for (int i = 0; i < spin_rounds; ++i) {
      if (working_.load(std::memory_order_acquire) == 0) return;
      pause();
    }
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return working_.load(std::memory_order_acquire) == 0; });
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }

  void take_ranges() {
    const auto& body = *body_;
    for (;;) {
      const auto begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
      if (begin >= count_) return;
      try {
        body(begin, std::min(begin + chunk_, count_));
      } catch (...) {
        std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        next_.store(count_, std::memory_order_relaxed);
      }
    }
  }

  static constexpr int spin_rounds = 2000;

  std::mutex turn_;  // one loop at a time
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  std::atomic<int> size_;
  std::atomic<std::uint64_t> generation_{0};
  bool stopping_ = false;

  const RangeFunction* body_ = nullptr;
  std::int64_t count_ = 0, chunk_ = 1;
  std::atomic<std::int64_t> next_{0};
  std::atomic<int> working_{0};
  std::exception_ptr failure_;
};

ThreadPool& pool() {
  static ThreadPool instance(available_cores());
  [[maybe_unused]] static const int failed = pthread_atfork(nullptr, nullptr, [] { instance.begin_anew(); });
  return instance;
}

}  // namespace

void parallel_for(std::int64_t count, std::int64_t grain, RangeFunction body) {
  if (count <= 0) return;
  if (inside_loop || count <= grain || pool().size() == 1) {
    body(0, count);
    return;
  }
  pool().run(count, grain, body);
}

int thread_count() { return pool().size(); }

void set_thread_count(int count) { pool().resize(count); }

}  // namespace hearth
