# The commands a user or a contributor types. Everything is built by CMake; see CMakePresets.json.
JOBS ?= $(shell nproc)
.DEFAULT_GOAL := build
# Some tests end their process on purpose, and leave what they had in the folder for temporary files: it goes away.
CTEST = folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && TMPDIR="$$folder" ctest --output-on-failure -j $(JOBS)
.PHONY: setup configure build run emu test test-python test-asan test-tsan bench lint format clean

setup:
	@scripts/setup.sh

configure: setup
	@cmake --preset release -DCMAKE_MESSAGE_LOG_LEVEL=WARNING

build: configure  ## the library and build/bin/hearth
	@cmake --build build -j $(JOBS) --target hearth_command

emu: configure  ## the emulated AMD GPU and build/bin/hipemu
	@cmake --build build -j $(JOBS) --target hipemu amdhip64 hiprtc

# Arto Inkala made it to be the hardest one for people.
PUZZLE ?= 8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4..
run: build  ## the main job, with the models that ship: a story, and a Sudoku solved step by step
	@echo "A story by models/storyteller.gguf, which was trained by Hearth:"
	@build/bin/hearth run models/storyteller.gguf "Once upon a time" --seed 6 --tokens 160
	@printf '\nA Sudoku, solved by models/sudoku.safetensors:\n'
	@build/bin/hearth hrm solve "$(PUZZLE)"

test: configure  ## all tests
	@cmake --build build -j $(JOBS)
	@$(CTEST) --test-dir build
	@scripts/test_python.sh build

test-python: configure  ## the wheel in a fresh virtual environment, with the tests of python/tests
	@cmake --build build -j $(JOBS) --target hearth amdhip64 hiprtc
	@scripts/test_python.sh build

test-asan: setup  ## all tests but the slow ones under AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset asan -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
	@cmake --build build-asan -j $(JOBS)
	@$(CTEST) --test-dir build-asan -LE slow

test-tsan: setup  ## the concurrent tests under ThreadSanitizer
	@cmake --preset tsan -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
	@cmake --build build-tsan -j $(JOBS) --target concurrency_tests
	@$(CTEST) --test-dir build-tsan -L concurrency

bench: configure  ## timings, as ratios to peers in the same run; writes build/bench.json and build/bench-emu.json
	@cmake --build build -j $(JOBS) --target hearth-bench hipemu-bench
	@build/bin/hearth-bench --json build/bench.json --markdown build/bench.md
	@build/bin/hipemu-bench --json build/bench-emu.json

lint:  ## formatting and static checks
	@scripts/lint.sh

format:
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i

clean:
	@rm -rf build build-asan build-tsan build-debug
