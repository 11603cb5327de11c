// Language models and tokenizers.
#include "hearth/llm.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>

#include <mutex>
#include <nlohmann/json.hpp>

#include "bindings.h"
#include "hearth/chat_template.h"

namespace hearth::python {
namespace {

using namespace llm;

nb::dict dict_of(const GenerateResult& result) {
  nb::dict d;
  d["tokens"] = result.tokens;
  d["text"] = result.text;
  d["reason"] = std::string(to_string(result.reason));
  d["prompt_tokens"] = result.prompt_tokens;
  d["reused_tokens"] = result.reused_tokens;
  d["prompt_seconds"] = result.prompt_seconds;
  d["generate_seconds"] = result.generate_seconds;
  return d;
}

// Sessions of one model do not run at the same time. A callback of a session may use it.
std::recursive_mutex& running() {
  static std::recursive_mutex mutex;
  return mutex;
}

// Of the options by their names in Python; a name that is not known is an error.
GenerateOptions options_of(const nb::dict& given_options) {
  GenerateOptions options;
  std::size_t known = 0;
  const auto read = [&](const char* name, auto& member) {
    if (!given_options.contains(name)) return;
    ++known;
    member = nb::cast<std::remove_reference_t<decltype(member)>>(given_options[name]);
  };
  SamplingOptions& sampling = options.sampling;
  read("max_tokens", options.most_tokens);
  read("stop", options.stop);
  read("ignore_end", options.ignore_end);
  read("temperature", sampling.temperature);
  read("top_k", sampling.top_k);
  read("top_p", sampling.top_p);
  read("min_p", sampling.min_p);
  read("typical_p", sampling.typical_p);
  read("repetition_penalty", sampling.repetition_penalty);
  read("frequency_penalty", sampling.frequency_penalty);
  read("presence_penalty", sampling.presence_penalty);
  read("penalty_window", sampling.penalty_window);
  read("bias", sampling.bias);
  read("seed", sampling.seed);
  read("mirostat", sampling.mirostat);
  read("mirostat_target", sampling.mirostat_target);
  read("mirostat_rate", sampling.mirostat_rate);
  read("keep", options.keep);
  read("lookup", options.lookup);
  read("most_drafted", options.most_drafted);
  if (known != given_options.size()) {
    std::string names;
    for (const auto [key, value] : given_options) names += " " + nb::cast<std::string>(nb::str(key));
    throw ValueError("[generate] an option that is not known, among:" + names);
  }
  return options;
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
            const nb::gil_scoped_release unlocked;
            return self.decode(ids, {skip_special});
          },
          "ids"_a, "skip_special"_a = false, "The text of tokens.")
      .def("__len__", &Tokenizer::size)
      .def(
          "token",
          [](const Tokenizer& self, TokenId id) {
            const std::string_view text = self.text(id);
            return nb::steal<nb::str>(
                PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
          },
          "id"_a, "A token as the vocabulary has it.")
      .def(
          "find", [](const Tokenizer& self, const std::string& text) { return self.find(text); }, "text"_a,
          "The token with that text in the vocabulary, or None.")
      .def("is_special", &Tokenizer::is_special, "id"_a)
      .def("ends_generation", &Tokenizer::ends_generation, "id"_a)
      .def_prop_ro("bos", [](const Tokenizer& self) { return self.special().bos; })
      .def_prop_ro("eos", [](const Tokenizer& self) { return self.special().eos; });

  nb::class_<Model>(m, "CoreModel")
      .def_static(
          "load",
          [](const std::filesystem::path& path, const std::optional<DeviceIn>& device, std::int64_t context,
             const DTypeIn& cache_dtype, std::int64_t sequences,
             const std::optional<std::function<void(double)>>& progress) {
            LoadOptions options;
            if (device) options.device = Device(*device);
            options.context = context;
            options.cache_dtype = cache_dtype;
            options.sequences = sequences;
            if (progress) options.progress = *progress;
            const nb::gil_scoped_release unlocked;
            return Model::load(path, options);
          },
          "path"_a, "device"_a.none(), "context"_a, "cache_dtype"_a, "sequences"_a, "progress"_a.none())
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

  nb::class_<Session>(m, "Session", "One sequence of tokens and its keys and values.")
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
          "tokens"_a, "The scores of the token after these, which follow those seen before.")
      .def(
          "feed_all",
          [](Session& self, const std::vector<TokenId>& tokens) {
            const nb::gil_scoped_release unlocked;
            const std::lock_guard lock(running());
            std::vector<float> flat;
            std::int64_t width = 0;
            for (const auto& scores : self.feed_all(tokens)) {
              flat.insert(flat.end(), scores.begin(), scores.end());
              width = static_cast<std::int64_t>(scores.size());
            }
            const DeviceScope host(Device{});
            return tensor(flat, {static_cast<std::int64_t>(tokens.size()), width});
          },
          "tokens"_a, "The scores after each token: (tokens, vocabulary).")
      .def_prop_ro("tokens", [](const Session& self) { return self.tokens(); })
      .def("truncate", &Session::truncate, "count"_a, "Forgets all but the first tokens.")
      .def(
          "generate",
          [](Session& self, const std::vector<TokenId>& prompt, const nb::dict& options, nb::object each) {
            const GenerateOptions converted = options_of(options);
            GenerateResult result;
            {
              const nb::gil_scoped_release unlocked;
              const std::lock_guard lock(running());
              result = self.generate(prompt, converted, [&](TokenId token, std::string_view text) {
                const nb::gil_scoped_acquire locked;
                if (PyErr_CheckSignals() != 0) throw nb::python_error();
                return each.is_none() || nb::cast<bool>(nb::bool_(each(token, text)));
              });
            }
            return dict_of(result);
          },
          "prompt"_a, "options"_a, "each"_a.none());

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
