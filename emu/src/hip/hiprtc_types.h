// hiprtc's binary interface.
#pragma once

#include <cstddef>

extern "C" {

enum hiprtcResult : int {
  HIPRTC_SUCCESS = 0,
  HIPRTC_ERROR_OUT_OF_MEMORY = 1,
  HIPRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
  HIPRTC_ERROR_INVALID_INPUT = 3,
  HIPRTC_ERROR_INVALID_PROGRAM = 4,
  HIPRTC_ERROR_INVALID_OPTION = 5,
  HIPRTC_ERROR_COMPILATION = 6,
  HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7,
  HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION = 8,
  HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION = 9,
  HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10,
  HIPRTC_ERROR_INTERNAL_ERROR = 11,
  HIPRTC_ERROR_LINKING = 100,
};

typedef struct _hiprtcProgram* hiprtcProgram;
typedef struct ihiprtcLinkState* hiprtcLinkState;

// LLVM bitcode is the only input that can be linked.
constexpr int HIPRTC_JIT_INPUT_LLVM_BITCODE = 100;

// The functions of hiprtc, which libamdhip64 has and libhiprtc passes on.
struct HiprtcFunctions {
  const char* (*get_error_string)(hiprtcResult);
  hiprtcResult (*version)(int*, int*);
  hiprtcResult (*create_program)(hiprtcProgram*, const char*, const char*, int, const char**, const char**);
  hiprtcResult (*destroy_program)(hiprtcProgram*);
  hiprtcResult (*add_name_expression)(hiprtcProgram, const char*);
  hiprtcResult (*get_lowered_name)(hiprtcProgram, const char*, const char**);
  hiprtcResult (*compile_program)(hiprtcProgram, int, const char**);
  hiprtcResult (*get_program_log_size)(hiprtcProgram, size_t*);
  hiprtcResult (*get_program_log)(hiprtcProgram, char*);
  hiprtcResult (*get_code_size)(hiprtcProgram, size_t*);
  hiprtcResult (*get_code)(hiprtcProgram, char*);
  hiprtcResult (*get_bitcode_size)(hiprtcProgram, size_t*);
  hiprtcResult (*get_bitcode)(hiprtcProgram, char*);
  hiprtcResult (*link_create)(unsigned, int*, void**, hiprtcLinkState*);
  hiprtcResult (*link_add_file)(hiprtcLinkState, int, const char*, unsigned, int*, void**);
  hiprtcResult (*link_add_data)(hiprtcLinkState, int, void*, size_t, const char*, unsigned, int*, void**);
  hiprtcResult (*link_complete)(hiprtcLinkState, void**, size_t*);
  hiprtcResult (*link_destroy)(hiprtcLinkState);
};

const HiprtcFunctions* hipemuHiprtcFunctions();

}  // extern "C"
