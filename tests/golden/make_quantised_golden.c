// Writes tests/golden/quantised.safetensors: blocks made and read by the reference implementation.
//
//   gcc -O1 -I ggml/src -I ggml/include make_quantised_golden.c ggml/src/ggml-quants.c -lm && ./a.out FILE
// with the sources of github.com/ggml-org/llama.cpp, commit b21e4de74567f5eef213765c9476a843c2e43f0d.
//
//   x                 512 numbers
//   FORMAT.blocks     x, quantised          FORMAT.values     these, dequantised
//   FORMAT.any        blocks of any bytes   FORMAT.any_values these, dequantised
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GGML_COMMON_DECL_C
#include "ggml-common.h"
#include "ggml-quants.h"

enum { N = 512 };

// What ggml-quants.c wants of the rest of the library, and these functions do not use.
void ggml_abort(const char* file, int line, const char* format, ...) {
  (void)format;
  fprintf(stderr, "%s:%d\n", file, line);
  abort();
}
size_t ggml_row_size(enum ggml_type type, int64_t n) { return (void)type, (void)n, abort(), 0; }
size_t ggml_type_size(enum ggml_type type) { return (void)type, abort(), 0; }
const char* ggml_type_name(enum ggml_type type) { return (void)type, abort(), ""; }

static unsigned state = 12345;
static unsigned next(void) { return state = state * 1664525u + 1013904223u, state >> 8; }

static char header[1 << 14];
static unsigned char data[1 << 16];
static size_t used;
static void add(const char* format, const char* what, const char* dtype, const void* bytes, size_t size,
                size_t count) {
  char line[256];
  snprintf(line, sizeof line, "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}",
           header[0] ? "," : "{", format, what, dtype, count, used, used + size);
  strcat(header, line);
  memcpy(data + used, bytes, size);
  used += size;
}

typedef void (*Quantise)(const float*, void*, int64_t);
typedef void (*Dequantise)(const void*, float*, int64_t);

static void format(const char* name, const float* x, size_t elements, size_t bytes, Quantise quantise,
                   Dequantise dequantise, const int* scales) {  // places of f16 numbers, then -1
  static unsigned char blocks[N * 2];
  static float values[N];
  const size_t count = N / elements;
  quantise(x, blocks, N);
  dequantise(blocks, values, N);
  add(name, ".blocks", "U8", blocks, count * bytes, count * bytes);
  add(name, ".values", "F32", values, sizeof values, N);
  for (size_t i = 0; i < count * bytes; ++i) blocks[i] = (unsigned char)next();
  for (size_t b = 0; b < count; ++b)
    for (const int* at = scales; *at >= 0; ++at) blocks[b * bytes + *at + 1] &= 0xbf;  // exponents below 2
  dequantise(blocks, values, N);
  add(name, ".any", "U8", blocks, count * bytes, count * bytes);
  add(name, ".any_values", "F32", values, sizeof values, N);
}

#define FORMAT(name, type, elements, ...)                                                         \
  format(name, x, elements, sizeof(block_##type), (Quantise)quantize_row_##type##_ref,            \
         (Dequantise)dequantize_row_##type, (const int[]){__VA_ARGS__, -1})

int main(int argc, char** argv) {
  float x[N];
  for (int i = 0; i < N; ++i) {
    const float wave = sinf(0.37f * (float)i) + 0.4f * (float)(next() & 0xffff) / 65536.0f;
    x[i] = i / 32 == 3 ? 0.0f : wave * (i / 64 % 2 ? 0.05f : 3.0f) + (i / 128 == 2 ? 1.5f : 0.0f);
  }
  add("x", "", "F32", x, sizeof x, N);
  FORMAT("q4_0", q4_0, 32, 0);
  FORMAT("q4_1", q4_1, 32, 0, 2);
  FORMAT("q5_0", q5_0, 32, 0);
  FORMAT("q5_1", q5_1, 32, 0, 2);
  FORMAT("q8_0", q8_0, 32, 0);
  FORMAT("q2_k", q2_K, 256, 80, 82);
  FORMAT("q3_k", q3_K, 256, 108);
  FORMAT("q4_k", q4_K, 256, 0, 2);
  FORMAT("q5_k", q5_K, 256, 0, 2);
  FORMAT("q6_k", q6_K, 256, 208);
  strcat(header, "}");
  while (strlen(header) % 8) strcat(header, " ");
  const unsigned long long length = strlen(header);
  FILE* file = fopen(argc > 1 ? argv[1] : "quantised.safetensors", "wb");
  fwrite(&length, 8, 1, file);
  fwrite(header, 1, length, file);
  fwrite(data, 1, used, file);
  return fclose(file);
}
