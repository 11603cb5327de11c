// Metrics: figures that say how good a model is, gathered batch by batch.
//
//   metrics::Accuracy accuracy;
//   for (const auto& batch : loader) accuracy.update(model(batch[0]), batch[1]);
//   accuracy.value();
//
// Counting happens on the host in double or integers, so the value does not depend on how the data were cut
// into batches. update() waits for the values; it records no gradients.
//
// Where a metric wants classes, `output` is scores (N, C, ...) with target (N, ...): the class with the
// largest score counts. Or it has the target's shape: then integers are classes, and floating values are
// probabilities of class 1. Throws ShapeError, or IndexError for a class that is not there.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hearth/tensor.h"

namespace hearth::metrics {

class Metric {
 public:
  virtual ~Metric() = default;
  virtual std::string name() const = 0;
  virtual void update(const Tensor& output, const Tensor& target) = 0;
  // NaN before any update.
  virtual double value() const = 0;
  virtual void reset() = 0;
  virtual bool larger_is_better() const = 0;
};

// The value for one pair: measure<TopK>(scores, targets, 5).
template <typename M, typename... Arguments>
double measure(const Tensor& output, const Tensor& target, Arguments&&... arguments) {
  M metric(std::forward<Arguments>(arguments)...);
  metric.update(output, target);
  return metric.value();
}

// ---- classification

// Share of targets met.
class Accuracy : public Metric {
 public:
  std::string name() const override { return "accuracy"; }
  void update(const Tensor& output, const Tensor& target) override;
  double value() const override;
  void reset() override { correct_ = total_ = 0; }
  bool larger_is_better() const override { return true; }

 private:
  std::int64_t correct_ = 0, total_ = 0;
};

// Share of targets among the k classes with the largest scores (N, C, ...). Among equal scores the first
// classes count.
class TopK : public Metric {
 public:
  explicit TopK(std::int64_t k);
  std::string name() const override { return "top" + std::to_string(k_); }
  void update(const Tensor& output, const Tensor& target) override;
  double value() const override;
  void reset() override { correct_ = total_ = 0; }
  bool larger_is_better() const override { return true; }

 private:
  std::int64_t k_, correct_ = 0, total_ = 0;
};

// How often a sample of class `row` was taken for class `column`.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);
  void update(const Tensor& output, const Tensor& target);
  std::int64_t classes() const { return classes_; }
  std::int64_t at(std::int64_t target, std::int64_t predicted) const;
  Tensor value() const;  // (classes, classes) i64
  void reset();

 private:
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

// micro: all samples together. macro: the mean over the classes that occur among targets or predictions.
// binary: of class 1.
enum class Average { micro, macro, binary };

// Precision, recall and F1 share their counts. A ratio 0 / 0 counts as 0, as in scikit-learn.
class ClassCounts : public Metric {
 public:
  ClassCounts(std::int64_t classes, Average average);
  void update(const Tensor& output, const Tensor& target) override { matrix_.update(output, target); }
  double value() const override;
  void reset() override { matrix_.reset(); }
  bool larger_is_better() const override { return true; }

 protected:
  virtual double ratio(double true_positive, double false_positive, double false_negative) const = 0;

 private:
  ConfusionMatrix matrix_;
  Average average_;
};
class Precision : public ClassCounts {
 public:
  explicit Precision(std::int64_t classes, Average average = Average::macro)
      : ClassCounts(classes, average) {}
  std::string name() const override { return "precision"; }

 protected:
  double ratio(double true_positive, double false_positive, double false_negative) const override;
};
class Recall : public ClassCounts {
 public:
  explicit Recall(std::int64_t classes, Average average = Average::macro) : ClassCounts(classes, average) {}
  std::string name() const override { return "recall"; }

 protected:
  double ratio(double true_positive, double false_positive, double false_negative) const override;
};
class F1 : public ClassCounts {
 public:
  explicit F1(std::int64_t classes, Average average = Average::macro) : ClassCounts(classes, average) {}
  std::string name() const override { return "f1"; }

 protected:
  double ratio(double true_positive, double false_positive, double false_negative) const override;
};

// Area under the ROC curve: the probability that a random positive has a larger score than a random negative,
// ties counting half. Scores (N) or (N, 1) with targets 0 and 1; or scores (N, C), one class against the
// rest, averaged over the classes. NaN unless both kinds occur. Keeps all scores.
class Auc : public Metric {
 public:
  std::string name() const override { return "auc"; }
  void update(const Tensor& output, const Tensor& target) override;
  double value() const override;
  void reset() override;
  bool larger_is_better() const override { return true; }

 private:
  std::int64_t columns_ = 0;
  std::vector<double> scores_;  // (N, columns)
  std::vector<std::int64_t> targets_;
};

// exp of the mean cross entropy of scores (N, C, ...). Targets equal to `ignore_index` do not count.
class Perplexity : public Metric {
 public:
  explicit Perplexity(std::int64_t ignore_index = -100) : ignore_index_(ignore_index) {}
  std::string name() const override { return "perplexity"; }
  void update(const Tensor& output, const Tensor& target) override;
  double value() const override;
  void reset() override { sum_ = 0, count_ = 0; }
  bool larger_is_better() const override { return false; }

 private:
  std::int64_t ignore_index_;
  double sum_ = 0;
  std::int64_t count_ = 0;
};

// ---- regression; output and target have the same shape, all elements count alike

class MeanSquaredError : public Metric {
 public:
  std::string name() const override { return "mse"; }
  void update(const Tensor& output, const Tensor& target) override;
  double value() const override;
  void reset() override { sum_ = 0, count_ = 0; }
  bool larger_is_better() const override { return false; }

 private:
  double sum_ = 0;
  std::int64_t count_ = 0;
};

class RootMeanSquaredError : public MeanSquaredError {
 public:
  std::string name() const override { return "rmse"; }
  double value() const override;
};

class MeanAbsoluteError : public Metric {
 public:
  std::string name() const override { return "mae"; }
  void update(const Tensor& output, const Tensor& target) override;
  double value() const override;
  void reset() override { sum_ = 0, count_ = 0; }
  bool larger_is_better() const override { return false; }

 private:
  double sum_ = 0;
  std::int64_t count_ = 0;
};

// 1 - (sum of squared errors) / (sum of squared deviations of the targets from their mean). NaN when the
// targets are all equal or there are fewer than two.
class R2 : public Metric {
 public:
  std::string name() const override { return "r2"; }
  void update(const Tensor& output, const Tensor& target) override;
  double value() const override;
  void reset() override { errors_ = deviations_ = mean_ = 0, count_ = 0; }
  bool larger_is_better() const override { return true; }

 private:
  double errors_ = 0, mean_ = 0, deviations_ = 0;
  std::int64_t count_ = 0;
};

// ---- means of plain numbers

class RunningMean {
 public:
  void add(double value, double weight = 1.0);
  double value() const;  // NaN before any add()
  double weight() const { return weight_; }
  double sum() const { return sum_; }
  void reset() { sum_ = weight_ = 0; }
  void restore(double sum, double weight) { sum_ = sum, weight_ = weight; }

 private:
  double sum_ = 0, weight_ = 0;
};

// An average in which a value n steps back counts decay^n, corrected for its start.
class MovingMean {
 public:
  explicit MovingMean(double decay = 0.98);  // in [0, 1)
  void add(double value);
  double value() const;  // NaN before any add()
  void reset() { sum_ = weight_ = 0; }

 private:
  double decay_, sum_ = 0, weight_ = 0;
};

}  // namespace hearth::metrics
