# The commands a user or a contributor types. Everything is built by CMake; see CMakePresets.json.
JOBS ?= $(shell nproc)
.DEFAULT_GOAL := build
.PHONY: setup build run test test-asan test-tsan bench lint format clean

setup:
	@scripts/setup.sh

build: setup  ## the library and build/bin/hearth
	@cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
	@cmake --build build -j $(JOBS)

run: build  ## the main job
	@build/bin/hearth demo

test: build  ## all tests
	@ctest --test-dir build --output-on-failure -j $(JOBS)

test-asan: setup  ## all tests but the slow ones under AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset asan -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
	@cmake --build build-asan -j $(JOBS)
	@ctest --test-dir build-asan --output-on-failure -j $(JOBS) -LE slow

test-tsan: setup  ## the concurrent tests under ThreadSanitizer
	@cmake --preset tsan -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
	@cmake --build build-tsan -j $(JOBS) --target concurrency_tests
	@ctest --test-dir build-tsan --output-on-failure -j $(JOBS) -L concurrency

bench: build  ## timings, as ratios to peers in the same run; writes build/bench.json
	@build/bin/hearth-bench --json build/bench.json --markdown build/bench.md

lint:  ## formatting and static checks
	@scripts/lint.sh

format:
	@git ls-files '*.h' '*.cpp' '*.inc' | xargs clang-format -i

clean:
	@rm -rf build build-asan build-tsan build-debug
