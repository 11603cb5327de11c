// Metrics, against values worked out by hand and by scikit-learn's definitions.
#include "hearth/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hearth/error.h"

namespace hearth::metrics {
namespace {

Tensor classes(std::initializer_list<std::int64_t> values) { return tensor(values); }

// Targets and predictions with the confusion matrix [[2, 1, 0], [0, 1, 1], [1, 0, 2]].
const std::initializer_list<std::int64_t> targets = {0, 0, 0, 1, 1, 2, 2, 2};
const std::initializer_list<std::int64_t> predictions = {0, 0, 1, 1, 2, 0, 2, 2};

TEST(Metrics, Accuracy) {
  EXPECT_TRUE(std::isnan(Accuracy().value()));
  EXPECT_DOUBLE_EQ(measure<Accuracy>(classes(predictions), classes(targets)), 5.0 / 8);
  const Tensor scores = tensor({0.1f, 0.9f, 0.8f, 0.2f, 0.3f, 0.7f}, Shape{3, 2});
  EXPECT_DOUBLE_EQ(measure<Accuracy>(scores, classes({1, 1, 1})), 2.0 / 3);
  const Tensor probabilities = tensor({0.1f, 0.6f, 0.5f});
  EXPECT_DOUBLE_EQ(measure<Accuracy>(probabilities, classes({0, 1, 1})), 2.0 / 3);
  // One class axis before a sequence axis.
  const Tensor sequence = tensor({1.f, 0.f, 0.f, 1.f}, Shape{1, 2, 2});
  EXPECT_DOUBLE_EQ(measure<Accuracy>(sequence, tensor({std::int64_t{0}, std::int64_t{1}}, Shape{1, 2})), 1.0);
  EXPECT_THROW(measure<Accuracy>(scores, classes({1, 1})), ShapeError);
}

TEST(Metrics, BatchesAddUp) {
  Accuracy whole, parts;
  whole.update(classes(predictions), classes(targets));
  parts.update(classes({0, 0, 1}), classes({0, 0, 0}));
  parts.update(classes({1, 2, 0, 2, 2}), classes({1, 1, 2, 2, 2}));
  EXPECT_EQ(whole.value(), parts.value());
  parts.reset();
  EXPECT_TRUE(std::isnan(parts.value()));
}

TEST(Metrics, TopK) {
  const Tensor scores = tensor({0.1f, 0.5f, 0.4f, 0.7f, 0.2f, 0.1f, 0.2f, 0.3f, 0.5f}, Shape{3, 3});
  EXPECT_DOUBLE_EQ(measure<TopK>(scores, classes({2, 2, 2}), 1), 1.0 / 3);
  EXPECT_DOUBLE_EQ(measure<TopK>(scores, classes({2, 2, 2}), 2), 2.0 / 3);
  EXPECT_DOUBLE_EQ(measure<TopK>(scores, classes({2, 2, 2}), 3), 1.0);
  EXPECT_DOUBLE_EQ(measure<TopK>(tensor({1.f, 1.f}, Shape{1, 2}), classes({1}), 1),
                   0.0);  // a tie goes to the first
  EXPECT_THROW(measure<TopK>(scores, classes({2, 3, 2}), 1), IndexError);
  EXPECT_THROW(TopK(0), ValueError);
}

TEST(Metrics, ConfusionMatrix) {
  ConfusionMatrix matrix(3);
  matrix.update(classes(predictions), classes(targets));
  EXPECT_EQ(matrix.value().to_vector<int>(), (std::vector<int>{2, 1, 0, 0, 1, 1, 1, 0, 2}));
  EXPECT_EQ(matrix.at(1, 2), 1);
  EXPECT_THROW(matrix.update(classes({3}), classes({0})), IndexError);
  EXPECT_THROW(matrix.update(classes({0}), classes({-1})), IndexError);
}

TEST(Metrics, PrecisionRecallF1) {
  const Tensor y = classes(targets), p = classes(predictions);
  // Per class: precision 2/3, 1/2, 2/3; recall 2/3, 1/2, 2/3.
  EXPECT_NEAR(measure<Precision>(p, y, 3), 11.0 / 18, 1e-12);
  EXPECT_NEAR(measure<Recall>(p, y, 3), 11.0 / 18, 1e-12);
  EXPECT_NEAR(measure<F1>(p, y, 3), 11.0 / 18, 1e-12);
  EXPECT_NEAR(measure<Precision>(p, y, 3, Average::micro), 5.0 / 8, 1e-12);
  EXPECT_NEAR(measure<F1>(p, y, 3, Average::micro), 5.0 / 8, 1e-12);
  // Binary: 2 true positives, 1 false positive, 2 false negatives.
  const Tensor actual = classes({1, 1, 1, 1, 0, 0}), taken = classes({1, 1, 0, 0, 1, 0});
  EXPECT_NEAR(measure<Precision>(taken, actual, 2, Average::binary), 2.0 / 3, 1e-12);
  EXPECT_NEAR(measure<Recall>(taken, actual, 2, Average::binary), 0.5, 1e-12);
  EXPECT_NEAR(measure<F1>(taken, actual, 2, Average::binary), 4.0 / 7, 1e-12);
  // A class that occurs nowhere does not count; one never predicted has precision 0.
  EXPECT_NEAR(measure<Precision>(classes({0, 0}), classes({0, 1}), 5), (0.5 + 0) / 2, 1e-12);
  EXPECT_TRUE(std::isnan(F1(3).value()));
  EXPECT_THROW(F1(3, Average::binary), ValueError);
}

TEST(Metrics, Auc) {
  // The example of scikit-learn's roc_auc_score.
  EXPECT_DOUBLE_EQ(measure<Auc>(tensor({0.1, 0.4, 0.35, 0.8}), classes({0, 0, 1, 1})), 0.75);
  EXPECT_DOUBLE_EQ(measure<Auc>(tensor({0.5, 0.5, 0.5, 0.5}), classes({0, 1, 0, 1})), 0.5);
  EXPECT_DOUBLE_EQ(measure<Auc>(tensor({0.2, 0.5, 0.5, 0.9}), classes({0, 0, 1, 1})), 0.875);
  EXPECT_TRUE(std::isnan(measure<Auc>(tensor({0.2, 0.5}), classes({1, 1}))));
  const Tensor scores = tensor({0.9, 0.1, 0.0, 0.2, 0.7, 0.1, 0.1, 0.2, 0.7, 0.6, 0.3, 0.1}, Shape{4, 3});
  // One class against the rest, pairs counted by hand with the targets 0 2 1 1.
  // class 0: 0.9 against 0.2, 0.1, 0.6: 3 of 3. class 1: 0.2, 0.3 against 0.1, 0.7: 2 of 4. class 2: 0.1
  // against 0.0, 0.7, 0.1: 1.5 of 3.
  EXPECT_DOUBLE_EQ(measure<Auc>(scores, classes({0, 2, 1, 1})), (1 + 0.5 + 0.5) / 3);
  EXPECT_THROW(measure<Auc>(tensor({0.2, 0.5}), classes({0, 2})), IndexError);
  EXPECT_THROW(measure<Auc>(tensor({std::nan(""), 0.5}), classes({0, 1})), ValueError);
}

TEST(Metrics, Perplexity) {
  // Equal scores over 4 classes: perplexity 4, whatever the target.
  EXPECT_NEAR(measure<Perplexity>(zeros({3, 4}), classes({0, 1, 3})), 4.0, 1e-5);
  Perplexity perplexity(-100);
  perplexity.update(zeros({2, 4}), classes({0, -100}));
  perplexity.update(tensor({std::log(3.0f), 0.f}, Shape{1, 2}), classes({0}));
  EXPECT_NEAR(perplexity.value(), std::sqrt(4.0 * 4.0 / 3.0), 1e-5);
}

TEST(Metrics, Regression) {
  // The examples of scikit-learn.
  const Tensor y = tensor({3.0, -0.5, 2.0, 7.0}), p = tensor({2.5, 0.0, 2.0, 8.0});
  EXPECT_DOUBLE_EQ(measure<MeanSquaredError>(p, y), 0.375);
  EXPECT_DOUBLE_EQ(measure<RootMeanSquaredError>(p, y), std::sqrt(0.375));
  EXPECT_DOUBLE_EQ(measure<MeanAbsoluteError>(p, y), 0.5);
  EXPECT_NEAR(measure<R2>(p, y), 0.9486081370449679, 1e-12);
  R2 r2;
  r2.update(tensor({2.5}), tensor({3.0}));
  EXPECT_TRUE(std::isnan(r2.value()));
  r2.update(tensor({0.0, 2.0, 8.0}), tensor({-0.5, 2.0, 7.0}));
  EXPECT_NEAR(r2.value(), 0.9486081370449679, 1e-12);
  EXPECT_TRUE(std::isnan(measure<R2>(p, tensor({1.0, 1.0, 1.0, 1.0}))));
  EXPECT_THROW(measure<MeanSquaredError>(p, tensor({1.0})), ShapeError);
}

TEST(Metrics, Means) {
  RunningMean mean;
  EXPECT_TRUE(std::isnan(mean.value()));
  mean.add(1, 3);
  mean.add(5);
  EXPECT_DOUBLE_EQ(mean.value(), 2);
  MovingMean moving(0.9);
  moving.add(4);
  EXPECT_DOUBLE_EQ(moving.value(), 4);  // no pull towards zero at the start
  moving.add(0);
  EXPECT_NEAR(moving.value(), 4 * 0.9 / 1.9, 1e-12);
  EXPECT_THROW(MovingMean(1.0), ValueError);
}

}  // namespace
}  // namespace hearth::metrics
