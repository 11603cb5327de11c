// Requests that share the steps of a model.
#include "hearth/batcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "hearth/error.h"
#include "llm/continuation.h"
#include "llm/log_probabilities.h"
#include "llm/model.h"
#include "llm/score_rows.h"

namespace hearth::llm {
namespace {

// A request, from when it was submitted to its end.
struct Job {
  std::vector<TokenId> prompt;
  GenerateOptions options;
  Batcher::Each each;
  Batcher::Done done;
  std::unique_ptr<grammar::TokenMask> mask;
  std::optional<Continuation> text;
  std::optional<TokenId> next;  // chosen, to be fed; none while the prompt is read
  Clock::time_point since;      // when it was given a sequence, then when its prompt had been read
  std::uint64_t number = 0;     // in the order of coming
  bool embeds = false;          // there is no text: the prompt is
  std::vector<double> sums;     // of features of its tokens so far

  bool reads_all() const { return embeds || options.score_prompt; }
  bool wanted() const { return !each || each({-1, {}}); }
};

// A sequence of the cache, and who has it. What it read last is kept for the next one.
struct Place {
  Session session;
  std::unique_ptr<Job> job;
  std::uint64_t last_number = 0;  // of who had it
};

}  // namespace

struct Batcher::State {
  Model model;
  std::vector<Place> places;  // only for the thread
  bool nearest_next = false;  // likewise: of read_prompt()
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::unique_ptr<Job>> waiting;
  Stats stats;
  std::uint64_t numbers = 0;  // given to jobs so far
  bool stopping = false;
  std::thread thread;
  std::once_flag joined;

  explicit State(const Model& of) : model(of) {
    static_cast<void>(model.tokenizer());
    for (std::int64_t i = 0; i < model.state()->most_sequences; ++i)
      places.push_back({Session(model), {}, 0});
  }

  void run() {
    while (take_waiting()) {
      read_prompt();
      share_step();
    }
    for (Place& place : places)
      if (place.job) end(place, FinishReason::cancelled);
    for (;;) {
      std::unique_ptr<Job> job;
      {
        const std::lock_guard lock(mutex);
        if (waiting.empty()) return;
        job = std::move(waiting.front());
        waiting.pop_front();
      }
      give_up(*job);
    }
  }

  void add(std::unique_ptr<Job> job) {
    {
      const std::lock_guard lock(mutex);
      if (stopping) throw Error("[Batcher] it has been stopped");
      job->number = ++numbers;
      waiting.push_back(std::move(job));
    }
    changed.notify_one();
  }

 private:
  bool any_running() const {
    return std::any_of(places.begin(), places.end(), [](const Place& place) { return place.job != nullptr; });
  }
  bool any_generating() const {
    return std::any_of(places.begin(), places.end(),
                       [](const Place& place) { return place.job && place.job->next; });
  }

