// Truth, equality, order, membership and arithmetic.
#include "llm/template/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/unicode.h"
#include "llm/template/format.h"
#include "llm/template/interpreter.h"
#include "llm/template/numbers.h"
#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

constexpr std::string_view operator_names[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
constexpr std::string_view order_symbols[] = {"==", "!=", "<", "<=", ">", ">="};

[[noreturn]] void fail_operands(BinaryOperator op, const Value& a, const Value& b) {
  if (op == BinaryOperator::add && a.is_text())
    throw Failure(fmt::format("can only concatenate str (not \"{}\") to str", b.type_name()));
  if (op == BinaryOperator::add && a.is_sequence())
    throw Failure(fmt::format("can only concatenate {} (not \"{}\") to {}", a.type_name(), b.type_name(),
                              a.type_name()));
  throw Failure(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'",
                            operator_names[static_cast<std::size_t>(op)], a.type_name(), b.type_name()));
}

// -1, 0 or 1; 2 where one of them is not a number.
int compare_numbers(const Value& a, const Value& b) {
  const auto sign = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; };
  if (a.is_integer() && b.is_integer()) return sign(a.integer(), b.integer());
  return sign(a.real(), b.real());
}

bool holds(Comparison comparison, int sign) {
  switch (comparison) {
    case Comparison::less:
      return sign == -1;
    case Comparison::less_equal:
      return sign == -1 || sign == 0;
    case Comparison::greater:
      return sign == 1;
    default:
      return sign == 1 || sign == 0;
  }
}

bool equal_items(Budget& budget, const List& a, const List& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [&](const Value& x, const Value& y) { return x.is_same(y) || equals(budget, x, y); });
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  return a.size() == b.size() &&
         std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
           const auto* found = b.find(budget, entry.first);
           return found && equals(budget, entry.second, *found);
         });
}

Value power(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer() && b.integer() >= 0) return checked_power(a.integer(), b.integer());
  if (a.real() == 0 && b.real() < 0) throw Failure("0.0 cannot be raised to a negative power");
  const double result = std::pow(a.real(), b.real());
  if (a.real() < 0 && std::isfinite(a.real()) && std::isfinite(b.real()) && b.real() != std::floor(b.real()))
    throw Failure("a negative number raised to a fraction is complex");
  if (std::isinf(result) && std::isfinite(a.real()) && std::isfinite(b.real()))
    throw Failure("Numerical result out of range");
  return result;
}

Value arithmetic(BinaryOperator op, const Value& a, const Value& b) {
  const bool integers = a.is_integer() && b.is_integer();
  switch (op) {
    case BinaryOperator::add:
      return integers ? Value(checked_add(a.integer(), b.integer())) : Value(a.real() + b.real());
    case BinaryOperator::subtract:
      return integers ? Value(checked_subtract(a.integer(), b.integer())) : Value(a.real() - b.real());
    case BinaryOperator::multiply:
      return integers ? Value(checked_multiply(a.integer(), b.integer())) : Value(a.real() * b.real());
    case BinaryOperator::divide:
      if (b.real() == 0) throw Failure(integers ? "division by zero" : "float division by zero");
      return a.real() / b.real();
    case BinaryOperator::floor_divide:
      return integers ? Value(floor_divide(a.integer(), b.integer()))
                      : Value(floor_divide(a.real(), b.real()));
    case BinaryOperator::modulo:
      return integers ? Value(modulo(a.integer(), b.integer())) : Value(modulo(a.real(), b.real()));
    case BinaryOperator::power:
      return power(a, b);
  }
  fail_operands(op, a, b);
}

Value concatenate(Interpreter& in, const Value& a, const Value& b) {
  if (a.is_text()) {
    if (a.is_markup() || b.is_markup()) return in.new_markup(escape(in, a) + escape(in, b));
    in.budget().take(a.text().size() + b.text().size());
    return a.text() + b.text();
  }
  List items;
  in.budget().take((a.items().size() + b.items().size()) * sizeof(Value));
  items.reserve(a.items().size() + b.items().size());
  items.insert(items.end(), a.items().begin(), a.items().end());
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value repeat(Interpreter& in, const Value& value, Integer times) {
  const std::size_t size = value.is_text() ? value.text().size() : value.items().size() * sizeof(Value);
  if (times < 0 || size == 0) times = 0;
  if (times > static_cast<Integer>(no_limit)) times = static_cast<Integer>(no_limit);
  const auto count = static_cast<std::size_t>(times);
  std::size_t total;
  in.budget().take(__builtin_mul_overflow(size, count, &total) ? no_limit : total);
  if (value.is_text()) {
    std::string out;
    out.reserve(total);
    for (std::size_t i = 0; i < count; ++i) out += value.text();
    return Value::text(std::move(out), value.is_markup());
  }
  List items;
  for (std::size_t i = 0; i < count; ++i)
    items.insert(items.end(), value.items().begin(), value.items().end());
  return value.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

void require_defined(const Value& value) {
  if (value.is_undefined()) throw Failure(value.message());
}

// Gives the items of data by their positions.
class ItemIterator : public Iterator {
 public:
  explicit ItemIterator(Value value) : value_(std::move(value)) {}

  std::optional<Value> next(Interpreter&) override {
    switch (value_.kind()) {
      case Value::Kind::dict:
        if (at_ == value_.dict().size()) return std::nullopt;
        return value_.dict().entries()[at_++].first;
      case Value::Kind::text:
      case Value::Kind::markup: {
        if (at_ == value_.text().size()) return std::nullopt;
        const auto begin = at_;
        at_ = unicode::offset(value_.text(), 1, begin);
        return value_.text().substr(begin, at_ - begin);
      }
      case Value::Kind::list:
      case Value::Kind::tuple:
        if (at_ == value_.items().size()) return std::nullopt;
        return value_.items()[at_++];
      default:  // undefined
        return std::nullopt;
    }
  }

 private:
  Value value_;
  std::size_t at_ = 0;
};

}  // namespace

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::undefined:
    case Value::Kind::none:
      return false;
    case Value::Kind::boolean:
      return value.boolean();
    case Value::Kind::integer:
      return value.integer() != 0;
    case Value::Kind::real:
      return value.real() != 0;
    case Value::Kind::text:
    case Value::Kind::markup:
      return !value.text().empty();
    default:
      return length(value).value_or(1) != 0;
  }
}

