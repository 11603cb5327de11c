// Chat templates against Jinja2: every template of the shared folder over every conversation of
// golden/chat_templates.json, and the small templates of golden/jinja_cases.json. Both were rendered by
// golden/make_chat_templates.py.
#include "hearth/chat_template.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "expect_error.h"

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;
using test::expect_error;

const auto now = std::chrono::local_days(std::chrono::year(2025) / 3 / 4) + std::chrono::hours(15) +
                 std::chrono::minutes(6) + std::chrono::seconds(7);

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Json golden(const char* name) {
  return Json::parse(contents(std::filesystem::path(HEARTH_GOLDEN_DIR) / name));
}

std::string fnv1a(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char out[17];
  std::snprintf(out, sizeof out, "%016llx", static_cast<unsigned long long>(value));
  return out;
}

// The end of what two texts have in common, and what follows in each.
std::string difference(const std::string& got, const std::string& expected) {
  std::size_t at = 0;
  while (at < got.size() && at < expected.size() && got[at] == expected[at]) ++at;
  const auto show = [&](const std::string& text) {
    return Json(text.substr(at < 30 ? 0 : at - 30, 80)).dump(-1, ' ', true, Json::error_handler_t::replace);
  };
  return "at byte " + std::to_string(at) + "\n  got      " + show(got) + "\n  expected " + show(expected);
}

// What the golden files say of a rendering: its text, the text's hash and size, what the template raised, or
// that there is an error.
template <typename Render>
void expect_result(const Json& expected, Render render) {
  try {
    const std::string text = render();
    if (expected.is_string())
      EXPECT_EQ(fnv1a(text) + " " + std::to_string(text.size()), expected.get<std::string>()) << text;
    else if (expected.contains("text"))
      EXPECT_TRUE(text == expected["text"].get<std::string>()) << difference(text, expected["text"]);
    else
      ADD_FAILURE() << "no error; Jinja2 has " << expected.dump() << "\n  got " << text;
  } catch (const TemplateError& error) {
    if (expected.contains("raised"))
      EXPECT_TRUE(error.raised() && error.message() == expected["raised"].get<std::string>())
          << error.what() << "\n  expected " << expected["raised"];
    else
      EXPECT_TRUE(expected.contains("error") && !error.raised()) << error.what();
  }
}

TEST(ChatTemplate, RendersLikeJinja2) {
  const std::filesystem::path folder = HEARTH_SHARED_DIR "/chat-templates";
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << "no chat templates in the shared folder beside the repository";
  const Json all = golden("chat_templates.json");
  const Json& conversations = all["conversations"];
  std::size_t renderings = 0;
  for (const auto& row : all["templates"]) {
    const std::string name = row["name"], source = contents(folder / name);
    ASSERT_EQ(fnv1a(source), row["source"].get<std::string>())
        << name << " has changed: run golden/make_chat_templates.py";
    for (std::size_t i = 0; i < conversations.size(); ++i) {
      const Json& chat = conversations[i];
      SCOPED_TRACE(name + ", conversation '" + chat["name"].get<std::string>() + "'");
      ChatOptions options;
      options.tools = chat.value("tools", Json());
      options.documents = chat.value("documents", Json());
      options.add_generation_prompt = chat["add_generation_prompt"];
      options.variables = chat["variables"];
      options.now = now;
      expect_result(row["results"][i],
                    [&] { return ChatTemplate(source).render(chat["messages"], options); });
      ++renderings;
    }
  }
  EXPECT_GT(renderings, 2500u);
}

TEST(ChatTemplate, SmallTemplatesRenderLikeJinja2) {
  const Json cases = golden("jinja_cases.json");
  for (const auto& row : cases) {
    SCOPED_TRACE(row["source"].dump());
    expect_result(
        row, [&] { return ChatTemplate(row["source"]).render(row.value("variables", Json::object()), now); });
  }
  EXPECT_GT(cases.size(), 1000u);
}

