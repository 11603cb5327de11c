# Code objects for the tests of src/code_object, compiled from kernels.hip while building. Included once all test
# programs are defined; without clang 19 the tests that need these files are skipped.
set(inputs ${PROJECT_SOURCE_DIR}/tests/code_object)
set(input_folder ${PROJECT_BINARY_DIR}/code_object_inputs)
find_program(HIPEMU_CLANG NAMES clang++-19 DOC "compiles the kernels of the tests")

set(tests)
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/code_object_*_test.cpp)
foreach(source ${sources})
  get_filename_component(name ${source} NAME_WE)
  if(TARGET emu_${name})
    list(APPEND tests emu_${name})
    target_include_directories(emu_${name} PRIVATE ${inputs})
    target_compile_definitions(emu_${name} PRIVATE HIPEMU_INPUTS="${input_folder}"
                               HIPEMU_SEEDS="${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/code_object")
  endif()
endforeach()

if(TARGET emu_code_object_tool_test AND TARGET hipemu)
  target_compile_definitions(emu_code_object_tool_test PRIVATE HIPEMU_TOOL="$<TARGET_FILE:hipemu>")
  add_dependencies(emu_code_object_tool_test hipemu)
endif()

if(NOT HIPEMU_CLANG)
  message(STATUS "hipemu: no clang++-19, tests that need compiled kernels are skipped")
  return()
endif()

# name; target; further options
set(variants
    "v4,gfx1100,-mcode-object-version=4"
    "v5,gfx1100,-mcode-object-version=5"
    "v6,gfx1100,-mcode-object-version=6"
    "debug,gfx1100,-g"
    "generic,gfx11-generic,-mcode-object-version=6"
    "gfx90a,gfx90a,"
    "gfx90a_xnack_off,gfx90a:xnack-,"
    "gfx90a_xnack_on,gfx90a:sramecc+:xnack+,"
    "gfx942,gfx942,"
    "gfx1030,gfx1030,"
    "gfx1201,gfx1201,")
set(outputs)
foreach(variant ${variants})
  string(REPLACE "," ";" parts "${variant}")
  list(GET parts 0 name)
  list(GET parts 1 target)
  list(GET parts 2 options)
  set(output ${input_folder}/${name}.co)
  # v6 is "in development" in clang 19, which it says each time.
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${input_folder}
    COMMAND ${HIPEMU_CLANG} -x hip --cuda-device-only --no-gpu-bundle-output --offload-arch=${target} -nogpulib
            -nogpuinc -O3 -w ${options} ${inputs}/kernels.hip -o ${output}
    DEPENDS ${inputs}/kernels.hip
    VERBATIM)
  list(APPEND outputs ${output})
endforeach()

# A bundle made by LLVM's own tool, and one compressed by it. The tool may be older than clang: the format of plain
# bundles is. Compression came with version 17.
find_program(HIPEMU_BUNDLER NAMES clang-offload-bundler-19 clang-offload-bundler clang-offload-bundler-15)
if(HIPEMU_BUNDLER)
  execute_process(COMMAND ${HIPEMU_BUNDLER} --help OUTPUT_VARIABLE bundler_help ERROR_QUIET)
  set(kinds "bundle.hipfb,")
  if(bundler_help MATCHES "-compress")
    list(APPEND kinds "compressed.hipfb,-compress")
  endif()
  foreach(kind ${kinds})
    string(REPLACE "," ";" parts "${kind}")
    list(GET parts 0 name)
    list(GET parts 1 options)
    set(output ${input_folder}/${name})
    add_custom_command(
      OUTPUT ${output}
      COMMAND ${HIPEMU_BUNDLER} -type=o -bundle-align=4096 ${options}
              -targets=host-x86_64-unknown-linux,hipv4-amdgcn-amd-amdhsa--gfx1100,hipv4-amdgcn-amd-amdhsa--gfx90a
              -input=/dev/null -input=${input_folder}/v5.co -input=${input_folder}/gfx90a.co -output=${output}
      DEPENDS ${input_folder}/v5.co ${input_folder}/gfx90a.co
      VERBATIM)
    list(APPEND outputs ${output})
  endforeach()
endif()

add_custom_target(hipemu_code_object_inputs DEPENDS ${outputs})
foreach(test ${tests})
  add_dependencies(${test} hipemu_code_object_inputs)
endforeach()
