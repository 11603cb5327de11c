#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/<format>/: small files, good_* that must be read and bad_* that must be refused.

Only the standard library is needed. The files are committed; run this again after adding a case.
"""
import base64
import gzip
import io
import json
import lzma
import pathlib
import struct
import zipfile

CORPUS = pathlib.Path(__file__).parent / "corpus"


def put(kind, name, contents):
    folder = CORPUS / kind
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(contents)


# ---- checkpoints of PyTorch: zip archives with a pickle

def torch_archive(program, storages=(b"\0" * 16,), extra=()):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        members = [("file/data.pkl", program)] + [(f"file/data/{i}", s) for i, s in enumerate(storages)] + list(extra)
        for name, contents in members:
            archive.writestr(zipfile.ZipInfo(name), contents)
    return out.getvalue()


def torch_tensor(name=b"x", key=b"0", count=b"K\4", offset=b"K\0", sizes=b"K\4\x85", strides=b"K\1\x85",
                 storage=b"FloatStorage"):
    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value

    return (text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text(b"storage") + b"ctorch\n" + storage + b"\n" +
            text(key) + text(b"cpu") + count + b"tQ" + offset + sizes + strides + b"\x89ccollections\nOrderedDict\n)RtR")


def torch_files():
    start, stop = b"\x80\2", b"."
    put("torch", "good_tensor.pt", torch_archive(start + b"}" + torch_tensor() + b"s" + stop))
    put("torch", "good_two.pt",
        torch_archive(start + b"ccollections\nOrderedDict\n)R(" + torch_tensor(b"a") +
                      torch_tensor(b"b", sizes=b"K\2K\2\x86", strides=b"K\1K\2\x86") + b"u" + b"}b" + stop,
                      extra=[("file/byteorder", b"little"), ("file/version", b"3\n")]))
    put("torch", "bad_system.pt", torch_archive(start + b"cos\nsystem\nX\4\0\0\0true\x85R" + stop))
    put("torch", "bad_stack_global.pt",
        torch_archive(b"\x80\4\x8c\x08builtins\x8c\4eval\x93\x8c\0011\x85R."))
    put("torch", "bad_beyond.pt", torch_archive(start + b"}" + torch_tensor(offset=b"K\1") + b"s" + stop))
    put("torch", "bad_huge.pt",
        torch_archive(start + b"}" + torch_tensor(sizes=b"\x8a\x08" + b"\xff" * 7 + b"\x7f\x85", strides=b"K\0\x85") +
                      b"s" + stop))
    put("torch", "bad_itself.pt", torch_archive(start + b"}q\1X\1\0\0\0ah\1s" + stop))
    put("torch", "bad_storage.pt", torch_archive(start + b"}" + torch_tensor(storage=b"QInt8Storage") + b"s" + stop))
    put("torch", "bad_unfinished.pt", torch_archive(start + b"}" + torch_tensor()))
    put("torch", "bad_big_endian.pt",
        torch_archive(start + b"}" + torch_tensor() + b"s" + stop, extra=[("file/byteorder", b"big")]))
    put("torch", "bad_no_zip.pt", b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")


# ---- safetensors

def st_raw(header, data=b"", length=None):
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def st(entries, data=b""):
    return st_raw(json.dumps(entries, separators=(",", ":")), data)


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def safetensors():
    def good(name, contents):
        put("safetensors", f"good_{name}.safetensors", contents)

    def bad(name, contents):
        put("safetensors", f"bad_{name}.safetensors", contents)

    eight = bytes(range(8))
    good("no_tensors", st({}))
    good("one", st({"a": entry()}, eight))
    good("metadata", st({"__metadata__": {"format": "pt", "note": "ü"}, "a": entry()}, eight))
    good("padded", st_raw(json.dumps({"a": entry()}) + "    ", eight))
    good("scalar_and_empty", st({"s": entry("I64", (), (0, 8)), "e": entry("F32", (0, 3), (8, 8))}, eight))
    good("unaligned", st({"b": entry("U8", (1,), (0, 1)), "f": entry("F32", (1,), (1, 5))}, eight[:5]))
    good("unsupported_dtypes", st({"a": entry("U16", (2,), (0, 4)), "b": entry("F8_E4M3", (2,), (4, 6)),
                                   "c": entry("F4", (4,), (6, 8))}, eight))
    good("unknown_field", st({"a": {**entry(), "note": {"x": [1, {"y": None}], "dtype": "?"}}}, eight))
    good("bool", st({"a": entry("BOOL", (3,), (0, 3))}, b"\x00\x01\x01"))

    bad("empty_file", b"")
    bad("seven_bytes", b"\x02\0\0\0\0\0\0")
    bad("length_beyond_file", st_raw("{}", length=3))
    bad("length_huge", st_raw("{}", length=2**64 - 1))
    bad("length_over_limit", st_raw("{}", length=100_000_001))
    bad("length_zero", st_raw(""))
    bad("not_an_object", st_raw("[]"))
    bad("leading_space", st_raw(" {}"))
    bad("leading_bom", st_raw(b"\xef\xbb\xbf{}"))
    bad("not_json", st_raw('{"a":'))
    bad("trailing_text", st_raw("{} {}"))
    bad("nul_after_json", st_raw(b"{}\0garbage"))
    bad("not_utf8", st_raw(b'{"\xff":' + json.dumps(entry()).encode() + b"}", eight))
    bad("surrogate", st_raw('{"\\ud800":' + json.dumps(entry()) + "}", eight))
    one = json.dumps(entry())
    bad("tensor_twice", st_raw(f'{{"a":{one},"a":{one}}}', eight))
    bad("metadata_twice", st_raw('{"__metadata__":{},"__metadata__":{}}'))
    bad("metadata_key_twice", st_raw('{"__metadata__":{"k":"1","k":"2"}}'))
    bad("field_twice", st_raw('{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', eight))
    bad("metadata_number", st({"__metadata__": {"k": 1}}))
    bad("metadata_list", st({"__metadata__": []}))
    bad("metadata_nested", st({"__metadata__": {"k": {"l": "m"}}}))
    bad("entry_is_number", st({"a": 1}))
    bad("entry_is_list", st({"a": [entry()]}, eight))
    bad("no_dtype", st({"a": {"shape": [2], "data_offsets": [0, 8]}}, eight))
    bad("no_shape", st({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, eight))
    bad("no_offsets", st({"a": {"dtype": "F32", "shape": [2]}}, eight))
    bad("unknown_dtype", st({"a": entry("F31")}, eight))
    bad("lowercase_dtype", st({"a": entry("f32")}, eight))
    bad("dtype_is_number", st({"a": {**entry(), "dtype": 32}}, eight))
    bad("shape_is_number", st({"a": {**entry(), "shape": 2}}, eight))
    bad("shape_is_object", st({"a": {**entry(), "shape": {}}}, eight))
    bad("shape_nested", st({"a": {**entry(), "shape": [[2]]}}, eight))
    bad("shape_negative", st({"a": entry("F32", (-2,), (0, 8))}, eight))
    bad("shape_float", st({"a": entry("F32", (2.0,), (0, 8))}, eight))
    bad("shape_exponent", st_raw('{"a":{"dtype":"F32","shape":[2e0],"data_offsets":[0,8]}}', eight))
    bad("shape_string", st({"a": entry("F32", ("2",), (0, 8))}, eight))
    bad("shape_over_64_bits", st({"a": entry("F32", (2**70,), (0, 8))}, eight))
    bad("shape_63_bits", st({"a": entry("U8", (2**63,), (0, 8))}, eight))
    bad("shape_product_overflows", st({"a": entry("F32", (2**32, 2**32, 2), (0, 8))}, eight))
    bad("shape_product_wraps_to_8_bytes", st({"a": entry("U8", (2**61 + 1, 8), (0, 8))}, eight))
    bad("shape_zero_times_overflow", st({"a": entry("U8", (0, 2**40, 2**40), (0, 0))}))
    bad("shape_too_many_axes", st({"a": entry("U8", (1,) * 17, (0, 1))}, b"x"))
    bad("huge_number", st_raw('{"a":{"dtype":"F32","shape":[' + "9" * 400 + '],"data_offsets":[0,8]}}', eight))
    bad("huge_exponent", st_raw('{"a":{"dtype":"F32","shape":[1e999999],"data_offsets":[0,8]}}', eight))
    bad("offsets_one", st({"a": entry("F32", (2,), (0,))}, eight))
    bad("offsets_three", st({"a": entry("F32", (2,), (0, 8, 8))}, eight))
    bad("offsets_negative", st({"a": entry("F32", (2,), (-8, 0))}, eight))
    bad("offsets_reversed", st({"a": entry("F32", (2,), (8, 0))}, eight))
    bad("offsets_outside", st({"a": entry("F32", (4,), (0, 16))}, eight))
    bad("offsets_huge", st({"a": entry("F32", (2,), (2**64 - 8, 2**64 - 1))}, eight))
    bad("offsets_too_few_bytes", st({"a": entry("F32", (2,), (0, 7))}, eight))
    bad("unsupported_dtype_wrong_bytes", st({"a": entry("U16", (2,), (0, 8))}, eight))
    bad("half_a_byte", st({"a": entry("F4", (3,), (0, 2))}, eight[:2]))
    bad("overlap", st({"a": entry("F32", (2,), (0, 8)), "b": entry("F32", (1,), (4, 8))}, eight))
    bad("same_bytes", st({"a": entry(), "b": entry()}, eight))
    bad("hole", st({"a": entry("U8", (2,), (0, 2)), "b": entry("U8", (2,), (4, 6))}, eight[:6]))
    bad("hole_at_begin", st({"a": entry("U8", (2,), (2, 4))}, eight[:4]))
    bad("trailing_data", st({"a": entry()}, eight + b"x"))
    bad("data_without_tensors", st({}, b"x"))
    bad("truncated_data", st({"a": entry()}, eight[:7]))
    bad("deep_nesting", st_raw('{"a":' + "[" * 5000 + "]" * 5000 + "}"))
    bad("deep_nesting_in_unknown_field", st_raw('{"a":{"x":' + "[" * 5000 + "]" * 5000 + "}}"))
    bad("deep_objects", st_raw('{"a":{"x":' + '{"x":' * 2000 + "1" + "}" * 2000 + "}}"))
    bad("bool_two", st({"a": entry("BOOL", (3,), (0, 3))}, b"\x00\x01\x02"))


# ---- npy

def npy(descr="'<f4'", order="False", shape="(2,)", data=bytes(8), version=1, header=None, length=None):
    text = header if header is not None else \
        f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"
    text = text.encode("latin-1")
    size = struct.pack("<H" if version == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


def npy_files():
    def good(name, contents):
        put("npy", f"good_{name}.npy", contents)

    def bad(name, contents):
        put("npy", f"bad_{name}.npy", contents)

    good("f4", npy())
    good("version_2", npy(version=2))
    good("version_3", npy(version=3))
    good("scalar", npy(shape="()", data=bytes(4)))
    good("empty", npy(shape="(0, 3)", data=b""))
    good("python_2", npy(shape="(2L,)"))
    good("no_trailing_comma", npy(header="{'shape': (2,), 'fortran_order': False, 'descr': '<f4'}"))
    good("double_quotes", npy(header='{"shape": (2,), "fortran_order": False, "descr": "<f4"}'))
    good("bool", npy("'|b1'", shape="(3,)", data=b"\0\1\1"))
    good("bf16", npy("'<V2'", shape="(2,)", data=bytes(4)))
    good("fortran_big_endian", npy("'>i4'", "True", "(2, 3)", bytes(range(24))))
    good("fortran_four_axes", npy("'<i2'", "True", "(2, 1, 3, 2)", bytes(range(24))))

    bad("empty_file", b"")
    bad("magic_only", b"\x93NUMPY")
    bad("wrong_magic", b"\x93NUMPZ\x01\x00" + npy()[8:])
    bad("version_0", npy(version=0))
    bad("version_4", npy(version=4))
    bad("version_2_cut_short", b"\x93NUMPY\x02\x00\x00\x00")
    bad("header_cut_short", npy(length=5000))
    bad("header_over_limit", npy(version=2, length=2**32 - 1))
    bad("header_empty", npy(header=""))
    bad("header_not_a_dictionary", npy(header="[1, 2]"))
    bad("header_unfinished", npy(header="{'descr': '<f4', "))
    bad("header_trailing_text", npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x"))
    bad("key_twice", npy(header="{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"))
    bad("key_unknown", npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}"))
    bad("key_missing", npy(header="{'descr': '<f4', 'shape': (2,)}"))
    bad("code_as_header", npy(header="__import__('os').system('true')"))
    bad("dtype_object", npy("'|O'"))
    bad("dtype_structured", npy("[('x', '<f4')]"))
    bad("dtype_complex", npy("'<c8'"))
    bad("dtype_u2", npy("'<u2'", data=bytes(4)))
    bad("dtype_string", npy("'<U2'", data=bytes(16)))
    bad("dtype_empty", npy("''"))
    bad("dtype_escape", npy("'\\x3cf4'"))
    bad("order_number", npy(order="0"))
    bad("shape_number", npy(shape="2"))
    bad("shape_list", npy(shape="[2]"))
    bad("shape_negative", npy(shape="(-2,)"))
    bad("shape_negative_pair", npy(shape="(-1, -2)"))
    bad("shape_float", npy(shape="(2.0,)"))
    bad("shape_over_64_bits", npy(shape=f"({2**70},)"))
    bad("shape_product_overflows", npy(shape=f"({2**32}, {2**32}, 2)"))
    bad("shape_claims_too_much", npy(shape="(1000000000000,)"))
    bad("shape_zero_times_overflow", npy(shape=f"(0, {2**40}, {2**40})", data=b""))
    bad("shape_too_many_axes", npy(shape="(" + "1," * 17 + ")", data=bytes(4)))
    bad("shape_many_commas", npy(shape="(,)"))
    bad("data_cut_short", npy(data=bytes(7)))
    bad("data_too_long", npy(data=bytes(9)))
    bad("bool_two", npy("'|b1'", shape="(3,)", data=b"\0\1\2"))


# ---- npz

def npz(members, method=zipfile.ZIP_STORED, force_zip64=True, comment=b""):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, contents in members:
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=force_zip64) if method == 0 else \
                    archive.open(deflated_info(name), "w", force_zip64=force_zip64) as file:
                file.write(contents)
        archive.comment = comment
    return out.getvalue()


def deflated_info(name):
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def patched(contents, signature, offset, value, last=True):
    """Overwrites bytes at `offset` in the record with that signature."""
    position = (contents.rfind if last else contents.find)(signature) + offset
    return contents[:position] + value + contents[position + len(value):]


DIRECTORY, LOCAL, END = b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"


def zip64_directory(contents):
    """The same archive with its sizes and its end record in zip64 form."""
    end = contents.rfind(END)
    size, begin = struct.unpack("<II", contents[end + 12:end + 20])
    old = contents[begin:begin + size]
    crc_to_sizes = struct.unpack("<II", old[20:28])
    offset, = struct.unpack("<I", old[42:46])
    name_length, = struct.unpack("<H", old[28:30])
    extra = struct.pack("<HHQQQ", 1, 24, crc_to_sizes[1], crc_to_sizes[0], offset)
    new = old[:20] + b"\xff" * 8 + old[28:30] + struct.pack("<H", len(extra)) + old[32:42] + b"\xff" * 4 + \
        old[46:46 + name_length] + extra
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, len(new), begin)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, begin + len(new), 1)
    return contents[:begin] + new + end64 + locator + \
        struct.pack("<4sHHHHIIH", END, 0xffff, 0xffff, 0xffff, 0xffff, 2**32 - 1, 2**32 - 1, 0)


def npz_files():
    def good(name, contents):
        put("npz", f"good_{name}.npz", contents)

    def bad(name, contents):
        put("npz", f"bad_{name}.npz", contents)

    two = [("a.npy", npy()), ("b.npy", npy("'|u1'", shape="(300,)", data=bytes(300)))]
    stored, deflated = npz(two), npz(two, zipfile.ZIP_DEFLATED)
    single, single_deflated = npz(two[:1]), npz(two[1:], zipfile.ZIP_DEFLATED)
    good("stored", stored)
    good("deflated", deflated)
    good("no_members", npz([]))
    good("comment", npz(two, comment=b"PK\x05\x06 a comment"))
    good("zip64", zip64_directory(single))
    good("deflated_large", npz([("z.npy", npy("'|u1'", shape="(200000,)", data=bytes(200000)))],
                               zipfile.ZIP_DEFLATED))

    bad("empty_file", b"")
    bad("not_a_zip", b"x" * 100)
    bad("cut_short", stored[:-30])
    bad("cut_in_data", deflated[:100])
    bad("not_an_array", npz([("readme.txt", b"hello")]))
    bad("member_not_npy", npz([("a.npy", b"hello")]))
    bad("member_empty", npz([("a.npy", b"")]))
    bad("member_empty_deflated", npz([("a.npy", b"")], zipfile.ZIP_DEFLATED))
    bad("crc_stored", patched(single, DIRECTORY, 16, b"\1\2\3\4"))
    bad("crc_deflated", patched(single_deflated, DIRECTORY, 16, b"\1\2\3\4"))
    bad("data_damaged", single[:150] + b"\xff" + single[151:])
    bad("deflate_damaged", single_deflated[:60] + b"\xff\xff\xff" + single_deflated[63:])
    bad("encrypted", patched(single, DIRECTORY, 8, b"\1\0"))
    bad("method_bzip2", patched(single, DIRECTORY, 10, b"\x0c\0"))
    bad("size_lie_stored", patched(single, DIRECTORY, 24, struct.pack("<I", 1000)))
    bad("size_lie_deflated", patched(single_deflated, DIRECTORY, 24, struct.pack("<I", 1000)))
    bad("size_lie_smaller", patched(single_deflated, DIRECTORY, 24, struct.pack("<I", 200)))
    bad("size_impossible", patched(single_deflated, DIRECTORY, 24, struct.pack("<I", 2**31)))
    bad("zip64_missing", patched(single, DIRECTORY, 24, b"\xff" * 4))
    bad("zip64_end_elsewhere", patched(zip64_directory(single), b"PK\x06\x07", 8, struct.pack("<Q", 2**63)))
    bad("zip64_end_overlaps", patched(zip64_directory(single), b"PK\x06\x06", 48, struct.pack("<Q", 2**64 - 8)))
    bad("zip64_count_huge", patched(zip64_directory(single), b"PK\x06\x06", 32, struct.pack("<Q", 2**60)))
    bad("offset_outside", patched(single, DIRECTORY, 42, struct.pack("<I", 10**6)))
    bad("offset_wrong", patched(single, DIRECTORY, 42, struct.pack("<I", 1)))
    bad("directory_outside", patched(single, END, 16, struct.pack("<I", 10**6)))
    bad("directory_size_huge", patched(single, END, 12, struct.pack("<I", 2**31)))
    bad("count_too_large", patched(single, END, 10, struct.pack("<H", 2)))
    bad("several_parts", patched(single, END, 4, struct.pack("<H", 3)))
    bad("name_length_huge", patched(single, DIRECTORY, 28, b"\xff\xff"))
    bad("overlap", patched(stored, DIRECTORY, 42, struct.pack("<I", 0)))
    bad("name_twice", npz([("a.npy", npy()), ("b.npy", npy())]).replace(b"b.npy", b"a.npy"))
    # A bomb: the array's header claims what the directory claims, and deflate could just deliver it.
    bomb = npy("'|u1'", shape="(100000000,)", data=bytes(100000))
    info = npz([("a.npy", bomb)], zipfile.ZIP_DEFLATED)
    bad("bomb", patched(info, DIRECTORY, 24, struct.pack("<I", 100000000 + len(npy(shape="(100000000,)", data=b"")))))


# ---- idx

def idx(code=0x08, sizes=(2, 3), data=bytes(6), zeros=b"\0\0"):
    return zeros + bytes([code, len(sizes)]) + b"".join(struct.pack(">I", size) for size in sizes) + data


def idx_files():
    def good(name, contents):
        put("idx", f"good_{name}.idx", contents)

    def bad(name, contents):
        put("idx", f"bad_{name}.idx", contents)

    def gz(contents):
        return gzip.compress(contents, mtime=0)

    good("u8", idx())
    good("f32", idx(0x0d, (2,), struct.pack(">2f", 1.5, -2)))
    good("scalar", idx(sizes=(), data=b"x"))
    good("empty", idx(sizes=(0, 5), data=b""))
    good("gz", gz(idx()))
    good("gz_i16", gz(idx(0x0b, (3,), struct.pack(">3h", 1, -2, 3))))
    good("gz_two_members", gz(idx()[:7]) + gz(idx()[7:]))
    good("gz_padded", gz(idx()) + bytes(10))

    bad("empty_file", b"")
    bad("three_bytes", b"\0\0\x08")
    bad("wrong_magic", idx(zeros=b"\0\1"))
    bad("unknown_type", idx(0x0a))
    bad("too_many_axes", idx(sizes=(1,) * 17, data=b"x"))
    bad("header_cut_short", idx()[:9])
    bad("data_cut_short", idx()[:-1])
    bad("data_too_long", idx() + b"x")
    bad("claims_too_much", idx(sizes=(2**32 - 1,)))
    bad("overflows", idx(0x0e, (2**32 - 1,) * 3))
    bad("zero_times_overflow", idx(0x0e, (0,) + (2**32 - 1,) * 3, b""))
    bad("gz_cut_short", gz(idx())[:-9])
    bad("gz_no_trailer", gz(idx())[:-1])
    bad("gz_crc", gz(idx())[:-8] + b"\1\2\3\4" + gz(idx())[-4:])
    bad("gz_garbage_after", gz(idx()) + b"garbage")
    bad("gz_header_only", b"\x1f\x8b\x08")
    bad("gz_data_cut_short", gz(idx()[:-1]))
    bad("gz_data_too_long", gz(idx() + b"x"))
    bad("gz_claims_too_much", gz(idx(sizes=(2**32 - 1,))))
    bad("gz_claims_terabytes", gz(idx(sizes=(2**20, 2**20))))
    bad("gz_empty", gz(b""))


# ---- csv: good_ and bad_ here say whether the text is a table, not whether its cells are numbers

def csv_files():
    def good(name, contents):
        put("csv", f"good_{name}.csv", contents)

    def bad(name, contents):
        put("csv", f"bad_{name}.csv", contents)

    good("empty_file", b"")
    good("bom_only", b"\xef\xbb\xbf")
    good("header_only", b"a,b")
    good("numbers", b"a,b\n1,2\n-3.5e2,nan\n")
    good("crlf", b"a,b\r\n1,2\r\n\r\n3,4")
    good("quotes", b'a,"b ""c"""\n"1,\n2",\n"",x\n')
    good("quoted_last_line", b'a\n"x"')
    good("quoted_crlf", b'a\n"x"\r\n"y"\r\n')
    good("empty_cells", b"a,b,c\n,,\n")
    good("trailing_separator", b"a,\n1,\n")
    good("blank_lines", b"\n\na\n\n1\n\n\n")
    good("carriage_return_inside", b"a\nx\ry\n\r")
    good("high_bytes", b"a\n\xff\xfe\x00\n")
    good("huge_numbers", b"a\n1e999\n-1e-999\n99999999999999999999999\n" + b"9" * 1000 + b"\n")

    bad("ragged_short", b"a,b\n1\n")
    bad("ragged_long", b"a,b\n1,2,3\n")
    bad("unfinished_quote", b'a\n"x')
    bad("unfinished_quote_doubled", b'a\n"x""')
    bad("only_quote", b'"')
    bad("quote_inside", b'a\nx"y\n')
    bad("text_after_quote", b'a\n"x"y\n')
    bad("carriage_return_after_quote", b'a\n"x"\ry\n')


