#!/usr/bin/env python3
"""Writes tests/golden/gguf.json, what the reference package `gguf` reads in real files under ../shared, and
tests/golden/io/{reference,ordered,split-*}.gguf, small files that it wrote.

Long values stand in the JSON as their length and a hash (FNV-1a, 64 bits, over UTF-8 strings each ended by a zero
byte, or over the bytes of the array as they are in the file).
"""
import json
import pathlib
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import quantize

HERE = pathlib.Path(__file__).parent
SHARED = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent.parent.parent / "shared"
FILES = ["models/stories260K/stories260K.gguf"] + [
    f"tokenizers/vectors/ggml-vocab-{name}.gguf"
    for name in ("deepseek-coder", "deepseek-llm", "falcon", "gpt-2", "mpt", "phi-3")]


def fnv(data):
    result = 0xcbf29ce484222325
    for byte in data:
        result = (result ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return f"{result:016x}"


def describe(field):
    kinds = [kind.name for kind in field.types]
    if kinds[0] != "ARRAY":
        return {"type": kinds[0], "value": field.contents()}
    if kinds[1] == "ARRAY":  # the package yields its leaves in one row
        return {"type": "ARRAY ARRAY"}
    if kinds[1] == "STRING":
        data = b"".join(bytes(field.parts[index]) + b"\0" for index in field.data)
    else:
        data = b"".join(field.parts[index].tobytes() for index in field.data)
    return {"type": "ARRAY " + kinds[1], "length": len(field.data), "hash": fnv(data)}


def describe_file(path):
    reader = GGUFReader(path)
    return {
        "version": int(reader.fields["GGUF.version"].contents()),
        "metadata": {name: describe(field) for name, field in reader.fields.items() if not name.startswith("GGUF.")},
        "tensors": [{"name": tensor.name, "type": tensor.tensor_type.name,
                     "shape": [int(size) for size in reversed(tensor.shape)], "bytes": int(tensor.n_bytes),
                     "hash": fnv(tensor.data.tobytes()[:4096])} for tensor in reader.tensors],
    }


def pattern(shape, dtype):
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    return (i * 7 % 251 - 100 if np.issubdtype(dtype, np.integer) else (i % 11 - 5) / 4).astype(dtype).reshape(shape)


def add_tensors(writer):
    for name, dtype in {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i8": np.int8, "i16": np.int16,
                        "i32": np.int32, "i64": np.int64}.items():
        writer.add_tensor(name, pattern((3, 5, 2), dtype))
    for kind in (GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q5_1, GGMLQuantizationType.Q8_0,
                 GGMLQuantizationType.BF16):
        writer.add_tensor(kind.name.lower(), quantize(pattern((2, 3, 64), np.float32), kind), raw_dtype=kind)
    writer.add_tensor("iq2_s", np.zeros((2, 82), np.uint8), raw_dtype=GGMLQuantizationType.IQ2_S)


def write_reference():
    writer = GGUFWriter(HERE / "io" / "reference.gguf", "llama")
    writer.add_custom_alignment(64)
    for kind, value in {"UINT8": 200, "INT8": -100, "UINT16": 60000, "INT16": -30000, "UINT32": 4000000000,
                        "INT32": -2000000000, "UINT64": 2**64 - 1, "INT64": -2**63, "FLOAT32": 0.5,
                        "FLOAT64": 0.1, "BOOL": True, "STRING": "naïve \U0001f525"}.items():
        writer.add_key_value(f"test.{kind.lower()}", value, GGUFValueType[kind])
    writer.add_key_value("test.integers", [1, -2, 3], GGUFValueType.ARRAY)
    writer.add_key_value("test.floats", [1.5, -2.0], GGUFValueType.ARRAY)
    writer.add_key_value("test.bools", [True, False, True], GGUFValueType.ARRAY)
    writer.add_key_value("test.strings", ["", "a", "ü"], GGUFValueType.ARRAY)
    writer.add_key_value("test.nested", [["a", "b"], ["c"]], GGUFValueType.ARRAY)
    add_tensors(writer)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_ordered():
    """Keys in the order in which Hearth writes them."""
    writer = GGUFWriter(HERE / "io" / "ordered.gguf", "llama")
    writer.add_key_value("test.bool", True, GGUFValueType.BOOL)
    writer.add_key_value("test.nested", [["a", "b"], ["c"]], GGUFValueType.ARRAY)
    writer.add_key_value("test.string", "naïve", GGUFValueType.STRING)
    writer.add_tensor("odd", pattern((3,), np.int8))
    writer.add_tensor("f32", pattern((2, 3), np.float32))
    writer.add_tensor("q8_0", quantize(pattern((3, 64), np.float32), GGMLQuantizationType.Q8_0),
                      raw_dtype=GGMLQuantizationType.Q8_0)
    finish(writer)


def write_split():
    writer = GGUFWriter(HERE / "io" / "split.gguf", "llama", split_max_tensors=5)
    add_tensors(writer)
    finish(writer)


write_reference()
write_ordered()
write_split()
golden = {file: describe_file(SHARED / file) for file in FILES}
golden["reference.gguf"] = describe_file(HERE / "io" / "reference.gguf")
(HERE / "gguf.json").write_text(json.dumps(golden, indent=1, ensure_ascii=True) + "\n")
