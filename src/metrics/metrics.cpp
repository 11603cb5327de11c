// Metrics of classification and regression.
#include "hearth/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/ops.h"

namespace hearth::metrics {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double share(double part, double whole) { return whole == 0 ? nan : part / whole; }

// True iff `output` is scores (N, C, ...) for targets (N, ...). Throws ShapeError when it is neither that nor
// of the target's shape.
bool has_class_axis(const Tensor& output, const Tensor& target, const std::string& metric) {
  if (output.shape() == target.shape()) return false;
  Shape without = output.shape();
  if (without.size() >= 2) without.erase(1);
  if (output.ndim() < 2 || !(without == target.shape()))
    throw ShapeError(fmt::format("[{}] output {} does not fit target {}", metric, to_string(output.shape()),
                                 to_string(target.shape())));
  return true;
}

std::vector<std::int64_t> predicted_classes(const Tensor& output, const Tensor& target,
                                            const std::string& metric) {
  const NoGrad no_grad;
  if (has_class_axis(output, target, metric)) return argmax(output, 1).to_vector<std::int64_t>();
  if (!is_floating(output.dtype())) return output.to_vector<std::int64_t>();
  std::vector<std::int64_t> classes;
  for (const double probability : output.to_vector<double>()) classes.push_back(probability > 0.5);
  return classes;
}

void check_same_shape(const Tensor& output, const Tensor& target, const char* metric) {
  if (!(output.shape() == target.shape()))
    throw ShapeError(fmt::format("[{}] output {} and target {} differ in shape", metric,
                                 to_string(output.shape()), to_string(target.shape())));
}

// Area under the ROC curve by ranks (Mann and Whitney); equal scores share the mean of their ranks.
double area_under_curve(const std::vector<double>& scores, const std::vector<bool>& positive) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double rank_sum = 0, positives = 0;
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    double tied_positives = 0;
    for (; last < order.size() && scores[order[last]] == scores[order[first]]; ++last)
      tied_positives += positive[order[last]];
    rank_sum += tied_positives * (static_cast<double>(first + last) + 1) / 2;  // ranks first + 1 ... last
    positives += tied_positives;
    first = last;
  }
  const double negatives = static_cast<double>(scores.size()) - positives;
  return share(rank_sum - positives * (positives + 1) / 2, positives * negatives);
}

}  // namespace

// ---- classification

void Accuracy::update(const Tensor& output, const Tensor& target) {
  const auto predicted = predicted_classes(output, target, name());
  const auto targets = target.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < targets.size(); ++i) correct_ += predicted[i] == targets[i];
  total_ += static_cast<std::int64_t>(targets.size());
}

double Accuracy::value() const { return share(static_cast<double>(correct_), static_cast<double>(total_)); }

TopK::TopK(std::int64_t k) : k_(k) {
  if (k < 1) throw ValueError(fmt::format("[top_k] k = {} is not positive", k));
}

void TopK::update(const Tensor& output, const Tensor& target) {
  const NoGrad no_grad;
  if (!has_class_axis(output, target, name()))
    throw ShapeError(fmt::format("[{}] wants scores (N, C, ...), got {}", name(), to_string(output.shape())));
  const std::int64_t classes = output.size(1);
  // Class axis last, so that each row is one sample's scores.
  Axes last;
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(output.ndim()); ++axis)
    if (axis != 1) last.push_back(axis);
  last.push_back(1);
  const auto scores = permute(output, last).to_vector<double>();
  const auto targets = target.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= classes)
      throw IndexError(fmt::format("[{}] target {} of {} classes", name(), targets[i], classes));
    const double* row = scores.data() + i * static_cast<std::size_t>(classes);
    std::int64_t better = 0;
    for (std::int64_t c = 0; c < classes; ++c)
      better += row[c] > row[targets[i]] || (row[c] == row[targets[i]] && c < targets[i]);
    correct_ += better < k_ && !std::isnan(row[targets[i]]);
  }
  total_ += static_cast<std::int64_t>(targets.size());
}

