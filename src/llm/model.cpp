// Loading a model, and running tokens through it.
#include "llm/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "llm/memory_plan.h"
#include "llm/refuse.h"
#include "llm/score_rows.h"
#include "llm/steps_ahead.h"
#include "tensor/key_value_cache.h"
#include "tensor/variable.h"

namespace hearth::llm {
namespace {

constexpr std::int64_t page_size = 32;
// Tokens of a prompt that run together: on a CPU as many as the caches hold well, on a GPU as keep it busy.
constexpr std::int64_t cpu_chunk = 256, gpu_chunk = 2048;
constexpr std::int64_t attend_together_from = 32;  // tokens
constexpr std::int64_t default_context = 4096;

struct Totals {
  std::size_t bytes = 0;
  std::int64_t elements = 0;

  void add(const Tensor& tensor) {
    if (!tensor.defined()) return;
    const std::int64_t count = element_count(tensor.shape());
    elements += count;
    bytes += static_cast<std::size_t>(storage_bytes(tensor.dtype(), count));
  }
  void add(const Projection& p) {
    add(p.weight);
    add(p.bias);
  }
};

Totals totals_of(const Weights& w) {
  Totals totals;
  totals.add(w.embedding);
  totals.add(w.norm);
  // A tied output is the embedding itself, or the same numbers on another device.
  if (w.output.weight.variable() != w.embedding.variable()) {
    const std::int64_t before = totals.elements;
    totals.add(w.output);
    if (w.output.names == std::vector<std::string>{"token_embd.weight"}) totals.elements = before;
  }
  for (const LayerWeights& layer : w.layers) {
    for (const Tensor& t :
         {layer.attention_norm, layer.post_attention_norm, layer.feed_forward_norm,
          layer.post_feed_forward_norm, layer.q_norm, layer.k_norm, layer.sinks, layer.experts.gate,
          layer.experts.up, layer.experts.gate_up, layer.experts.down, layer.experts.gate_bias,
          layer.experts.up_bias, layer.experts.gate_up_bias, layer.experts.down_bias})
      totals.add(t);
    for (const Projection& p :
         {layer.q, layer.k, layer.v, layer.qkv, layer.out, layer.experts.router, layer.experts.shared_gate})
      totals.add(p);
    for (const FeedForward* f : {&layer.feed_forward, &layer.experts.shared})
      for (const Projection& p : {f->gate, f->up, f->gate_up, f->down}) totals.add(p);
  }
  return totals;
}

KeyValueCache make_cache(const ModelConfig& c, const std::vector<Placement>& placements, std::int64_t pages,
                         DType dtype) {
  KeyValueCache cache;
  cache.page = page_size;
  const bool scaled = dtype == DType::q8_0;
  for (const Placement& placement : placements) {
    const DeviceScope here(placement.device);
    const std::int64_t layers = placement.end - placement.first;
    for (std::int64_t i = 0; scaled && i < layers; ++i)
      for (std::vector<Tensor>* list : {&cache.key_scales, &cache.value_scales})
        list->push_back(zeros({pages * page_size, c.groups, c.head_size / scaled_run}, DType::f16).eval());
    for (std::int64_t i = 0; i < layers; ++i)
      for (std::vector<Tensor>* list : {&cache.keys, &cache.values})
        list->push_back(zeros({pages * page_size, c.groups, c.head_size}, scaled ? DType::i8 : dtype).eval());
  }
  return cache;
}

// What a stage makes of its arguments.
Tensor through_stage(Model::State& s, const Stage& stage, const DecoderInput& input, const Tensor& handed) {
  const Tensor x = handed.defined() ? handed : embed(s.config, s.weights, input);
  return through_layers(s.config, s.weights, s.cache, input, x, stage.place.first, stage.place.end);
}
Tensor last_features(Model::State& s, std::vector<Tensor> in) {
  Tensor handed;
  if (s.stages.size() > 1) {
    handed = in.back();
    in.pop_back();
  }
  const DecoderInput input(in);
  return features(s.config, s.weights, input, through_stage(s, s.stages.back(), input, handed));
}

Tensor indices(const std::vector<std::int64_t>& values, Device device) {
  return from_host(std::as_bytes(std::span(values)), {static_cast<std::int64_t>(values.size())}, DType::i64,
                   device);
}

// Vocabularies are often padded to a round size.
Tensor scores_of_padding(std::int64_t tokens, std::int64_t vocabulary, Device device) {
  std::vector<float> scores(static_cast<std::size_t>(vocabulary), 0.0f);
  std::fill(scores.begin() + tokens, scores.end(), -std::numeric_limits<float>::infinity());
  return from_host(std::as_bytes(std::span(scores)), {vocabulary}, DType::f32, device);
}

std::int64_t pages_of(std::int64_t tokens) { return (tokens + page_size - 1) / page_size; }

}  // namespace

Model::Model(std::shared_ptr<State> state) : state_(std::move(state)) {}

Model::State::State() = default;
Model::State::~State() = default;

Model Model::load(const std::filesystem::path& path, const LoadOptions& options) {
  return make_model(open_model(path), options);
}

std::int64_t context_of(const ModelConfig& config, const LoadOptions& options) {
  return std::min(options.context > 0 ? options.context : default_context, config.context);
}

std::size_t cache_bytes_of(const ModelConfig& c, const LoadOptions& options) {
  const std::int64_t slots = pages_of(context_of(c, options)) * options.sequences * page_size;
  return static_cast<std::size_t>(
      storage_bytes(options.cache_dtype, slots * c.groups * c.head_size * c.layers * 2));
}

Model make_model(const ModelFile& file, const LoadOptions& options) {
  if (options.context < 0 || options.sequences <= 0)
    throw ValueError(fmt::format("[Model::load] context {} and sequences {} must be positive",
                                 options.context, options.sequences));
  const DType kept = options.cache_dtype;
  if (kept != DType::f32 && kept != DType::f16 && kept != DType::bf16 && kept != DType::q8_0)
    throw ValueError(
        fmt::format("[Model::load] a cache of {}; f32, f16, bf16 and q8_0 are possible", dtype_name(kept)));
  if (kept == DType::q8_0 && file.config.head_size % scaled_run != 0)
    throw ValueError(
        fmt::format("[Model::load] a cache of q8_0 needs heads of a multiple of {}; they have {}", scaled_run,
                    file.config.head_size));
  auto state = std::make_shared<Model::State>();
  state->config = file.config;
  state->tokenizer = file.tokenizer();
  if (state->tokenizer && state->tokenizer->size() > file.config.vocabulary)
    refuse(file.path, fmt::format("the tokenizer has {} tokens, the model {}", state->tokenizer->size(),
                                  file.config.vocabulary));
  state->chat_template = file.chat_template;
  const std::vector<Placement> placements = placements_of(file.config, options);
  for (const Placement& placement : placements) state->stages.push_back({.place = placement});
  state->device = options.device;
  state->context = context_of(file.config, options);
  const DeviceScope here(options.device);
  if (state->tokenizer && state->tokenizer->size() < file.config.vocabulary)
    state->no_tokens = scores_of_padding(state->tokenizer->size(), file.config.vocabulary, options.device);
  // What does not fit the memory had better stay in the file, from where it can be read again.
  const bool repack = options.repack && placements.front().device.kind == DeviceKind::cpu &&
                      (!file.size || plan_memory(file, options).fits_host());
  state->weights = load_weights(file, placements, state->context, repack, options.progress);
  const Totals totals = totals_of(state->weights);
  state->weight_bytes = totals.bytes;
  state->parameters = totals.elements;
  const std::int64_t pages = pages_of(state->context) * options.sequences;
  state->cache = make_cache(file.config, placements, pages, kept);
  state->cache_bytes = cache_bytes_of(file.config, options);
  for (std::int64_t page = pages; page-- > 0;) state->free_pages.push_back(page);
  state->most_sequences = options.sequences;
  // The function keeps no reference to the state that keeps it.
  Model::State* const raw = state.get();
  if (state->stages.size() > 1)
    state->stages[0].step = compile([raw](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{through_stage(*raw, raw->stages[0], DecoderInput(in), {})};
    });
  state->step = compile([raw](const std::vector<Tensor>& in) {
    std::vector<Tensor> out{raw->scores_after(last_features(*raw, in))};
    const std::int64_t block = score_block(raw->config.vocabulary);
    if (out[0].nbytes() >= raw->kept_from && block > 0) out.push_back(best_of_blocks(out[0], block));
    return out;
  });
  state->pick = pick_blocks();
  if (options.device.kind != DeviceKind::cpu) state->kept_from = std::size_t{2} << 20;
  state->feature_step =
      compile([raw](const std::vector<Tensor>& in) { return std::vector<Tensor>{last_features(*raw, in)}; });
  return Model(std::move(state));
}

const ModelConfig& Model::config() const { return state_->config; }
const Tokenizer& Model::tokenizer() const { return state_->tokenizer_or_throw(); }
Device Model::device() const { return state_->device; }
std::int64_t Model::device_layers() const {
  const Placement& last = state_->stages.back().place;
  return last.end - last.first;
}
std::int64_t Model::context() const { return state_->context; }
std::size_t Model::weight_bytes() const { return state_->weight_bytes; }
std::size_t Model::cache_bytes() const { return state_->cache_bytes; }
const std::string& Model::chat_template() const { return state_->chat_template; }
std::int64_t Model::parameters() const { return state_->parameters; }

const Tokenizer& Model::State::tokenizer_or_throw() const {
  if (!tokenizer)
    throw ValueError(
        fmt::format("[Model] {} came without a tokenizer: tokens can be fed, no text", config.name));
  return *tokenizer;
}

void Model::State::check(std::span<const TokenId> tokens) const {
  for (const TokenId token : tokens)
    if (token < 0 || token >= config.vocabulary)
      throw ValueError(
          fmt::format("[Session] token {} is not in the vocabulary of {}", token, config.vocabulary));
}

void Model::State::check(const Piece& piece) const {
  check(piece.tokens);
  const auto count = static_cast<std::int64_t>(piece.tokens.size()),
             before = static_cast<std::int64_t>(piece.sequence->tokens.size());
  if (before + count > context)
    throw ValueError(
        fmt::format("[Session] {} tokens after {} do not fit a context of {}", count, before, context));
}

std::int64_t Model::State::width_of(Output output) const {
  return output == Output::scores ? config.vocabulary : config.width;
}

std::vector<float> Model::State::append(Sequence& sequence, std::span<const TokenId> tokens,
                                        std::int64_t wanted, Output output) {
  const Piece piece{&sequence, tokens, wanted};
  check(piece);
  std::vector<float> rows(static_cast<std::size_t>(wanted * width_of(output)));
  all_or_nothing({&piece, 1}, [&] { append_into(rows, sequence, tokens, wanted, output); });
  return rows;
}

void Model::State::all_or_nothing(std::span<const Piece> pieces, const std::function<void()>& append) {
  std::vector<std::int64_t> lengths;
  for (const Piece& piece : pieces)
    lengths.push_back(static_cast<std::int64_t>(piece.sequence->tokens.size()));
  try {
    append();
  } catch (...) {
    for (std::size_t i = 0; i < pieces.size(); ++i) truncate(*pieces[i].sequence, lengths[i]);
    throw;
  }
}

void Model::State::append_into(std::span<float> rows, Sequence& sequence, std::span<const TokenId> tokens,
                               std::int64_t wanted, Output output) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::int64_t chunk = chunk_size();
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t size = std::min(chunk, count - first);
    const std::int64_t asked = std::clamp<std::int64_t>(first + size - (count - wanted), 0, size);
    const Piece piece{&sequence,
                      tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size)), asked};
    const auto own = static_cast<std::size_t>(asked * width_of(output));
    run({&piece, 1}, output, [&](const std::vector<Tensor>& result) {
      read_elements(result[0], std::as_writable_bytes(rows.first(own)));
    });
    rows = rows.subspan(own);
  }
}