// ---- the interface

TEST(ChatTemplate, TokensAndDateReachTheTemplate) {
  const ChatTemplate chat(
      "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
      "{{ add_generation_prompt }} {{ tools is none }} {{ mood }} {{ strftime_now('%d.%m.%Y') }}");
  ChatOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.variables = {{"mood", "good"}};
  options.now = now;
  EXPECT_EQ(chat.render(Json::parse(R"([{"role": "user", "content": "Hi"}])"), options),
            "<s>user: Hi</s>True True good 04.03.2025");
  options.bos_token.clear();
  EXPECT_EQ(ChatTemplate("{{ bos_token is defined }}").render(Json::array(), options), "False");
  // Without a date it is the clock's.
  EXPECT_GE(std::stoi(ChatTemplate("{{ strftime_now('%Y') }}").render(Json::object())), 2025);
}

TEST(ChatTemplate, ReasoningHasSeveralNames) {
  const ChatTemplate chat(
      "{% for m in messages %}{{ m.reasoning_content }}/{{ m.thinking }}/{{ m.keys()|list }} {% endfor %}");
  EXPECT_EQ(chat.render(Json::parse(R"([{"role": "assistant", "reasoning": "so"}, {"role": "user"}])"),
                        ChatOptions{}),
            "so/so/['thinking', 'role', 'reasoning', 'reasoning_content'] //['role'] ");
}

TEST(ChatTemplate, WhatIsNoConversationIsRefused) {
  const ChatTemplate chat("{{ messages }}");
  expect_error<ValueError>([&] { chat.render(Json::object(), ChatOptions{}); },
                           {"[chat_template] messages must be a list", "object"});
  expect_error<ValueError>([&] { chat.render(Json::parse(R"([{}, 3])"), ChatOptions{}); },
                           {"message 1 must be an object", "number"});
  expect_error<ValueError>([&] { chat.render(Json::array()); }, {"variables must be an object", "array"});
  ChatOptions options;
  options.variables = 5;
  expect_error<ValueError>([&] { chat.render(Json::array(), options); },
                           {"variables must be an object", "number"});
}

TEST(ChatTemplate, TextsMustBeUtf8) {
  expect_error<TemplateError>([] { ChatTemplate("a\xff"); }, {"the template is not UTF-8"});
  const ChatTemplate chat("{{ x }}");
  for (const char* text :
       {"\x80", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"})
    expect_error<TemplateError>([&] { chat.render(Json{{"x", text}}); }, {"not UTF-8"});
  expect_error<TemplateError>([&] { chat.render(Json{{"x", {{"\xff", 1}}}}); }, {"not UTF-8"});
  EXPECT_EQ(chat.render(Json{{"x", "\xf4\x8f\xbf\xbf\xee\x80\x80"}}), "\xf4\x8f\xbf\xbf\xee\x80\x80");
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  const auto line_of = [](const std::string& source) {
    try {
      ChatTemplate(source).render(Json::object());
    } catch (const TemplateError& error) {
      EXPECT_EQ(std::string(error.what()),
                "[chat_template] line " + std::to_string(error.line()) + ": " + error.message());
      return error.line();
    }
    return std::size_t{0};
  };
  EXPECT_EQ(line_of("\n\n{{ a.b }}"), 3u);
  EXPECT_EQ(line_of("{% if 1 %}\n{% set x = 1 + 'a' %}{% endif %}"), 2u);
  EXPECT_EQ(line_of("{{ 1 }}\r\n\r\n{{ 1 + }}"), 3u);
  EXPECT_EQ(line_of("{% macro m() %}\n{{ none + 1 }}\n{% endmacro %}\n\n{{ m() }}"), 2u);
  EXPECT_EQ(line_of("{% macro m() %}\n\n{% endmacro %}\n\n{{ m() + 1 }}"), 5u);
  EXPECT_EQ(line_of("{#\n#}{% raw %}\n{% endraw %}\n{% nope %}"), 4u);
  EXPECT_EQ(line_of("{{\n'a\nb'\n|nope }}"), 4u);
  expect_error<TemplateError>([] { ChatTemplate("{{ messages[0].role }}").render(Json::object()); },
                              {"line 1", "'messages' is undefined"});
  expect_error<TemplateError>(
      [] {
        ChatTemplate("{{ m.a.b }}").render(Json{{"m", Json::object()}});
      },
      {"'dict object' has no attribute 'a'"});
  expect_error<TemplateError>([] { ChatTemplate("{% block a %}{% endblock %}"); },
                              {"Unsupported tag 'block'"});
}

TEST(ChatTemplate, RendersFromSeveralThreads) {
  const ChatTemplate chat(
      "{% set ns = namespace(n=0) %}{% macro line(m) %}{{ m.text|upper }}{% endmacro %}"
      "{% for m in list %}{% set ns.n = ns.n + m.text|length %}{{ line(m) }}{% endfor %}{{ ns.n }}");
  std::vector<std::thread> threads;
  std::vector<std::string> results(8);
  for (std::size_t i = 0; i < results.size(); ++i)
    threads.emplace_back([&, i] {
      Json list = Json::array();
      for (std::size_t k = 0; k < 200; ++k) list.push_back({{"text", std::string(i + 1, 'a')}});
      for (int repeat = 0; repeat < 10; ++repeat) results[i] = chat.render(Json{{"list", list}});
    });
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i], std::string(200 * (i + 1), 'A') + std::to_string(200 * (i + 1)));
}

