// Measuring, storing and reading importance.
#include "llm/importance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/gguf.h"
#include "hearth/ops.h"
#include "llm/model.h"

namespace hearth::llm {
namespace {

constexpr std::string_view squares_suffix = ".in_sum2", counts_suffix = ".counts";

constexpr std::size_t tokens_at_once = 64;

std::vector<Projection*> projections_of(Weights& weights) {
  std::vector<Projection*> list;
  for (LayerWeights& w : weights.layers) {
    FeedForward &dense = w.feed_forward, &shared = w.experts.shared;
    for (Projection* projection : {&w.q, &w.k, &w.v, &w.qkv, &w.out, &dense.gate, &dense.up, &dense.gate_up,
                                   &dense.down, &shared.gate, &shared.up, &shared.gate_up, &shared.down})
      if (projection->weight.defined()) list.push_back(projection);
  }
  list.push_back(&weights.output);
  return list;
}

// While one lives, the model's projections add up what they are applied to.
class Watch {
 public:
  Watch(Model::State& state, Importance& importance)
      : state_(state), step_(state.step), projections_(projections_of(state.weights)) {
    if (state.stages.size() > 1) throw ValueError("[Importance] all layers must be on one device");
    for (Projection* projection : projections_) projection->squares = std::make_shared<Tensor>();
    state.step = [this, &importance](const std::vector<Tensor>& in) {
      const DecoderInput input(in);
      const Tensor x = through_layers(state_.config, state_.weights, state_.cache, input,
                                      embed(state_.config, state_.weights, input), 0, state_.config.layers);
      std::vector<Tensor> results{
          scores(state_.config, state_.weights, features(state_.config, state_.weights, input, x))};
      for (const Projection* projection : projections_) results.push_back(*projection->squares);
      std::vector<Tensor> computed = results;
      const KeyValueCache& cache = state_.cache;
      for (const auto* list : {&cache.keys, &cache.values, &cache.key_scales, &cache.value_scales})
        computed.insert(computed.end(), list->begin(), list->end());
      eval(computed);
      for (std::size_t i = 0; i < projections_.size(); ++i) {
        const auto squares = results[i + 1].to(Device{}).to_vector<float>();
        const bool only_wanted = projections_[i] == &state_.weights.output;
        const auto count = static_cast<double>((only_wanted ? input.wanted : input.tokens).size(0));
        for (const std::string& name : projections_[i]->names) {
          Importance::Sums& sums = importance.weights[name];
          sums.squares.resize(squares.size());
          std::transform(squares.begin(), squares.end(), sums.squares.begin(), sums.squares.begin(),
                         std::plus<>());
          sums.count += count;
        }
      }
      results.resize(1);
      return results;
    };
  }
  ~Watch() {
    for (Projection* projection : projections_) projection->squares.reset();
    state_.step = step_;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  Model::State& state_;
  Compiled::Function step_;
  std::vector<Projection*> projections_;
};

}  // namespace

std::vector<float> Importance::of(const std::string& weight, std::int64_t columns) const {
  const auto found = weights.find(weight);
  if (found == weights.end() || found->second.count <= 0) return {};
  std::vector<float> means = found->second.squares;
  if (static_cast<std::int64_t>(means.size()) != columns)
    throw FormatError(
        fmt::format("the importance of {} has {} columns, the weight {}", weight, means.size(), columns));
  for (float& mean : means) mean /= static_cast<float>(found->second.count);
  return means;
}

Importance measure_importance(const Model& model, std::span<const TokenId> tokens, std::int64_t chunk,
                              const std::function<bool(std::int64_t)>& progress) {
  Importance importance;
  importance.chunk_tokens = chunk = std::min(chunk, model.context());
  const Watch watch(*model.state(), importance);
  Session session(model);
  for (std::size_t done = 0; done < tokens.size();) {
    const auto part = tokens.subspan(done, std::min(tokens.size() - done, static_cast<std::size_t>(chunk)));
    session.truncate(0);
    // All of them are scored, so that the output is measured too; few at a time, for scores are large.
    for (std::size_t at = 0; at < part.size(); at += tokens_at_once)
      session.feed_all(part.subspan(at, std::min(part.size() - at, tokens_at_once)));
    ++importance.chunks;
    done += part.size();
    if (progress && !progress(static_cast<std::int64_t>(done))) break;
  }
  return importance;
}

void save_importance(const std::filesystem::path& path, const Importance& importance) {
  const GgufMetadata metadata{{"general.type", std::string("imatrix")},
                              {"imatrix.datasets", GgufArray{importance.texts}},
                              {"imatrix.chunk_count", static_cast<std::uint32_t>(importance.chunks)},
                              {"imatrix.chunk_size", static_cast<std::uint32_t>(importance.chunk_tokens)}};
  std::vector<GgufTensorSpec> specs;
  for (const auto& [name, sums] : importance.weights) {
    specs.push_back({name + std::string(squares_suffix),
                     DType::f32,
                     {1, static_cast<std::int64_t>(sums.squares.size())}});
    specs.push_back({name + std::string(counts_suffix), DType::f32, {1, 1}});
  }
  GgufWriter writer(path, metadata, specs);
  for (const auto& [name, sums] : importance.weights) {
    const float count = static_cast<float>(sums.count);
    writer.write(std::as_bytes(std::span(sums.squares)));
    writer.write(std::as_bytes(std::span(&count, 1)));
  }
  writer.commit();
}

Importance load_importance(const std::filesystem::path& path) {
  const GgufFile file(path);
  const auto fail = [&](const std::string& rule) {
    throw FormatError(fmt::format("{}: {}", path.string(), rule));
  };
  if (file.get<std::string>("general.type") != "imatrix") fail("a GGUF file, but not of importance");
  Importance importance;
  importance.texts = file.get<std::vector<std::string>>("imatrix.datasets").value_or(importance.texts);
  importance.chunks = file.get<std::int64_t>("imatrix.chunk_count").value_or(0);
  importance.chunk_tokens = file.get<std::int64_t>("imatrix.chunk_size").value_or(0);
  const auto numbers = [&](const std::string& name) {
    if (!file.contains(name)) fail(fmt::format("tensor {} is missing", name));
    if (file.dtype(name) != DType::f32) fail(fmt::format("tensor {} is not f32", name));
    auto values = file.tensor(name).to_vector<float>();
    if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x) && x >= 0; }))
      fail(fmt::format("tensor {} has a number that is no sum of squares", name));
    return values;
  };
  for (const auto& name : file.names()) {
    if (!name.ends_with(squares_suffix)) continue;
    const std::string weight = name.substr(0, name.size() - squares_suffix.size());
    const auto counts = numbers(weight + std::string(counts_suffix));
    // Several: one for each expert of a mixture, which is not supported.
    if (counts.size() != 1) fail(fmt::format("{} counts for {}, 1 is supported", counts.size(), weight));
    importance.weights[weight] = {numbers(name), counts[0]};
  }
  return importance;
}

}  // namespace hearth::llm