ScoreRows Model::State::append_together(std::span<const Piece> pieces,
                                        std::span<const Sampler* const> samplers, bool goes_on) {
  // Few of them: of many, the scores stay on the device.
  const auto bytes = pieces.size() * static_cast<std::size_t>(config.vocabulary) * sizeof(float);
  if (!samplers.empty() && bytes < kept_from)
    if (StepsAhead* const ahead = steps_ahead_for(pieces)) return ahead->append(pieces, samplers, goes_on);
  std::int64_t tokens = 0, wanted = 0;
  for (const Piece& piece : pieces) {
    check(piece);
    tokens += static_cast<std::int64_t>(piece.tokens.size());
    wanted += piece.wanted;
  }
  // Into the memory of the last time, where nobody reads that any more: the scores of many sequences are
  // megabytes, and new memory costs more than to fill it.
  const auto room = [&] {
    const std::int64_t block = score_block(config.vocabulary);
    const std::int64_t of_row = config.vocabulary + (block > 0 ? config.vocabulary / block : 0);
    const auto count = static_cast<std::size_t>(wanted * of_row);
    if (!scores || scores.use_count() > 1 || most_scores < count) {
      // Pinned memory is slow to get: more than now, where there may soon be more sequences.
      const std::size_t most =
          std::min(2 * count, static_cast<std::size_t>(std::max(wanted, most_sequences) * of_row));
      const auto memory = host_memory(device, most * sizeof(float));
      scores = {memory, reinterpret_cast<float*>(memory.get())};
      most_scores = most;
    }
    return std::span(scores.get(), static_cast<std::size_t>(wanted * config.vocabulary));
  };
  std::shared_ptr<ScoreRows::State> state;
  const auto copied = [&] {
    return std::make_shared<ScoreRows::State>(scores, static_cast<std::size_t>(wanted),
                                              static_cast<std::size_t>(config.vocabulary));
  };
  if (tokens <= chunk_size()) {
    run(pieces, Output::scores, [&](const std::vector<Tensor>& result) {
      if (result.size() == 1 && device.kind == DeviceKind::cpu) {
        state = std::make_shared<ScoreRows::State>(result[0]);
        return;
      }
      const std::span<float> rows = room();
      if (result.size() > 1) {
        state = std::make_shared<ScoreRows::State>(scores, result[0], result[1], pick);
      } else {
        read_elements(result[0], std::as_writable_bytes(rows));
        state = copied();
      }
    });
  } else {
    all_or_nothing(pieces, [&, rows = room()]() mutable {
      for (const Piece& piece : pieces) {
        const auto own = static_cast<std::size_t>(piece.wanted * config.vocabulary);
        append_into(rows.first(own), *piece.sequence, piece.tokens, piece.wanted, Output::scores);
        rows = rows.subspan(own);
      }
    });
    state = copied();
  }
  return ScoreRows(std::move(state));
}

