// Sizes and strides of expert_matmul, as the host hands them to the kernel.
#pragma once

struct ExpertShape {
  unsigned long long experts, columns, depth, rows, chosen;
  long long x_row, x_choice, x_step;  // x_choice: 0 where the choices of a row share it
  long long chosen_row, chosen_step;
};
