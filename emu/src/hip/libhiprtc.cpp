// libhiprtc: from ROCm 7 on hiprtc is a library of its own. This one passes every call on to libamdhip64, so
// that programs and what they compiled are known to both.
#include "hip/hiprtc_types.h"

#define HIPRTC_API extern "C" __attribute__((visibility("default")))

HIPRTC_API const char* hiprtcGetErrorString(hiprtcResult result) {
  return hipemuHiprtcFunctions()->get_error_string(result);
}
HIPRTC_API hiprtcResult hiprtcVersion(int* major, int* minor) {
  return hipemuHiprtcFunctions()->version(major, minor);
}
HIPRTC_API hiprtcResult hiprtcCreateProgram(hiprtcProgram* program, const char* source, const char* name,
                                            int count, const char** headers, const char** names) {
  return hipemuHiprtcFunctions()->create_program(program, source, name, count, headers, names);
}
HIPRTC_API hiprtcResult hiprtcDestroyProgram(hiprtcProgram* program) {
  return hipemuHiprtcFunctions()->destroy_program(program);
}
HIPRTC_API hiprtcResult hiprtcAddNameExpression(hiprtcProgram program, const char* expression) {
  return hipemuHiprtcFunctions()->add_name_expression(program, expression);
}
HIPRTC_API hiprtcResult hiprtcGetLoweredName(hiprtcProgram program, const char* expression,
                                             const char** name) {
  return hipemuHiprtcFunctions()->get_lowered_name(program, expression, name);
}
HIPRTC_API hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int count, const char** options) {
  return hipemuHiprtcFunctions()->compile_program(program, count, options);
}
HIPRTC_API hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t* size) {
  return hipemuHiprtcFunctions()->get_program_log_size(program, size);
}
HIPRTC_API hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char* log) {
  return hipemuHiprtcFunctions()->get_program_log(program, log);
}
HIPRTC_API hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t* size) {
  return hipemuHiprtcFunctions()->get_code_size(program, size);
}
HIPRTC_API hiprtcResult hiprtcGetCode(hiprtcProgram program, char* code) {
  return hipemuHiprtcFunctions()->get_code(program, code);
}
HIPRTC_API hiprtcResult hiprtcGetBitcodeSize(hiprtcProgram program, size_t* size) {
  return hipemuHiprtcFunctions()->get_bitcode_size(program, size);
}
HIPRTC_API hiprtcResult hiprtcGetBitcode(hiprtcProgram program, char* bitcode) {
  return hipemuHiprtcFunctions()->get_bitcode(program, bitcode);
}
HIPRTC_API hiprtcResult hiprtcLinkCreate(unsigned count, int* options, void** values,
                                         hiprtcLinkState* state) {
  return hipemuHiprtcFunctions()->link_create(count, options, values, state);
}
HIPRTC_API hiprtcResult hiprtcLinkAddFile(hiprtcLinkState state, int type, const char* path, unsigned count,
                                          int* options, void** values) {
  return hipemuHiprtcFunctions()->link_add_file(state, type, path, count, options, values);
}
HIPRTC_API hiprtcResult hiprtcLinkAddData(hiprtcLinkState state, int type, void* image, size_t size,
                                          const char* name, unsigned count, int* options, void** values) {
  return hipemuHiprtcFunctions()->link_add_data(state, type, image, size, name, count, options, values);
}
HIPRTC_API hiprtcResult hiprtcLinkComplete(hiprtcLinkState state, void** image, size_t* size) {
  return hipemuHiprtcFunctions()->link_complete(state, image, size);
}
HIPRTC_API hiprtcResult hiprtcLinkDestroy(hiprtcLinkState state) {
  return hipemuHiprtcFunctions()->link_destroy(state);
}
