// What one rendering may use. A template comes with a model file from anywhere: it may loop for ever, call
// itself for ever, or double a string until memory ends.
#pragma once

#include <cstddef>
#include <string>

#include "hearth/template_error.h"

namespace hearth::jinja {

// An error on the way, without its line, which the caller of the interpreter adds.
class Failure : public Error {
 public:
  explicit Failure(const std::string& message, bool raised = false) : Error(message), raised_(raised) {}
  bool raised() const noexcept { return raised_; }  // by raise_exception()

 private:
  bool raised_;
};

// How deep things may be nested. Together they keep within a megabyte of stack, which every thread has.
constexpr int deepest_value = 300;       // lists in lists
constexpr int deepest_syntax = 150;      // blocks in blocks, brackets in brackets
constexpr int deepest_tree = 300;        // of one expression: a + b + c makes a tree, too
constexpr int deepest_evaluation = 800;  // all that is being evaluated, macros in macros included

class Budget {
 public:
  explicit Budget(const TemplateLimits& limits) : steps_(limits.steps), memory_(limits.memory) {}

  void spend(std::size_t steps) {
    if (steps > steps_) throw Failure("the template takes too many steps");
    steps_ -= steps;
  }
  // For looking at so many bytes.
  void spend_bytes(std::size_t bytes) { spend(1 + bytes / 16); }
  // For memory about to be taken.
  void take(std::size_t bytes) {
    if (bytes > memory_) throw Failure("the template takes too much memory");
    memory_ -= bytes;
    spend_bytes(bytes);
  }

  // One level of recursion, while it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (budget_.level_ == deepest_evaluation) throw Failure("the template calls itself too deeply");
      ++budget_.level_;
    }
    ~Level() { --budget_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  std::size_t steps_, memory_;
  int level_ = 0;
};

}  // namespace hearth::jinja