# ---- gguf

GGUF_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def gguf_text(text, length=None):
    text = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(text) if length is None else length) + text


def gguf_value(kind, value):
    """`value` of an array is (element kind, elements)."""
    if isinstance(value, bytes) and kind != 8:
        return value
    if kind == 8:
        return gguf_text(value)
    if kind == 9:
        return struct.pack("<IQ", value[0], len(value[1])) + b"".join(gguf_value(value[0], x) for x in value[1])
    return struct.pack("<" + GGUF_NUMBERS[kind], value)


def gguf_key(key, kind, value):
    return gguf_text(key) + struct.pack("<I", kind) + gguf_value(kind, value)


def gguf_tensor(name="t", sizes=(2,), kind=0, offset=0, axes=None):
    return gguf_text(name) + struct.pack("<I", len(sizes) if axes is None else axes) + \
        b"".join(struct.pack("<Q", size) for size in sizes) + struct.pack("<IQ", kind, offset)


def gguf(keys=(), tensors=(), data=b"", version=3, magic=b"GGUF", key_count=None, tensor_count=None, alignment=32):
    contents = magic + struct.pack("<IQQ", version, len(tensors) if tensor_count is None else tensor_count,
                                   len(keys) if key_count is None else key_count) + b"".join(keys) + b"".join(tensors)
    return contents + (bytes(-len(contents) % alignment) + data if tensors else b"")