// ---- templates that mean harm

std::string repeated(std::string_view part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += part;
  return out;
}

// Runs in a thread with the stack that is promised to be enough, or more where code is not optimised.
void run_with_small_stack(const std::function<void()>& run) {
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const std::size_t stack = 1 << 20;
#else
  const std::size_t stack = 16 << 20;
#endif
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  pthread_t thread;
  const auto start = [](void* function) -> void* {
    (*static_cast<const std::function<void()>*>(function))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, start, const_cast<std::function<void()>*>(&run)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

void expect_refused(const std::string& source, std::string_view message) {
  SCOPED_TRACE(source.substr(0, 150));
  std::string found = "no error";
  run_with_small_stack([&] {
    try {
      ChatTemplate(source).render(Json::object());
    } catch (const TemplateError& error) {
      found = error.message();
    }
  });
  EXPECT_NE(found.find(message), found.npos) << found;
}

TEST(ChatTemplate, CallsWithoutEndAreRefused) {
  const char* const message = "calls itself too deeply";
  expect_refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", message);
  expect_refused(
      "{% macro f() %}{% for x in [1] %}{% set y %}{% if 1 %}{{ [f()]|join }}{% endif %}{% endset %}{% "
      "endfor %}{% endmacro %}{{ f() }}",
      message);
  expect_refused(
      "{% macro f() %}{% filter upper %}{% call f() %}{{ caller() }}{% endcall %}{% endfilter %}{% endmacro "
      "%}{{ f() }}",
      message);
  expect_refused("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", message);
  expect_refused("{% set ns = namespace() %}{% set ns.ns = ns %}{{ [ns] }}", message);
  expect_refused(
      "{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = ns.g|map('string') %}{% endfor "
      "%}{{ ns.g|list }}",
      message);
  expect_refused(
      "{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = [1]|select('in', ns.g) %}{% "
      "endfor %}{{ ns.g|list }}",
      message);
}

TEST(ChatTemplate, DeepNestingIsRefused) {
  const int many = 100'000;
  expect_refused("{{ " + repeated("(", many) + repeated(")", many) + " }}", "nested too deeply");
  expect_refused("{{ " + repeated("[", many) + repeated("]", many) + " }}", "nested too deeply");
  expect_refused("{{ " + repeated("{1:", many) + repeated("}", many) + " }}", "nested too deeply");
  expect_refused("{{ " + repeated("-", many) + "1 }}", "nested too deeply");
  expect_refused("{{ " + repeated("not ", many) + "1 }}", "nested too deeply");
  expect_refused("{{ " + repeated("1 if 1 else ", many) + "1 }}", "nested too deeply");
  expect_refused("{{ 1" + repeated(" if 1", many) + " }}", "too long");
  expect_refused("{{ 1" + repeated("+1", many) + " }}", "too long");
  expect_refused("{{ 1" + repeated(" or 1", many) + " }}", "too long");
  expect_refused("{{ x" + repeated(".x", many) + " }}", "too long");
  expect_refused("{{ x" + repeated("|e", many) + " }}", "too long");
  expect_refused("{{ x" + repeated("()", many) + " }}", "too long");
  expect_refused("{% set " + repeated("(", many) + "a" + repeated(")", many) + " = 1 %}",
                 "nested too deeply");
  for (const char* tag : {"{% if 1 %}", "{% for x in x %}", "{% macro m() %}", "{% set x %}", "{% with %}",
                          "{% call m() %}", "{% filter e %}", "{% generation %}"})
    expect_refused(repeated(tag, many), "nested too deeply");
  EXPECT_EQ(ChatTemplate("{{ 1" + repeated(" ~ 1", many) + " }}").render(Json::object()).size(),
            static_cast<std::size_t>(many) + 1);
  EXPECT_EQ(ChatTemplate("{% if 0 %}" + repeated("{% elif 0 %}", many) + "{% else %}a{% endif %}")
                .render(Json::object()),
            "a");

  const char* const loop = "{% set ns = namespace(v=1) %}{% for i in range(99999) %}{% set ns.v = ";
  for (const char* value : {"[ns.v]", "(ns.v,)", "{1: ns.v}", "cycler(ns.v)", "joiner(ns.v)", "[ns.v].count",
                            "{1: ns.v}.items()"})
    expect_refused(std::string(loop) + value + " %}{% endfor %}", "nested too deeply");
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});
  expect_error<TemplateError>(
      [&] {
        ChatTemplate("{{ deep }}").render(Json{{"deep", deep}});
      },
      {"nested too deeply"});
}