double TopK::value() const { return share(static_cast<double>(correct_), static_cast<double>(total_)); }

ConfusionMatrix::ConfusionMatrix(std::int64_t classes) : classes_(classes) {
  if (classes < 1) throw ValueError(fmt::format("[ConfusionMatrix] {} classes", classes));
  counts_.assign(static_cast<std::size_t>(classes * classes), 0);
}

void ConfusionMatrix::update(const Tensor& output, const Tensor& target) {
  const auto predicted = predicted_classes(output, target, "confusion_matrix");
  const auto targets = target.to_vector<std::int64_t>();
  for (const auto* classes : {&predicted, &targets})
    for (const std::int64_t c : *classes)
      if (c < 0 || c >= classes_)
        throw IndexError(fmt::format("[confusion_matrix] class {} of {} classes", c, classes_));
  for (std::size_t i = 0; i < targets.size(); ++i)
    ++counts_[static_cast<std::size_t>(targets[i] * classes_ + predicted[i])];
}

std::int64_t ConfusionMatrix::at(std::int64_t target, std::int64_t predicted) const {
  if (target < 0 || target >= classes_ || predicted < 0 || predicted >= classes_)
    throw IndexError(
        fmt::format("[confusion_matrix] entry ({}, {}) of {} classes", target, predicted, classes_));
  return counts_[static_cast<std::size_t>(target * classes_ + predicted)];
}

Tensor ConfusionMatrix::value() const { return tensor(counts_, Shape{classes_, classes_}); }

void ConfusionMatrix::reset() { std::fill(counts_.begin(), counts_.end(), 0); }

ClassCounts::ClassCounts(std::int64_t classes, Average average) : matrix_(classes), average_(average) {
  if (average == Average::binary && classes != 2)
    throw ValueError(fmt::format("[metrics] binary average of {} classes", classes));
}

double ClassCounts::value() const {
  double micro[3] = {0, 0, 0};  // true positives, false positives, false negatives
  double sum = 0;
  std::int64_t seen = 0;
  for (std::int64_t c = 0; c < matrix_.classes(); ++c) {
    const auto hits = static_cast<double>(matrix_.at(c, c));
    double taken = 0, actual = 0;
    for (std::int64_t other = 0; other < matrix_.classes(); ++other) {
      taken += static_cast<double>(matrix_.at(other, c));
      actual += static_cast<double>(matrix_.at(c, other));
    }
    micro[0] += hits;
    micro[1] += taken - hits;
    micro[2] += actual - hits;
    const bool occurs = taken + actual > 0;
    const double of_class = ratio(hits, taken - hits, actual - hits);
    if (average_ == Average::binary && c == 1) sum = of_class;
    if (average_ == Average::macro && occurs) sum += of_class;
    seen += occurs;
  }
  if (seen == 0) return nan;
  if (average_ == Average::binary) return sum;
  if (average_ == Average::macro) return sum / static_cast<double>(seen);
  return ratio(micro[0], micro[1], micro[2]);
}

double Precision::ratio(double true_positive, double false_positive, double) const {
  return true_positive == 0 ? 0 : true_positive / (true_positive + false_positive);
}

double Recall::ratio(double true_positive, double, double false_negative) const {
  return true_positive == 0 ? 0 : true_positive / (true_positive + false_negative);
}

double F1::ratio(double true_positive, double false_positive, double false_negative) const {
  return true_positive == 0 ? 0 : 2 * true_positive / (2 * true_positive + false_positive + false_negative);
}

