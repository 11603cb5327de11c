// What the copy engine of sm_90 knows of an operand; made by the driver. Included by both sides.
#pragma once

struct alignas(64) TensorMap {
  unsigned long long words[16];
};