def gguf_files():
    def good(name, contents):
        put("gguf", f"good_{name}.gguf", contents)

    def bad(name, contents):
        put("gguf", f"bad_{name}.gguf", contents)

    def nested(depth):
        value = (0, [1])
        for _ in range(depth - 1):
            value = (9, [value])
        return value

    one = [gguf_tensor()]
    good("empty", gguf())
    good("version_2", gguf([gguf_key("a", 4, 1)], version=2))
    good("numbers", gguf([gguf_key(f"k{kind}", kind, 1) for kind in GGUF_NUMBERS]))
    good("arrays", gguf([gguf_key(f"k{kind}", 9, (kind, [0, 1])) for kind in GGUF_NUMBERS]))
    good("strings", gguf([gguf_key("s", 8, "ü"), gguf_key("", 8, b"\xff\0"), gguf_key("l", 9, (8, ["", "a"]))]))
    good("nested", gguf([gguf_key("n", 9, nested(8))]))
    good("tensor", gguf([], one, bytes(range(8))))
    good("scalar_and_empty", gguf([], [gguf_tensor("s", ()), gguf_tensor("e", (3, 0), 1, 32)], bytes(32)))
    good("blocks", gguf([], [gguf_tensor("q", (64, 2), 8)], bytes(136)))
    good("types_not_supported", gguf([], [gguf_tensor("m", (32,), 39), gguf_tensor("u", (5,), 77, 32)], bytes(32)))
    good("hole", gguf([], [gguf_tensor("a", (2,)), gguf_tensor("b", (2,), 0, 96)], bytes(104)))
    good("not_in_order", gguf([], [gguf_tensor("a", (2,), 0, 32), gguf_tensor("b", (2,), 0, 0)], bytes(40)))
    good("alignment", gguf([gguf_key("general.alignment", 4, 8)], [gguf_tensor("a"), gguf_tensor("b", (2,), 0, 8)],
                           bytes(16), alignment=8))

    bad("empty_file", b"")
    bad("magic_only", b"GGUF")
    bad("wrong_magic", gguf(magic=b"GGUG"))
    bad("version_0", gguf(version=0))
    bad("version_1", gguf(version=1))
    bad("version_4", gguf(version=4))
    bad("big_endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0))
    bad("key_count_huge", gguf(key_count=2**64 - 1))
    bad("tensor_count_huge", gguf(tensor_count=2**64 - 1))
    bad("tensor_count_beyond", gguf([gguf_key("a", 8, bytes(1000))], tensor_count=20))
    bad("key_count_beyond", gguf([gguf_key("a", 4, 1)], key_count=2))
    bad("key_twice", gguf([gguf_key("a", 4, 1), gguf_key("a", 4, 1)]))
    bad("key_too_long", gguf([gguf_key("k" * 65536, 0, 1)]))
    bad("key_length_huge", gguf([gguf_text("a", 2**64 - 1) + bytes(20)]))
    bad("string_length_huge", gguf([gguf_text("a") + struct.pack("<I", 8) + gguf_text("x", 2**63)]))
    bad("array_length_huge", gguf([gguf_text("a") + struct.pack("<IIQ", 9, 12, 2**61)]))
    bad("array_of_strings_huge", gguf([gguf_text("a") + struct.pack("<IIQ", 9, 8, 2**40) + bytes(64)]))
    bad("array_of_arrays_huge", gguf([gguf_text("a") + struct.pack("<IIQ", 9, 9, 6) + bytes(64)]))
    bad("array_type", gguf([gguf_text("a") + struct.pack("<IIQ", 9, 13, 0)]))
    bad("value_type", gguf([gguf_text("a") + struct.pack("<IQ", 13, 0)]))
    bad("bool_two", gguf([gguf_key("a", 7, b"\2")]))
    bad("array_bool_two", gguf([gguf_key("a", 9, (7, [b"\2"]))]))
    bad("nested_too_deep", gguf([gguf_key("n", 9, nested(9))]))
    bad("nested_very_deep", gguf([gguf_text("n") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000]))
    bad("alignment_zero", gguf([gguf_key("general.alignment", 4, 0)]))
    bad("alignment_odd", gguf([gguf_key("general.alignment", 4, 24)]))
    bad("alignment_string", gguf([gguf_key("general.alignment", 8, "32")]))
    bad("alignment_large", gguf([gguf_key("general.alignment", 4, 2**31)], one, bytes(8)))
    bad("tensor_twice", gguf([], [gguf_tensor(), gguf_tensor("t", (2,), 0, 32)], bytes(40)))
    bad("axes_too_many", gguf([], [gguf_tensor(sizes=(1,) * 17)], bytes(4)))
    bad("axes_huge", gguf([], [gguf_tensor(axes=2**32 - 1)], bytes(8)))
    bad("size_negative", gguf([], [gguf_tensor(sizes=(2**64 - 2,))], bytes(8)))
    bad("sizes_overflow", gguf([], [gguf_tensor(sizes=(2**32, 2**32, 4))], bytes(8)))
    bad("bytes_overflow", gguf([], [gguf_tensor(sizes=(2**62,), kind=28)], bytes(8)))
    bad("zero_times_overflow", gguf([], [gguf_tensor(sizes=(0, 2**40, 2**40))], bytes(8)))
    bad("sizes_overflow_of_unknown_type", gguf([], [gguf_tensor(sizes=(2**40, 2**40), kind=99)], bytes(8)))
    bad("part_of_a_block", gguf([], [gguf_tensor(sizes=(48,), kind=2)], bytes(64)))
    bad("scalar_block", gguf([], [gguf_tensor(sizes=(), kind=2)], bytes(64)))
    bad("offset_not_aligned", gguf([], [gguf_tensor(offset=4)], bytes(12)))
    bad("offset_outside", gguf([], [gguf_tensor(offset=64)], bytes(40)))
    bad("offset_huge", gguf([], [gguf_tensor(offset=2**64 - 32)], bytes(40)))
    bad("offset_outside_of_unknown_type", gguf([], [gguf_tensor(kind=99, offset=2**40)], bytes(40)))
    bad("overlap", gguf([], [gguf_tensor("a", (16,)), gguf_tensor("b", (2,), 0, 32)], bytes(64)))
    bad("same_bytes", gguf([], [gguf_tensor("a"), gguf_tensor("b")], bytes(8)))
    bad("data_cut_short", gguf([], one, bytes(7)))
    bad("data_missing", gguf([], one)[:-8])
    bad("name_length_huge", gguf([], [gguf_text("t", 2**64 - 8) + bytes(40)], bytes(8)))


# ---- tokenizer.json

BYTE_CHARACTERS = [chr(b) for b in range(256) if 0x21 <= b <= 0x7e or 0xa1 <= b <= 0xac or b >= 0xae]


def bpe(vocab=("a", "b", "ab"), merges=(("a", "b"),), **more):
    vocab = {token: i for i, token in enumerate(vocab)} if not isinstance(vocab, dict) else vocab
    return {"type": "BPE", "vocab": vocab, "merges": [list(merge) for merge in merges], **more}


def added(id, content, **more):
    return {"id": id, "content": content, "special": True, **more}


def tokenizer_json_files():
    def text(model=None, **parts):
        return json.dumps({"version": "1.0", "model": bpe() if model is None else model, **parts}).encode()

    def good(name, contents):
        put("tokenizer_json", f"good_{name}.json", contents)

    def bad(name, contents):
        put("tokenizer_json", f"bad_{name}.json", contents)

    def normalizer(**fields):
        return text(normalizer=fields)

    def pre(**fields):
        return text(pre_tokenizer=fields)

    def decoder(**fields):
        return text(decoder=fields)

    good("smallest", text())
    good("merges_as_text", text({**bpe(), "merges": ["a b"]}))
    good("no_type", text({key: value for key, value in bpe().items() if key != "type"}))
    good("byte_level", text(bpe(BYTE_CHARACTERS + ["\u0120", "th"], [("t", "h")]),
                            pre_tokenizer={"type": "ByteLevel"}, decoder={"type": "ByteLevel"}))
    good("byte_fallback", text(bpe([f"<0x{b:02X}>" for b in range(256)] + ["<unk>", "a"], [], byte_fallback=True,
                                   unk_token="<unk>", fuse_unk=True), decoder={"type": "ByteFallback"}))
    good("added_tokens", text(added_tokens=[added(3, "<s>", lstrip=True, rstrip=True, normalized=False),
                                            added(0, "a"), added(5, "<x>", special=False, single_word=True)]))
    good("normalizers", normalizer(type="Sequence", normalizers=[
        {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": False},
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "StripAccents"}, {"type": "BertNormalizer"},
        {"type": "Replace", "pattern": {"Regex": " +"}, "content": " "},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]))
    good("pre_tokenizers", pre(type="Sequence", pretokenizers=[
        {"type": "Digits", "individual_digits": True}, {"type": "Punctuation"}, {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}, {"type": "BertPreTokenizer"},
        {"type": "Split", "pattern": {"Regex": "(?=b)"}, "behavior": "MergedWithNext", "invert": False},
        {"type": "Split", "pattern": {"String": "b"}, "behavior": "Contiguous", "invert": True},
        {"type": "ByteLevel", "use_regex": False}, {"type": "Whitespace"}]))
    good("decoders", decoder(type="Sequence", decoders=[
        {"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]))
    good("template", text(post_processor={
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a", "type_id": 0}},
                                                 {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"a": {"id": "a", "ids": [0], "tokens": ["a"]}}}))
    good("unigram", text({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1.5], ["ab", -2], ["\u2581", -3]]}))
    good("word_piece", text({"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "##b": 2}}))
    good("holes", text(bpe({"a": 0, "b": 5, "ab": 9})))
    good("null_parts", text(normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None))
    good("recursive_pattern", pre(type="Split", pattern={"Regex": "(a(?1)?b)"}, behavior="Isolated"))

    bad("empty_file", b"")
    bad("not_json", b"vocab")
    bad("not_utf8", b'{"model": "\xff"}')
    bad("nul", text() + b"\0")
    bad("a_list", b"[]")
    bad("cut_short", text()[:-5])
    bad("no_model", b"{}")
    bad("model_a_list", b'{"model": []}')
    bad("no_vocab", text({"type": "BPE", "merges": []}))
    bad("empty_vocab", text(bpe({}, [])))
    bad("unknown_model", text({"type": "WordLevel", "vocab": {"a": 0}}))
    bad("vocab_of_text", text({**bpe(), "vocab": {"a": "b"}}))
    bad("vocab_of_lists", text({**bpe(), "vocab": {"a": [0]}}))
    bad("id_negative", text(bpe({"a": -1}, [])))
    bad("id_huge", text(bpe({"a": 2**31}, [])))
    bad("id_over_63_bits", text(bpe({"a": 2**63}, [])))
    bad("id_beyond_tokens", text(bpe({"a": 100000}, [])))
    bad("id_fraction", text(bpe({"a": 0.5}, [])))
    bad("id_twice", text(bpe({"a": 0, "b": 0}, [])))
    bad("token_twice", text().replace(b'"b": 1', b'"a": 1'))
    bad("merge_of_no_token", text(bpe(merges=[("a", "c")])))
    bad("merge_to_no_token", text(bpe(merges=[("b", "a")])))
    bad("merge_of_three", text(bpe(merges=[("a", "b", "ab")])))
    bad("merge_of_one", text(bpe(merges=[("a",)])))
    bad("merge_of_numbers", text({**bpe(), "merges": [[0, 1]]}))
    bad("merge_without_space", text({**bpe(), "merges": ["ab"]}))
    bad("merge_empty", text({**bpe(), "merges": [""]}))
    bad("merge_of_nothing", text(bpe(merges=[("", "a")])))
    bad("merges_an_object", text({**bpe(), "merges": {"a": 0}}))
    bad("unknown_token_missing", text(bpe(unk_token="<unk>")))
    bad("continuing_prefix", text(bpe(continuing_subword_prefix="##")))
    bad("added_without_id", text(added_tokens=[{"content": "x"}]))
    bad("added_without_content", text(added_tokens=[{"id": 3}]))
    bad("added_elsewhere", text(added_tokens=[added(0, "x")]))
    bad("added_twice", text(added_tokens=[added(3, "x"), added(4, "x")]))
    bad("added_far_away", text(added_tokens=[added(10**9, "x")]))
    bad("added_not_a_list", text(added_tokens={}))
    bad("unigram_pair_of_three", text({"type": "Unigram", "vocab": [["a", 0, 0]]}))
    bad("unigram_without_score", text({"type": "Unigram", "vocab": [["a"]]}))
    bad("unigram_unknown_beyond", text({"type": "Unigram", "unk_id": 5, "vocab": [["a", 0]]}))
    bad("unigram_twice", text({"type": "Unigram", "vocab": [["a", 0], ["a", 0]]}))
    bad("word_piece_without_unknown", text({"type": "WordPiece", "vocab": {"a": 0}}))
    bad("unknown_normalizer", normalizer(type="Nmt"))
    bad("normalizer_a_string", text(normalizer="NFC"))
    bad("replace_without_content", normalizer(type="Replace", pattern={"String": " "}))
    bad("replace_nothing", normalizer(type="Replace", pattern={"String": ""}, content="x"))
    bad("charsmap_not_base64", normalizer(type="Precompiled", precompiled_charsmap="?"))
    bad("charsmap_cut_short", normalizer(type="Precompiled", precompiled_charsmap="AAAA/w=="))
    bad("unknown_pre_tokenizer", pre(type="UnicodeScripts"))
    bad("pattern_unbalanced", pre(type="Split", pattern={"Regex": "("}, behavior="Isolated"))
    bad("pattern_too_large", pre(type="Split", pattern={"Regex": "((((a{999}){999}){999}){999})"}, behavior="Isolated"))
    bad("pattern_of_bytes", pre(type="Split", pattern={"Regex": "\\C"}, behavior="Isolated"))
    bad("pattern_intersection", pre(type="Split", pattern={"Regex": "[a&&[b]]"}, behavior="Isolated"))
    bad("split_without_pattern", pre(type="Split", behavior="Isolated"))
    bad("split_behavior", pre(type="Split", pattern={"String": "a"}, behavior="Sideways"))
    bad("metaspace_scheme", pre(type="Metaspace", prepend_scheme="sometimes"))
    bad("unknown_decoder", decoder(type="CTC"))
    bad("strip_before_fuse", decoder(type="Strip", content=" ", start=1, stop=0))
    bad("unknown_post_processor", text(post_processor={"type": "X"}))
    bad("template_without_ids", text(post_processor={"type": "TemplateProcessing", "special_tokens": {},
                                                     "single": [{"SpecialToken": {"id": "a"}}]}))
    bad("template_id_beyond", text(post_processor={"type": "TemplateProcessing", "special_tokens": {"a": {"ids": [77]}},
                                                   "single": [{"SpecialToken": {"id": "a"}}]}))
    bad("bert_id_beyond", text(post_processor={"type": "BertProcessing", "sep": ["x", 7], "cls": ["a", 0]}))
    bad("deep_nesting", b'{"model":' + b"[" * 5000 + b"]" * 5000 + b"}")
    bad("deep_sequence", text(normalizer={"type": "Sequence", "normalizers": []}).replace(
        b"[]", b'[{"type": "Sequence", "normalizers": ' * 100 + b"[]" + b"}]" * 100))


# ---- tokenizer.model: messages of protocol buffers

def pb_number(value):
    out = b""
    value &= 2**64 - 1
    while True:
        out += bytes([value & 0x7f | (0x80 if value > 0x7f else 0)])
        value >>= 7
        if not value:
            return out


def pb(field, value):
    if isinstance(value, float):
        return pb_number(field << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, (bytes, str)):
        value = value.encode() if isinstance(value, str) else value
        return pb_number(field << 3 | 2) + pb_number(len(value)) + value
    return pb_number(field << 3) + pb_number(value)


def piece(text, score=0.0, kind=None):
    return pb(1, pb(1, text) + pb(2, score) + (b"" if kind is None else pb(3, kind)))


def tokenizer_model_files():
    def good(name, contents):
        put("tokenizer_model", f"good_{name}.model", contents)

    def bad(name, contents):
        put("tokenizer_model", f"bad_{name}.model", contents)

    start = piece("<unk>", 0.0, 2) + piece("<s>", 0.0, 3) + piece("</s>", 0.0, 3)
    letters = piece("\u2581", -1.0) + piece("a", -2.0) + piece("b", -3.0) + piece("ab", -4.0) + piece("\u2581ab", -5.0)
    byte_pieces = b"".join(piece(f"<0x{b:02X}>", 0.0, 6) for b in range(256))
    bpe_trainer, unigram_trainer = pb(2, pb(3, 2)), pb(2, pb(3, 1))
    plain = pb(3, pb(1, "identity") + pb(3, 1) + pb(4, 0) + pb(5, 1))

    good("bpe", start + letters + bpe_trainer + plain)
    good("unigram", start + letters + unigram_trainer + plain)
    good("nothing_but_pieces", start + letters)
    good("byte_fallback", start + byte_pieces + letters + pb(2, pb(3, 2) + pb(35, 1)) + plain)
    good("byte_fallback_incomplete", start + piece("<0x41>", 0.0, 6) + letters + pb(2, pb(3, 2) + pb(35, 1)))
    good("unused_and_user_defined", start + letters + piece("aab", -1.0, 5) + piece("aabb", -2.0) + piece("<x>", 0.0, 4) +
         bpe_trainer + plain)
    good("unknown_fields", pb(99, b"x") + start + letters + pb(2, pb(3, 2) + pb(1, "corpus.txt")) + pb(98, 1))
    good("characters_only_in_tokens", start + piece("a", -1.0) + piece("xy", -2.0) + piece("xyz", -3.0) + bpe_trainer)
    good("pieces_not_utf8", start + letters + piece(b"\xff\xfea", -6.0) + bpe_trainer)
    good("score_infinite", start + piece("a", float("inf")) + piece("b", float("-inf")) + piece("ab", -1.0) + bpe_trainer)
    bad("score_not_a_number", start + piece("a", float("nan")) + bpe_trainer)
    # A table of one rule: "A" becomes "a".
    trie = [0] * 512
    trie[0] = 1 << 10
    trie[0x41 ^ 1] = 0x41 | 1 << 8 | 256 << 10
    trie[0x41 ^ 1 ^ 256] = 0 | 1 << 31
    table = struct.pack("<I", 4 * len(trie)) + struct.pack(f"<{len(trie)}I", *trie) + b"a\0"
    good("character_map", start + letters + unigram_trainer + pb(3, pb(2, table)))

    bad("empty_file", b"")
    bad("text", b"hello world")
    bad("no_pieces", bpe_trainer + plain)
    bad("cut_short", (start + letters + bpe_trainer)[:-1])
    bad("piece_twice", start + letters + letters)
    bad("piece_kind", start + piece("x", 0.0, 7))
    bad("word_model", start + letters + pb(2, pb(3, 3)))
    bad("space_as_suffix", start + letters + pb(2, pb(3, 2) + pb(24, 1)))
    bad("spaces_not_escaped", start + letters + pb(3, pb(5, 0)))
    bad("length_huge", start + b"\x0a" + pb_number(2**63))
    bad("varint_too_long", b"\x08" + b"\xff" * 11)
    bad("wire_type", start + letters + b"\x0b")
    bad("piece_a_number", start + pb(1, 5))
    bad("text_a_number", start + pb(1, pb(1, 5)))
    bad("score_a_number", start + pb(1, pb(1, "x") + pb(2, 5)))
    bad("table_too_short", start + letters + pb(3, pb(2, b"\0")))
    bad("table_cut_short", start + letters + pb(3, pb(2, struct.pack("<I", 400))))
    bad("table_size_odd", start + letters + pb(3, pb(2, struct.pack("<I", 3) + bytes(8))))
    bad("table_not_utf8", start + letters + pb(3, pb(2, struct.pack("<II", 4, 0) + b"\xff\0")))
    bad("table_without_end", start + letters + pb(3, pb(2, struct.pack("<II", 4, 0) + b"a")))
    bad("table_replacement_long", start + letters + pb(3, pb(2, struct.pack("<II", 4, 0) + b"a" * 2000 + b"\0")))


# ---- tiktoken's ranks

def ranks_files():
    def good(name, contents):
        put("ranks", f"good_{name}.tiktoken", contents)

    def bad(name, contents):
        put("ranks", f"bad_{name}.tiktoken", contents)

    def lines(tokens):
        return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))

    all_bytes = [bytes([b]) for b in range(256)]
    good("bytes", lines(all_bytes))
    good("some", lines([b"a", b"b", b"ab", b"abab", b"ba"]))
    good("crlf", lines([b"a", b"b"]).replace(b"\n", b"\r\n"))
    good("no_last_newline", lines([b"a", b"b"])[:-1])
    good("unreachable", lines([b"a", b"b", b"xyz"]))
    good("long_runs", lines([b"a" * (i + 1) for i in range(40)]))
    bad("empty_file", b"")
    bad("text", b"hello world\n")
    bad("no_rank", b"YQ==\n")
    bad("rank_negative", b"YQ== -1\n")
    bad("rank_huge", b"YQ== 99999999999999999999\n")
    bad("rank_beyond", b"YQ== 1000000\n")
    bad("rank_twice", b"YQ== 0\nYg== 0\n")
    bad("token_twice", b"YQ== 0\nYQ== 1\n")
    bad("token_empty", b" 0\n")
    bad("not_base64", b"Y?== 0\n")
    bad("base64_bits_left", b"YR== 0\n")


def encode_files():
    texts = {
        "empty": b"", "words": b"Hello world, it's 42!", "spaces": b" " * 70 + b"\n\n\t x", "letters": b"a" * 3000,
        "special": b"<s> </s>[CLS] <|endoftext|>\n <sep>x \xc2\xabL\xc2\xbb  \xc2\xabW\xc2\xbb",
        "unicode": "\u4f60\u597d \U0001f999\u200d e\u0301 \u1112\u1161\u11ab \ufb01 \u0130 \ud7a3\u11a8".encode(),
        "bad_utf8": b"\xff\xc0\xaf\xed\xa0\x80 \xf0\x9f\xa6 \xe2\x82", "marks": "\u0301\u0323".encode() * 200,
        "nul": b"a\0b\0",
    }
    for name, text in texts.items():
        put("encode", f"good_{name}.txt", text)
# ---- chat templates, rendered with the conversation in entry_points.cpp

def chat_templates():
    def good(name, *lines):
        put("chat_template", f"good_{name}.jinja", "\n".join(lines).encode())

    def bad(name, *lines):
        put("chat_template", f"bad_{name}.jinja", "\n".join(lines).encode())

    good("empty")
    good("chatml", "{%- for m in messages -%}", "  {{- '<|im_start|>' + m.role + '\\n' ~ m.content|string|trim }}<|im_end|>",
         "{% endfor %}", "{% if add_generation_prompt %}<|im_start|>assistant", "{% endif %}")
    good("tools", "{% for t in tools %}{{ t|tojson(indent=2, sort_keys=true) }}{{ t.function.name }}{% endfor %}",
         "{% for m in messages if m.tool_calls is defined %}{% for c in m.tool_calls %}{{ c.function.arguments|tojson }}",
         "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}{% endfor %}{% endfor %}")
    good("macros", "{% macro m(a, b=1) %}{% endmacro %}",
         "{% macro show(x, deep=0) %}{% if x is mapping %}{% for k, v in x|dictsort %}{{ k }}:{{ show(v, deep + 1) }};{% endfor %}"
         "{% elif x is sequence and x is not string %}{% for v in x %}{{ show(v) }}{% endfor %}{% else %}{{ x|e }}{% endif %}"
         "{{ varargs }}{{ kwargs }}{% endmacro %}", "{{ show(messages) }}",
         "{% macro box() %}[{{ caller(1) }}]{% endmacro %}{% call(n) box() %}{{ n }}{% endcall %}")
    good("loops", "{% for m in messages %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.length }}"
         "{{ loop.cycle('a', 'b') }}{{ loop.changed(m.role) }}{{ loop.previtem.role if loop.previtem }}"
         "{% if loop.index == 2 %}{% continue %}{% endif %}{% if loop.index == 4 %}{% break %}{% endif %}{% else %}-{% endfor %}",
         "{% for x in [1, [2, [3]]] recursive %}{{ loop.depth }}{{ loop(x) if x is iterable else x }}{% endfor %}")
    good("scopes", "{% set ns = namespace(n=0, s='') %}{% for m in messages %}{% set ns.n = ns.n + loop.index %}{% set y = ns.n %}{% endfor %}",
         "{{ ns.n }}{{ y is defined }}{% set block | upper %}a{{ ns }}{% endset %}{{ block }}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}",
         "{% filter trim %} x {% endfilter %}{% generation %}g{% endgeneration %}{% set a, (b, c) = 1, [2, 3] %}{{ a }}{{ b }}{{ c }}")
    good("white_space", "  {%- if 1 %}  ", "  a {#- c -#} b", "{%+ if 1 +%}", " {% raw %} {{ x }} {%- endraw -%} ", "{% endif %}{% endif %}")
    good("filters", "{{ messages|map(attribute='role')|join(',') }}{{ messages|selectattr('role', 'equalto', 'user')|list|length }}",
         "{{ messages|groupby('role')|map('first')|list }}{{ [3, 1, 2]|sort|reverse|list }}{{ 'a b'|title|center(9)|indent }}",
         "{{ [1, 2, 3]|batch(2, 0)|list }}{{ [1, 2, 3]|slice(2)|list }}{{ [1, 1]|unique|list }}{{ [1, 2]|sum }}{{ [1, 2]|max }}",
         "{{ '12'|int }}{{ '1.5'|float }}{{ 2.5|round }}{{ -1|abs }}{{ 'x'|default('y', true) }}{{ {'a': 1}|xmlattr }}{{ 'a b'|urlencode }}",
         "{{ 'aa'|replace('a', 'b', 1)|truncate(9)|wordcount }}{{ 123456|filesizeformat }}{{ '<'|safe + '<' }}{{ '<'|escape }}")
    good("texts", "{{ 'a,b'.split(',') }}{{ ' a '.strip() }}{{ 'a'.center(5, '*') }}{{ 'ab'.partition('b') }}{{ 'x\\ny'.splitlines() }}",
         "{{ 'a'.upper().lower().title().swapcase() }}{{ 'aXb'.find('X') }}{{ '{:>5}{!r}{0}'.replace('{0}', '').format('a', 'b') }}",
         "{{ '%5.2f|%-5s|%05d|%x|%r|%%' % (1.5, 'a', 3, 255, 'q') }}{{ '%(a)s' % {'a': 1} }}{{ 'é日'[::-1] }}{{ 'abc'[-2:] }}",
         "{{ '{0[a]} {1.role} {n:+,.2f}'.format({'a': 1}, messages[0], n=1234.5) }}{{ '\\x41\\u00e9\\U0001f600\\101' }}")
    good("numbers", "{{ 7 // -2 }}{{ -7 % 3 }}{{ 2 ** 10 }}{{ 7 / 2 }}{{ 1e22 }}{{ 0x1F + 0b1 + 0o7 }}{{ x * 10 }}{{ n|string|int }}{{ 1_000 }}",
         "{{ 1 < 2 < 3 }}{{ 1 in [1] and not 2 in [] or none }}{{ 'a' if n else 'b' }}{{ [1, 2] < [1, 3] }}{{ range(9)[2:5]|list }}")
    good("tests", "{{ n is odd }}{{ n is number }}{{ q is undefined }}{{ tools is iterable }}{{ 'a' is in 'ab' }}{{ 6 is divisibleby 3 }}{{ n is sameas n }}")
    good("dates", "{{ strftime_now('%Y-%m-%d %H:%M') }}{{ cycler('a', 'b').next() }}{{ joiner('|')() }}{{ dict(a=1, **{'b': 2}) }}")

    put("chat_template", "bad_not_utf8.jinja", b"{{ '\xff' }}")
    bad("unfinished_tag", "{{ 1")
    bad("unfinished_string", "{{ 'a")
    bad("unfinished_comment", "{# a")
    bad("unfinished_raw", "{% raw %}{% endra %}")
    bad("unfinished_block", "{% if 1 %}{% for x in y %}")
    bad("unknown_tag", "{% nope %}")
    bad("unknown_filter", "{{ 1|nope }}")
    bad("undefined", "{{ a.b }}")
    bad("raised", "{{ raise_exception('no ' ~ messages|length) }}")
    bad("brackets", "{{ (1] }}")
    bad("bad_escape", "{{ '\\ud800' }}")
    bad("break_outside", "{% macro m() %}{% break %}{% endmacro %}")
    bad("unpack", "{% for a, b in messages %}{% endfor %}")
    bad("changes_data", "{{ messages.append(1) }}")
    bad("inside_of_python", "{{ ''.__class__.__mro__ }}")
    bad("division_by_zero", "{{ 1 // 0 }}")
    bad("recursion", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")
    bad("doubling", "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}")
    bad("endless", "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}")
    bad("tree", "{% set ns = namespace(s=1) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}")
    bad("deep_brackets", "{{ " + "[" * 2000 + "]" * 2000 + " }}")
    bad("deep_blocks", "{% if 1 %}" * 500)
    bad("self_reference", "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}")
    bad("wide_format", "{{ '%999999999d' % 1 }}")
    bad("huge_number", "{{ 9" + "9" * 60 + " }}")


# ---- config.json of language models

def grammars():
    good = {
        "answers": 'root ::= answer ("," " "? answer){0,3}\nanswer ::= "yes" | "no" | [0-9]+ # numbers\n',
        "nested": 'root ::= "(" root ")" | [^()]* ',
        "unicode": 'root ::= [\\u00e0-\\U0001F600]+ "\\x41é" .',
        "lines": 'root ::=\n  "a" (\n "b"\n | "c" )?\n  | "d"\n',
        "empty_loops": 'root ::= (""* a? )* "x"\na ::= ("a"?)*\n',
        "json": 'root ::= value\nvalue ::= "{" (pair ("," pair)*)? "}" | "[" (value ("," value)*)? "]" | string | "1"\n'
                'pair ::= string ":" value\nstring ::= "\\"" [^"\\\\]* "\\""\n',
    }
    bad = {
        "empty": "", "no_root": 'a ::= "x"', "unknown_rule": "root ::= b", "left": 'root ::= root "a" | "a"',
        "hidden_left": 'root ::= a root | "x"\na ::= ""', "endless": 'root ::= "a" root', "open_text": 'root ::= "a',
        "open_class": "root ::= [a", "huge": 'root ::= "a"{9999}{9999}', "deep": "root ::= " + "(" * 5000,
        "twice": 'root ::= "a"\nroot ::= "b"', "backwards": "root ::= [z-a]", "surrogate": 'root ::= "\\ud800"',
    }
    for name, text in good.items():
        put("grammar", f"good_{name}.gbnf", text.encode())
    for name, text in bad.items():
        put("grammar", f"bad_{name}.gbnf", text.encode())
    put("grammar", "bad_bytes.gbnf", b'root ::= "\xff"')


def json_schemas():
    good = {
        "any": {}, "true": True,
        "person": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer", "minimum": 0,
                   "maximum": 150}}, "required": ["name"], "additionalProperties": {"type": "number"}},
        "tree": {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 3}}},
        "pattern": {"type": "string", "pattern": "^[^\\d\"]{1,3}(a|b)*\\.$"},
        "tuple": {"type": "array", "prefixItems": [{"enum": [1, "x", None]}, {"const": {"a": []}}], "items": False},
        "one": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
        "all": {"allOf": [{"type": "object", "properties": {"a": True}}, {"required": ["a"]}]},
        "number": {"type": "number", "exclusiveMinimum": -3, "maximum": 1000},
    }
    bad = {
        "false": False, "type": {"type": "x"}, "not": {"not": {}}, "circle": {"$ref": "#"}, "nowhere": {"$ref": "#/x"},
        "outside": {"$ref": "http://x"}, "many": {"type": "string", "maxLength": 10 ** 9},
        "explosion": {"type": "array", "minItems": 0, "anyOf": [{"$ref": "#"}] * 4},
        "lookahead": {"type": "string", "pattern": "(?!a)"}, "numbers": {"type": "integer", "minimum": 2, "maximum": 1},
        "required": {"type": "object", "required": [1]}, "pointer": {"$ref": "#/~9"},
    }
    for name, schema in good.items():
        put("json_schema", f"good_{name}.json", json.dumps(schema).encode())
    for name, schema in bad.items():
        put("json_schema", f"bad_{name}.json", json.dumps(schema).encode())
    put("json_schema", "bad_empty.json", b"")
    put("json_schema", "bad_deep.json", b'{"items":' * 5000)


