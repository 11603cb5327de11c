#!/usr/bin/env python3
"""Writes src/base/unicode_tables.inc: what Python's str methods know of each code point.

The tables are asked of the running Python itself (its Unicode version is in the first line of the output), so that
text functions that promise to behave like Python's can be exact.
"""
import pathlib
import sys
import unicodedata

OUT = pathlib.Path(__file__).parent.parent / "src/base/unicode_tables.inc"
ALL = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]


def runs(points, value=lambda c: 0):
    """Runs of code points, as (first, last, step, value): neighbours one or two apart that share a value."""
    out = []
    for c in points:
        if out:
            first, last, step, v = out[-1]
            if value(c) == v and c - last in ((step,) if last > first else (1, 2)):
                out[-1] = (first, c, c - last, v)
                continue
        out.append((c, c, 1, value(c)))
    return out


def rows(items):
    """Items, as many to a line as fit."""
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > 108:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + item + ","
    return "\n".join("    " + line for line in lines)


def property_table(name, test):
    found = runs([c for c in ALL if test(chr(c))])
    return (f"constexpr Run {name}_runs[] = {{\n"
            + rows(f"{{0x{a:x}, 0x{b:x}" + (", 2}" if step == 2 else "}") for a, b, step, _ in found) + "};\n")


def literal(text):
    return "".join(f"\\U{ord(c):08x}" if ord(c) > 0x9f else c for c in text)


def case_table(name, function):
    """Single code points become runs with an offset; the rest is listed."""
    changed = [c for c in ALL if function(chr(c)) != chr(c)]
    single = [c for c in changed if len(function(chr(c))) == 1]
    found = runs(single, lambda c: ord(function(chr(c))) - c)
    longer = [c for c in changed if len(function(chr(c))) != 1]
    return (f"constexpr CaseRun {name}_runs[] = {{\n"
            + rows(f"{{0x{a:x}, 0x{b:x}, {step}, {offset}}}" for a, b, step, offset in found) + "};\n"
            f"constexpr LongCase {name}_long[] = {{\n"
            + rows(f'{{0x{c:x}, "{literal(function(chr(c)))}"}}' for c in longer) + "};\n")


def final_sigma_ignores(c):
    """Case-ignorable: 'Σ' after it is final exactly when what stands before it is a letter with case."""
    return ("a" + c + "Σ").lower()[-1] == "ς" and (c + "Σ").lower()[-1] == "σ"


tables = [f"// Unicode {unicodedata.unidata_version}. Written by scripts/make_unicode_tables.py.\n// clang-format off\n"]
for name, test in [("space", str.isspace), ("alpha", str.isalpha), ("decimal", str.isdecimal), ("digit", str.isdigit),
                   ("numeric", str.isnumeric), ("upper", str.isupper), ("lower", str.islower),
                   ("title", lambda c: unicodedata.category(c) == "Lt"),
                   ("unprintable", lambda c: not c.isprintable()), ("case_ignorable", final_sigma_ignores)]:
    tables.append(property_table(name, test))
for name, function in [("to_lower", str.lower), ("to_upper", str.upper), ("to_title", str.title)]:
    tables.append(case_table(name, function))
OUT.write_text("".join(tables) + "// clang-format on\n", encoding="ascii")
