// Threads wait for jobs; a job is taken by as many of them as it asked for.
#include "exec/worker_pool.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <list>
#include <mutex>
#include <thread>

namespace hipemu {
namespace {

struct Job {
  const std::function<void()>* body;
  int wanted;      // threads that may still join
  int active = 0;  // threads that have joined and not left
};

class Pool {
 public:
  explicit Pool(int threads) {
    // Detached, and the pool is never destroyed: a program may end while a kernel runs.
    for (int i = 0; i < threads; ++i) std::thread([this] { serve(); }).detach();
  }

  void run(int helpers, const std::function<void()>& body) {
    std::list<Job>::iterator job;
    {
      const std::lock_guard lock(mutex_);
      job = jobs_.insert(jobs_.end(), Job{&body, helpers});
    }
    work_.notify_all();
    body();
    std::unique_lock lock(mutex_);
    job->wanted = 0;
    done_.wait(lock, [&] { return job->active == 0; });
    jobs_.erase(job);
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto job = std::find_if(jobs_.begin(), jobs_.end(), [](const Job& j) { return j.wanted > 0; });
      if (job == jobs_.end()) {
        work_.wait(lock);
        continue;
      }
      --job->wanted;
      ++job->active;
      lock.unlock();
      (*job->body)();
      lock.lock();
      if (--job->active == 0) done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::list<Job> jobs_;
};

}  // namespace

int worker_count() {
  static const int count = [] {
    if (const char* text = std::getenv("HIPEMU_THREADS")) {
      const int asked = std::atoi(text);
      if (asked > 0) return std::min(asked, 256);
    }
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }();
  return count;
}

void run_on_workers(int threads, const std::function<void()>& body) {
  if (threads <= 1 || worker_count() <= 1) {
    body();
    return;
  }
  static Pool& pool = *new Pool(worker_count() - 1);
  pool.run(threads - 1, body);
}

}  // namespace hipemu
