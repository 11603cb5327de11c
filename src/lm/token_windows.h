// Sequences of tokens to train on and to evaluate with, as data sets of {tokens, targets}, both i64 (length).
#pragma once

#include <memory>
#include <vector>

#include "hearth/data.h"
#include "lm/token_cache.h"

namespace hearth::lm {

// `count` windows at random places of the training tokens: a source is drawn by its size times its weight,
// then a place in it. All follows from the stream of a draw, so that a run goes on anywhere. Throws
// ValueError if a source has no more than `length` tokens.
data::DatasetPtr random_windows(const CorpusTokens& tokens, std::int64_t length, std::int64_t count);

// The validation tokens of all sources, or of one, one window after the other. What does not fill one is left
// out. Null if there is none.
data::DatasetPtr validation_windows(const CorpusTokens& tokens, std::int64_t length);
data::DatasetPtr validation_windows(const SourceTokens& source, std::int64_t length);

}  // namespace hearth::lm
