# The text of the GPU kernels (src/gpu/kernels) becomes part of the library: it is compiled on the user's machine, for the
# GPU that is there.
file(GLOB HEARTH_KERNEL_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/gpu/kernels/*.h)
set(HEARTH_KERNEL_TEXTS ${PROJECT_BINARY_DIR}/kernel_texts.cpp)
add_custom_command(
  OUTPUT ${HEARTH_KERNEL_TEXTS}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${HEARTH_KERNEL_TEXTS} "-DHEADERS=${HEARTH_KERNEL_HEADERS}" -P
          ${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake
  DEPENDS ${HEARTH_KERNEL_HEADERS} ${PROJECT_SOURCE_DIR}/cmake/embed_kernels.cmake
  VERBATIM)
target_sources(hearth PRIVATE ${HEARTH_KERNEL_TEXTS})
