// What the host tells the kernels of a cache of keys and values. Included by both sides.
#pragma once

constexpr int most_attention_splits = 64;
constexpr int least_split_keys = 128;  // where a split does not have all of them

struct CachedAttentionShape {
  int queries, heads, groups, features;
  int splits;  // blocks that share the keys of a query
  int page, pages, sequences;
  int window;  // keys that a query sees at most; 0: any number
  float scale, soft_cap;
  long long slots;
  long long q_query, q_head, q_feature;  // strides
  long long sequence_stride, position_stride;
};