std::vector<std::optional<TokenId>> Model::State::append_for_best(std::span<const Piece> pieces,
                                                                  bool goes_on) {
  if (StepsAhead* const ahead = steps_ahead_for(pieces)) {
    const std::vector<TokenId> best = ahead->append_for_best(pieces, goes_on);
    if (std::find(best.begin(), best.end(), -1) == best.end()) return {best.begin(), best.end()};
  }
  std::vector<Sampler> samplers(pieces.size(), Sampler({.temperature = 0, .seed = 1}));
  std::vector<Sampler*> choosers;
  for (Sampler& sampler : samplers) choosers.push_back(&sampler);
  return choose_together(choosers, append_together(pieces));
}

StepsAhead* Model::State::steps_ahead_for(std::span<const Piece> pieces) {
  const bool single =
      std::all_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.tokens.size() == 1; });
  if (!single || !StepsAhead::possible(*this)) return nullptr;
  for (const Piece& piece : pieces) check(piece);
  if (!steps_ahead_) steps_ahead_ = std::make_unique<StepsAhead>(*this);
  return steps_ahead_.get();
}

Tensor Model::State::scores_after(const Tensor& features) const {
  const Tensor given = llm::scores(config, weights, features);
  return no_tokens.defined() ? given + no_tokens : given;
}
Tensor Model::State::scores_of(const DecoderInput& input) {
  return scores_after(features(config, weights, input, through_stage(*this, stages[0], input, {})));
}

