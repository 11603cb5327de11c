// The counters of a run as JSON and back.
#include "train/counters.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace hearth::train {
namespace {

// JSON has no NaN and no infinity: they are written as null and read as NaN.
double number_or_nan(const nlohmann::json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

// Times are left out: equal runs write equal checkpoints.
nlohmann::json record_to_json(const Record& record) {
  nlohmann::json json{{"step", record.step},
                      {"epoch", record.epoch},
                      {"train_loss", record.train_loss},
                      {"learning_rate", record.learning_rate}};
  if (record.evaluation) {
    nlohmann::json metrics = nlohmann::json::array();
    for (const auto& [name, value] : record.evaluation->metrics) metrics.push_back({name, value});
    json["evaluation"] = {
        {"loss", record.evaluation->loss}, {"samples", record.evaluation->samples}, {"metrics", metrics}};
  }
  return json;
}

Record record_from_json(const nlohmann::json& json) {
  Record record;
  record.step = json.at("step").get<std::int64_t>();
  record.epoch = json.at("epoch").get<std::int64_t>();
  record.train_loss = number_or_nan(json.at("train_loss"));
  record.learning_rate = number_or_nan(json.at("learning_rate"));
  if (json.contains("evaluation")) {
    const nlohmann::json& from = json.at("evaluation");
    Evaluation& evaluation = record.evaluation.emplace();
    evaluation.loss = number_or_nan(from.at("loss"));
    evaluation.samples = from.at("samples").get<std::int64_t>();
    for (const auto& metric : from.at("metrics"))
      evaluation.metrics.emplace_back(metric.at(0).get<std::string>(), number_or_nan(metric.at(1)));
  }
  return record;
}

}  // namespace

nlohmann::json to_json(const RunState& state) {
  const Counters& counters = state.counters;
  nlohmann::json history = nlohmann::json::array();
  for (const Record& record : counters.history) history.push_back(record_to_json(record));
  nlohmann::json json{
      {"step", counters.step},
      {"recorded_step", counters.recorded_step},
      {"train_loss", {{"sum", counters.train_loss.sum()}, {"weight", counters.train_loss.weight()}}},
      {"best_value", nullptr},
      {"best_step", counters.best_step},
      {"stale_evaluations", counters.stale_evaluations},
      {"history", history},
      {"random", {{"seed", state.random.seed}, {"offset", state.random.offset}}},
      {"loader",
       {{"seed", state.loader.seed},
        {"epoch", state.loader.epoch},
        {"position", state.loader.position},
        {"batches", state.loader.batches}}}};
  if (counters.best_value) json["best_value"] = *counters.best_value;
  return json;
}

RunState run_state_from_json(const nlohmann::json& json) {
  RunState state;
  Counters& counters = state.counters;
  counters.step = json.at("step").get<std::int64_t>();
  counters.recorded_step = json.at("recorded_step").get<std::int64_t>();
  const nlohmann::json& loss = json.at("train_loss");
  counters.train_loss.restore(loss.at("sum").get<double>(), loss.at("weight").get<double>());
  if (!json.at("best_value").is_null()) counters.best_value = json.at("best_value").get<double>();
  counters.best_step = json.at("best_step").get<std::int64_t>();
  counters.stale_evaluations = json.at("stale_evaluations").get<std::int64_t>();
  for (const auto& record : json.at("history")) counters.history.push_back(record_from_json(record));
  const nlohmann::json& random = json.at("random");
  state.random = {random.at("seed").get<std::uint64_t>(), random.at("offset").get<std::uint64_t>()};
  const nlohmann::json& place = json.at("loader");
  state.loader = {place.at("seed").get<std::uint64_t>(), place.at("epoch").get<std::uint64_t>(),
                  place.at("position").get<std::int64_t>(), place.at("batches").get<std::int64_t>()};
  return state;
}

}  // namespace hearth::train
