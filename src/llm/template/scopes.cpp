// What Jinja2 finds out about names and filters when it compiles a template.
//
// Jinja2 decides once, for each scope, where each name comes from. A name that a scope sets, and that neither
// it has read before nor any scope around it mentions, is the scope's own from the beginning: it hides a
// variable of the same name that the template was given, even before it is set. (A macro or a loop that runs
// before the `set` can see this.) A name that is set only in the branch of an `if` hides nothing until then.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "llm/template/parser.h"
#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

// The names a scope mentions. True: hidden until it is set.
struct NameScope {
  const NameScope* around = nullptr;  // the scope this one is in
  const NameScope* before = nullptr;  // of the branch of an `if`: the same scope before it
  std::unordered_map<NameId, bool> names = {};

  bool has(NameId name) const {
    for (const auto* part = this; part; part = part->before)
      if (part->names.contains(name)) return true;
    return false;
  }
  bool mentions(NameId name) const { return has(name) || is_around(name); }
  bool is_around(NameId name) const { return around && around->mentions(name); }

  void load(NameId name) {
    if (!mentions(name)) names[name] = false;
  }
  void store(NameId name) {
    if (!has(name)) names[name] = !is_around(name);
  }
  void declare(NameId name) { names[name] = false; }
  // What a branch mentions may not have happened.
  void merge(const NameScope& branch) {
    for (const auto& [name, is_hidden] : branch.names) names.emplace(name, false);
  }
};

class Analysis {
 public:
  // Of a block with a scope of its own, whose parameters are declared.
  void block(Block& block, NameScope& scope) {
    for (const auto& statement : block.statements) note(statement, scope);
    for (const auto& [name, is_hidden] : scope.names)
      if (is_hidden) block.hidden.push_back(name);
    for (auto& statement : block.statements) descend(statement, scope, false);
  }

 private:
  // ---- the names that belong to a scope: not those of the scopes inside

  void note(const Expression& expression, NameScope& scope) {
    if (const auto* name = std::get_if<Name>(&expression.node)) scope.load(name->id);
    for_each_child(expression, [&](const Expression& child) { note(child, scope); });
  }

  void note(const Target& target, NameScope& scope) {
    for (const auto& element : target.elements) note(element, scope);
    if (target.is_tuple) return;
    if (!target.attribute.empty()) return scope.load(target.name);
    if (loops_ > 0) refuse_loop(target);
    scope.store(target.name);
  }

  void refuse_loop(const Target& target) const {
    for (const auto& element : target.elements) refuse_loop(element);
    if (!target.is_tuple && target.name == loop_name)
      throw TemplateError(target.line, "Can't assign to special loop variable in for-loop target", false);
  }

  void declare(const Target& target, NameScope& scope) {
    for (const auto& element : target.elements) declare(element, scope);
    if (!target.is_tuple) scope.declare(target.name);
  }

  void note(const Statement& statement, NameScope& scope) {
    std::visit(Overloaded{[](const auto&) {},  // nothing that belongs to this scope
                          [&](const Print& node) { note(*node.value, scope); },
                          [&](const If& node) { note_branches(node, scope); },
                          [&](const For& node) { note(*node.iterable, scope); },
                          [&](const Set& node) {
                            note(*node.value, scope);
                            note(node.target, scope);
                          },
                          [&](const SetBlock& node) { note(node.target, scope); },
                          [&](const MacroDefinition& node) { scope.store(node.name); },
                          [&](const CallBlock& node) {
                            if (node.call) note(*node.call, scope);
                          },
                          [&](const FilterBlock& node) { note(*node.filter, scope); },
                          [&](const With& node) {
                            for (const auto& variable : node.variables) note(*variable.second, scope);
                          }},
               statement.node);
  }

  // Each branch sees what was noted before the `if`, none sees another's names.
  void note_branches(const If& node, NameScope& scope) {
    note(*node.branches[0].test, scope);
    NameScope then{scope.around, &scope}, elif{scope.around, &scope}, otherwise{scope.around, &scope};
    for (const auto& statement : node.branches[0].then.statements) note(statement, then);
    for (std::size_t i = 1; i < node.branches.size(); ++i) {
      note(*node.branches[i].test, elif);
      NameScope branch{scope.around, &elif};
      for (const auto& statement : node.branches[i].then.statements) note(statement, branch);
      elif.merge(branch);
    }
    for (const auto& statement : node.otherwise.statements) note(statement, otherwise);
    for (const auto* branch : {&then, &elif, &otherwise}) scope.merge(*branch);
  }

  // ---- the scopes inside of a statement

  // `in_branch`: of an `if`, where unknown filters are an error only when they are reached.
  void descend(Statement& statement, NameScope& scope, bool in_branch) {
    const auto check = [&](const Expression& expression) { check_filters(expression, in_branch); };
    std::visit(Overloaded{[](auto&) {}, [&](Print& node) { check(*node.value); },
                          [&](If& node) {
                            for (auto& [test, then] : node.branches) {
                              check_filters(*test, true);
                              for (auto& inner : then.statements) descend(inner, scope, true);
                            }
                            for (auto& inner : node.otherwise.statements) descend(inner, scope, true);
                          },
                          [&](For& node) {
                            check(*node.iterable);
                            if (node.test) check_filters(*node.test, false);
                            ++loops_;
                            NameScope body{&scope}, otherwise{&scope};
                            refuse_loop(node.target);
                            declare(node.target, body);
                            body.declare(loop_name);
                            block(node.body, body);
                            block(node.otherwise, otherwise);
                            --loops_;
                          },
                          [&](Set& node) { check(*node.value); },
                          [&](SetBlock& node) {
                            NameScope body{&scope};
                            block(node.body, body);
                            if (node.filter) check_filters(*node.filter, false);
                          },
                          [&](MacroDefinition& node) { macro(*node.macro, scope); },
                          [&](CallBlock& node) {
                            if (node.call) check(*node.call);
                            macro(*node.caller, scope);
                          },
                          [&](FilterBlock& node) {
                            NameScope body{&scope};
                            block(node.body, body);
                            check_filters(*node.filter, false);
                          },
                          [&](With& node) {
                            NameScope body{&scope};
                            for (const auto& [target, value] : node.variables) {
                              check(*value);
                              declare(target, body);
                            }
                            block(node.body, body);
                          }},
               statement.node);
  }

  void macro(MacroBody& macro, const NameScope& around) {
    NameScope body{&around};
    for (const auto parameter : macro.signature.parameters) body.declare(parameter);
    for (const auto& value : macro.signature.defaults) {
      check_filters(*value, false);
      note(*value, body);
    }
    block(macro.body, body);
  }

  void check_filters(const Expression& expression, bool in_branch) {
    const auto check = [&](const auto& node, std::string_view what) {
      if (!node.builtin && !in_branch)
        throw TemplateError(expression.line, fmt::format("No {} named {}.", what, quote(node.name)), false);
    };
    if (const auto* filter = std::get_if<Filter>(&expression.node)) check(*filter, "filter");
    if (const auto* test = std::get_if<Test>(&expression.node)) check(*test, "test");
    const bool is_conditional = std::holds_alternative<Conditional>(expression.node);
    for_each_child(expression,
                   [&](const Expression& child) { check_filters(child, in_branch || is_conditional); });
  }

  int loops_ = 0;  // around
};

}  // namespace

void analyse(Template& parsed) {
  NameScope root;
  Analysis().block(parsed.body, root);
}

}  // namespace hearth::jinja
