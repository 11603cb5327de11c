#!/usr/bin/env python3
"""Writes chat_templates.json and jinja_cases.json: what Hugging Face's transformers, over Jinja2, renders.

    make_chat_templates.py ../../../shared/chat-templates       # writes both
    make_chat_templates.py FOLDER --show TEMPLATE CONVERSATION  # prints one text, to look for a difference

Needs the packages transformers and jinja2; the templates are rendered by transformers' own function, with its clock
set. The first file holds the conversations of chat_conversations.py and, for every template, one result per
conversation: the text itself for a few, a hash and the length in bytes for the rest, or the error. The second holds
small templates of jinja_cases.py. chat_template_test.cpp reads both.
"""
import datetime
import json
import pathlib
import sys

import jinja2
import transformers
from transformers.utils import chat_template_utils

from chat_conversations import CONVERSATIONS, SHOWN
from jinja_cases import CASES

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2025, 3, 4, 15, 6, 7)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def error_of(exception):
    """{"raised": message} for raise_exception() of a template, {"error": class and message} for any other."""
    if type(exception) is jinja2.exceptions.TemplateError:
        return {"raised": str(exception)}
    return {"error": f"{type(exception).__name__}: {exception}"[:200]}


def render_chat(source, conversation):
    options = {name: value for name, value in conversation.items() if name not in ("name", "messages", "variables")}
    rendered, _ = chat_template_utils.render_jinja_template(
        [conversation["messages"]], chat_template=source, **options, **conversation.get("variables", {}))
    return rendered[0]


def chat_result(source, conversation):
    try:
        text = render_chat(source, conversation)
    except Exception as exception:  # whatever Python has
        return error_of(exception)
    if conversation["name"] in SHOWN:
        return {"text": text}
    data = text.encode()
    return f"{fnv1a(data)} {len(data)}"


def case_result(source, variables):
    case = {"source": source}
    if variables:
        case["variables"] = variables
    try:
        case["text"] = chat_template_utils._compile_jinja_template(source).render(**variables)
    except Exception as exception:
        case.update(error_of(exception))
    return case


def lines(items):
    """A JSON list with one item on each line."""
    return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in items) + "\n]"


def main():
    folder = pathlib.Path(sys.argv[1])
    chat_template_utils.datetime = Clock
    sources = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.jinja"))}
    if "--show" in sys.argv:
        template, name = sys.argv[3:5]
        print(render_chat(sources[template], next(c for c in CONVERSATIONS if c["name"] == name)), end="")
        return
    about = {"jinja2": jinja2.__version__, "transformers": transformers.__version__, "now": NOW.isoformat()}
    templates = [{"name": name, "source": fnv1a(source.encode()),
                  "results": [chat_result(source, conversation) for conversation in CONVERSATIONS]}
                 for name, source in sources.items()]
    (HERE / "chat_templates.json").write_text(
        f'{{"about": {json.dumps(about)},\n"conversations": {lines(CONVERSATIONS)},\n"templates": {lines(templates)}}}\n',
        encoding="utf-8")
    (HERE / "jinja_cases.json").write_text(lines(case_result(*case) for case in CASES) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