def model_configs():
    golden = json.loads((CORPUS.parent.parent / "golden" / "llm_models.json").read_text())
    configs = {model["name"]: model["config"] for model in golden}
    for name, config in configs.items():
        put("model_config", f"good_{name}.json", json.dumps(config).encode())
    put("model_config", "good_gemma3_multimodal.json",
        json.dumps({"model_type": "gemma3", "text_config": {"hidden_size": 64, "intermediate_size": 64,
                                                            "num_hidden_layers": 2}}).encode())

    def bad(name, model, **changes):
        put("model_config", f"bad_{name}.json", json.dumps(configs[model] | changes).encode())

    put("model_config", "bad_empty.json", b"")
    put("model_config", "bad_list.json", b"[]")
    put("model_config", "bad_nested.json", b"[" * 5000)
    put("model_config", "bad_text_config.json", b'{"model_type": "gemma3", "text_config": 1}')
    put("model_config", "bad_no_type.json", b"{}")
    bad("type_number", "llama", model_type=3)
    bad("type_unknown", "llama", model_type="mamba")
    bad("layers_zero", "llama", num_hidden_layers=0)
    bad("layers_negative", "llama", num_hidden_layers=-1)
    bad("layers_many", "llama", num_hidden_layers=10**11)
    bad("layers_text", "llama", num_hidden_layers="2")
    bad("layers_huge", "llama", num_hidden_layers=10**30)
    bad("heads_beyond_width", "llama", num_attention_heads=4096, num_key_value_heads=4096)
    bad("head_huge", "qwen3", head_dim=10**11)
    bad("groups", "llama", num_key_value_heads=3)
    bad("window_negative", "mistral", sliding_window=-5)
    bad("window_flag", "qwen2", use_sliding_window="yes")
    bad("layer_types_few", "gemma3", layer_types=["full_attention"])
    bad("layer_types_unknown", "gemma3", layer_types=["full_attention", "ring", "ring"])
    bad("theta_negative", "llama", rope_theta=-1)
    bad("theta_text", "llama", rope_theta="10000")
    bad("rope_list", "llama", rope_scaling=[1])
    bad("rope_unknown", "llama", rope_scaling={"rope_type": "dynamic"})
    bad("rope_factor_zero", "llama", rope_scaling={"rope_type": "linear", "factor": 0})
    bad("rope_long_short", "phi3", rope_scaling={"type": "su", "short_factor": [1], "long_factor": [1]})
    bad("rope_of_nothing", "llama", partial_rotary_factor=0.01)
    bad("local_rope_number", "gemma3", rope_parameters={"full_attention": {}, "sliding_attention": 1})
    bad("no_rope_layers_few", "smollm3", no_rope_layers=[1, 1, 0])
    bad("no_rope_layers_texts", "smollm3", no_rope_layers=["1", "1", "1", "0"])
    bad("experts_used_many", "mixtral", num_experts_per_tok=5)
    bad("experts_huge", "mixtral", num_local_experts=10**11)
    bad("expert_size", "qwen2_moe", moe_intermediate_size=10**11)
    bad("activation", "llama", hidden_act="relu")
    bad("epsilon_text", "llama", rms_norm_eps="small")