// Objects in objects in objects, by the ways that no depth counts: they must be destroyed without taking the
// stack.
TEST(ChatTemplate, LongChainsOfObjectsAreDestroyed) {
  const std::string begin = "{% set ns = namespace(a=none, b=none) %}{% for i in range(99999) %}",
                    end = "{% endfor %}";
  for (const char* body : {
           "{% set ns.a = namespace(a=ns.a) %}",
           "{% set ns.a = [ns.a]|map('string') %}",
           "{% for x in [1] %}{% set q = loop.changed(ns.a) %}{% set ns.a = loop %}{% endfor %}",
           "{% for x in [1] %}{% if ns.a %}{% set q = ns.a.changed(loop) %}{% else %}{% set ns.b = loop %}{% "
           "endif %}{% set ns.a = loop %}{% endfor %}",
           "{% set before = ns.a %}{% macro m() %}{{ before }}{% endmacro %}{% set ns.a = m %}",
       })
    EXPECT_EQ(ChatTemplate(begin + body + end).render(Json::object()), "") << body;
  EXPECT_EQ(ChatTemplate(begin +
                         "{% set n = namespace(x=none) %}{% set g = [n]|map(attribute='x')|batch(2) %}"
                         "{% if ns.b %}{% set m = ns.b %}{% set m.x = g %}{% set q = ns.a|first %}{% endif %}"
                         "{% set ns.a = g %}{% set ns.b = n %}" +
                         end)
                .render(Json::object()),
            "");
}

