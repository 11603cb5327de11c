# Tests of file input and output.
set(HEARTH_SHARED_DIR ${PROJECT_SOURCE_DIR}/../shared CACHE PATH "models and data sets that some tests read; they skip without")

hearth_add_test(atomic_file_test)
hearth_add_test(safetensors_test)
hearth_add_test(npy_test)
hearth_add_test(data_files_test)
hearth_add_test(fuzz_corpus_test fuzz/entry_points.cpp)
foreach(name safetensors_test data_files_test)
  target_compile_definitions(${name} PRIVATE HEARTH_SHARED_DIR="${HEARTH_SHARED_DIR}")
endforeach()
foreach(name npy_test data_files_test fuzz_corpus_test)
  target_compile_definitions(${name} PRIVATE HEARTH_TEST_DIR="${PROJECT_SOURCE_DIR}/tests"
                             $<$<BOOL:${HEARTH_HAVE_ZLIB}>:HEARTH_HAVE_ZLIB>)
endforeach()

if(HEARTH_FUZZ)
  add_subdirectory(fuzz)
endif()
