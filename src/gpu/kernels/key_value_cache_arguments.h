// What the host tells the kernels of a cache of keys and values. Included by both sides.
#pragma once

constexpr int most_attention_splits = 64;

struct CachedAttentionShape {
  int queries, heads, groups, features;
  int splits;      // blocks that share the keys of a query
  int least_keys;  // of a split, where it does not have all of them
  int page, pages, sequences;
  int window;  // keys that a query sees at most; 0: any number
  float scale, soft_cap;
  long long slots;
  long long q_query, q_head, q_feature;  // strides
  long long sequence_stride, position_stride;
};
