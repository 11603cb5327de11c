// Texts for many at once: requests come at any time, and those that run share the steps of the model.
//
//   llm::Batcher batcher(model);  // loaded with room for several sequences
//   batcher.submit(prompt, {.most_tokens = 100}, each, done);
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "hearth/llm.h"

namespace hearth::llm {

// A thread of its own runs the model; nobody else may use it meanwhile. As many requests run at once as the
// model's cache has sequences, others wait in the order in which they came. Prompts are read a piece at a
// time between the steps of the others; what a sequence still has of a prompt is not computed again.
//
// Safe from any thread. Callbacks come from the batcher's own thread, which waits for them: they must be
// quick, not throw, and not stop or destroy the batcher.
class Batcher {
 public:
  // Every token with the text it completes; false stops the run. While a request waits and while its prompt
  // is read it is asked, too, with token -1 and no text: somebody may have lost interest.
  using Each = std::function<bool(const Generated&)>;
  // The end of a request, once: its result, or what went wrong (then the result is what there was).
  using Done = std::function<void(GenerateResult, std::exception_ptr)>;

  // Throws ValueError when the model came without a tokenizer or its sequences are in use.
  explicit Batcher(const Model& model);
  ~Batcher();  // as stop()
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Throws ValueError for a prompt that leaves no room in the context, and for options that are out of range
  // or that guess ahead (draft, lookup): steps are shared already. Throws Error after stop().
  void submit(std::vector<TokenId> prompt, GenerateOptions options, Each each, Done done);
  // Where a text lies among others: the mean of what the model's last norm gives of its tokens, as a vector
  // of length 1 (GenerateResult::embedding). Throws ValueError for no tokens and for more than the context,
  // Error after stop().
  void embed(std::vector<TokenId> tokens, Each each, Done done);
  // Ends all requests, with FinishReason::cancelled, and takes no more; returns when they have ended.
  void stop();

  struct Stats {
    std::int64_t running = 0, waiting = 0;  // requests, now
    std::int64_t finished = 0;              // so far, however they ended
    std::int64_t prompt_tokens = 0, tokens = 0;
    std::int64_t steps = 0;  // of generation: tokens / steps is how many shared one
  };
  Stats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth::llm