std::int64_t Model::State::pages() const { return pages_of(context); }
std::int64_t Model::State::slot_of(const Sequence& sequence, std::int64_t position) {
  return sequence.pages[static_cast<std::size_t>(position / page_size)] * page_size + position % page_size;
}
bool Model::State::begins_page(std::int64_t position) { return position % page_size == 0; }

std::int64_t Model::State::chunk_size() const {
  return stages.front().place.device.kind == DeviceKind::cpu ? cpu_chunk : gpu_chunk;
}

// The kernel for attention over pages has a query at a time; the other, for many, has tiles of them, but no
// soft cap and no sinks.
bool Model::State::attends_together(Device on, std::int64_t tokens) const {
  return on.kind != DeviceKind::cpu && tokens >= attend_together_from && config.attention_soft_cap == 0 &&
         !config.attention_sinks;
}

void Model::State::give_pages(Sequence& sequence, std::int64_t tokens) {
  const std::lock_guard lock(mutex);
  while (static_cast<std::int64_t>(sequence.pages.size()) * page_size < tokens) {
    if (free_pages.empty()) throw ValueError("[Session] the cache of keys and values has no page left");
    sequence.pages.push_back(free_pages.back());
    free_pages.pop_back();
  }
}

// Into the memory that had them last time, if they are as many: where a graph finds its arguments elsewhere,
// every launch that has one must be changed.
std::vector<Tensor> Model::State::arguments(Stage& stage, const std::vector<Indices>& given,
                                            const Tensor& handed) {
  const auto fits = [](const Tensor& tensor, const Indices& indices) {
    return tensor.shape() == indices.shape;
  };
  std::vector<Tensor>& inputs = stage.inputs;
  const bool again = std::equal(inputs.begin(), inputs.end(), given.begin(), given.end(), fits);
  if (!again) {
    inputs.clear();
    stage.given.assign(given.size(), {});
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto bytes = std::as_bytes(std::span(given[i].values));
    if (!again)
      inputs.push_back(from_host(bytes, given[i].shape, DType::i64, stage.place.device));
    else if (given[i].values != stage.given[i])  // most of a table, and what is wanted, stays
      overwrite(inputs[i], bytes);
    stage.given[i] = given[i].values;
  }
  std::vector<Tensor> all = inputs;
  if (handed.defined()) {
    const HostElements elements(handed);
    if (stage.handed.defined() && stage.handed.shape() == handed.shape())
      overwrite(stage.handed, elements.bytes());
    else
      stage.handed = from_host(elements.bytes(), handed.shape(), handed.dtype(), stage.place.device);
    all.push_back(stage.handed);
  }
  return all;
}

