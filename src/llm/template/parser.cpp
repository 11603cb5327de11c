// Statements.
#include "llm/template/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

constexpr std::size_t most_parameters = 255;
constexpr std::array<std::string_view, 6> reserved = {"true", "false", "none", "True", "False", "None"};
constexpr std::array<std::string_view, 6> unsupported = {"block",  "extends", "include",
                                                         "import", "from",    "autoescape"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Template parse(std::string_view source) {
  Template parsed = Parser(source).run();
  analyse(parsed);
  return parsed;
}

Parser::Parser(std::string_view source) : tokens_(tokenize(source)) {
  for (const char* special : {"loop", "caller", "kwargs", "varargs"})
    intern(special);  // in the order of their ids
}

Template Parser::run() {
  Template parsed;
  parsed.body = statements({});
  parsed.names = std::move(names_);
  return parsed;
}

Block Parser::statements(Names ends) {
  const Nesting nesting(*this);
  Block block;
  while (!current().is(Token::Kind::end)) {
    const auto token = take();
    if (token.is(Token::Kind::data)) {
      block.statements.push_back({token.line, Data{token.text}});
    } else if (token.is(Token::Kind::variable_begin)) {
      block.statements.push_back({token.line, Print{tuple()}});
      expect(Token::Kind::variable_end, "end of print statement");
    } else {
      if (current().is(Token::Kind::name) &&
          std::find(ends.begin(), ends.end(), current().text) != ends.end())
        return block;
      statement(block);
      expect(Token::Kind::block_end, "end of statement block");
    }
  }
  if (ends.size() > 0)
    fail(fmt::format("Unexpected end of template. Jinja was looking for the following tags: '{}'.",
                     fmt::join(ends, "' or '")));
  return block;
}

Block Parser::body(Names ends) {
  skip_symbol(":");
  expect(Token::Kind::block_end, "end of statement block");
  return statements(ends);
}

Block Parser::body_and_end(std::string_view end) {
  Block block = body({end});
  take();
  return block;
}

void Parser::statement(Block& into) {
  using Parse = void (Parser::*)(Block&);
  static const std::unordered_map<std::string_view, Parse> table = {
      {"if", &Parser::if_statement},
      {"for", &Parser::for_statement},
      {"set", &Parser::set_statement},
      {"macro", &Parser::macro_statement},
      {"call", &Parser::call_statement},
      {"generation", &Parser::generation_statement},
      {"filter", &Parser::filter_statement},
      {"with", &Parser::with_statement},
      {"print", &Parser::print_statement},
      {"break", &Parser::break_statement},
      {"continue", &Parser::continue_statement},
  };
  if (!current().is(Token::Kind::name)) fail("tag name expected");
  const auto found = table.find(current().text);
  if (found == table.end())
    fail(fmt::format("{} tag {}.",
                     is_one_of(unsupported, current().text) ? "Unsupported" : "Encountered unknown",
                     quote(current().text)));
  take();
  (this->*found->second)(into);
}

void Parser::if_statement(Block& into) {
  const auto line = current().line;
  If node;
  do {
    auto test = tuple(false);
    auto then = body({"elif", "else", "endif"});
    node.branches.push_back({std::move(test), std::move(then)});
  } while (skip_name("elif"));
  if (take().text == "else") node.otherwise = body_and_end("endif");
  into.statements.push_back({line, std::move(node)});
}

void Parser::for_statement(Block& into) {
  const auto line = current().line;
  For node;
  node.target = target(false);
  expect_name("in");
  node.iterable = tuple(false);
  if (skip_name("if")) node.test = expression();
  node.is_recursive = skip_name("recursive");
  ++loops_;
  node.body = body({"endfor", "else"});
  --loops_;
  if (take().text == "else") {
    // Jinja makes a function of a recursive loop, which no loop around it can be left from.
    const int around = std::exchange(loops_, node.is_recursive ? 0 : loops_);
    node.otherwise = body_and_end("endfor");
    loops_ = around;
  }
  into.statements.push_back({line, std::move(node)});
}

void Parser::set_statement(Block& into) {
  const auto line = current().line;
  Target to = target(true);
  if (skip_symbol("=")) {
    auto value = tuple();
    into.statements.push_back({line, Set{std::move(to), std::move(value)}});
    return;
  }
  auto with = current().is_symbol("|") ? filter(nullptr) : nullptr;
  auto block = body_and_end("endset");
  into.statements.push_back({line, SetBlock{std::move(to), std::move(with), std::move(block)}});
}

void Parser::macro_statement(Block& into) {
  const auto line = current().line;
  const std::string name = take_name();
  if (is_one_of(reserved, name)) fail(line, "can't assign to 'name'");
  auto parameters = signature();
  auto macro = macro_body(name, std::move(parameters), "endmacro");
  into.statements.push_back({line, MacroDefinition{intern(name), std::move(macro)}});
}

void Parser::call_statement(Block& into) {
  const auto line = current().line;
  auto parameters = current().is_symbol("(") ? signature() : Signature{};
  auto call = expression();
  if (!std::holds_alternative<Call>(call->node)) fail(line, "expected call");
  auto caller = macro_body("", std::move(parameters), "endcall");
  into.statements.push_back({line, CallBlock{std::move(call), std::move(caller)}});
}

void Parser::generation_statement(Block& into) {
  const auto line = current().line;
  into.statements.push_back({line, CallBlock{nullptr, macro_body("", {}, "endgeneration")}});
}

void Parser::filter_statement(Block& into) {
  const auto line = current().line;
  auto with = filter(nullptr);
  into.statements.push_back({line, FilterBlock{std::move(with), body_and_end("endfilter")}});
}

void Parser::with_statement(Block& into) {
  const auto line = current().line;
  With node;
  while (!current().is(Token::Kind::block_end)) {
    if (!node.variables.empty()) expect_symbol(",");
    auto to = target(false);
    expect_symbol("=");
    node.variables.emplace_back(std::move(to), expression());
  }
  node.body = body_and_end("endwith");
  into.statements.push_back({line, std::move(node)});
}

void Parser::print_statement(Block& into) {
  for (bool first = true; !current().is(Token::Kind::block_end); first = false) {
    if (!first) expect_symbol(",");
    const auto line = current().line;
    into.statements.push_back({line, Print{expression()}});
  }
}

void Parser::break_statement(Block& into) {
  if (loops_ == 0) fail("'break' outside loop");
  into.statements.push_back({current().line, Break{}});
}

void Parser::continue_statement(Block& into) {
  if (loops_ == 0) fail("'continue' not properly in loop");
  into.statements.push_back({current().line, Continue{}});
}

Target Parser::target(bool with_namespace) {
  Target out{current().line};
  do {
    if (at_tuple_end()) break;
    out.elements.push_back(target_element(with_namespace));
    if (current().is_symbol(",")) out.is_tuple = true;
  } while (skip_symbol(","));
  if (out.is_tuple) return out;
  if (out.elements.empty()) fail(fmt::format("Expected an expression, got {}", quote(current().describe())));
  Target only = std::move(out.elements.front());
  return only;
}

Target Parser::target_element(bool with_namespace) {
  const Nesting nesting(*this);
  Target out{current().line};
  if (skip_symbol("(")) {
    out = target(false);
    expect_symbol(")");
    return out;
  }
  if (!current().is(Token::Kind::name)) fail(fmt::format("can't assign to {}", quote(current().describe())));
  const std::string name = take_name();
  if (is_one_of(reserved, name)) fail(out.line, "can't assign to 'const'");
  out.name = intern(name);
  if (with_namespace && skip_symbol(".")) out.attribute = take_name();
  return out;
}

Signature Parser::signature() {
  Signature out;
  expect_symbol("(");
  while (!current().is_symbol(")")) {
    if (!out.parameters.empty()) expect_symbol(",");
    const auto line = current().line;
    const std::string name = take_name();
    if (is_one_of(reserved, name)) fail(line, "can't assign to 'name'");
    if (std::find(out.parameters.begin(), out.parameters.end(), intern(name)) != out.parameters.end())
      fail(line, fmt::format("duplicate argument {} in macro definition", quote(name)));
    if (out.parameters.size() == most_parameters) fail(line, "too many parameters");
    if (skip_symbol("="))
      out.defaults.push_back(expression());
    else if (!out.defaults.empty())
      fail("non-default argument follows default argument");
    out.parameters.push_back(intern(name));
  }
  expect_symbol(")");
  return out;
}

std::unique_ptr<MacroBody> Parser::macro_body(std::string name, Signature parameters, std::string_view end) {
  const int around = std::exchange(loops_, 0);
  specials_.emplace_back();
  auto out =
      std::make_unique<MacroBody>(MacroBody{std::move(name), std::move(parameters), body_and_end(end)});
  const auto uses = specials_.back();
  specials_.pop_back();
  loops_ = around;
  auto& made = out->signature;
  const auto is_explicit = [&](NameId special) {
    return std::find(made.parameters.begin(), made.parameters.end(), special) != made.parameters.end();
  };
  made.takes_caller = uses[caller_name];
  made.takes_kwargs = uses[kwargs_name] && !is_explicit(kwargs_name);
  made.takes_varargs = uses[varargs_name] && !is_explicit(varargs_name);
  return out;
}

// ---- tokens and names

Parser::Nesting::Nesting(Parser& p) : parser(p) {
  if (parser.nesting_ == deepest_syntax) parser.fail("nested too deeply");
  ++parser.nesting_;
}

bool Parser::skip_symbol(std::string_view symbol) {
  if (!current().is_symbol(symbol)) return false;
  ++at_;
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  ++at_;
  return true;
}

void Parser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail_expected(symbol);
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail_expected(name);
}

void Parser::expect(Token::Kind kind, std::string_view description) {
  if (!current().is(kind)) fail_expected(description);
  take();
}

std::string Parser::take_name() {
  if (!current().is(Token::Kind::name)) fail_expected("name");
  return take().text;
}

NameId Parser::intern(const std::string& name) {
  const auto [found, is_new] = ids_.emplace(name, static_cast<NameId>(names_.size()));
  if (is_new) names_.push_back(name);
  return found->second;
}

void Parser::fail(const std::string& message) const { fail(current().line, message); }

void Parser::fail(std::size_t line, const std::string& message) const {
  throw TemplateError(line, message, false);
}

void Parser::fail_expected(std::string_view description) const {
  if (current().is(Token::Kind::end))
    fail(fmt::format("unexpected end of template, expected '{}'.", description));
  fail(fmt::format("expected token '{}', got {}", description, quote(current().describe())));
}

}  // namespace hearth::jinja