  // Gives free places to those that wait; waits where there is nothing to do. False: it is time to stop.
  bool take_waiting() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return stopping || !waiting.empty() || any_running(); });
    if (stopping) return false;
    drop_unwanted(lock);
    while (!waiting.empty()) {
      Place* const place = place_for(*waiting.front());
      if (place == nullptr) break;
      place->job = std::move(waiting.front());
      waiting.pop_front();
      ++stats.running;
      lock.unlock();
      begin(*place);
      lock.lock();
    }
    return true;
  }

  void drop_unwanted(std::unique_lock<std::mutex>& lock) {
    std::vector<std::unique_ptr<Job>> dropped;
    std::erase_if(waiting, [&](std::unique_ptr<Job>& job) {
      if (job->wanted()) return false;
      dropped.push_back(std::move(job));
      return true;
    });
    lock.unlock();
    for (const auto& job : dropped) give_up(*job);
    lock.lock();
  }
  void give_up(Job& job) {
    count([&] { ++stats.finished; });
    GenerateResult nothing;
    nothing.reason = FinishReason::cancelled;
    job.done(std::move(nothing), nullptr);
  }

  // A free one: that which knows most of the prompt, if little else is lost with it; else the one that was
  // used longest ago, or never.
  Place* place_for(const Job& job) {
    Place *best = nullptr, *oldest = nullptr;
    std::size_t most = 0;
    for (Place& place : places) {
      if (place.job) continue;
      if (oldest == nullptr || place.last_number < oldest->last_number) oldest = &place;
      const auto& held = place.session.tokens();
      const std::size_t known = job.reads_all() ? 0 : common_prefix(held, job.prompt);
      if (known > most && 2 * known >= held.size()) best = &place, most = known;
    }
    return best != nullptr ? best : oldest;
  }

  void begin(Place& place) {
    Job& job = *place.job;
    place.last_number = job.number;
    attempt(place, [&] {
      job.text.emplace(model.tokenizer(), job.prompt, job.options, job.mask.get(), job.each);
      // The last token of the prompt is always run; all are where each counts.
      const std::size_t known =
          job.reads_all()
              ? 0
              : common_prefix(place.session.tokens(), std::span(job.prompt).first(job.prompt.size() - 1));
      place.session.truncate(static_cast<std::int64_t>(known));
      job.text->result().reused_tokens = static_cast<std::int64_t>(known);
      job.since = Clock::now();
    });
  }

  // A piece of a prompt; a short one, where others wait for their next token. The request that came first and
  // the one that has least left take turns, so that a short one does not wait for all of a long one.
  void read_prompt() {
    constexpr std::int64_t shorter = 8;
    const auto to_read = [](const Place& place) {
      return place.job->prompt.size() - place.session.tokens().size();
    };
    Place *first = nullptr, *nearest = nullptr;
    for (Place& place : places) {
      if (!place.job || place.job->next) continue;
      if (first == nullptr || place.job->number < first->job->number) first = &place;
      if (nearest == nullptr || to_read(place) < to_read(*nearest)) nearest = &place;
    }
    if (first == nullptr) return;
    Place& place = *(std::exchange(nearest_next, !nearest_next) ? nearest : first);
    Job& job = *place.job;
    if (!job.wanted()) return end(place, FinishReason::cancelled);
    attempt(place, [&] {
      const auto left = std::span<const TokenId>(job.prompt).subspan(place.session.tokens().size());
      const auto most =
          static_cast<std::size_t>(model.state()->chunk_size() / (any_generating() ? shorter : 1));
      if (job.options.score_prompt && left.size() > 1) {
        const auto piece = left.first(std::min({left.size() - 1, most, rows_at_once}));
        return job.text->score_prompt(place.session.feed_all(piece), left.subspan(1));
      }
      const auto piece = left.first(std::min(left.size(), most));
      std::vector<float> scores;
      if (job.embeds)
        add_features(job, place.session.features(piece));
      else
        scores = place.session.feed(piece);
      if (piece.size() < left.size()) return;
      GenerateResult& result = job.text->result();
      result.prompt_seconds = seconds_since(job.since);
      count([&] { stats.prompt_tokens += result.prompt_tokens - result.reused_tokens; });
      job.since = Clock::now();
      if (job.embeds) {
        result.embedding = direction_of(job.sums);
        end(place, FinishReason::end);
      } else {
        advance(place, scores);
      }
    });
  }

  static void add_features(Job& job, const std::vector<std::vector<float>>& rows) {
    for (const std::vector<float>& row : rows) {
      job.sums.resize(row.size());
      std::transform(row.begin(), row.end(), job.sums.begin(), job.sums.begin(), std::plus<>());
    }
  }
  static std::vector<float> direction_of(const std::vector<double>& sums) {
    double squares = 0;
    for (const double sum : sums) squares += sum * sum;
    const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
    std::vector<float> result;
    for (const double sum : sums) result.push_back(static_cast<float>(sum * scale));
    return result;
  }

  // A token for each of those whose prompts have been read.
  void share_step() {
    std::vector<Place*> sharing;
    std::vector<Session*> sessions;
    std::vector<std::vector<TokenId>> tokens;
    std::vector<const Sampler*> samplers;
    for (Place& place : places) {
      if (!place.job || !place.job->next) continue;
      if (!make_room(place)) continue;
      sharing.push_back(&place);
      sessions.push_back(&place.session);
      tokens.push_back({*place.job->next});
      samplers.push_back(&place.job->text->sampler());
    }
    if (sharing.empty()) return;
    const auto all = [&](const auto& holds) {
      return std::all_of(sharing.begin(), sharing.end(),
                         [&](Place* place) { return holds(*place->job->text); });
    };
    // Where a text has ended, the step that is begun with what this one chooses would be in vain.
    const bool best_only = all([](const Continuation&text) { return text.takes_best(); }),
               goes_on = all([](const Continuation&text) { return !text.has_all(); });
    ScoreRows rows;
    std::vector<std::optional<TokenId>> chosen;
    try {
      if (best_only)
        chosen = Session::feed_for_best(sessions, tokens, goes_on);
      else
        rows = Session::feed_together(sessions, tokens, samplers, goes_on);
    } catch (...) {
      for (Place* place : sharing) fail(*place, std::current_exception());
      return;
    }
    count([&] { ++stats.steps; });
    if (!best_only && !choose(sharing, rows, chosen)) return;
    for (std::size_t i = 0; i < sharing.size(); ++i)
      attempt(*sharing[i], [&] {
        Continuation& text = *sharing[i]->job->text;
        if (chosen[i]) text.chose(*chosen[i]);
        if (best_only && !chosen[i] && !text.has_all()) refuse_scores();
        advance(*sharing[i], chosen[i] || text.has_all() ? std::span<const float>() : rows[i]);
      });
  }

  // By those whose texts need nothing but a sampler; the others are prepared. False where it failed for all.
  bool choose(const std::vector<Place*>& sharing, const ScoreRows& rows,
              std::vector<std::optional<TokenId>>& chosen) {
    std::vector<Sampler*> choosers;
    std::vector<std::size_t> others;  // who need more than a sampler
    for (std::size_t i = 0; i < sharing.size(); ++i) {
      Continuation& text = *sharing[i]->job->text;
      choosers.push_back(text.chooser());
      if (!choosers[i] && !text.has_all()) others.push_back(i);
    }
    try {
      chosen = choose_together(choosers, rows);
      rows.state()->bring(others, {});  // by this thread: those of the pool must wait for nobody
    } catch (...) {
      for (Place* place : sharing) fail(*place, std::current_exception());
      return false;
    }
    constexpr std::int64_t few = 4;  // sooner done than other threads wake up
    parallel_for(static_cast<std::int64_t>(others.size()), few, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        sharing[others[i]]->job->text->prepare(rows.state()->brought(others[i]));
    });
    return true;
  }

  // Where the context is full, tokens are dropped, or the text ends.
  bool make_room(Place& place) {
    if (static_cast<std::int64_t>(place.session.tokens().size()) < model.context()) return true;
    const std::int64_t keep = place.job->options.keep;
    if (keep < 0) {
      end(place, FinishReason::context);
      return false;
    }
    attempt(place, [&] {
      place.session.shift(keep);
      ++place.job->text->result().shifts;
    });
    return place.job != nullptr;
  }

  void advance(Place& place, std::span<const float> scores) {
    Job& job = *place.job;
    job.next = job.text->advance(scores);
    if (job.next)
      count([&] { ++stats.tokens; });
    else
      end(place, job.text->result().reason);
  }

  void end(Place& place, FinishReason reason) {
    const std::unique_ptr<Job> job = release(place);
    GenerateResult& result = job->text->result();
    result.reason = reason;
    if (!result.tokens.empty()) result.generate_seconds = seconds_since(job->since);
    std::exception_ptr error;
    try {
      job->text->finish();
    } catch (...) {
      error = std::current_exception();
    }
    job->done(std::move(result), error);
  }

  // Of what a failed request left in the cache nothing is known.
  void fail(Place& place, std::exception_ptr error) {
    const std::unique_ptr<Job> job = release(place);
    place.session.truncate(0);
    job->done(job->text ? std::move(job->text->result()) : GenerateResult{}, std::move(error));
  }

  template <class Work>
  void attempt(Place& place, const Work& work) {
    try {
      work();
    } catch (...) {
      if (place.job) fail(place, std::current_exception());
    }
  }

  std::unique_ptr<Job> release(Place& place) {
    count([&] {
      --stats.running;
      ++stats.finished;
    });
    return std::move(place.job);
  }

  template <class Change>
  void count(const Change& change) {
    const std::lock_guard lock(mutex);
    change();
  }
};

