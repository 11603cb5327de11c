"""Memory shared with NumPy and with whoever speaks DLPack."""

import gc
import pickle

import jax
import ml_dtypes
import numpy as np
import pytest

import hearth as ht

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_both_ways_without_a_copy(dtype):
    array = (np.arange(24).reshape(2, 3, 4) % 2).astype(dtype)
    x = ht.from_numpy(array)
    assert x.shape == (2, 3, 4)
    assert ht.dtype[dtype if dtype != "bool" else "bool_"] == x.dtype
    assert x.data_ptr() == address(array)
    for back in (x.numpy(), np.asarray(x), np.asarray(memoryview(x)), np.from_dlpack(x)):
        assert address(back) == address(array)
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


def test_bfloat16_goes_through_ml_dtypes():
    array = np.arange(5).astype(ml_dtypes.bfloat16)
    x = ht.from_numpy(array)
    assert x.dtype == ht.bfloat16 and x.data_ptr() == array.ctypes.data
    back = x.numpy()
    assert back.dtype == array.dtype and address(back) == address(array)
    assert (x * 2).tolist() == [0, 2, 4, 6, 8]


def test_strided_arrays_are_shared_too():
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (base[::2], base[:, ::-1], base.T, base[1:3, 1::2], np.broadcast_to(base[0], (3, 6))):
        x = ht.from_numpy(view)
        assert x.data_ptr() == address(view)
        np.testing.assert_array_equal((x + 0).numpy(), view)


def test_irregular_arrays_are_copied():
    packed = np.zeros(4, dtype=[("a", "i1"), ("b", "f4")])
    packed["b"] = [1, 2, 3, 4]
    assert ht.from_numpy(packed["b"]).tolist() == [1, 2, 3, 4]
    assert ht.from_numpy(np.arange(3, dtype=">f4")).tolist() == [0, 1, 2]


def test_read_only_arrays_are_taken_and_given():
    array = np.arange(3, dtype=np.float32)
    array.flags.writeable = False
    x = ht.from_numpy(array)
    assert x.data_ptr() == array.ctypes.data
    x += 1  # a new value: the array is not written to
    assert array.tolist() == [0, 1, 2] and x.tolist() == [1, 2, 3]
    with pytest.raises(ValueError):
        x.numpy()[0] = 5


def test_the_value_outlives_the_tensor_and_its_assignment():
    x = ht.arange(4, dtype="float32") + 0
    before = x.numpy()
    x.assign(ht.zeros(4))
    assert x.tolist() == [0, 0, 0, 0] and before.tolist() == [0, 1, 2, 3]
    del x
    gc.collect()
    assert before.tolist() == [0, 1, 2, 3]


def test_arrays_live_as_long_as_tensors():
    released = []

    class Watched(np.ndarray):
        def __del__(self):
            released.append(True)

    array = np.arange(1000, dtype=np.float32).view(Watched)
    x = ht.from_numpy(array)
    del array
    gc.collect()
    assert not released and x.sum().item() == 499500
    del x
    gc.collect()
    ht.from_numpy(np.zeros(1))
    assert released


def test_dlpack_with_jax():
    x = ht.randn(3, 4).eval()
    there = jax.dlpack.from_dlpack(x, copy=False)
    assert there.unsafe_buffer_pointer() == x.data_ptr()
    np.testing.assert_array_equal(np.asarray(there), x.numpy())
    back = ht.from_dlpack(there)
    assert back.data_ptr() == there.unsafe_buffer_pointer()
    np.testing.assert_array_equal(back.numpy(), x.numpy())
    assert ht.as_tensor(jax.numpy.arange(3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_pickle(dtype):
    x = ht.arange(6).reshape(2, 3).to(dtype)
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == x.dtype and y.shape == x.shape and y.tolist() == x.tolist()


def test_pickle_keeps_what_a_leaf_is():
    x = ht.ones(2, requires_grad=True)
    assert pickle.loads(pickle.dumps(x)).requires_grad


@pytest.mark.parametrize(
    "array",
    [
        np.array([object()]),
        np.array(["text"]),
        np.zeros(2, dtype=complex),
        np.zeros(2, dtype=np.uint16),
        np.zeros(2, dtype="datetime64[s]"),
        np.zeros(2, dtype=[("a", "f4")]),
    ],
)
def test_arrays_that_cannot_become_tensors(array):
    with pytest.raises(ht.DTypeError, match="cannot become tensors"):
        ht.from_numpy(array)
    with pytest.raises(TypeError):
        ht.ones(2) + array


def test_tensor_from_lists():
    assert ht.tensor([[1, 2], [3, 4]]).dtype == ht.int64
    assert ht.tensor([1.5, 2]).dtype == ht.float32
    assert ht.tensor([True, False]).dtype == ht.bool_
    assert ht.tensor([np.float64(1.5)]).dtype == ht.float64
    assert ht.tensor(3).shape == () and ht.tensor([]).shape == (0,)
    assert ht.tensor([ht.tensor(1.0), ht.tensor(2.0)]).tolist() == [1, 2]
    with pytest.raises(ht.ShapeError):
        ht.tensor([[1, 2], [3]])
    with pytest.raises(ht.DTypeError):
        ht.tensor(["a"])
    array = np.zeros(3, dtype=np.float32)
    x = ht.tensor(array)
    array[:] = 7
    assert x.tolist() == [0, 0, 0]


def test_buffers_of_what_has_none():
    with pytest.raises(BufferError):
        memoryview(ht.ones(2).bfloat16())
