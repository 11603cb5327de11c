// What the host hands to the kernels of expert_matmul. Included by both sides.
#pragma once

struct ExpertShape {
  unsigned long long experts, columns, depth, rows, chosen;
  long long x_row, x_choice, x_step;  // x_choice: 0 where the choices of a row share it
  long long chosen_row, chosen_step;
};

constexpr int most_grouped_experts = 1024;

// Results of one expert that are computed together: `count` of those in their order by experts, from `first`
// on. count 0: nothing to do.
struct ExpertTile {
  unsigned expert, first, count;
};
