// hiprtc: compiling at run time.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "code_object/code_object.h"
#include "hip/api.h"
#include "hip/compiler.h"
#include "hip/handle_table.h"
#include "hip/hiprtc_prelude.h"
#include "hip/hiprtc_types.h"
#include "hip/precompiled_headers.h"
#include "hip/runtime.h"

#define HIPRTC_API extern "C" __attribute__((visibility("default")))

namespace hipemu::hip {
namespace {

struct Program {
  std::mutex mutex;  // one compilation at a time
  std::string source;
  std::string name;
  std::vector<std::pair<std::string, std::string>> headers;  // name, text
  std::vector<std::string> expressions;
  std::map<std::string, std::string, std::less<>> lowered;
  std::string log;
  std::string code;
  std::string bitcode;
  bool compiled = false;
};

struct LinkState {
  std::vector<std::string> inputs;  // bitcode
  std::string output;
};

HandleTable<hiprtcProgram, Program>& program_table() {
  static auto& table = *new HandleTable<hiprtcProgram, Program>;
  return table;
}
HandleTable<hiprtcLinkState, LinkState>& link_table() {
  static auto& table = *new HandleTable<hiprtcLinkState, LinkState>;
  return table;
}

struct RtcFailure {
  hiprtcResult code;
};

void rtc_require(bool condition, hiprtcResult otherwise) {
  if (!condition) throw RtcFailure{otherwise};
}

template <class Body>
hiprtcResult rtc(Body&& body) noexcept {
  try {
    body();
    return HIPRTC_SUCCESS;
  } catch (const RtcFailure& failure) {
    return failure.code;
  } catch (const std::bad_alloc&) {
    return HIPRTC_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return HIPRTC_ERROR_INTERNAL_ERROR;
  }
}

std::shared_ptr<Program> find_program(hiprtcProgram handle) {
  auto program = program_table().find(handle);
  rtc_require(program != nullptr, HIPRTC_ERROR_INVALID_PROGRAM);
  return program;
}

std::shared_ptr<LinkState> find_link(hiprtcLinkState handle) {
  auto state = link_table().find(handle);
  rtc_require(state != nullptr, HIPRTC_ERROR_INVALID_INPUT);
  return state;
}

struct Options {
  std::string target;  // "gfx942:sramecc+"
  std::vector<std::string> passed;
  bool relocatable = false;  // bitcode is wanted
  bool standard_given = false;
  bool level_given = false;
};

// Options are clang's. Those for the target are known in all their spellings, and a few of nvrtc's are
// translated.
Options read_options(int count, const char** texts) {
  Options options;
  for (int i = 0; i < count; ++i) {
    rtc_require(texts[i] != nullptr, HIPRTC_ERROR_INVALID_OPTION);
    std::string_view text = texts[i];
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    if (text.empty()) continue;
    bool was_target = false;
    for (const std::string_view name : {"--offload-arch", "--gpu-architecture", "-offload-arch", "-arch"}) {
      if (text == name && i + 1 < count) {
        options.target = texts[++i];
        was_target = true;
      } else if (text.starts_with(name) && text.size() > name.size() && text[name.size()] == '=') {
        options.target = text.substr(name.size() + 1);
        was_target = true;
      }
      if (was_target) break;
    }
    if (was_target) continue;
    if (text == "-fgpu-rdc" || text == "-dc" || text == "--device-c") {
      options.relocatable = true;
      continue;
    }
    if (text == "--use_fast_math" || text == "-use_fast_math") text = "-ffast-math";
    if (text == "-lineinfo" || text == "--generate-line-info") text = "-gline-tables-only";
    if (text == "-default-device" || text == "--device-as-default-execution-space") continue;
    if (text.starts_with("-std=") || text.starts_with("--std=")) options.standard_given = true;
    if (text.size() >= 2 && text.starts_with("-O")) options.level_given = true;
    options.passed.emplace_back(text);
  }
  return options;
}

// Each name becomes a variable that holds the address of what it names; the linked code object tells which
// symbol has that address.
constexpr std::string_view name_variable = "__hipemu_name_";

std::string with_name_variables(const Program& program) {
  std::string source = program.source;
  source += '\n';
  for (size_t i = 0; i < program.expressions.size(); ++i) {
    std::string_view expression = program.expressions[i];
    while (!expression.empty() && (expression.front() == '&' || expression.front() == ' '))
      expression.remove_prefix(1);
    source +=
        fmt::format("extern \"C\" __device__ __attribute__((used)) const void* {}{} = (const void*)&{};\n",
                    name_variable, i, expression);
  }
  return source;
}

void read_lowered_names(Program& program) {
  if (program.expressions.empty()) return;
  const CodeObject object = parse_code_object(std::as_bytes(std::span(program.code)));
  for (size_t i = 0; i < program.expressions.size(); ++i) {
    const std::string variable = fmt::format("{}{}", name_variable, i);
    uint64_t at = 0, target = 0;
    for (const GlobalVariable& each : object.variables)
      if (each.name == variable) at = each.address;
    for (const Relocation& each : object.relocations)
      if (each.address == at) target = each.value;
    if (at == 0 || target == 0) continue;
    for (const Kernel& kernel : object.kernels)
      if (kernel.entry == target) program.lowered[program.expressions[i]] = kernel.name;
    for (const GlobalVariable& each : object.variables)
      if (each.address == target) program.lowered[program.expressions[i]] = each.name;
  }
}

std::string file_name(const Program& program) {
  const std::string base = std::filesystem::path(program.name).filename().string();
  return base.empty() || base == "." || base == ".." ? "program.hip" : base;
}

// Our own declarations, under the names by which programs may include HIP's too.
const std::filesystem::path& builtin_include_folder() {
  static const std::filesystem::path path = [] {
    const TemporaryFolder& folder = process_folder();
    for (const char* name :
         {"hip/hip_runtime.h", "hip/hip_fp16.h", "hip/hip_runtime_api.h", "hip/hip_vector_types.h"})
      folder.write(std::string("builtin/") + name, "#pragma once\n#include <hipemu_prelude.h>\n");
    return folder.write("builtin/hipemu_prelude.h", hiprtc_prelude).parent_path();
  }();
  return path;
}

hiprtcResult compile(Program& program, const Options& wanted) {
  const std::lock_guard lock(program.mutex);
  program.log.clear();
  program.code.clear();
  program.bitcode.clear();
  program.lowered.clear();
  program.compiled = false;

  std::string target = wanted.target;
  if (target.empty()) target = current_device().chip->target;
  const std::string processor = target.substr(0, target.find(':'));

  const TemporaryFolder folder;
  const std::string source = file_name(program);
  std::string text = with_name_variables(program);

  std::vector<std::string> arguments = {"-x",
                                        "hip",
                                        "--cuda-device-only",
                                        "--no-gpu-bundle-output",
                                        "--offload-arch=" + target,
                                        "-D__HIPCC_RTC__",
                                        "-D__HIP_PLATFORM_AMD__=1"};
  const std::string include = hip_include_folder();
  std::vector<std::string> before;
  if (!include.empty()) {
    // clang looks in the path's include folder, after its own.
    arguments.push_back("--rocm-path=" + std::filesystem::path(include).parent_path().string());
    before = {"hip/hip_runtime.h", "hip/hip_fp16.h"};
    // hip_runtime.h of older releases leaves the shuffles out for hiprtc, whose own header had them.
    const char* shuffles = "hip/amd_detail/amd_warp_functions.h";
    if (std::filesystem::exists(std::filesystem::path(include) / shuffles)) before.emplace_back(shuffles);
  } else {
    arguments.insert(arguments.end(), {"-nogpuinc", "-isystem", builtin_include_folder().string()});
    before = {"hipemu_prelude.h"};
  }
  if (!wanted.level_given) arguments.emplace_back("-O3");
  if (!wanted.standard_given) arguments.emplace_back("-std=c++14");
  arguments.emplace_back("-Iheaders");
  for (const std::string& option : wanted.passed) arguments.push_back(option);
  for (const std::string& option : device_library_options(processor)) arguments.push_back(option);
  // A header that the program wants included comes before ours, or changes what they say.
  const bool plain =
      !wanted.relocatable && std::none_of(wanted.passed.begin(), wanted.passed.end(), [](auto& option) {
        return option.starts_with("-include") || option.starts_with("-Xclang");
      });
  const std::size_t length = length_of_includes(text);
  std::optional<Precompiled> parsed;
  if (plain)
    parsed =
        precompiled_headers({arguments, before, std::string_view(text).substr(0, length), program.headers});
  if (parsed)
    arguments.insert(arguments.end(), parsed->arguments.begin(), parsed->arguments.end());
  else
    for (const std::string& header : before) arguments.insert(arguments.end(), {"-include", header});
  if (parsed && !parsed->headers.empty()) {
    std::filesystem::create_directory_symlink(parsed->headers, folder.path() / "headers");
    text.replace(0, length, std::count(text.begin(), text.begin() + length, '\n'),
                 '\n');  // lines keep their numbers
  } else {
    for (const auto& [name, header] : program.headers) folder.write("headers/" + name, header);
  }
  folder.write(source, text);
  CompilerRun run;
  if (wanted.relocatable) {
    arguments.insert(arguments.end(), {"-fgpu-rdc", "-emit-llvm", "-c", source, "-o", "hipemu_output"});
    run = run_compiler(folder.path(), arguments);
  } else {
    // What clang does in three processes, in two: it compiles in its own when that is all it is asked for.
    arguments.insert(arguments.end(), {"-fsyntax-only", "-Xclang", "-emit-obj", "-Xclang", "-o", "-Xclang",
                                       "hipemu_object.o", source});
    run = run_compiler(folder.path(), arguments);
    if (run.success) {
      const CompilerRun linked = run_linker(folder.path(), "hipemu_object.o", "hipemu_output");
      run = {linked.success, run.log + linked.log};
    }
  }
  program.log = std::move(run.log);
  auto output = read_text(folder.path() / "hipemu_output");
  if (!run.success || !output || output->empty()) {
    if (program.log.empty()) program.log = "hipemu: the compiler failed without a message\n";
    return HIPRTC_ERROR_COMPILATION;
  }
  program.compiled = true;
  if (wanted.relocatable) {
    program.bitcode = std::move(*output);
    return HIPRTC_SUCCESS;
  }
  program.code = std::move(*output);
  read_lowered_names(program);
  for (const std::string& expression : program.expressions)
    if (!program.lowered.contains(expression)) return HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
  return HIPRTC_SUCCESS;
}

hiprtcResult link(LinkState& state) {
  if (state.inputs.empty()) return HIPRTC_ERROR_INVALID_INPUT;
  const Chip& chip = *current_device().chip;
  const TemporaryFolder folder;
  std::vector<std::string> arguments = {
      "--target=amdgcn-amd-amdhsa", "-mcpu=" + std::string(chip.target), "-nogpulib", "-O3", "-x", "ir"};
  for (size_t i = 0; i < state.inputs.size(); ++i) {
    const std::string name = fmt::format("input{}.bc", i);
    folder.write(name, state.inputs[i]);
    arguments.push_back(name);
  }
  arguments.insert(arguments.end(), {"-o", "hipemu_output"});
  const CompilerRun run = run_compiler(folder.path(), arguments);
  auto output = read_text(folder.path() / "hipemu_output");
  if (!run.success || !output || output->empty()) {
    fmt::print(stderr, "{}", run.log);
    return HIPRTC_ERROR_LINKING;
  }
  state.output = std::move(*output);
  return HIPRTC_SUCCESS;
}

void give(const std::string& bytes, char* to) {
  rtc_require(to != nullptr, HIPRTC_ERROR_INVALID_INPUT);
  std::memcpy(to, bytes.data(), bytes.size());
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;

HIPRTC_API const char* hiprtcGetErrorString(hiprtcResult result) {
  switch (result) {
    case HIPRTC_SUCCESS:
      return "HIPRTC_SUCCESS";
    case HIPRTC_ERROR_OUT_OF_MEMORY:
      return "HIPRTC_ERROR_OUT_OF_MEMORY";
    case HIPRTC_ERROR_PROGRAM_CREATION_FAILURE:
      return "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case HIPRTC_ERROR_INVALID_INPUT:
      return "HIPRTC_ERROR_INVALID_INPUT";
    case HIPRTC_ERROR_INVALID_PROGRAM:
      return "HIPRTC_ERROR_INVALID_PROGRAM";
    case HIPRTC_ERROR_INVALID_OPTION:
      return "HIPRTC_ERROR_INVALID_OPTION";
    case HIPRTC_ERROR_COMPILATION:
      return "HIPRTC_ERROR_COMPILATION";
    case HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE:
      return "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    case HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION:
      return "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION";
    case HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION:
      return "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION";
    case HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID:
      return "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    case HIPRTC_ERROR_INTERNAL_ERROR:
      return "HIPRTC_ERROR_INTERNAL_ERROR";
    case HIPRTC_ERROR_LINKING:
      return "HIPRTC_ERROR_LINKING";
  }
  return "Invalid HIPRTC error code";
}

HIPRTC_API hiprtcResult hiprtcVersion(int* major, int* minor) {
  return rtc([&] {
    rtc_require(major && minor, HIPRTC_ERROR_INVALID_INPUT);
    *major = 9;
    *minor = 0;
  });
}

HIPRTC_API hiprtcResult hiprtcCreateProgram(hiprtcProgram* handle, const char* source, const char* name,
                                            int count, const char** headers, const char** names) {
  return rtc([&] {
    rtc_require(handle != nullptr, HIPRTC_ERROR_INVALID_PROGRAM);
    rtc_require(source != nullptr && count >= 0 && (count == 0 || (headers && names)),
                HIPRTC_ERROR_INVALID_INPUT);
    auto program = std::make_shared<Program>();
    program->source = source;
    program->name = name ? name : "";
    for (int i = 0; i < count; ++i) {
      rtc_require(headers[i] && names[i], HIPRTC_ERROR_INVALID_INPUT);
      const std::filesystem::path path = std::filesystem::path(names[i]).lexically_normal();
      rtc_require(!path.empty() && path.is_relative() && *path.begin() != "..", HIPRTC_ERROR_INVALID_INPUT);
      program->headers.emplace_back(names[i], headers[i]);
    }
    *handle = program_table().insert(std::move(program));
  });
}

HIPRTC_API hiprtcResult hiprtcDestroyProgram(hiprtcProgram* handle) {
  return rtc([&] {
    rtc_require(handle && program_table().remove(*handle) != nullptr, HIPRTC_ERROR_INVALID_PROGRAM);
    *handle = nullptr;
  });
}

HIPRTC_API hiprtcResult hiprtcAddNameExpression(hiprtcProgram handle, const char* expression) {
  return rtc([&] {
    rtc_require(expression && *expression, HIPRTC_ERROR_INVALID_INPUT);
    auto program = find_program(handle);
    const std::lock_guard lock(program->mutex);
    rtc_require(!program->compiled, HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
    program->expressions.emplace_back(expression);
  });
}

HIPRTC_API hiprtcResult hiprtcGetLoweredName(hiprtcProgram handle, const char* expression,
                                             const char** name) {
  return rtc([&] {
    rtc_require(expression && name, HIPRTC_ERROR_INVALID_INPUT);
    *name = nullptr;
    auto program = find_program(handle);
    const std::lock_guard lock(program->mutex);
    rtc_require(program->compiled, HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
    const auto found = program->lowered.find(expression);
    rtc_require(found != program->lowered.end(), HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID);
    *name = found->second.c_str();
  });
}

HIPRTC_API hiprtcResult hiprtcCompileProgram(hiprtcProgram handle, int count, const char** options) {
  hiprtcResult result = HIPRTC_SUCCESS;
  const hiprtcResult outcome = rtc([&] {
    rtc_require(count >= 0 && (count == 0 || options), HIPRTC_ERROR_INVALID_INPUT);
    auto program = find_program(handle);
    result = compile(*program, read_options(count, options));
  });
  return outcome == HIPRTC_SUCCESS ? result : outcome;
}

HIPRTC_API hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram handle, size_t* size) {
  return rtc([&] {
    rtc_require(size != nullptr, HIPRTC_ERROR_INVALID_INPUT);
    *size = find_program(handle)->log.size() + 1;
  });
}
HIPRTC_API hiprtcResult hiprtcGetProgramLog(hiprtcProgram handle, char* log) {
  return rtc([&] {
    auto program = find_program(handle);
    give(program->log, log);
    log[program->log.size()] = 0;
  });
}

HIPRTC_API hiprtcResult hiprtcGetCodeSize(hiprtcProgram handle, size_t* size) {
  return rtc([&] {
    rtc_require(size != nullptr, HIPRTC_ERROR_INVALID_INPUT);
    auto program = find_program(handle);
    rtc_require(!program->code.empty(), HIPRTC_ERROR_INVALID_PROGRAM);
    *size = program->code.size();
  });
}
HIPRTC_API hiprtcResult hiprtcGetCode(hiprtcProgram handle, char* code) {
  return rtc([&] {
    auto program = find_program(handle);
    rtc_require(!program->code.empty(), HIPRTC_ERROR_INVALID_PROGRAM);
    give(program->code, code);
  });
}

HIPRTC_API hiprtcResult hiprtcGetBitcodeSize(hiprtcProgram handle, size_t* size) {
  return rtc([&] {
    rtc_require(size != nullptr, HIPRTC_ERROR_INVALID_INPUT);
    auto program = find_program(handle);
    rtc_require(!program->bitcode.empty(), HIPRTC_ERROR_INVALID_PROGRAM);
    *size = program->bitcode.size();
  });
}
HIPRTC_API hiprtcResult hiprtcGetBitcode(hiprtcProgram handle, char* bitcode) {
  return rtc([&] {
    auto program = find_program(handle);
    rtc_require(!program->bitcode.empty(), HIPRTC_ERROR_INVALID_PROGRAM);
    give(program->bitcode, bitcode);
  });
}

HIPRTC_API hiprtcResult hiprtcLinkCreate(unsigned, int*, void**, hiprtcLinkState* handle) {
  return rtc([&] {
    rtc_require(handle != nullptr, HIPRTC_ERROR_INVALID_INPUT);
    *handle = link_table().insert(std::make_shared<LinkState>());
  });
}
HIPRTC_API hiprtcResult hiprtcLinkAddData(hiprtcLinkState handle, int type, void* image, size_t size,
                                          const char*, unsigned, int*, void**) {
  return rtc([&] {
    rtc_require(image && size > 0, HIPRTC_ERROR_INVALID_INPUT);
    rtc_require(type == HIPRTC_JIT_INPUT_LLVM_BITCODE, HIPRTC_ERROR_INVALID_INPUT);
    find_link(handle)->inputs.emplace_back(static_cast<const char*>(image), size);
  });
}
HIPRTC_API hiprtcResult hiprtcLinkAddFile(hiprtcLinkState handle, int type, const char* path, unsigned, int*,
                                          void**) {
  return rtc([&] {
    rtc_require(path != nullptr, HIPRTC_ERROR_INVALID_INPUT);
    rtc_require(type == HIPRTC_JIT_INPUT_LLVM_BITCODE, HIPRTC_ERROR_INVALID_INPUT);
    auto text = read_text(path);
    rtc_require(text && !text->empty(), HIPRTC_ERROR_INVALID_INPUT);
    find_link(handle)->inputs.push_back(std::move(*text));
  });
}
HIPRTC_API hiprtcResult hiprtcLinkComplete(hiprtcLinkState handle, void** image, size_t* size) {
  hiprtcResult result = HIPRTC_SUCCESS;
  const hiprtcResult outcome = rtc([&] {
    rtc_require(image && size, HIPRTC_ERROR_INVALID_INPUT);
    auto state = find_link(handle);
    result = link(*state);
    if (result != HIPRTC_SUCCESS) return;
    *image = state->output.data();
    *size = state->output.size();
  });
  return outcome == HIPRTC_SUCCESS ? result : outcome;
}
HIPRTC_API hiprtcResult hiprtcLinkDestroy(hiprtcLinkState handle) {
  return rtc([&] { rtc_require(link_table().remove(handle) != nullptr, HIPRTC_ERROR_INVALID_INPUT); });
}

HIPRTC_API const HiprtcFunctions* hipemuHiprtcFunctions() {
  // Named one by one: within this library the names are bound to these functions, whatever a program
  // interposes.
  static const HiprtcFunctions functions = {
      hiprtcGetErrorString,    hiprtcVersion,        hiprtcCreateProgram,  hiprtcDestroyProgram,
      hiprtcAddNameExpression, hiprtcGetLoweredName, hiprtcCompileProgram, hiprtcGetProgramLogSize,
      hiprtcGetProgramLog,     hiprtcGetCodeSize,    hiprtcGetCode,        hiprtcGetBitcodeSize,
      hiprtcGetBitcode,        hiprtcLinkCreate,     hiprtcLinkAddFile,    hiprtcLinkAddData,
      hiprtcLinkComplete,      hiprtcLinkDestroy};
  return &functions;
}
