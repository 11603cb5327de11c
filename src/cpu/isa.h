// Choosing among the variants of the vector kernels.
//
// Files in cpu/isa/ are compiled once per instruction set, with HEARTH_ISA naming the variant's namespace.
// Each subject has a table of function pointers, declared with HEARTH_DECLARE_ISA_TABLE and defined in every
// variant:
//
//   struct CopyKernels { void (*copy)(...); };              // cpu/copy_kernels.h
//   HEARTH_DECLARE_ISA_TABLE(CopyKernels, copy_kernels)     //   declares copy_kernels() as well
//   namespace hearth::cpu::HEARTH_ISA { const CopyKernels copy_kernels_table = {...}; }   // cpu/isa/copy.cpp
//
// Code in cpu/isa/ must not instantiate library templates that are not inlined: the linker would keep one
// copy, perhaps the one with instructions this machine lacks.
#pragma once

namespace hearth::cpu {

enum class Isa { baseline, avx2, avx512 };

// The best variant this machine can run.
Isa best_isa();
const char* isa_name();

// Dot products of bytes came to instruction sets on their own, so kernels made of them have more variants:
// their tables are declared with HEARTH_DECLARE_BYTES_ISA_TABLE.
enum class BytesIsa { baseline, dotprod, i8mm, avx2, avx512, vnni };
BytesIsa best_bytes_isa();

// So did products of f16 that are added in f32 (Arm's FHM): HEARTH_DECLARE_HALVES_ISA_TABLE.
bool multiplies_halves();

// Units that multiply matrices of bf16 (x86's AMX): HEARTH_DECLARE_UNIT_ISA_TABLE, and of the variants above
// a further one. The first call asks the system for leave to use one.
bool has_matrix_unit();

}  // namespace hearth::cpu

#define HEARTH_ISA_TABLE(isa, Type, name) \
  namespace isa {                         \
  extern const Type name##_table;         \
  }

#if defined(__x86_64__)
#define HEARTH_DECLARE_ISA_TABLE(Type, name)                                        \
  namespace hearth::cpu {                                                           \
  HEARTH_ISA_TABLE(baseline, Type, name)                                            \
  HEARTH_ISA_TABLE(avx2, Type, name)                                                \
  HEARTH_ISA_TABLE(avx512, Type, name)                                              \
  inline const Type& name() {                                                       \
    static const Type& chosen = best_isa() == Isa::avx512 ? avx512::name##_table    \
                                : best_isa() == Isa::avx2 ? avx2::name##_table      \
                                                          : baseline::name##_table; \
    return chosen;                                                                  \
  }                                                                                 \
  }
#define HEARTH_DECLARE_BYTES_ISA_TABLE(Type, name)                                             \
  namespace hearth::cpu {                                                                      \
  HEARTH_ISA_TABLE(baseline, Type, name)                                                       \
  HEARTH_ISA_TABLE(avx2, Type, name)                                                           \
  HEARTH_ISA_TABLE(avx512, Type, name)                                                         \
  HEARTH_ISA_TABLE(vnni, Type, name)                                                           \
  inline const Type& name() {                                                                  \
    static const Type& chosen = best_bytes_isa() == BytesIsa::vnni     ? vnni::name##_table    \
                                : best_bytes_isa() == BytesIsa::avx512 ? avx512::name##_table  \
                                : best_bytes_isa() == BytesIsa::avx2   ? avx2::name##_table    \
                                                                       : baseline::name##_table; \
    return chosen;                                                                             \
  }                                                                                            \
  }
#define HEARTH_DECLARE_UNIT_ISA_TABLE(Type, name)                                               \
  namespace hearth::cpu {                                                                       \
  HEARTH_ISA_TABLE(baseline, Type, name)                                                        \
  HEARTH_ISA_TABLE(amx, Type, name)                                                             \
  inline const Type& name() {                                                                   \
    static const Type& chosen = has_matrix_unit() ? amx::name##_table : baseline::name##_table; \
    return chosen;                                                                              \
  }                                                                                             \
  }
#define HEARTH_DECLARE_HALVES_ISA_TABLE(Type, name)                                 \
  namespace hearth::cpu {                                                           \
  HEARTH_ISA_TABLE(baseline, Type, name)                                            \
  HEARTH_ISA_TABLE(avx2, Type, name)                                                \
  HEARTH_ISA_TABLE(avx512, Type, name)                                              \
  HEARTH_ISA_TABLE(amx, Type, name)                                                 \
  inline const Type& name() {                                                       \
    static const Type& chosen = has_matrix_unit()           ? amx::name##_table     \
                                : best_isa() == Isa::avx512 ? avx512::name##_table  \
                                : best_isa() == Isa::avx2   ? avx2::name##_table    \
                                                            : baseline::name##_table; \
    return chosen;                                                                  \
  }                                                                                 \
  }
#else
#define HEARTH_DECLARE_ISA_TABLE(Type, name)                   \
  namespace hearth::cpu {                                      \
  HEARTH_ISA_TABLE(baseline, Type, name)                       \
  inline const Type& name() { return baseline::name##_table; } \
  }
#if defined(__aarch64__)
#define HEARTH_DECLARE_BYTES_ISA_TABLE(Type, name)                                                \
  namespace hearth::cpu {                                                                         \
  HEARTH_ISA_TABLE(baseline, Type, name)                                                          \
  HEARTH_ISA_TABLE(dotprod, Type, name)                                                           \
  HEARTH_ISA_TABLE(i8mm, Type, name)                                                              \
  inline const Type& name() {                                                                     \
    static const Type& chosen = best_bytes_isa() == BytesIsa::i8mm      ? i8mm::name##_table      \
                                : best_bytes_isa() == BytesIsa::dotprod ? dotprod::name##_table   \
                                                                        : baseline::name##_table; \
    return chosen;                                                                                \
  }                                                                                               \
  }
#define HEARTH_DECLARE_HALVES_ISA_TABLE(Type, name)                                               \
  namespace hearth::cpu {                                                                         \
  HEARTH_ISA_TABLE(baseline, Type, name)                                                          \
  HEARTH_ISA_TABLE(fhm, Type, name)                                                               \
  inline const Type& name() {                                                                     \
    static const Type& chosen = multiplies_halves() ? fhm::name##_table : baseline::name##_table; \
    return chosen;                                                                                \
  }                                                                                               \
  }
#else
#define HEARTH_DECLARE_BYTES_ISA_TABLE(Type, name) HEARTH_DECLARE_ISA_TABLE(Type, name)
#endif
#endif
#ifndef HEARTH_DECLARE_HALVES_ISA_TABLE
#define HEARTH_DECLARE_HALVES_ISA_TABLE(Type, name) HEARTH_DECLARE_ISA_TABLE(Type, name)
#endif
#ifndef HEARTH_DECLARE_UNIT_ISA_TABLE
#define HEARTH_DECLARE_UNIT_ISA_TABLE(Type, name) HEARTH_DECLARE_ISA_TABLE(Type, name)
#endif
