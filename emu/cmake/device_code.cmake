# hipemu_device_code(<target> <source> <prefix> [OPTIONS ...] CHIPS ...): a target that compiles `source` to
# <build folder>/<prefix>.<chip>.co for each chip. HIPEMU_CLANG must be set.
function(hipemu_device_code target source prefix)
  cmake_parse_arguments(ARG "" "" "OPTIONS;CHIPS" ${ARGN})
  set(objects)
  foreach(chip ${ARG_CHIPS})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${prefix}.${chip}.co)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${HIPEMU_CLANG} -x hip --cuda-device-only --no-gpu-bundle-output --offload-arch=${chip} -nogpulib
              -nogpuinc ${ARG_OPTIONS} ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${source}
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_custom_target(${target} DEPENDS ${objects})
endfunction()
