// Parses tokenizer.json.
#include "io/tokenizer/json_document.h"

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/tokenizer/reader_support.h"

namespace hearth::tokenizer {
namespace {

using nlohmann::json;

constexpr std::size_t deepest_nesting = 64;

// Takes the parser's events one by one.
class Events : public nlohmann::json_sax<json> {
 public:
  Events(JsonDocument& document, bool only_vocabulary, std::string_view source)
      : document_(document), only_vocabulary_(only_vocabulary), source_(source) {}

  bool start_object(std::size_t) override {
    if (only_vocabulary_ && open_.empty())
      open(Place::ids);
    else if (place() == Place::model && key_ == "vocab")
      open(Place::ids);
    else
      open_tree(json::object());
    return true;
  }
  bool start_array(std::size_t) override {
    if (place() == Place::model && key_ == "vocab")
      open(Place::scores);
    else if (place() == Place::model && key_ == "merges")
      open(Place::merges);
    else if (place() == Place::scores)
      open_pair(Place::score);
    else if (place() == Place::merges)
      open_pair(Place::merge);
    else
      open_tree(json::array());
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override {
    if (place() == Place::score) {
      if (texts_.size() != 1 || numbers_ != 1) bad_value("a list");
      document_.scores.emplace_back(std::move(texts_[0]), number_);
    } else if (place() == Place::merge) {
      if (texts_.size() != 2 || numbers_ != 0) bad_value("a list");
      document_.merges.emplace_back(std::move(texts_[0]), std::move(texts_[1]));
    }
    return close();
  }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }

  bool string(string_t& text) override {
    switch (place()) {
      case Place::score:
      case Place::merge:
        texts_.push_back(std::move(text));
        break;
      case Place::merges: {
        const auto [left, right] = split_merge(text, document_.merges.size(), source_);
        document_.merges.emplace_back(left, right);
        break;
      }
      default:
        put(std::move(text));
    }
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place() == Place::ids) {
      if (value > 0x7fffffff) fail(source_, fmt::format("token {} has the id {}", io::show(key_), value));
      document_.ids.emplace_back(std::move(key_), static_cast<std::int64_t>(value));
    } else if (place() == Place::score) {
      add_number(static_cast<double>(value));
    } else {
      put(value);
    }
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (place() == Place::score)
      add_number(static_cast<double>(value));
    else
      put(value);
    return true;
  }
  bool number_float(number_float_t value, const string_t&) override {
    if (place() == Place::score)
      add_number(value);
    else
      put(value);
    return true;
  }
  bool null() override { return put(nullptr), true; }
  bool boolean(bool value) override { return put(value), true; }
  bool binary(binary_t&) override { return false; }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(source_, fmt::format("not JSON in UTF-8, at byte {}", position));
  }

 private:
  // What the innermost open object or list is.
  enum class Place { outside, tree, model, ids, scores, score, merges, merge };

  Place place() const { return open_.empty() ? Place::outside : open_.back(); }

  void open(Place next) {
    if (open_.size() == deepest_nesting) fail(source_, "nested too deeply");
    open_.push_back(next);
  }
  void open_pair(Place next) {
    open(next);
    texts_.clear();
    numbers_ = 0;
  }
  void open_tree(json empty) {
    const bool model = trees_.size() == 1 && key_ == "model";
    auto* tree = put(std::move(empty));
    open(model ? Place::model : Place::tree);
    trees_.push_back(tree);
  }
  bool close() {
    if (place() == Place::tree || place() == Place::model) trees_.pop_back();
    open_.pop_back();
    return true;
  }

  void add_number(double value) {
    number_ = value;
    ++numbers_;
  }

  // Adds a value to the tree. Returns where it is.
  json* put(json value) {
    if (place() == Place::outside && !only_vocabulary_) {
      document_.tree = std::move(value);
      return &document_.tree;
    }
    if (place() != Place::tree && place() != Place::model) bad_value(value.type_name());
    if (place() == Place::model && (key_ == "vocab" || key_ == "merges") && !value.is_null())
      fail(source_, fmt::format("model.{} is {}, which it cannot be", key_, value.type_name()));
    auto& parent = *trees_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    auto& slot = parent[key_];
    slot = std::move(value);
    return &slot;
  }

  [[noreturn]] void bad_value(const std::string& found) const {
    const bool in_merges = place() == Place::merges || place() == Place::merge;
    fail(source_, fmt::format("found {} where {} is expected", found,
                              in_merges ? "a merge of two tokens" : "a token of the vocabulary"));
  }

  JsonDocument& document_;
  bool only_vocabulary_;
  std::string_view source_;
  std::vector<Place> open_;
  std::vector<json*> trees_;  // those of the open places that are in the tree
  std::string key_;
  std::vector<std::string> texts_;  // of the open pair
  double number_ = 0;
  int numbers_ = 0;
};

JsonDocument parse(std::string_view text, bool only_vocabulary, std::string_view source) {
  // The parser takes a NUL for the end of the text.
  if (const auto nul = text.find('\0'); nul != text.npos)
    fail(source, fmt::format("not JSON in UTF-8, at byte {}", nul + 1));
  JsonDocument document;
  Events events(document, only_vocabulary, source);
  json::sax_parse(text, &events);
  return document;
}

}  // namespace

JsonDocument parse_tokenizer_json(std::string_view text, std::string_view source) {
  auto document = parse(text, false, source);
  if (!document.tree.is_object()) fail(source, "an object is expected");
  return document;
}

JsonDocument parse_vocab_json(std::string_view text, std::string_view source) {
  return parse(text, true, source);
}

json parse_json(std::string_view text, std::string_view source) {
  return parse_tokenizer_json(text, source).tree;
}

}  // namespace hearth::tokenizer
