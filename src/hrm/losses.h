// What an answer is worth.
#pragma once

#include "hearth/hrm_train.h"

namespace hearth::hrm {

// -log(s(x_y) / sum s(x)) with s(x) = x + 1 for x >= 0 and 1 / (1 - x) below: cross entropy with tails that
// do not overflow. x (..., classes), target (...) class indices.
Tensor stablemax_cross_entropy(const Tensor& x, const Tensor& target);

// The mean over the tokens of each sequence that are not ignored_label, (batch). scores (batch, length,
// vocabulary), labels (batch, length).
Tensor token_losses(const Tensor& scores, const Tensor& labels, TokenLoss kind);

struct Verdict {
  Tensor share;  // of the right tokens of a sequence (batch), f32
  Tensor exact;  // all of them are (batch), bool
};
Verdict judge(const Tensor& scores, const Tensor& labels);

}  // namespace hearth::hrm