void Model::State::run(std::span<const Piece> pieces, Output output,
                       const std::function<void(const std::vector<Tensor>&)>& take) {
  const std::int64_t pages = this->pages();
  std::vector<std::int64_t> ids, owners, positions, slots, wanted, table, history;
  for (std::size_t owner = 0; owner < pieces.size(); ++owner) {
    const Piece& piece = pieces[owner];
    Sequence& sequence = *piece.sequence;
    const auto before = static_cast<std::int64_t>(sequence.tokens.size());
    sequence.version = 0;  // first: where this fails, the cache has changed
    give_pages(sequence, before + static_cast<std::int64_t>(piece.tokens.size()));
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      const std::int64_t position = before + static_cast<std::int64_t>(i);
      ids.push_back(piece.tokens[i]);
      owners.push_back(static_cast<std::int64_t>(owner));
      positions.push_back(position);
      slots.push_back(slot_of(sequence, position));
    }
    const auto end = static_cast<std::int64_t>(ids.size());
    for (std::int64_t i = end - piece.wanted; i < end; ++i) wanted.push_back(i);
    table.insert(table.end(), sequence.pages.begin(), sequence.pages.end());
    table.resize((owner + 1) * static_cast<std::size_t>(pages), 0);
  }
  // Where nothing is wanted, one row is, for nobody: a plan has a result.
  const bool any_wanted = !wanted.empty();
  if (!any_wanted) wanted.push_back(0);
  const NoGrad no_gradients;
  const auto count = static_cast<std::int64_t>(ids.size());
  std::vector<std::int64_t> all = std::move(ids);
  for (const auto* more : {&owners, &positions, &slots}) all.insert(all.end(), more->begin(), more->end());
  std::vector<Indices> given{{std::move(all), {4, count}},
                             {std::move(table), {static_cast<std::int64_t>(pieces.size()), pages}},
                             {wanted, {static_cast<std::int64_t>(wanted.size())}}};
  Tensor handed;
  for (Stage& stage : stages) {
    const Device on = stage.place.device;
    const DeviceScope here(on);
    if (given.size() == 3 && pieces.size() == 1 && attends_together(on, count)) {
      const Sequence& sequence = *pieces[0].sequence;
      for (std::int64_t i = 0; i <= positions.back(); ++i) history.push_back(slot_of(sequence, i));
      given.push_back({std::move(history), {positions.back() + 1}});
    }
    const std::vector<Tensor> in = arguments(stage, given, handed);
    if (stage.step) {
      handed = stage.step(in)[0];
      continue;
    }
    const auto result = output == Output::scores ? step(in) : feature_step(in);
    if (any_wanted) take(result);
  }
  for (const Piece& piece : pieces)
    piece.sequence->tokens.insert(piece.sequence->tokens.end(), piece.tokens.begin(), piece.tokens.end());
}

