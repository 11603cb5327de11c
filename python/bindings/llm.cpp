// Language models and tokenizers.
#include "hearth/llm.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>

#include <mutex>
#include <nlohmann/json.hpp>

#include "bindings.h"
#include "hearth/chat_template.h"
#include "llm/answer_reader.h"
#include "options.h"

namespace hearth::python {
namespace {

using namespace llm;

// Tokens may end within a character.
nb::str text_of(std::string_view text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::list list_of(const std::vector<LogProbabilities>& tokens) {
  nb::list result;
  for (const LogProbabilities& token : tokens) {
    nb::list best;
    for (const auto& [id, log_probability] : token.best) best.append(nb::make_tuple(id, log_probability));
    result.append(nb::make_tuple(token.chosen.token, token.chosen.log_probability, best));
  }
  return result;
}

nb::dict dict_of(const GenerateResult& result) {
  nb::dict d;
  d["tokens"] = result.tokens;
  d["text"] = text_of(result.text);
  d["reason"] = std::string(to_string(result.reason));
  d["logprobs"] = list_of(result.log_probabilities);
  d["prompt_tokens"] = result.prompt_tokens;
  d["reused_tokens"] = result.reused_tokens;
  d["drafted_tokens"] = result.drafted_tokens;
  d["accepted_tokens"] = result.accepted_tokens;
  d["shifts"] = result.shifts;
  d["prompt_seconds"] = result.prompt_seconds;
  d["generate_seconds"] = result.generate_seconds;
  return d;
}

// (rows, width) on the host, whatever the default device.
Tensor matrix_of(const std::vector<std::vector<float>>& rows) {
  std::vector<float> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  const auto width = static_cast<std::int64_t>(rows.empty() ? 0 : rows[0].size());
  const DeviceScope host(Device{});
  return tensor(flat, {static_cast<std::int64_t>(rows.size()), width});
}

// Sessions of one model do not run at the same time. A callback of a session may use it.
std::recursive_mutex& running() {
  static std::recursive_mutex mutex;
  return mutex;
}

GenerateOptions options_of(const nb::dict& given) {
  GenerateOptions generate;
  SamplingOptions& sampling = generate.sampling;
  Options options(given, "generate");
  options.read("max_tokens", generate.most_tokens);
  options.read("stop", generate.stop);
  options.read("ignore_end", generate.ignore_end);
  options.read("special_text", generate.special_text);
  options.read("grammar", generate.grammar);
  options.read("grammar_after", generate.grammar_after);
  options.read("logprobs", generate.best_log_probabilities);
  options.read("temperature", sampling.temperature);
  options.read("top_k", sampling.top_k);
  options.read("top_p", sampling.top_p);
  options.read("min_p", sampling.min_p);
  options.read("typical_p", sampling.typical_p);
  options.read("mirostat", sampling.mirostat);
  options.read("mirostat_target", sampling.mirostat_target);
  options.read("mirostat_rate", sampling.mirostat_rate);
  options.read("repetition_penalty", sampling.repetition_penalty);
  options.read("frequency_penalty", sampling.frequency_penalty);
  options.read("presence_penalty", sampling.presence_penalty);
  options.read("penalty_window", sampling.penalty_window);
  options.read("logit_bias", sampling.bias);
  options.read("seed", sampling.seed);
  options.read("keep", generate.keep);
  options.read("draft", generate.draft);
  options.read("lookup", generate.lookup);
  options.read("most_drafted", generate.most_drafted);
  options.finish();
  return generate;
}

}  // namespace

void bind_llm(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_llm", "Language models and tokenizers.");

  nb::class_<Tokenizer>(m, "Tokenizer", "Text to token ids and back.")
      .def_static("load", &Tokenizer::load, "path"_a, nb::call_guard<nb::gil_scoped_release>(),
                  "From a GGUF file, a Hugging Face folder, tokenizer.json, tokenizer.model.")
      .def(
          "encode",
          [](const Tokenizer& self, const std::string& text, bool add_special, bool parse_special) {
            const nb::gil_scoped_release unlocked;
            return self.encode(text, {add_special, parse_special});
          },
          "text"_a, "add_special"_a = true, "parse_special"_a = false, "The tokens of a text.")
      .def(
          "decode",
          [](const Tokenizer& self, const std::vector<TokenId>& ids, bool skip_special) {
            std::string text;
            {
              const nb::gil_scoped_release unlocked;
              text = self.decode(ids, {skip_special});
            }
            return text_of(text);
          },
          "ids"_a, "skip_special"_a = false, "The text of tokens.")
      .def("__len__", &Tokenizer::size)
      .def(
          "token", [](const Tokenizer& self, TokenId id) { return text_of(self.text(id)); }, "id"_a,
          "A token as the vocabulary has it.")
      .def(
          "bytes",
          [](const Tokenizer& self, TokenId id) {
            const std::string_view text = self.bytes(id);
            return nb::bytes(text.data(), text.size());
          },
          "id"_a, "What a token adds to a text.")
      .def(
          "find", [](const Tokenizer& self, const std::string& text) { return self.find(text); }, "text"_a,
          "The token with that text in the vocabulary, or None.")
      .def("is_special", &Tokenizer::is_special, "id"_a)
      .def("ends_generation", &Tokenizer::ends_generation, "id"_a)
      .def_prop_ro("bos", [](const Tokenizer& self) { return self.special().bos; })
      .def_prop_ro("eos", [](const Tokenizer& self) { return self.special().eos; });

  nb::class_<Grammar>(m, "Grammar", "What a generated text must look like.")
      .def_static("parse", &Grammar::parse, "gbnf"_a, nb::call_guard<nb::gil_scoped_release>(),
                  "Rules in the notation of GBNF, beginning with `root`.")
      .def_static("from_json_schema", &Grammar::from_json_schema, "schema"_a,
                  nb::call_guard<nb::gil_scoped_release>(), "JSON that is valid by a schema, a text of JSON.")
      .def("matches", &Grammar::matches, "text"_a, nb::call_guard<nb::gil_scoped_release>(),
           "Whether a whole text is as it should be.");

  nb::class_<Model>(m, "CoreModel")
      .def_static(
          "load",
          [](const std::filesystem::path& path, const std::optional<DeviceIn>& device, std::int64_t context,
             const DTypeIn& cache_dtype, std::int64_t sequences, std::int64_t gpu_layers,
             const std::optional<std::function<void(double)>>& progress) {
            LoadOptions options;
            options.device = device_or_default(device);
            options.context = context;
            options.cache_dtype = cache_dtype;
            options.sequences = sequences;
            options.gpu_layers = gpu_layers;
            if (progress) options.progress = *progress;
            const nb::gil_scoped_release unlocked;
            return Model::load(path, options);
          },
          "path"_a, "device"_a.none(), "context"_a, "cache_dtype"_a, "sequences"_a, "gpu_layers"_a,
          "progress"_a.none())
      .def("tokenizer", [](const Model& self) { return self.tokenizer(); })
      .def("config",
           [](const Model& self) {
             const ModelConfig& config = self.config();
             nb::dict d;
             d["architecture"] = config.architecture;
             d["name"] = config.name;
             d["vocabulary"] = config.vocabulary;
             d["context"] = config.context;
             d["layers"] = config.layers;
             d["width"] = config.width;
             d["heads"] = config.heads;
             d["groups"] = config.groups;
             d["head_size"] = config.head_size;
             d["feed_forward"] = config.feed_forward;
             d["experts"] = config.experts;
             return d;
           })
      .def_prop_ro("device", &Model::device)
      .def_prop_ro("context", &Model::context)
      .def_prop_ro("weight_bytes", &Model::weight_bytes)
      .def_prop_ro("cache_bytes", &Model::cache_bytes)
      .def_prop_ro("parameters", &Model::parameters)
      .def_prop_ro("chat_template", &Model::chat_template);

  nb::class_<Session>(m, "CoreSession")
      .def(nb::init<const Model&>(), "model"_a)
      .def(
          "feed",
          [](Session& self, const std::vector<TokenId>& tokens) {
            const nb::gil_scoped_release unlocked;
            const std::lock_guard lock(running());
            const std::vector<float> scores = self.feed(tokens);
            const DeviceScope host(Device{});
            return tensor(scores);
          },
          "tokens"_a)
      .def(
          "feed_all",
          [](Session& self, const std::vector<TokenId>& tokens) {
            const nb::gil_scoped_release unlocked;
            const std::lock_guard lock(running());
            return matrix_of(self.feed_all(tokens));
          },
          "tokens"_a)
      .def(
          "features",
          [](Session& self, const std::vector<TokenId>& tokens) {
            const nb::gil_scoped_release unlocked;
            const std::lock_guard lock(running());
            return matrix_of(self.features(tokens));
          },
          "tokens"_a)
      .def_prop_ro("tokens",
                   [](const Session& self) {
                     const nb::gil_scoped_release unlocked;
                     const std::lock_guard lock(running());
                     return std::vector<TokenId>(self.tokens());
                   })
      .def(
          "truncate",
          [](Session& self, std::int64_t count) {
            const nb::gil_scoped_release unlocked;
            const std::lock_guard lock(running());
            self.truncate(count);
          },
          "count"_a)
      .def(
          "shift",
          [](Session& self, std::int64_t keep) {
            const nb::gil_scoped_release unlocked;
            const std::lock_guard lock(running());
            return self.shift(keep);
          },
          "keep"_a)
      .def(
          "generate",
          [](Session& self, const std::vector<TokenId>& prompt, const nb::dict& options, nb::object each) {
            const GenerateOptions converted = options_of(options);
            GenerateResult result;
            {
              const nb::gil_scoped_release unlocked;
              const std::lock_guard lock(running());
              result = self.generate(prompt, converted, [&](const Generated& next) {
                const nb::gil_scoped_acquire locked;
                if (PyErr_CheckSignals() != 0) throw nb::python_error();
                return each.is_none() || nb::cast<bool>(nb::bool_(each(next.token, text_of(next.text))));
              });
            }
            return dict_of(result);
          },
          "prompt"_a, "options"_a, "each"_a.none());

  nb::class_<AnswerReader>(m, "AnswerReader", "Tells thoughts from text in the answer to a prompt.")
      .def(
          "__init__",
          [](AnswerReader* self, const Tokenizer& tokenizer, const std::string& chat_template,
             const std::vector<TokenId>& prompt) {
            const AnswerFormat format = answer_format(tokenizer, chat_template);
            new (self) AnswerReader(format, begins_with_thoughts(tokenizer, prompt, format));
          },
          "tokenizer"_a, "chat_template"_a, "prompt"_a)
      .def_prop_ro("special_text", &AnswerReader::wants_special_text)
      .def_prop_ro("end_of_thoughts",
                   [](const AnswerReader& self) { return std::string(self.end_of_thoughts()); })
      .def(
          "add",
          [](AnswerReader& self, const std::string& piece) {
            const AnswerParts parts = self.add(piece);
            return std::pair(text_of(parts.thoughts), text_of(parts.text));
          },
          "piece"_a)
      .def("finish", [](AnswerReader& self) {
        const AnswerParts parts = self.finish();
        return std::pair(text_of(parts.thoughts), text_of(parts.text));
      });

  m.def(
      "render_chat",
      [](const std::string& source, const std::string& messages, const std::string& options) {
        const nb::gil_scoped_release unlocked;
        const auto given_options = nlohmann::ordered_json::parse(options);
        ChatOptions chat;
        chat.add_generation_prompt = given_options.value("add_generation_prompt", true);
        chat.bos_token = given_options.value("bos_token", "");
        chat.eos_token = given_options.value("eos_token", "");
        if (given_options.contains("tools")) chat.tools = given_options["tools"];
        if (given_options.contains("documents")) chat.documents = given_options["documents"];
        if (given_options.contains("variables")) chat.variables = given_options["variables"];
        return ChatTemplate(source).render(nlohmann::ordered_json::parse(messages), chat);
      },
      "template"_a, "messages"_a, "options"_a, "A chat template with messages and options given as JSON.");
}

}  // namespace hearth::python
