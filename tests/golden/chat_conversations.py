"""The conversations that make_chat_templates.py renders with every template."""

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place, now.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city, e.g. \"Zürich\""},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            },
            "required": ["city"],
        },
    },
}

SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Searches documents.\nReturns the best ones.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for; 'quotes' & <tags> are kept"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 18446744073709551615, "default": 10},
                "score": {"type": ["number", "null"], "minimum": 0.5},
                "tags": {"type": "array", "items": {"type": "string"}, "description": "Any of these"},
                "filter": {
                    "type": "object",
                    "properties": {"year": {"type": "integer"}, "open": {"type": "boolean", "default": False},
                                   "by": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
                    "required": ["year"],
                    "additionalProperties": False,
                },
                "mode": {"$ref": "#/$defs/mode"},
            },
            "required": ["query", "tags"],
            "$defs": {"mode": {"type": "string", "enum": ["fast", "exact"]}},
        },
        "return": {"type": "array", "items": {"type": "string"}},
    },
}

NOTHING = {"type": "function", "function": {"name": "ping", "description": "", "parameters": {"type": "object", "properties": {}}}}


def system(text="You are a helpful assistant."):
    return {"role": "system", "content": text}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, number=1):
    return {"id": f"call{number:05}", "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, number=1, name="get_weather"):
    return {"role": "tool", "tool_call_id": f"call{number:05}", "name": name, "content": content}


def conversation(name, *messages, prompt=True, tools=None, tokens=TOKENS, documents=None, **variables):
    out = {"name": name, "messages": list(messages), "add_generation_prompt": prompt, "variables": {**tokens, **variables}}
    if tools is not None:
        out["tools"] = tools
    if documents is not None:
        out["documents"] = documents
    return out


TURNS = [system(), user("Hello!"), assistant("Hi. What can I do?"), user("Count to three."), assistant("1, 2, 3"),
         user("Thanks")]
CALL = [user("How is the weather in Zürich?"), assistant("", tool_calls=[call("get_weather", {"city": "Zürich"})]),
        tool("{\"temperature\": 21.5, \"sky\": \"clear\"}")]
PARALLEL = [system("Use tools."), user("Zürich and Paris?"),
            assistant("Let me see.", tool_calls=[call("get_weather", {"city": "Zürich", "unit": "celsius"}, 1),
                                                 call("get_weather", {"city": "Paris", "days": 2, "exact": True,
                                                                      "more": None, "at": [1, 2.5, "x"],
                                                                      "where": {"lat": -1e-7, "lon": 1e22}}, 2)]),
            tool("21", 1), tool("18", 2)]
HOSTILE = "<|im_end|>\n<b>\"it's\" & 'so'</b> \\n {{ 7*7 }} {% raw %} \t\u00a0\u200b\u2028 \U0001f600 ﷽ e\u0301 \x7f\x01"

CONVERSATIONS = [
    conversation("user", user("Hello, who are you?")),
    conversation("user, no prompt", user("Hello, who are you?"), prompt=False),
    conversation("no tokens", user("Hello"), tokens={}),
    conversation("turns", *TURNS),
    conversation("turns, no prompt", *TURNS[:-1], prompt=False),
    conversation("two systems", system("One."), system("Two."), user("Hello")),
    conversation("developer", {"role": "developer", "content": "Be brief."}, user("Hello")),
    conversation("tools", user("How is the weather?"), tools=[WEATHER, SEARCH]),
    conversation("tools and system", system("Be brief."), user("How is the weather?"), tools=[NOTHING, WEATHER],
                 prompt=False),
    conversation("no tools", user("Hello"), tools=[]),
    conversation("call", *CALL, tools=[WEATHER]),
    conversation("call, text arguments", user("Weather?"),
                 assistant("", tool_calls=[call("get_weather", "{\"city\": \"Zürich\"}")]), tool("21"), tools=[WEATHER]),
    conversation("call, no content", user("Weather?"),
                 {"role": "assistant", "tool_calls": [call("get_weather", {"city": "Bern"})]}, tool("21"),
                 tools=[WEATHER]),
    conversation("call, null content", user("Ping"), assistant(None, tool_calls=[call("ping", {})]), tool("pong"),
                 tools=[NOTHING]),
    conversation("call and answer", *CALL, assistant("It is clear."), user("And tomorrow?"), tools=[WEATHER]),
    conversation("parallel calls", *PARALLEL, tools=[WEATHER, SEARCH]),
    conversation("parallel calls and answer", *PARALLEL, assistant("21 and 18 degrees."), tools=[WEATHER], prompt=False),
    conversation("tool content in parts", *CALL[:2], {**CALL[2], "content": [{"type": "text", "text": "21"}]},
                 tools=[WEATHER]),
    conversation("tool content as object", *CALL[:2], {**CALL[2], "content": {"temperature": 21}}, tools=[WEATHER]),
    conversation("reasoning", user("2 + 2?"), assistant("4", reasoning_content="Two and two.\nFour."), user("Sure?")),
    conversation("reasoning, last", user("2 + 2?"), assistant("4", reasoning_content="Two and two."), prompt=False),
    conversation("reasoning and call", user("Weather?"),
                 assistant("", reasoning_content="I need a tool.", tool_calls=[call("get_weather", {"city": "Bern"})]),
                 tool("21"), assistant("21", reasoning="The tool said so."), tools=[WEATHER], prompt=False),
    conversation("thinking in content", user("2 + 2?"), assistant("<think>\nFour.\n</think>\n\n4"), user("Sure?")),
    conversation("parts", user([{"type": "text", "text": "Hello"}, {"type": "text", "text": " there"}]),
                 assistant([{"type": "text", "text": "Hi"}]), user([{"type": "text", "text": "Bye"}])),
    conversation("image", user([{"type": "image", "url": "cat.png"}, {"type": "text", "text": "What is this?"}])),
    conversation("unicode and quotes", system("Größe: \"2\" > '1'"), user(HOSTILE), assistant(HOSTILE), user("日本語 🎉")),
    conversation("hostile call", user(HOSTILE), assistant(HOSTILE, tool_calls=[call("search", {"query": HOSTILE})]),
                 tool(HOSTILE, name="search"), tools=[SEARCH]),
    conversation("empty content", system(""), user(""), assistant(""), user("")),
    conversation("white space", user("  \n hello \n\n "), assistant("\n hi\t "), user(" ")),
    conversation("no thinking", *TURNS, enable_thinking=False, thinking=False),
    conversation("thinking", *TURNS, enable_thinking=True, thinking=True, reasoning_effort="high"),
    conversation("no messages"),
    conversation("assistant first", assistant("Hello!"), user("Hi")),
    conversation("user twice", user("One."), user("Two.")),
    conversation("unknown role", user("One."), {"role": "critic", "content": "Bad."}),
    conversation("no content", {"role": "user"}),
    conversation("null content", user(None)),
    conversation("number as content", user(7)),
    conversation("documents", user("What do they say?"),
                 documents=[{"title": "First", "text": "Text of the first."}, {"title": "Second", "text": "More."}]),
    conversation("date and effort", user("Hello"), date_string="01 Jan 2030", reasoning_effort="low",
                 model_identity="You are Hearth.", builtin_tools=["browser", "python"]),
    conversation("fifty turns", system(), *[m for i in range(25) for m in (user(f"Question {i}?"), assistant(f"Answer {i}."))],
                 user("Enough?")),
]

# Those whose texts are stored in full.
SHOWN = {"turns", "parallel calls"}
