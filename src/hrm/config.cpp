// Configurations: the known ones, their limits, and their form in checkpoints.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "hearth/error.h"
#include "hearth/hrm.h"
#include "io/parse_json.h"

namespace hearth::hrm {

NLOHMANN_JSON_SERIALIZE_ENUM(Mixing, {{Mixing::attention, "attention"}, {Mixing::units, "units"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Positions, {{Positions::rope, "rope"},
                                         {Positions::learned, "learned"},
                                         {Positions::none, "none"}})
NLOHMANN_JSON_SERIALIZE_ENUM(GradientPath, {{GradientPath::last_step, "last_step"},
                                            {GradientPath::last_cycle, "last_cycle"}})
NLOHMANN_JSON_SERIALIZE_ENUM(TokenLoss,
                             {{TokenLoss::stablemax, "stablemax"}, {TokenLoss::softmax, "softmax"}})

namespace {

constexpr std::int64_t most_rows = 1 << 24, most_repeats = 1024;

// Calls `visit(name, member)` for every member of a configuration.
template <typename Config, typename Visit>
void for_each_member(Config& c, Visit visit) {
  visit("vocabulary", c.vocabulary);
  visit("length", c.length);
  visit("puzzles", c.puzzles);
  visit("prefix", c.prefix);
  visit("features", c.features);
  visit("heads", c.heads);
  visit("unit_features", c.unit_features);
  visit("expansion", c.expansion);
  visit("h_layers", c.h_layers);
  visit("l_layers", c.l_layers);
  visit("h_cycles", c.h_cycles);
  visit("l_cycles", c.l_cycles);
  visit("shared", c.shared);
  visit("mixing", c.mixing);
  visit("positions", c.positions);
  visit("rope_base", c.rope_base);
  visit("epsilon", c.epsilon);
  visit("gradient", c.gradient);
  visit("loss", c.loss);
  visit("q_continue", c.q_continue);
  visit("halt_above", c.halt_above);
  visit("most_segments", c.most_segments);
  visit("exploration", c.exploration);
}

template <typename T>
bool is_of_type(const nlohmann::json& value) {
  if constexpr (std::is_same_v<T, bool>) return value.is_boolean();
  if constexpr (std::is_same_v<T, std::int64_t>) return value.is_number_integer();
  if constexpr (std::is_same_v<T, double>) return value.is_number();
  // An enumeration's name: one that is not known reads as the first.
  if constexpr (std::is_enum_v<T>) return value.is_string() && nlohmann::json(value.get<T>()) == value;
}

}  // namespace

std::int64_t HrmConfig::inner_features() const {
  const auto exact =
      static_cast<std::int64_t>(std::lround(expansion * static_cast<double>(features) * 2 / 3));
  return (exact + inner_multiple - 1) / inner_multiple * inner_multiple;
}

void check(const HrmConfig& c) {
  const auto require = [](bool condition, const std::string& what) {
    if (!condition) throw ValueError("[HrmConfig] " + what);
  };
  const auto in_range = [&](const char* name, std::int64_t value, std::int64_t low,
                            std::int64_t high = most_rows) {
    require(value >= low && value <= high,
            fmt::format("{} must lie in {}..{}, got {}", name, low, high, value));
  };
  in_range("vocabulary", c.vocabulary, 1);
  in_range("length", c.length, 1);
  in_range("prefix", c.prefix, 0);
  in_range("puzzles", c.puzzles, 1);
  in_range("features", c.features, 1);
  in_range("heads", c.heads, 1);
  in_range("l_layers", c.l_layers, 1, most_repeats);
  in_range("h_layers", c.h_layers, c.shared ? 0 : 1, most_repeats);
  in_range("l_cycles", c.l_cycles, 1, most_repeats);
  in_range("h_cycles", c.h_cycles, 1, most_repeats);
  in_range("most_segments", c.most_segments, 1);
  require(c.expansion > 0 && c.expansion <= 64,
          fmt::format("expansion must lie in (0, 64], got {}", c.expansion));
  require(c.exploration >= 0 && c.exploration <= 1,
          fmt::format("exploration must lie in [0, 1], got {}", c.exploration));
  require(c.epsilon > 0 && c.rope_base > 0, "epsilon and rope_base must be positive");
  if (c.mixing == Mixing::attention) {
    require(c.features % c.heads == 0,
            fmt::format("heads must divide features: {} and {}", c.heads, c.features));
    require(c.positions != Positions::rope || c.features / c.heads % 2 == 0,
            fmt::format("rope needs heads of even size, got {}", c.features / c.heads));
  } else {
    in_range("unit_features", c.unit_features, 1);
    require(c.length == 81 && c.prefix == 0,
            fmt::format("units are those of a Sudoku: 81 cells and no prefix, "
                        "got {} and {}",
                        c.length, c.prefix));
    require(c.positions != Positions::rope, "rope belongs to attention; units need no positions");
  }
}

HrmConfig reference_config() { return {}; }

HrmConfig trm_config() {
  HrmConfig c;
  c.prefix = 16;
  c.shared = true;
  c.l_layers = 2;
  c.h_cycles = 3;
  c.l_cycles = 6;
  c.gradient = GradientPath::last_cycle;
  c.q_continue = false;
  return c;
}

HrmConfig sudoku_config() {
  HrmConfig c;
  c.prefix = 0;
  c.features = 256;
  c.unit_features = 128;
  c.shared = true;
  c.l_layers = 2;
  c.h_cycles = 2;
  c.l_cycles = 3;
  c.mixing = Mixing::units;
  c.positions = Positions::none;
  c.gradient = GradientPath::last_cycle;
  c.loss = TokenLoss::softmax;
  c.halt_above = 2;  // a probability of 0.88: a wrong answer costs more than another segment
  c.q_continue = false;
  return c;
}

HrmConfig config_from_name(const std::string& name) {
  if (name == "reference") return reference_config();
  if (name == "trm") return trm_config();
  if (name == "sudoku") return sudoku_config();
  throw ValueError(fmt::format("[HrmConfig] '{}' is not known; there are reference, trm and sudoku", name));
}

std::string to_json(const HrmConfig& config) {
  nlohmann::json json;
  for_each_member(config, [&](const char* name, const auto& value) { json[name] = value; });
  json["precision"] = dtype_name(config.precision);
  return json.dump();
}

HrmConfig config_from_json(const std::string& text) {
  const nlohmann::json json = io::parse_json(text, "[HrmConfig]");
  if (!json.is_object()) throw FormatError("[HrmConfig] not a JSON object");
  HrmConfig config;
  for_each_member(config, [&]<typename T>(const char* name, T& value) {
    if (!json.contains(name)) throw FormatError(fmt::format("[HrmConfig] \"{}\" is missing", name));
    if (!is_of_type<T>(json[name]))
      throw FormatError(fmt::format("[HrmConfig] \"{}\" cannot be {}", name, json[name].dump()));
    value = json[name].get<T>();
  });
  const auto precision = json.find("precision");
  if (precision == json.end() || (*precision != "bf16" && *precision != "f32"))
    throw FormatError("[HrmConfig] \"precision\" must be \"bf16\" or \"f32\"");
  config.precision = *precision == "bf16" ? DType::bf16 : DType::f32;
  check(config);
  return config;
}

}  // namespace hearth::hrm