Batcher::Batcher(const Model& model) : state_(std::make_unique<State>(model)) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Batcher::~Batcher() { stop(); }

void Batcher::submit(std::vector<TokenId> prompt, GenerateOptions options, Each each, Done done) {
  const std::int64_t context = state_->model.context();
  check_generation(options, prompt, *state_->model.state());
  if (static_cast<std::int64_t>(prompt.size()) >= context)
    throw ValueError(
        fmt::format("[Batcher] the prompt has {} tokens, the context {}", prompt.size(), context));
  if (options.draft || options.lookup > 0)
    throw ValueError("[Batcher] draft and lookup are for one text at a time");
  static_cast<void>(Sampler(options.sampling));  // complains about options that are out of range
  auto job = std::make_unique<Job>();
  job->prompt = std::move(prompt);
  job->options = std::move(options);
  job->each = std::move(each);
  job->done = std::move(done);
  if (job->options.grammar)  // takes its time, which is the caller's
    job->mask = std::make_unique<grammar::TokenMask>(*job->options.grammar, state_->model.tokenizer());
  state_->add(std::move(job));
}

void Batcher::embed(std::vector<TokenId> tokens, Each each, Done done) {
  const std::int64_t context = state_->model.context();
  state_->model.state()->check(tokens);
  if (tokens.empty() || static_cast<std::int64_t>(tokens.size()) > context)
    throw ValueError(fmt::format("[Batcher] {} tokens to embed, of 1 to {}", tokens.size(), context));
  auto job = std::make_unique<Job>();
  job->embeds = true;
  job->prompt = std::move(tokens);
  job->each = std::move(each);
  job->done = std::move(done);
  state_->add(std::move(job));
}

void Batcher::stop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_one();
  std::call_once(state_->joined, [&] { state_->thread.join(); });
}

Batcher::Stats Batcher::stats() const {
  const std::lock_guard lock(state_->mutex);
  Stats stats = state_->stats;
  stats.waiting = static_cast<std::int64_t>(state_->waiting.size());
  return stats;
}

}  // namespace hearth::llm
