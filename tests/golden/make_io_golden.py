#!/usr/bin/env python3
"""Writes tests/golden/io/: files made by the reference packages (numpy, ml_dtypes, safetensors).

Every array holds, at position i in row-major order, (i % 11 - 5) / 4 as a float, i * 7 % 251 - 100 as a signed
integer, i * 7 % 251 as an unsigned one, i % 3 == 0 as a bool; the tests compute the same.
"""
import pathlib

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).parent / "io"
SHAPE = (3, 5, 2)
DTYPES = {
    "bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}


def pattern(shape, dtype):
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    if dtype == np.bool_:
        values = i % 3 == 0
    elif dtype == np.uint8:
        values = i * 7 % 251
    elif np.issubdtype(dtype, np.integer):
        values = i * 7 % 251 - 100
    else:
        values = (i % 11 - 5) / 4
    return values.astype(dtype).reshape(shape)


def main():
    OUT.mkdir(exist_ok=True)
    arrays = {name: pattern(SHAPE, dtype) for name, dtype in DTYPES.items()}

    extra = {
        "scalar": pattern((), np.float32),
        "empty": pattern((0, 4), np.float32),
        "layers.0.weight": pattern((4, 3), np.float32),
        "naïve/имя \"quoted\"\n": pattern((2,), np.int16),
    }
    save_file({**arrays, **extra}, OUT / "all.safetensors", metadata={"format": "pt"})
    save_file({"odd": pattern((3,), np.uint8), "u16": np.arange(3, dtype=np.uint16)}, OUT / "u16.safetensors")

    for name, array in arrays.items():
        np.save(OUT / f"{name}.npy", array)
    np.save(OUT / "scalar.npy", extra["scalar"])
    np.save(OUT / "empty.npy", extra["empty"])
    np.save(OUT / "vector.npy", pattern((7,), np.float32))
    np.save(OUT / "fortran_f32.npy", np.asfortranarray(arrays["f32"]))
    np.save(OUT / "fortran_big_endian_i32.npy", np.asfortranarray(arrays["i32"]).astype(">i4"))
    np.save(OUT / "big_endian_f64.npy", arrays["f64"].astype(">f8"))
    np.save(OUT / "big_endian_f16.npy", arrays["f16"].astype(">f2"))
    for version in (2, 3):
        with open(OUT / f"version{version}.npy", "wb") as file:
            np.lib.format.write_array(file, arrays["f32"], version=(version, 0))

    np.savez(OUT / "stored.npz", **arrays)
    np.savez_compressed(OUT / "deflated.npz", **arrays, fortran=np.asfortranarray(arrays["i64"]))


if __name__ == "__main__":
    main()
