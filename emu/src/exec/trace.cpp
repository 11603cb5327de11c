// One line per instruction: where, text, and the new values of the registers it names.
#include "exec/trace.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "exec/dispatch.h"
#include "exec/interpreter.h"

namespace hipemu {
namespace {

std::FILE* open_trace() {
  const char* path = std::getenv("HIPEMU_TRACE");
  if (path == nullptr || *path == '\0') return nullptr;
  const std::string name = path;
  if (name == "stderr" || name == "1") return stderr;
  if (name == "stdout") return stdout;
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) fmt::print(stderr, "hipemu: cannot write the trace to {}\n", name);
  return file;
}

std::FILE* trace_file() {
  static std::FILE* file = open_trace();
  return file;
}

// Registers of an instruction are listed once, whichever operand they are.
void append_values(std::string& line, Wave& wave, const TextOperand& operand) {
  if (operand.kind == TextOperand::Kind::scalar) {
    // The highest register first, as one number.
    line += fmt::format(" {}=0x", operand.text);
    for (int i = operand.count - 1; i >= 0; --i)
      line += fmt::format("{:08x}", wave.get_scalar(operand.index + i));
  } else if (operand.kind == TextOperand::Kind::vector) {
    for (int i = 0; i < operand.count; ++i) {
      const uint32_t* row = wave.row(static_cast<uint32_t>(operand.index + i));
      line += fmt::format(" {}=[", operand.count == 1 ? operand.text : fmt::format("v{}", operand.index + i));
      // All lanes when they differ, one value when they do not.
      bool same = true;
      for (int lane = 1; lane < wave.lanes; ++lane) same = same && row[lane] == row[0];
      for (int lane = 0; lane < (same ? 1 : wave.lanes); ++lane)
        line += fmt::format("{}{:x}", lane > 0 ? " " : "", row[lane]);
      line += same ? " *]" : "]";
    }
  }
}

}  // namespace

bool trace_enabled() { return trace_file() != nullptr; }

void trace(Wave& wave, const Operation& op) {
  static std::mutex mutex;
  const uint64_t address =
      wave.dispatch->launch->code->virtual_address(reinterpret_cast<const void*>(wave.operation_pc));
  const uint64_t exec = wave.exec();
  execute(wave, op);
  std::string line =
      fmt::format("{} block({},{},{}) wave {} {:#x} exec={:x}: {} |",
                  wave.dispatch->launch->kernel->readable_name(), wave.group->id[0], wave.group->id[1],
                  wave.group->id[2], wave.number, address, exec, op.instruction.text);
  // The operands of the first half are enough to follow a dual-issue pair.
  for (const TextOperand& operand : op.instruction.operands) append_values(line, wave, operand);
  line += fmt::format(" scc={}\n", wave.scc ? 1 : 0);
  const std::lock_guard lock(mutex);
  std::fputs(line.c_str(), trace_file());
}

}  // namespace hipemu
