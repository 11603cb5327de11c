// Convolutions on the GPU against the CPU's.
#include <gtest/gtest.h>