# ---- xz

def xz_files():
    def xz(contents, check=lzma.CHECK_CRC64):
        return lzma.compress(contents, check=check)

    text = b"Once upon a time there was a stream. " * 20
    put("xz", "good_text.xz", xz(text))
    put("xz", "good_empty.xz", xz(b""))
    put("xz", "good_sha256.xz", xz(text, lzma.CHECK_SHA256))
    put("xz", "good_two_streams.xz", xz(text) + xz(b"and another"))
    put("xz", "good_padded.xz", xz(text) + bytes(8))
    put("xz", "bad_header_only.xz", xz(text)[:12])
    put("xz", "bad_cut_short.xz", xz(text)[:-20])
    put("xz", "bad_no_footer.xz", xz(text)[:-12])
    put("xz", "bad_garbage_after.xz", xz(text) + b"garbage!")
    damaged = bytearray(xz(text))
    damaged[40] ^= 0x10
    put("xz", "bad_damaged.xz", bytes(damaged))
    put("xz", "bad_empty_file.xz", b"")
    put("xz", "bad_lzma_alone.xz", lzma.compress(text, lzma.FORMAT_ALONE))
    # A gigabyte for nothing.
    wide = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    put("xz", "bad_wide_window.xz", lzma.compress(text, filters=wide))


if __name__ == "__main__":
    safetensors()
    npy_files()
    npz_files()
    idx_files()
    xz_files()
    csv_files()
    gguf_files()
    torch_files()
    tokenizer_json_files()
    tokenizer_model_files()
    ranks_files()
    encode_files()
    chat_templates()
    model_configs()
    grammars()
    json_schemas()
