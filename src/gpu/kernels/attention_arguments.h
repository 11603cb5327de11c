// What the host tells the kernels of attention. Included by both sides.
#pragma once

// Strides of q (B, H, T, D), of k, v (B, G, S, D), of dy as q; in elements.
struct AttentionPlace {
  long long batch, head, row, feature;
};

struct AttentionShape {
  int batch, heads, groups, queries, keys, features;
  int stacked;  // heads of a group whose queries are the rows of one tile, one head after another
  int bounded;  // queries see no later keys; the last query is at the last key
  int window;   // how many keys a query sees at most; 0: any number
  int splits;   // parts of the keys, each for blocks of its own
  int split_keys;
  float scale;  // of the scores
  AttentionPlace q, k, v, dy;
  long long delta_batch, delta_head, delta_row;
};

// Tiles of a kernel. Rows of a block's own stay in shared memory or in registers, other rows pass by.
struct AttentionTiles {
  int features;     // those there are, rounded up
  int own, others;  // rows
  int padding;      // elements between rows, so that they begin in different banks
  bool holds;       // own rows are in registers: their shared memory is used again
  int exchange;     // elements for passing weights from lane to lane
};

// Elements of shared memory for `own` operands of the block's own, and `rows` and `columns` operands that
// pass by as they are and transposed.
constexpr int attention_shared_elements(const AttentionTiles& t, int own, int rows, int columns) {
  const int mine = own * t.own * (t.features + t.padding);
  const int passing =
      rows * t.others * (t.features + t.padding) + columns * t.features * (t.others + t.padding);
  return (!t.holds ? mine + passing : mine > passing ? mine : passing) + t.exchange;
}
