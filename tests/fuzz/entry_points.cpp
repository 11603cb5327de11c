// The file readers, driven over bytes in memory.
#include "entry_points.h"

#include <numeric>

#include "hearth/chat_template.h"
#include "hearth/error.h"
#include "io/csv_format.h"
#include "io/gguf_format.h"
#include "io/idx_format.h"
#include "io/npy_format.h"
#include "io/pickle_format.h"
#include "io/safetensors_format.h"
#include "io/xz.h"

namespace hearth::fuzz {
namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

// Reads every byte, and checks what all readers promise of an array.
void touch(const io::Array& array) {
  const auto sum = std::accumulate(
      array.bytes.begin(), array.bytes.end(), std::uint64_t{0},
      [](std::uint64_t so_far, std::byte b) { return so_far + std::to_integer<std::uint64_t>(b); });
  require(sum <= 255 * array.bytes.size(), "a byte over 255");
  check_shape(array.shape, dtype_size(array.dtype), "fuzz");
  require(io::array_bytes(array.shape, dtype_size(array.dtype)) == array.bytes.size(),
          "shape and bytes differ");
}

}  // namespace

void safetensors(io::Bytes file) {
  const auto header = io::parse_safetensors(file, "file");
  std::uint64_t total = 0;
  for (const auto& entry : header.entries) {
    require(header.find(entry.name) == &entry, "an entry is not found by its name");
    total += entry.end - entry.begin;
    if (entry.dtype) touch(io::safetensors_array(file, entry, nullptr, "file"));
  }
  require(total <= file.size(), "tensors have more bytes than the file");
}

void npy(io::Bytes file) { touch(io::parse_npy(file, nullptr, "file")); }

void npz(io::Bytes file) {
  for (const auto& [name, array] : io::parse_npz(file, nullptr, "file")) touch(array);
}

void torch(io::Bytes file) {
  for (const auto& [name, array] : io::parse_torch_checkpoint(file, "file")) touch(array);
}

void idx(io::Bytes file) { touch(io::parse_idx(file, nullptr, "file")); }

void xz(io::Bytes file) {
  const auto contents = io::unxz(file, "file");
  touch({.dtype = DType::u8, .shape = {std::ssize(contents)}, .bytes = contents, .owner = nullptr});
}

void csv(io::Bytes file) {
  const io::CsvText table(io::as_text(file), nullptr, ',', true, "file");
  std::vector<std::size_t> all(table.columns());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::size_t line = 0;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    require(table.line(row) > line, "lines do not increase");
    line = table.line(row);
    for (const auto column : all)
      require(table.text(row, column).size() <= file.size(), "a cell is too long");
  }
  for (const auto dtype : {DType::f32, DType::f64, DType::i64, DType::u8, DType::bool_, DType::bf16}) {
    try {
      touch(table.numbers(all, dtype, true));
    } catch (const FormatError&) {  // not numbers of this dtype; the table is fine
    }
  }
}

void gguf(io::Bytes file) {
  const auto header = io::parse_gguf(file, "file");
  std::uint64_t total = 0;
  std::vector<GgufTensorSpec> specs;
  for (const auto& entry : header.entries) {
    if (!entry.size) continue;
    const auto bytes = io::gguf_bytes(file, entry, "file");
    total += bytes.size();
    if (!entry.dtype) continue;
    check_shape(entry.shape, *entry.dtype, "fuzz");
    require(std::uint64_t(storage_bytes(*entry.dtype, element_count(entry.shape))) == bytes.size(),
            "shape and bytes differ");
    if (entry.shape.size() <= 4) specs.push_back({entry.name, *entry.dtype, entry.shape});
  }
  require(total <= file.size(), "tensors have more bytes than the file");
  if (header.metadata.contains("general.alignment")) return;  // it could ask for gigabytes of padding
  // What is read can be written, and read again. (NaN differs from itself, so headers are compared.)
  const auto layout = io::lay_out_gguf(header.metadata, specs);
  if (layout.size > 1u << 20) return;
  std::string written = layout.header;
  written.resize(layout.size);
  const auto reread = io::parse_gguf(std::as_bytes(std::span(written)), "written");
  require(io::lay_out_gguf(reread.metadata, specs).header == layout.header,
          "a round trip changes the header");
}

void chat_template(io::Bytes file) {
  static const auto variables = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Größe? <b>'\"&"},
                 {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
                  "function": {"name": "f", "arguments": {"a": [1, 2.5, true, null, {"b": ""}]}}}]},
                 {"role": "tool", "content": "7"}, {"role": "user", "content": [{"type": "text", "text": "a\nb"}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": -7, "x": 1e300})");
  const TemplateLimits limits{.steps = 100'000, .memory = 4 << 20, .output = 1 << 20};
  const std::string text = ChatTemplate(std::string(io::as_text(file)), limits).render(variables);
  require(text.size() <= limits.output, "more printed than allowed");
}

}  // namespace hearth::fuzz
