// From tokens to the tree.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/template/ast.h"
#include "llm/template/lexer.h"

namespace hearth::jinja {

// Throws TemplateError. The grammar is Jinja2's, with the statements break, continue and generation; what
// needs other templates (block, extends, include, import) is not there, and neither is autoescape.
Template parse(std::string_view source);

class Parser {
 public:
  explicit Parser(std::string_view source);
  Template run();

 private:
  // ---- statements: parser.cpp

  using Names = std::initializer_list<std::string_view>;

  // Up to the tag that begins with one of `ends`, whose name becomes the current token; up to the end of the
  // template where there are none.
  Block statements(Names ends);
  // The rest of a tag, then statements.
  Block body(Names ends);
  Block body_and_end(std::string_view end);
  void statement(Block& into);
  void if_statement(Block& into);
  void for_statement(Block& into);
  void set_statement(Block& into);
  void macro_statement(Block& into);
  void call_statement(Block& into);
  void generation_statement(Block& into);
  void filter_statement(Block& into);
  void with_statement(Block& into);
  void print_statement(Block& into);
  void break_statement(Block& into);
  void continue_statement(Block& into);
  Target target(bool with_namespace);
  Target target_element(bool with_namespace);
  Signature signature();
  std::unique_ptr<MacroBody> macro_body(std::string name, Signature parameters, std::string_view end);

  // ---- expressions: expression_parser.cpp

  ExpressionPtr tuple(bool with_condition = true, bool in_parentheses = false);
  ExpressionPtr expression();
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr arithmetic(std::size_t level = 0);
  ExpressionPtr unary(bool with_filter = true);
  ExpressionPtr primary();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr object);
  ExpressionPtr filter(ExpressionPtr value);
  ExpressionPtr test(ExpressionPtr value);
  CallArguments call_arguments();
  std::string dotted_name();
  bool at_tuple_end() const;

  template <typename Node>
  ExpressionPtr make(std::size_t line, Node node) const;

  // ---- tokens and names

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return current().is(Token::Kind::end) ? current() : tokens_[at_++]; }
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  void expect_name(std::string_view name);
  void expect(Token::Kind kind, std::string_view description);
  std::string take_name();
  NameId intern(const std::string& name);
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail(std::size_t line, const std::string& message) const;
  [[noreturn]] void fail_expected(std::string_view description) const;

  // One level of nesting, while it lives.
  struct Nesting {
    explicit Nesting(Parser& parser);
    ~Nesting() { --parser.nesting_; }
    Parser& parser;
  };

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // around the current position, in this macro
  // Of the macros around the current position: which of the names with a meaning they use.
  std::vector<std::array<bool, varargs_name + 1>> specials_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, NameId> ids_;
};

// Finds names that statements hide, and what Jinja2 refuses when it compiles: scopes.cpp.
void analyse(Template& parsed);

}  // namespace hearth::jinja
