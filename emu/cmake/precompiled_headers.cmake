# precompile_headers(<target> [header ...]): parses what most files include once for the target, and these headers too.
# reuse_headers(<target> <other>): takes those of another target, which is compiled with the same options.
# compile_together(<target> <count>): so many of its files are compiled as one, all if it is 0; names without linkage have
# to be unlike among them.
#
# A third of compiling is parsing these. Nothing is done where a compiler cache is used: it would find nothing again,
# and files get to show there what they forgot to include.
set(COMMON_HEADERS <fmt/format.h> <algorithm> <array> <atomic> <bit> <cmath> <cstdint> <cstring> <filesystem> <functional>
                   <limits> <map> <memory> <mutex> <numeric> <optional> <span> <string> <string_view> <thread>
                   <unordered_map> <utility> <vector>)

function(precompile_headers target)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(${target} PRIVATE ${COMMON_HEADERS} ${ARGN})
    quiet_precompiled(${target})
  endif()
endfunction()

function(reuse_headers target other)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(${target} REUSE_FROM ${other})
    quiet_precompiled(${target})
  endif()
endfunction()

function(compile_together target count)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
  endif()
endfunction()

# GCC no longer knows which inlined functions come from the standard library, and gives the false alarms there that it
# usually keeps to itself.
function(quiet_precompiled target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-stringop-overflow -Wno-array-bounds -Wno-maybe-uninitialized)
  endif()
endfunction()
