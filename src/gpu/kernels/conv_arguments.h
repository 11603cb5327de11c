// What the host tells the kernels of conv.h. Included by both sides.
#pragma once

// Division of numbers below 2^31 by a constant: (high half of n * multiplier, plus n) >> shift.
struct ConvDivisor {
  unsigned divisor, multiplier, shift;
};

// The three spatial axes of pixels (positions of the tensor whose elements are results or summed over) and of
// taps, and the tensor that is read at a combination of both.
struct ConvPatches {
  long long image, channel, spatial[3];  // strides of the tensor that is read
  int size[3];                           // of its spatial axes
  // A pixel p and a tap t meet at p * pixel_step + t * tap_step + shift, divided by `quotient`.
  int pixel_step[3], tap_step[3], shift[3], quotient[3];
  ConvDivisor pixels, pixel_plane, pixel_row;  // of an image, of its last two axes, of its last
  ConvDivisor taps, tap_plane, tap_row;
  long long group;  // elements from one group's first channel to the next one's
};

// An operand whose element is at group * `group` + row / inner_rows ... : two axes that are each a pair.
struct ConvPair {
  long long group;
  long long row;              // stride of rows
  long long outer, inner[3];  // strides of k = (outer, three inner axes)
  ConvDivisor inner_size, plane, line;
};

// Results as (image, group, row, pixel).
struct ConvPlanes {
  long long channels, rows;  // of all groups, of one
  ConvDivisor pixels;
};
