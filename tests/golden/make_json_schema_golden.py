#!/usr/bin/env python3
"""Writes tests/golden/json_schema.json: schemas with texts, and whether the package `jsonschema` finds them valid.

With the command and a model as arguments, nothing is written: texts are generated under each schema, and checked.
"""
import json
import pathlib
import subprocess
import sys

import jsonschema  # with rfc3339-validator, for date-time

SCHEMAS = {
    "any": {},
    "true": True,
    "integer": {"type": "integer"},
    "small integer": {"type": "integer", "minimum": -7, "maximum": 120},
    "open integer": {"type": "integer", "exclusiveMinimum": 0},
    "open below": {"type": "integer", "exclusiveMaximum": -99},
    "between fractions": {"type": "integer", "minimum": 1.5, "maximum": 10.2},
    "big range": {"type": "integer", "minimum": 987, "maximum": 123456},
    "number": {"type": "number"},
    "share": {"type": "number", "minimum": 0, "maximum": 1},
    "open share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "signed": {"type": "number", "minimum": -12, "maximum": 3},
    "negative": {"type": "number", "maximum": -3},
    "string": {"type": "string"},
    "short": {"type": "string", "minLength": 2, "maxLength": 4},
    "pattern": {"type": "string", "pattern": "^[A-Z][a-z]+(-\\d{2,3})?$"},
    "found": {"type": "string", "pattern": "ab|cd$"},
    "quotes": {"type": "string", "pattern": "^[\"\\\\\\n]+$"},
    "date": {"type": "string", "format": "date"},
    "date-time": {"type": "string", "format": "date-time"},
    "uuid": {"type": "string", "format": "uuid"},
    "enum": {"enum": ["red", "grün", 3, None, {"a": [1, 2.5]}]},
    "const": {"const": "x\"y"},
    "typed enum": {"type": "string", "enum": ["a", 1, "b"]},
    "several types": {"type": ["string", "null", "integer"]},
    "array": {"type": "array", "items": {"type": "boolean"}},
    "counted array": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
    "tuple": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 1},
    "open tuple": {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "null"}, "minItems": 3,
                   "maxItems": 4},
    "object": {"type": "object"},
    "person": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0},
               "mail": {"type": ["string", "null"]}}, "required": ["name", "age"], "additionalProperties": False},
    "all optional": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"},
                     "c": {"type": "integer"}}, "additionalProperties": False},
    "others": {"type": "object", "properties": {"ab": {"type": "integer"}, "abc": {"type": "null"}},
               "additionalProperties": {"type": "string"}},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "required only": {"type": "object", "required": ["x"]},
    "anyOf": {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "string", "maxLength": 1}]},
    "oneOf": {"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}},
                         "required": ["kind", "x"], "additionalProperties": False},
                        {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"],
                         "additionalProperties": False}]},
    "allOf": {"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                        {"properties": {"b": {"type": "string"}}, "required": ["b"]}]},
    "tree": {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
        "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["value"], "additionalProperties": False}}},
    "no type": {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
}

VALUES = [
    0, 1, -1, 2, 3, 5, 7, 9, 10, 11, 12, 42, 99, -7, -8, -99, -100, -101, 120, 121, 986, 987, 1000, 99999, 123456, 123457,
    0.5, 1.5, -0.5, 0.25, 3.5, -12.5, -3.5, -2.5, 0.0, 1.0, 1e5,
    "", "a", "ab", "abc", "abcd", "abcde", "xaby", "cd", "cde", "Anna", "Anna-12", "Anna-1", "anna", "ä€😀", "a\"b\\c\n", "\"\\\n",
    "red", "grün", "x\"y", "b", "2024-02-28", "2024-12-31", "2024-04-31", "2024-13-01", "2024-02-28T10:00:00Z", "2024-02-28T25:00:00Z",
    "123e4567-e89b-12d3-a456-426614174000", None, True, False,
    [], [True], [True, False], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [1, "a"], [1, "a", None], ["a"], [1, None, None], [1, None],
    [1, None, None, None], [1, None, None, None, None], [[], {}],
    {}, {"a": 1}, {"a": "1"}, {"a": 1, "b": 2}, {"b": 2}, {"a": 1, "c": 3}, {"c": 3}, {"d": 1}, {"a": 1, "b": "x"}, {"x": 1}, {"x": None},
    {"a": [1, 2.5]}, {"name": "A", "age": 3}, {"name": "A"}, {"name": "A", "age": -3}, {"name": "A", "age": 3, "mail": None},
    {"name": "A", "age": 3, "mail": "m"}, {"name": "A", "age": 3, "other": 1}, {"ab": 1}, {"ab": "1"}, {"abc": None},
    {"abc": "x"}, {"ab": 1, "abc": None}, {"ab": 1, "x": "y"}, {"ab": 1, "abcd": "y", "a": "z", "": "e"}, {"ab": 1, "x": 2},
    {"kind": "a", "x": 1}, {"kind": "b"}, {"kind": "a"}, {"kind": "c"}, {"kind": "b", "x": 1},
    {"value": 1}, {"value": 1, "children": []}, {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}, {"value": 4}]},
    {"value": 1, "children": [{"value": "x"}]}, {"value": 1, "children": [3]},
]


def valid(schema, value):
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).is_valid(value)


def check(command, model):
    for name, schema in SCHEMAS.items():
        for seed in range(1, 21):
            result = subprocess.run([command, "run", model, "Once", "-q", "--json", "-n", "400", "--seed", str(seed), "--temp",
                                     str(0.5 + seed % 4), "--top-k", "0", "--top-p", "1", "--min-p", "0", "--json-schema",
                                     json.dumps(schema) if schema is not True else "{}"], capture_output=True, check=True)
            text = json.loads(result.stdout)
            if text["finish_reason"] == "end":
                value = json.loads(text["text"])
                assert valid(schema, value), (name, text["text"])
            else:
                print(name, seed, text["finish_reason"], text["text"][:60])


if len(sys.argv) > 2:
    check(*sys.argv[1:])
else:
    golden = {"texts": [json.dumps(value, ensure_ascii=False) for value in VALUES],
              "schemas": [{"name": name, "schema": schema, "valid": "".join(str(int(valid(schema, value))) for value in VALUES)}
                          for name, schema in SCHEMAS.items()]}
    path = pathlib.Path(__file__).parent / "json_schema.json"
    path.write_text(json.dumps(golden, ensure_ascii=False) + "\n")
