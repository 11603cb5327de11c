// Encoding a real text with real vocabularies, on one thread.
#include "hearth/tokenizer.h"

#include <filesystem>

#include "base/file.h"
#include "bench.h"

namespace hearth::bench {

void tokenizer(Report& report, const Options& options) {
  const std::filesystem::path shared = HEARTH_SHARED_DIR;
  if (!std::filesystem::exists(shared / "tokenizers"))
    return;  // the vocabularies are not part of the repository
  const double seconds = options.quick ? 0.3 : 1.0;
  const auto text = read_text_file(shared / "data/text/tinyshakespeare.txt");
  for (const auto* name : {"gpt-2/tokenizer.json", "qwen2.5", "tiktoken/cl100k_base.tiktoken", "phi-3-mini",
                           "mistral/tokenizer.model.v1"}) {
    const auto loaded = Tokenizer::load(shared / "tokenizers" / name);
    const auto ids = loaded.encode(text);
    const auto times = medians({[&] { loaded.encode(text); }, [&] { loaded.decode(ids); }}, seconds);
    const double megabytes = static_cast<double>(text.size()) * 1e-6;
    report.add({"tokenizer", std::string("encode, ") + name, megabytes / times[0], "MB/s", -1, ""});
    report.add({"tokenizer", std::string("decode, ") + name, megabytes / times[1], "MB/s", -1, ""});
  }
}

}  // namespace hearth::bench
