"""Indexing and broadcasting against NumPy, by generated cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hearth as ht

FEW = settings(max_examples=150, deadline=None, derandomize=True)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def array_of(shape, dtype=np.float32):
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def same(actual, expected):
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual.numpy(), expected)


@FEW
@given(st.data())
def test_basic_indices(data):
    array = array_of(data.draw(shapes))
    index = data.draw(hnp.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True))
    same(ht.from_numpy(array)[index], array[index])


@st.composite
def mixed_indices(draw, shape):
    """Slices, integers, new axes, an ellipsis, integer arrays that broadcast together, and bool arrays."""
    common = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    items, axis, ellipsis = [], 0, False
    while axis < len(shape):
        kind = draw(st.sampled_from(["slice", "integer", "array", "array", "mask", "new", "ellipsis", "end"]))
        size = shape[axis]
        if kind == "end":
            break
        if kind == "slice":
            items.append(draw(st.slices(size)))
        elif kind == "integer" and size:
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "array" and size:
            own = common[draw(st.integers(0, len(common))) :]
            items.append(draw(hnp.arrays(np.int64, own, elements=st.integers(-size, size - 1))))
        elif kind == "mask" and draw(st.booleans()):
            # A mask whose number of true elements broadcasts: one.
            mask = np.zeros(size, dtype=bool)
            if not size:
                continue
            mask[draw(st.integers(0, size - 1))] = True
            items.append(mask)
        elif kind == "new":
            items.append(None)
            continue
        elif kind == "ellipsis" and not ellipsis:
            ellipsis = True
            items.append(Ellipsis)
            break
        else:
            continue
        axis += 1
    return tuple(items)


@FEW
@given(st.data())
def test_mixed_indices(data):
    array = array_of(data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)))
    index = data.draw(mixed_indices(array.shape))
    same(ht.from_numpy(array)[index], array[index])


@FEW
@given(st.data())
def test_assignment(data):
    array = array_of(data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)))
    index = data.draw(mixed_indices(array.shape))
    x = ht.tensor(array)
    try:
        array[index] = -1
    except IndexError:  # NumPy's own limits
        return
    x[index] = -1
    same(x, array)


@FEW
@given(st.data())
def test_masks_of_several_axes(data):
    array = array_of(data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)))
    axes = data.draw(st.integers(1, array.ndim))
    mask = data.draw(hnp.arrays(bool, array.shape[:axes]))
    x = ht.from_numpy(array)
    same(x[mask], array[mask])
    same(x[ht.tensor(mask)], array[mask])


@FEW
@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, max_side=4))
def test_broadcasting(broadcastable):
    arrays = [array_of(shape) for shape in broadcastable.input_shapes]
    x, y, z = (ht.from_numpy(array) for array in arrays)
    same(x + y * z, arrays[0] + arrays[1] * arrays[2])
    same(ht.where(x > y, y, z), np.where(arrays[0] > arrays[1], arrays[1], arrays[2]))
    same(ht.broadcast_to(x, broadcastable.result_shape), np.broadcast_to(arrays[0], broadcastable.result_shape))


@FEW
@given(shapes, shapes)
def test_shapes_that_do_not_broadcast(one, two):
    a, b = array_of(one), array_of(two)
    try:
        expected = a + b
    except ValueError:
        with pytest.raises(ht.ShapeError):
            ht.from_numpy(a) + ht.from_numpy(b)
    else:
        same(ht.from_numpy(a) + ht.from_numpy(b), expected)


DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("one", DTYPES)
@pytest.mark.parametrize("two", DTYPES)
def test_promotion(one, two):
    expected = np.promote_types(one, two)
    if "float" in one + two and expected.kind == "f":  # an integer with a float gives that float: docs/architecture.md
        expected = np.dtype(max((t for t in (one, two) if "float" in t), key=lambda t: int(t[5:])))
    result = ht.ones(2, dtype=one) * ht.ones(2, dtype=two)
    assert result.numpy().dtype == (np.int64 if expected == bool else expected)


@pytest.mark.parametrize(
    "index",
    [5, -4, (0, 9), (0, 0, 0), "a", 1.5, (slice(None), "x"), (..., ...), [7], np.array([0.5]), np.array([True, False]),
     ([0, 1], [0, 1, 2]), ([0], [9]), 2**70],
)
def test_bad_indices(index):
    x = ht.from_numpy(array_of((3, 4)))
    with pytest.raises((IndexError, ValueError, TypeError)):
        x[index].eval()
    with pytest.raises((IndexError, ValueError, TypeError)):
        x[index] = 1
        x.eval()


def test_gradients_go_through_indices():
    x = ht.tensor(array_of((3, 4)), requires_grad=True)
    (x[[0, 2, 0], 1:3] * 2 + x[::-1, :2][:3]).sum().backward()
    expected = np.zeros((3, 4))
    np.add.at(expected, ([0, 2, 0], slice(1, 3)), 2)
    expected[:, :2] += 1
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    y = x * 1
    y[0] = 0.0  # cuts the gradient there
    x.zero_grad()
    y.sum().backward()
    assert x.grad.tolist() == [[0] * 4, [1] * 4, [1] * 4]


def test_iteration_and_scalars():
    x = ht.from_numpy(array_of((2, 3)))
    assert [row.tolist() for row in x] == [[0, 1, 2], [3, 4, 5]]
    assert len(x) == 2 and x[1, 2].item() == 5 and int(x[0, 1]) == 1 and float(x[0, 1]) == 1.0 and bool(x[0, 1])
    assert [10, 20, 30][ht.tensor(2)] == 30
    with pytest.raises(TypeError):
        len(ht.tensor(1))
    with pytest.raises(TypeError):
        iter(ht.tensor(1))
    with pytest.raises(ValueError):
        bool(x)
