// The values of a template: Python's, as far as Jinja shows them.
//
// Data is immutable and shared. What a template can change (namespaces, loops, iterators) is an Object.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "llm/template/budget.h"

namespace hearth::jinja {

class Dict;
class Object;
class Value;

// Holds every number that JSON brings, and products of two. Python's have no end; here, overflow is an error.
using Integer = __int128;
using List = std::vector<Value>;

class Value {
 public:
  enum class Kind { undefined, none, boolean, integer, real, text, markup, list, tuple, dict, object };

  Value() : data_(None{}) {}
  Value(bool value) : data_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T value) : data_(static_cast<Integer>(value)) {}
  Value(Integer value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string text) : data_(Text{std::make_shared<const std::string>(std::move(text))}) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  template <std::derived_from<Object> T>
  Value(std::shared_ptr<T> object) : data_(std::shared_ptr<Object>(std::move(object))) {}

  // What is not there. Using it, other than to print or to test it, fails with the message.
  static Value undefined(std::string message) {
    return Value(Data(Undefined{std::make_shared<const std::string>(std::move(message))}));
  }
  // A text that `safe` has marked: it escapes what it is joined with.
  static Value markup(std::string text);
  static Value text(std::string text, bool is_markup) { return is_markup ? markup(std::move(text)) : text; }
  // Fail where the items are nested too deeply.
  static Value list(List items);
  static Value tuple(List items);
  // A tuple whose items have names as well, "grouper" and "list".
  static Value group(Value grouper, Value list);

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_undefined() const { return kind() == Kind::undefined; }
  bool is_none() const { return kind() == Kind::none; }
  bool is_boolean() const { return kind() == Kind::boolean; }
  bool is_real() const { return kind() == Kind::real; }
  bool is_text() const { return kind() == Kind::text || is_markup(); }
  bool is_markup() const { return kind() == Kind::markup; }
  bool is_list() const { return kind() == Kind::list; }
  bool is_tuple() const { return kind() == Kind::tuple; }
  bool is_dict() const { return kind() == Kind::dict; }
  // As Python has it, True and False are integers.
  bool is_integer() const { return kind() == Kind::integer || is_boolean(); }
  bool is_number() const { return is_integer() || is_real(); }
  bool is_sequence() const { return is_list() || is_tuple(); }
  bool is_group() const;

  // The contents, of a value of that kind.
  const std::string& message() const { return *std::get<Undefined>(data_).message; }
  bool boolean() const { return std::get<bool>(data_); }
  Integer integer() const { return is_boolean() ? boolean() : std::get<Integer>(data_); }
  double real() const { return is_real() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const std::string& text() const {
    return is_markup() ? *std::get<Markup>(data_).text : *std::get<Text>(data_).text;
  }
  const List& items() const;
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  const std::shared_ptr<const Dict>& shared_dict() const {
    return std::get<std::shared_ptr<const Dict>>(data_);
  }
  // The object if it is one of class T, else null.
  template <typename T = Object>
  T* as() const {
    const auto* object = std::get_if<std::shared_ptr<Object>>(&data_);
    return object ? dynamic_cast<T*>(object->get()) : nullptr;
  }

  int depth() const;                       // of nesting; 0 where nothing is inside
  bool is_same(const Value& other) const;  // Python's `is`
  std::string_view type_name() const;      // Python's, for messages

 private:
  struct Undefined {
    std::shared_ptr<const std::string> message;
  };
  struct None {};
  struct Text {
    std::shared_ptr<const std::string> text;
  };
  struct Markup {
    std::shared_ptr<const std::string> text;
  };
  struct Items {
    List items;
    int depth;
    bool is_group = false;
  };
  struct ListItems {
    std::shared_ptr<const Items> shared;
  };
  struct TupleItems {
    std::shared_ptr<const Items> shared;
  };
  // In the order of Kind.
  using Data = std::variant<Undefined, None, bool, Integer, double, Text, Markup, ListItems, TupleItems,
                            std::shared_ptr<const Dict>, std::shared_ptr<Object>>;

  explicit Value(Data data) : data_(std::move(data)) {}
  static std::shared_ptr<const Items> share(List items, bool is_group = false);

  Data data_;
};

// Keys and values in the order of insertion.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }
  const Value* find(std::string_view key) const;
  // Fails for a key that Python cannot hash, as a list.
  const Value* find(Budget& budget, const Value& key) const;

  // While it is being made.
  void set(Budget& budget, const Value& key, Value value);
  void add(std::string key, Value value);  // a key that is not there yet

 private:
  // The entry with this key, size() where there is none.
  std::size_t position(std::string_view key) const;
  std::size_t position(Budget& budget, const Value& key) const;
  void append(const Value& key, Value value);

  std::vector<Entry> entries_;
  // From texts to entries, once there are many.
  std::unordered_map<std::string_view, std::size_t> index_;
  int depth_ = 1;
};

// Whether a value can be a key; lists and dicts cannot.
bool is_hashable(Budget& budget, const Value& value);

}  // namespace hearth::jinja