bool equals(Budget& budget, const Value& a, const Value& b) {
  budget.spend(1);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.is_text() && b.is_text()) {
    if (a.text().size() != b.text().size()) return false;
    budget.spend_bytes(a.text().size());
    return a.text() == b.text();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::undefined:
    case Value::Kind::none:
      return true;
    case Value::Kind::list:
    case Value::Kind::tuple:
      return equal_items(budget, a.items(), b.items());
    case Value::Kind::dict:
      return equal_dicts(budget, a.dict(), b.dict());
    default:
      return a.as<Object>()->equals(budget, *b.as<Object>());
  }
}

bool ordered(Budget& budget, Comparison comparison, const Value& a, const Value& b) {
  budget.spend(1);
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) return holds(comparison, compare_numbers(a, b));
  if (a.is_text() && b.is_text()) {
    budget.spend_bytes(std::min(a.text().size(), b.text().size()));
    const int sign = a.text().compare(b.text());  // the order of bytes is the order of code points
    return holds(comparison, sign < 0 ? -1 : sign > 0 ? 1 : 0);
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    const auto& x = a.items();
    const auto& y = b.items();
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!x[i].is_same(y[i]) && !equals(budget, x[i], y[i])) return ordered(budget, comparison, x[i], y[i]);
    return holds(comparison, x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0);
  }
  throw Failure(fmt::format("'{}' not supported between instances of '{}' and '{}'",
                            order_symbols[static_cast<std::size_t>(comparison)], a.type_name(),
                            b.type_name()));
}

bool compare(Interpreter& in, Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::equal:
      return equals(in.budget(), a, b);
    case Comparison::not_equal:
      return !equals(in.budget(), a, b);
    case Comparison::in:
      return contains(in, b, a);
    case Comparison::not_in:
      return !contains(in, b, a);
    default:
      return ordered(in.budget(), comparison, a, b);
  }
}

bool contains(Interpreter& in, const Value& container, const Value& item) {
  if (container.is_text()) {
    if (!item.is_text())
      throw Failure(fmt::format("'in <string>' requires string as left operand, not {}", item.type_name()));
    in.budget().spend_bytes(container.text().size());
    return find(container.text(), item.text()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict().find(in.budget(), item) != nullptr;
  const auto iterator = iterator_of(container);
  if (!iterator) throw Failure(fmt::format("argument of type '{}' is not iterable", container.type_name()));
  while (const auto candidate = iterator->next(in))
    if (candidate->is_same(item) || equals(in.budget(), *candidate, item)) return true;
  return false;
}

Value binary(Interpreter& in, BinaryOperator op, const Value& a, const Value& b) {
  if (op == BinaryOperator::modulo && a.is_text()) return format_percent(in, a, b);
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) return arithmetic(op, a, b);
  if (op == BinaryOperator::add &&
      ((a.is_text() && b.is_text()) || (a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())))
    return concatenate(in, a, b);
  if (op == BinaryOperator::multiply) {
    const auto repeats = [](const Value& value) { return value.is_text() || value.is_sequence(); };
    if (repeats(a) && b.is_integer()) return repeat(in, a, b.integer());
    if (repeats(b) && a.is_integer()) return repeat(in, b, a.integer());
  }
  fail_operands(op, a, b);
}

Value negative(const Value& value) {
  require_defined(value);
  if (value.is_real()) return -value.real();
  if (value.is_integer()) return checked_subtract(0, value.integer());
  throw Failure(fmt::format("bad operand type for unary -: '{}'", value.type_name()));
}

Value positive(const Value& value) {
  require_defined(value);
  if (value.is_real()) return value;
  if (value.is_integer()) return value.integer();
  throw Failure(fmt::format("bad operand type for unary +: '{}'", value.type_name()));
}

std::optional<std::size_t> length(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::undefined:
      return 0;
    case Value::Kind::text:
    case Value::Kind::markup:
      return unicode::length(value.text());
    case Value::Kind::list:
    case Value::Kind::tuple:
      return value.items().size();
    case Value::Kind::dict:
      return value.dict().size();
    case Value::Kind::object:
      return value.as<Object>()->length();
    default:
      return std::nullopt;
  }
}

std::unique_ptr<Iterator> iterator_of(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::undefined:
    case Value::Kind::text:
    case Value::Kind::markup:
    case Value::Kind::list:
    case Value::Kind::tuple:
    case Value::Kind::dict:
      return std::make_unique<ItemIterator>(value);
    case Value::Kind::object:
      return value.as<Object>()->new_iterator(value);
    default:
      return nullptr;
  }
}

std::unique_ptr<Iterator> iterate(const Value& value) {
  auto iterator = iterator_of(value);
  if (!iterator) throw Failure(fmt::format("'{}' object is not iterable", value.type_name()));
  return iterator;
}

List to_list(Interpreter& in, const Value& value) {
  List items;
  const auto iterator = iterate(value);
  while (auto item = iterator->next(in)) {
    in.budget().take(sizeof(Value));
    items.push_back(std::move(*item));
  }
  return items;
}

}  // namespace hearth::jinja
