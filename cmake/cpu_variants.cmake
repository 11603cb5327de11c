# The vector kernels (src/cpu/isa) are compiled once per instruction set; the best one is chosen at run time.
# Each variant lives in its own namespace, named by HEARTH_ISA.
file(GLOB HEARTH_ISA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cpu/isa/*.cpp)

# Fusing operations must not change their results, so a product is rounded before it is added to.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/cpu/isa/elementwise.cpp PROPERTIES COMPILE_OPTIONS
                                                                                        -ffp-contract=off)

function(hearth_add_isa name)
  hearth_add_isa_of("${HEARTH_ISA_SOURCES}" ${name} ${ARGN})
endfunction()

function(hearth_add_isa_of sources name)
  add_library(hearth_isa_${name} OBJECT ${sources})
  target_include_directories(hearth_isa_${name} PRIVATE include src)
  # -fwrapv: integer tensors wrap around. No errno and no trapping, so that loops over maths vectorise. -Wno-psabi:
  # vectors wider than the variant's registers are passed only between inlined functions.
  target_compile_options(hearth_isa_${name} PRIVATE ${ARGN} $<IF:$<CONFIG:Sanitize>,-O1,-O3> -fwrapv -fno-math-errno
                                                    -fno-trapping-math
                                                    -fno-semantic-interposition -Wno-psabi)
  target_compile_definitions(hearth_isa_${name} PRIVATE HEARTH_ISA=${name})
  target_sources(hearth PRIVATE $<TARGET_OBJECTS:hearth_isa_${name}>)
endfunction()

hearth_add_isa(baseline)
# Kernels made of dot products of bytes have variants of their own.
set(HEARTH_BYTES_ISA_SOURCES ${PROJECT_SOURCE_DIR}/src/cpu/isa/quantised.cpp
                             ${PROJECT_SOURCE_DIR}/src/cpu/isa/repacked.cpp
                             ${PROJECT_SOURCE_DIR}/src/cpu/isa/tile_product.cpp)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  # Its loops run at the speed at which instructions find their way to the vector units, so that their order counts: on
  # Neoverse-V1, q4_k takes 7.5 cycles where it takes 9.2 in the order that GCC chooses for no core in particular.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/cpu/isa/repacked.cpp PROPERTIES COMPILE_OPTIONS
                                                                                       -mtune=neoverse-n1)
  hearth_add_isa_of("${HEARTH_BYTES_ISA_SOURCES}" dotprod -march=armv8.2-a+dotprod)
  hearth_add_isa_of("${HEARTH_BYTES_ISA_SOURCES}" i8mm -march=armv8.2-a+dotprod+i8mm)
  # Attention over keys and values of f16.
  hearth_add_isa_of("${PROJECT_SOURCE_DIR}/src/cpu/isa/cached_attention.cpp" fhm -march=armv8.2-a+fp16fml)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  hearth_add_isa(avx2 -march=x86-64-v3)
  # GCC 12 takes the parts of results that its own AVX-512 headers leave undefined for mistakes.
  set(avx512 -march=x86-64-v4 -mprefer-vector-width=512 -Wno-uninitialized -Wno-maybe-uninitialized)
  hearth_add_isa(avx512 ${avx512})
  hearth_add_isa_of("${HEARTH_BYTES_ISA_SOURCES}" vnni ${avx512} -mavx512vnni)
  set(HEARTH_UNIT_ISA_SOURCES ${PROJECT_SOURCE_DIR}/src/cpu/isa/cached_attention.cpp
                              ${PROJECT_SOURCE_DIR}/src/cpu/isa/matrix_unit.cpp)
  hearth_add_isa_of("${HEARTH_UNIT_ISA_SOURCES}" amx ${avx512} -mavx512bf16 -mamx-tile -mamx-bf16)
endif()
