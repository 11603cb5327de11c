// Several threads at once: evaluation over shared inputs, building graphs, the thread pool, the memory pool.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "base/thread_pool.h"
#include "hearth/config.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "hearth/random.h"

namespace hearth {
namespace {

template <typename F>
void in_threads(int count, F f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(f, i);
  for (auto& thread : threads) thread.join();
}

TEST(Concurrency, ThreadsEvaluateOverSharedInputs) {
  const Tensor x = randn({64, 64});
  const Tensor shared = matmul(x, x) + 1;  // not evaluated: several threads will need it
  std::vector<double> results(4);
  in_threads(4, [&](int i) {
    for (int k = 0; k < 20; ++k) results[static_cast<std::size_t>(i)] = sum(shared * x).item();
  });
  for (double result : results) EXPECT_EQ(result, results[0]);
}

TEST(Concurrency, ThreadsTrainModelsOfTheirOwn) {
  const Tensor data = randn({32, 8}).eval();
  std::vector<double> losses(3);
  in_threads(3, [&](int i) {
    Tensor w = zeros({8, 1}).eval();
    w.requires_grad_();
    for (int k = 0; k < 10; ++k) {
      const Tensor loss = mean(square(matmul(data, w) - 1));
      loss.backward();
      const NoGrad off;
      w.assign(w - w.grad() * 0.1);
      w.zero_grad();
      eval({w, loss});
      losses[static_cast<std::size_t>(i)] = loss.item();
    }
  });
  for (double loss : losses) EXPECT_EQ(loss, losses[0]);
}

TEST(Concurrency, CompiledFunctionsOfSeveralThreads) {
  const Tensor weight = randn({16, 16}).eval();
  in_threads(3, [&](int) {
    Compiled f = compile(
        [&](const std::vector<Tensor>& a) { return std::vector<Tensor>{tanh(matmul(a[0], weight))}; });
    for (int k = 0; k < 20; ++k) f({ones({4, 16})})[0].eval();
  });
}

TEST(Concurrency, GeneratorsHandOutEachBlockOnce) {
  Generator generator(5);
  std::vector<std::uint64_t> seen[4];
  in_threads(4, [&](int i) {
    for (int k = 0; k < 1000; ++k) seen[i].push_back(generator.reserve(1).offset);
  });
  std::vector<std::uint64_t> all;
  for (auto& part : seen) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i);
}

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (std::int64_t count : {0, 1, 2, 7, 100, 12345}) {
    std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
    parallel_for(count, 3, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
    });
    for (auto& hit : hits) EXPECT_EQ(hit.load(), 1);
  }
}

TEST(ThreadPool, RethrowsAndGoesOn) {
  for (int k = 0; k < 50; ++k)
    EXPECT_THROW(parallel_for(100, 1,
                              [](std::int64_t begin, std::int64_t) {
                                if (begin >= 50) throw std::runtime_error("body");
                              }),
                 std::runtime_error);
  std::atomic<int> total{0};
  parallel_for(10, 1, [&](std::int64_t begin, std::int64_t end) { total += static_cast<int>(end - begin); });
  EXPECT_EQ(total.load(), 10);
}

TEST(ThreadPool, NestedLoopsAndConcurrentCallers) {
  in_threads(4, [&](int) {
    for (int k = 0; k < 100; ++k) {
      std::atomic<std::int64_t> total{0};
      parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = begin; i < end; ++i)
          parallel_for(10, 1, [&](std::int64_t b, std::int64_t e) { total += e - b; });
      });
      EXPECT_EQ(total.load(), 80);
    }
  });
}

TEST(ThreadPool, CanBeResizedBetweenLoops) {
  const int before = thread_count();
  for (int count : {1, 3, 2, 5, 1}) {
    set_thread_count(count);
    EXPECT_EQ(thread_count(), count);
    std::atomic<std::int64_t> total{0};
    parallel_for(1000, 1, [&](std::int64_t begin, std::int64_t end) { total += end - begin; });
    EXPECT_EQ(total.load(), 1000);
  }
  set_thread_count(before);
}

// A fork has none of its parent's threads: it must neither wait for them nor end with them.
TEST(ThreadPool, AForkComputesAndEnds) {
  const int before = thread_count();
  set_thread_count(3);
  const auto total = [] {
    std::atomic<std::int64_t> sum{0};
    parallel_for(1000, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
    return sum.load();
  };
  ASSERT_EQ(total(), 1000);
  for (const bool computes : {true, false}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const bool right = !computes || (thread_count() == 3 && total() == 1000);
      std::exit(right ? 0 : 1);  // with destructors
    }
    ASSERT_GT(child, 0);
    int status = -1;
    pid_t ended = 0;
    for (int i = 0; i < 1000 && ended == 0; ++i) {
      ended = ::waitpid(child, &status, WNOHANG);
      if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (ended == 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
    }
    EXPECT_EQ(ended, child) << "it hangs";
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(total(), 1000);
  set_thread_count(before);
}

}  // namespace
}  // namespace hearth
