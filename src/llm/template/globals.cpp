// Functions that every template can call.
#include <fmt/format.h>
#include <locale.h>

#include <ctime>

#include "llm/template/builtins.h"
#include "llm/template/interpreter.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

Value range(Interpreter&, const Value&, const Bound& arguments) {
  // With one argument it is the end.
  const Integer first = arguments.integer(0);
  if (!arguments[1]) return std::make_shared<Range>(0, first, 1);
  return std::make_shared<Range>(first, arguments.integer(1), arguments.integer(2, 1));
}

// dict(pairs or a dict, name=value, ...)
std::shared_ptr<Dict> new_dict(Interpreter& in, const Arguments& arguments) {
  if (arguments.positional.size() > 1) throw Failure("dict expected at most 1 argument");
  auto out = std::make_shared<Dict>();
  const auto set = [&](const Value& key, const Value& value) {
    in.budget().take(sizeof(Dict::Entry));
    out->set(in.budget(), key, value);
  };
  if (!arguments.positional.empty()) {
    const Value& first = arguments.positional[0];
    if (first.is_dict()) {
      for (const auto& [key, value] : first.dict().entries()) set(key, value);
    } else {
      const auto pairs = iterate(first);
      while (const auto pair = pairs->next(in)) {
        const List parts = to_list(in, *pair);
        if (parts.size() != 2) throw Failure("dict wants pairs");
        set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) set(name, value);
  return out;
}

Value dict(Interpreter& in, const Value&, const Bound& arguments) {
  return std::shared_ptr<const Dict>(new_dict(in, arguments.all()));
}

Value name_space(Interpreter& in, const Value&, const Bound& arguments) {
  const auto out = in.new_namespace();
  const auto attributes = new_dict(in, arguments.all());
  for (const auto& [key, value] : attributes->entries()) {
    if (!key.is_text()) throw Failure("the attributes of a namespace have names");
    out->set(in.budget(), key.text(), value);
  }
  return out;
}

Value raise_exception(Interpreter& in, const Value&, const Bound& arguments) {
  throw Failure(to_text(in, *arguments[0]), true);
}

Value strftime_now(Interpreter& in, const Value&, const Bound& arguments) {
  // Python's own: local times have neither zone nor, here, microseconds.
  std::string format;
  const auto& wanted = arguments.text(0);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == '\0') throw Failure("embedded null character");
    if (wanted[i] != '%' || i + 1 == wanted.size()) {
      format += wanted[i];
      continue;
    }
    const char directive = wanted[++i];
    if (directive == 'f')
      format += "000000";
    else if (directive != 'z' && directive != 'Z')
      (format += '%') += directive;
  }
  if (format.empty()) return "";
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  const std::tm now = in.local_time();
  // A mark at the end tells an empty result from one that does not fit.
  std::string out(256 + 32 * format.size(), '\0');
  in.budget().take(out.size());
  const auto size = strftime_l(out.data(), out.size(), (format + "|").c_str(), &now, plain);
  if (size == 0) throw Failure("strftime_now: the result is too long");
  out.resize(size - 1);
  return out;
}

// ---- cycler and joiner

class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(const Value& items) : items_(items) {}
  std::string_view type_name() const override { return "Cycler"; }
  int depth() const override { return items_.depth(); }

  std::optional<Value> attribute(Interpreter&, std::string_view name) override {
    static constexpr Builtin next_method{"next", {}, next}, reset_method{"reset", {}, reset};
    if (name == "items") return items_;
    if (name == "pos") return position_;
    if (name == "current") return items_.items()[position_];
    if (name == "next" || name == "reset")
      return Value(
          std::make_shared<Function>(name == "next" ? next_method : reset_method, Value(shared_from_this())));
    return std::nullopt;
  }

 private:
  static Value next(Interpreter&, const Value& subject, const Bound&) {
    auto& self = *subject.as<Cycler>();
    const Value item = self.items_.items()[self.position_];
    self.position_ = (self.position_ + 1) % self.items_.items().size();
    return item;
  }

  static Value reset(Interpreter&, const Value& subject, const Bound&) {
    subject.as<Cycler>()->position_ = 0;
    return {};
  }

  Value items_;
  std::size_t position_ = 0;
};

// Nothing the first time it is called, then always the separator.
class Joiner : public Object {
 public:
  explicit Joiner(const Value& separator) : separator_(Value::tuple({separator})) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  int depth() const override { return separator_.depth(); }
  Value call(Interpreter&, Arguments&) override {
    return std::exchange(is_used_, true) ? separator_.items()[0] : Value("");
  }

 private:
  Value separator_;  // in a tuple, so that joiners of joiners are counted as nested
  bool is_used_ = false;
};

Value cycler(Interpreter& in, const Value&, const Bound& arguments) {
  if (arguments.all().positional.empty()) throw Failure("at least one item has to be provided");
  return std::make_shared<Cycler>(in.new_tuple(arguments.all().positional));
}

Value joiner(Interpreter&, const Value&, const Bound& arguments) {
  return std::make_shared<Joiner>(arguments[0] ? *arguments[0] : Value(", "));
}

constexpr Builtin global_table[] = {
    {"cycler", {"*"}, cycler},
    {"dict", {"*"}, dict},
    {"joiner", {"sep?"}, joiner},
    {"namespace", {"*"}, name_space},
    {"raise_exception", {"message"}, raise_exception},
    {"range", {"$start", "$stop?", "$step?"}, range},
    {"strftime_now", {"format"}, strftime_now},
};

}  // namespace

std::span<const Builtin> globals() { return global_table; }

}  // namespace hearth::jinja
