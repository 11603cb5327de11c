# Finds the libraries Hearth is built on. A missing optional one switches off only what needs it, and says so.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

# OpenBLAS: the cblas header lives in different folders on different distributions and architectures.
find_path(HEARTH_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-pthread openblas-openmp REQUIRED)
find_library(HEARTH_OPENBLAS openblas REQUIRED)
add_library(hearth_blas INTERFACE)
target_include_directories(hearth_blas SYSTEM INTERFACE ${HEARTH_CBLAS_INCLUDE})
target_link_libraries(hearth_blas INTERFACE ${HEARTH_OPENBLAS})

find_package(ZLIB QUIET)
set(HEARTH_HAVE_ZLIB ${ZLIB_FOUND})
if(NOT ZLIB_FOUND)
  message(WARNING "zlib not found: compressed data files (.gz, .npz) cannot be read")
endif()

find_package(CLI11 QUIET)
set(HEARTH_HAVE_CLI11 ${CLI11_FOUND})
if(NOT CLI11_FOUND)
  message(WARNING "CLI11 not found: the hearth command is not built")
endif()

find_package(GTest QUIET)
set(HEARTH_HAVE_GTEST ${GTest_FOUND})
if(NOT GTest_FOUND)
  message(WARNING "GoogleTest not found: the tests are not built")
endif()
