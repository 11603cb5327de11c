// Without one of two libraries only SentencePiece models can be read: tests of what needs others are skipped.
#pragma once

#include <gtest/gtest.h>

namespace hearth::test {

#if defined(HEARTH_HAVE_PCRE2) && defined(HEARTH_HAVE_UTF8PROC)
inline constexpr bool has_tokenizers = true;
#else
inline constexpr bool has_tokenizers = false;
#endif

}  // namespace hearth::test

#define SKIP_WITHOUT_TOKENIZERS() \
  if (!hearth::test::has_tokenizers) GTEST_SKIP() << "this build has no PCRE2 or no utf8proc"
