// Runs a kernel on the host: blocks one after the other, the threads of a block as contexts that switch where
// the kernel waits for others.
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "prelude.h"

namespace corpus {

Position position;
u32 lanes_per_wave = 32;
alignas(16) unsigned char dynamic_lds_bytes[65536];

namespace {

constexpr std::size_t stack_bytes = 64 << 10;

struct Thread {
  enum class State { ready, at_wave_operation, at_barrier, done };
  ucontext_t context;
  std::unique_ptr<std::byte[]> stack;
  State state = State::done;
  u32 id[3] = {};
  u32 index = 0;  // in the block
  int site = 0;
  u64 value = 0, extra = 0, result = 0;
  Resolve resolve = nullptr;
};

std::vector<std::unique_ptr<Thread>> pool;
Thread* running = nullptr;
ucontext_t scheduler;
const std::function<void()>* body = nullptr;

void begin() {
  (*body)();
  running->state = Thread::State::done;
}

void leave(Thread::State state) {
  if (running == nullptr) {
    std::fprintf(stderr, "corpus: a kernel waits for others, its case must say together()\n");
    std::abort();
  }
  running->state = state;
  swapcontext(&running->context, &scheduler);
}

void resume(Thread& thread) {
  running = &thread;
  std::memcpy(position.thread, thread.id, sizeof position.thread);
  swapcontext(&scheduler, &thread.context);
  running = nullptr;
}

// Resolves the operation that comes first in the text among those where lanes of this wave wait.
bool resolve_one(u32 first, u32 end) {
  int site = 0;
  for (u32 i = first; i < end; ++i)
    if (pool[i]->state == Thread::State::at_wave_operation && (site == 0 || pool[i]->site < site))
      site = pool[i]->site;
  if (site == 0) return false;
  u64 values[64] = {}, extras[64] = {};
  Lanes lanes{0, values, extras};
  const auto takes_part = [&](u32 i) {
    return pool[i]->state == Thread::State::at_wave_operation && pool[i]->site == site;
  };
  for (u32 i = first; i < end; ++i)
    if (takes_part(i)) {
      lanes.active |= 1ull << (i - first);
      values[i - first] = pool[i]->value;
      extras[i - first] = pool[i]->extra;
    }
  for (u32 i = first; i < end; ++i)
    if (takes_part(i)) {
      pool[i]->result = pool[i]->resolve(lanes, i - first);
      pool[i]->state = Thread::State::ready;
    }
  return true;
}

void run_block_together(u32 threads) {
  while (pool.size() < threads) {
    pool.push_back(std::make_unique<Thread>());
    pool.back()->stack = std::make_unique<std::byte[]>(stack_bytes);
  }
  for (u32 i = 0; i < threads; ++i) {
    Thread& thread = *pool[i];
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = stack_bytes;
    thread.context.uc_link = &scheduler;
    makecontext(&thread.context, begin, 0);
    thread.state = Thread::State::ready;
    thread.index = i;
    thread.id[0] = i % position.block_size[0];
    thread.id[1] = i / position.block_size[0] % position.block_size[1];
    thread.id[2] = i / (position.block_size[0] * position.block_size[1]);
  }
  for (bool waiting = true; waiting;) {
    for (u32 first = 0; first < threads; first += lanes_per_wave) {
      const u32 end = std::min(first + lanes_per_wave, threads);
      do {
        for (u32 i = first; i < end; ++i)
          if (pool[i]->state == Thread::State::ready) resume(*pool[i]);
      } while (resolve_one(first, end));
    }
    waiting = false;
    for (u32 i = 0; i < threads; ++i)
      if (pool[i]->state == Thread::State::at_barrier) {
        pool[i]->state = Thread::State::ready;
        waiting = true;
      }
  }
}

}  // namespace

u32 current_lane() {
  const u32 flat =
      position.thread[0] +
      position.block_size[0] * (position.thread[1] + position.block_size[1] * position.thread[2]);
  return flat % lanes_per_wave;
}

u64 wave_operation(u64 value, u64 extra, Resolve resolve, int site) {
  if (running != nullptr) {
    running->value = value;
    running->extra = extra;
    running->resolve = resolve;
    running->site = site;
  }
  leave(Thread::State::at_wave_operation);
  return running->result;
}

void wait_for_block() { leave(Thread::State::at_barrier); }

void run_grid(const Shape& shape, const std::function<void()>& thread) {
  body = &thread;
  for (int axis = 0; axis < 3; ++axis) {
    position.block_size[axis] = shape.block[axis];
    position.blocks[axis] = shape.grid[axis];
  }
  const u32 threads = shape.block[0] * shape.block[1] * shape.block[2];
  for (position.block[2] = 0; position.block[2] < shape.grid[2]; ++position.block[2])
    for (position.block[1] = 0; position.block[1] < shape.grid[1]; ++position.block[1])
      for (position.block[0] = 0; position.block[0] < shape.grid[0]; ++position.block[0]) {
        if (shape.synchronised) {
          run_block_together(threads);
          continue;
        }
        for (u32 z = 0; z < shape.block[2]; ++z)
          for (u32 y = 0; y < shape.block[1]; ++y)
            for (u32 x = 0; x < shape.block[0]; ++x) {
              position.thread[0] = x, position.thread[1] = y, position.thread[2] = z;
              thread();
            }
      }
}

}  // namespace corpus