void Model::State::truncate(Sequence& sequence, std::int64_t count) {
  if (count < 0 || count > static_cast<std::int64_t>(sequence.tokens.size()))
    throw ValueError(fmt::format("[Session] cannot keep {} of {} tokens", count, sequence.tokens.size()));
  const auto needed = static_cast<std::size_t>(pages_of(count));
  if (count < static_cast<std::int64_t>(sequence.tokens.size()) || needed < sequence.pages.size())
    sequence.version = 0;
  sequence.tokens.resize(static_cast<std::size_t>(count));
  const std::lock_guard lock(mutex);
  while (sequence.pages.size() > needed) {
    free_pages.push_back(sequence.pages.back());
    sequence.pages.pop_back();
  }
}

std::int64_t Model::State::shift(Sequence& sequence, std::int64_t keep) {
  const auto count = static_cast<std::int64_t>(sequence.tokens.size());
  if (keep < 0 || count - keep < 2)
    throw ValueError(
        fmt::format("[Session] cannot keep {} of {} tokens and drop half of the rest", keep, count));
  const std::int64_t dropped = (count - keep) / 2;
  std::vector<std::int64_t> from, to;
  for (std::int64_t position = keep + dropped; position < count; ++position) {
    from.push_back(slot_of(sequence, position));
    to.push_back(slot_of(sequence, position - dropped));
  }
  const NoGrad no_gradients;
  for (const Stage& stage : stages) {
    const Placement& place = stage.place;
    const DeviceScope here(place.device);
    move_tokens(config, weights, cache, place.first, place.end, indices(from, place.device),
                indices(to, place.device), -dropped);
  }
  sequence.version = 0;
  sequence.tokens.erase(sequence.tokens.begin() + keep, sequence.tokens.begin() + keep + dropped);
  truncate(sequence, count - dropped);
  return dropped;
}

}  // namespace hearth::llm