void Auc::update(const Tensor& output, const Tensor& target) {
  const bool fits =
      target.ndim() == 1 && output.ndim() >= 1 && output.ndim() <= 2 && output.size(0) == target.size(0);
  const std::int64_t columns = output.ndim() == 2 ? output.size(1) : 1;
  if (!fits || (columns_ != 0 && columns != columns_))
    throw ShapeError(fmt::format("[auc] output {} does not fit target {}", to_string(output.shape()),
                                 to_string(target.shape())));
  columns_ = columns;
  const auto scores = output.to_vector<double>();
  const auto targets = target.to_vector<std::int64_t>();
  for (const std::int64_t c : targets)
    if (c < 0 || c >= std::max<std::int64_t>(2, columns))
      throw IndexError(fmt::format("[auc] class {} of {} classes", c, std::max<std::int64_t>(2, columns)));
  for (const double score : scores)
    if (std::isnan(score)) throw ValueError("[auc] a score is NaN");
  scores_.insert(scores_.end(), scores.begin(), scores.end());
  targets_.insert(targets_.end(), targets.begin(), targets.end());
}

double Auc::value() const {
  if (targets_.empty()) return nan;
  double sum = 0;
  for (std::int64_t column = 0; column < columns_; ++column) {
    std::vector<double> scores;
    std::vector<bool> positive;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      scores.push_back(scores_[i * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column)]);
      positive.push_back(targets_[i] == (columns_ == 1 ? 1 : column));
    }
    sum += area_under_curve(scores, positive);
  }
  return sum / static_cast<double>(columns_);
}

void Auc::reset() {
  columns_ = 0;
  scores_.clear();
  targets_.clear();
}

void Perplexity::update(const Tensor& output, const Tensor& target) {
  const NoGrad no_grad;
  const Tensor scores = output.dtype() == DType::f64 ? output : output.to(DType::f32);
  sum_ += cross_entropy(scores, target,
                        {.reduction = Reduction::sum, .ignore_index = ignore_index_, .weight = {}})
              .item<double>();
  for (const std::int64_t c : target.to_vector<std::int64_t>()) count_ += c != ignore_index_;
}

double Perplexity::value() const { return count_ == 0 ? nan : std::exp(sum_ / static_cast<double>(count_)); }

// ---- regression

void MeanSquaredError::update(const Tensor& output, const Tensor& target) {
  check_same_shape(output, target, "mse");
  const auto values = output.to_vector<double>();
  const auto targets = target.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) sum_ += (values[i] - targets[i]) * (values[i] - targets[i]);
  count_ += static_cast<std::int64_t>(values.size());
}

double MeanSquaredError::value() const { return share(sum_, static_cast<double>(count_)); }

double RootMeanSquaredError::value() const { return std::sqrt(MeanSquaredError::value()); }

void MeanAbsoluteError::update(const Tensor& output, const Tensor& target) {
  check_same_shape(output, target, "mae");
  const auto values = output.to_vector<double>();
  const auto targets = target.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) sum_ += std::abs(values[i] - targets[i]);
  count_ += static_cast<std::int64_t>(values.size());
}

double MeanAbsoluteError::value() const { return share(sum_, static_cast<double>(count_)); }

void R2::update(const Tensor& output, const Tensor& target) {
  check_same_shape(output, target, "r2");
  const auto values = output.to_vector<double>();
  const auto targets = target.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    errors_ += (values[i] - targets[i]) * (values[i] - targets[i]);
    // Welford's running mean and sum of squared deviations.
    const double before = targets[i] - mean_;
    mean_ += before / static_cast<double>(++count_);
    deviations_ += before * (targets[i] - mean_);
  }
}

double R2::value() const { return count_ < 2 || deviations_ == 0 ? nan : 1 - errors_ / deviations_; }

// ---- means

void RunningMean::add(double value, double weight) {
  sum_ += value * weight;
  weight_ += weight;
}

double RunningMean::value() const { return share(sum_, weight_); }

MovingMean::MovingMean(double decay) : decay_(decay) {
  if (!(decay >= 0 && decay < 1))
    throw ValueError(fmt::format("[MovingMean] decay {} is not in [0, 1)", decay));
}

void MovingMean::add(double value) {
  sum_ = decay_ * sum_ + (1 - decay_) * value;
  weight_ = decay_ * weight_ + (1 - decay_);
}

double MovingMean::value() const { return share(sum_, weight_); }

}  // namespace hearth::metrics
