// Where a training run stands, apart from its tensors; a checkpoint holds it as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "hearth/data.h"
#include "hearth/metrics.h"
#include "hearth/random.h"
#include "hearth/train.h"

namespace hearth::train {

struct Counters {
  std::int64_t step = 0;            // optimiser steps taken
  std::int64_t recorded_step = 0;   // step of the last record
  metrics::RunningMean train_loss;  // since the last record
  std::optional<double> best_value;
  std::int64_t best_step = 0;
  std::int64_t stale_evaluations = 0;  // since the best one
  std::vector<Record> history;
};

struct RunState {
  Counters counters;
  Generator::State random;
  data::DataLoaderState loader;
};

nlohmann::json to_json(const RunState& state);
// Throws nlohmann::json::exception where something is missing or of another type.
RunState run_state_from_json(const nlohmann::json& json);

}  // namespace hearth::train
