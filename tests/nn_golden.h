// Reading golden/nn_optim.json (made by golden/make_optim_golden.py) and comparing tensors with it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hearth/state_dict.h"
#include "hearth/tensor.h"

namespace hearth {

inline const nlohmann::json& golden() {
  static const nlohmann::json content = [] {
    std::ifstream file(HEARTH_GOLDEN_DIR "/nn_optim.json");
    return nlohmann::json::parse(file);
  }();
  return content;
}

// The entry of a list of cases with this name.
inline const nlohmann::json& golden_case(const char* list, const std::string& name) {
  for (const auto& entry : golden().at(list)) {
    if (entry.at("name") == name) return entry;
  }
  throw std::runtime_error("no golden case " + name);
}

inline Shape golden_shape(const nlohmann::json& array) {
  Shape shape;
  for (const auto& size : array.at("shape")) shape.push_back(size.get<std::int64_t>());
  return shape;
}

inline Tensor golden_tensor(const nlohmann::json& array) {
  const std::string dtype = array.at("dtype");
  const auto& data = array.at("data");
  if (dtype == "f32") return tensor(data.get<std::vector<float>>(), golden_shape(array));
  const Tensor integers = tensor(data.get<std::vector<std::int64_t>>(), golden_shape(array));
  return dtype == "bool" ? integers.to(DType::bool_) : integers;
}

inline StateDict golden_state(const nlohmann::json& object) {
  StateDict state;
  for (const auto& [name, array] : object.items()) state.emplace(name, golden_tensor(array));
  return state;
}

// |actual - expected| <= tolerance * (1 + |expected|) for every element.
inline void expect_close(const Tensor& actual, const std::vector<double>& expected, const std::string& what,
                         double tolerance = 1e-5) {
  ASSERT_TRUE(actual.defined()) << what;
  const std::vector<double> values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_LE(std::abs(values[i] - expected[i]), tolerance * (1 + std::abs(expected[i])))
        << what << ", element " << i << ": " << values[i] << " instead of " << expected[i];
  }
}

inline void expect_golden(const Tensor& actual, const nlohmann::json& expected, const std::string& what,
                          double tolerance = 1e-5) {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(actual.shape(), golden_shape(expected)) << what;
  expect_close(actual, expected.at("data").get<std::vector<double>>(), what, tolerance);
}

}  // namespace hearth
