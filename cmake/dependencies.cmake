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

# Tokenizers: the patterns that cut text into words, and Unicode's normal forms.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PCRE2 QUIET IMPORTED_TARGET libpcre2-8)
  pkg_check_modules(UTF8PROC QUIET IMPORTED_TARGET libutf8proc)
endif()
set(HEARTH_HAVE_PCRE2 ${PCRE2_FOUND})
set(HEARTH_HAVE_UTF8PROC ${UTF8PROC_FOUND})
if(NOT PCRE2_FOUND)
  message(WARNING "PCRE2 not found: byte-level tokenizers (GPT-2, Llama 3, Qwen, ...) are off")
endif()
if(NOT UTF8PROC_FOUND)
  message(WARNING "utf8proc not found: tokenizers that normalise Unicode (Qwen, BERT, ...) are off")
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