TEST(ChatTemplate, MemoryIsBounded) {
  const char* const memory = "too much memory";
  for (const char* source : {
           "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
           "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{{ 'a' * 10 ** 12 }}",
           "{{ [1] * 10 ** 12 }}",
           "{{ 'a'.center(10 ** 12) }}",
           "{{ 'a'|indent(10 ** 15) }}",
           "{{ '%1000000000d' % 1 }}",
           "{{ '%.1000000000f' % 1 }}",
           "{{ '%*d' % (10 ** 9, 1) }}",
           "{{ '{:1000000000}'.format(1) }}",
           "{{ '{:.1000000000f}'.format(1.0) }}",
           "{{ 'a\tb'.expandtabs(10 ** 15) }}",
           "{{ [1]|batch(10 ** 15, 0)|list }}",
           "{{ ('a' * 10 ** 6)|replace('a', 'b' * 10 ** 6) }}",
           "{{ ('a' * 10 ** 6).join(['x'] * 10 ** 5) }}",
           "{{ (['x'] * 10 ** 5)|join('a' * 10 ** 6) }}",
           "{{ ('{0}' * 10 ** 5).format('x' * 10 ** 5) }}",
           "{{ ('%s' * 10 ** 4) % (('x' * 10 ** 5,) * 10 ** 4) }}",
       })
    expect_refused(source, memory);
  expect_refused("{{ 'a'.zfill(10 ** 30) }}", "too long");
  expect_refused("{% for i in range(9999) %}{{ 'a' * 9999 }}{% endfor %}", "prints too much");
  expect_refused("{{ strftime_now('%1000000000d') }}", "too long");
  expect_refused("{{ range(10 ** 6) }}", "Range too big");
  expect_refused("{{ 10 ** 100 }}", "127 bits");
  expect_refused(std::string(5 << 20, ' '), "at most");
}

TEST(ChatTemplate, TimeIsBounded) {
  const std::string twice =
      "{% set ns = namespace(a=(1,), b=(1,)) %}{% for i in range(99) %}{% set ns.a = (ns.a, ns.a) %}{% set "
      "ns.b = (ns.b, ns.b) %}{% endfor %}";
  for (const std::string& source : {
           std::string("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"),
           twice + "{{ ns.a }}",
           twice + "{{ ns.a|tojson }}",
           twice + "{{ ns.a == ns.b }}",
           twice + "{{ ns.a < ns.b }}",
           twice + "{{ {ns.a: 1} }}",
           std::string(
               "{% set s = 'é' * 10 ** 5 %}{% for i in range(99999) %}{% set c = s[i] %}{% endfor %}"),
           std::string("{{ ('b' * 10 ** 6).strip('a' * 10 ** 6 ~ 'b') }}"),
           std::string("{{ [1]|slice(10 ** 15)|list }}"),
       })
    expect_refused(source, "too many steps");
  // Linear whatever the texts: these finish.
  EXPECT_EQ(
      ChatTemplate(
          "{{ ('a' * 3000000).find('a' * 1000000 ~ 'b') }}{{ ('a' * 3000000).rfind('b' ~ 'a' * 1000000) }}")
          .render(Json::object()),
      "-1-1");
}

TEST(ChatTemplate, LimitsCanBeSet) {
  const Json none = Json::object();
  expect_error<TemplateError>([&] { ChatTemplate("{{ 'a' * 100 }}", {.memory = 50}).render(none); },
                              {"too much memory"});
  expect_error<TemplateError>([&] { ChatTemplate("aaaaa{{ 1 }}", {.output = 5}).render(none); },
                              {"prints too much"});
  expect_error<TemplateError>(
      [&] { ChatTemplate("{% for i in range(100) %}{% endfor %}", {.steps = 50}).render(none); },
      {"too many steps"});
  EXPECT_EQ(ChatTemplate("aaaaa", {.output = 5}).render(none), "aaaaa");
}

}  // namespace
}  // namespace hearth
