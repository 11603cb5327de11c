"""Arrays and lists in, NumPy arrays out."""

import copyreg

from . import _core
from ._core import Tensor


def _numpy():
    import numpy  # only when an array is needed: importing it takes as long as all of Hearth

    return numpy


def from_dlpack(array):
    """A tensor over the memory of any array that has `__dlpack__` (NumPy, PyTorch, JAX, CuPy, ...), without a copy.

    Nobody may write to the array while the tensor is in use.
    """
    if isinstance(array, Tensor):
        return array
    if not hasattr(array, "__dlpack__"):
        raise _core.DTypeError(f"[from_dlpack] {type(array).__name__} does not have __dlpack__")
    return _core._imported(array)


def from_numpy(array):
    """A tensor over the memory of a NumPy array, without a copy where the array's layout allows it.

    Nobody may write to the array while the tensor is in use; `tensor(array)` makes a copy instead.
    """
    numpy = _numpy()
    if not isinstance(array, numpy.ndarray):
        raise _core.DTypeError(f"[from_numpy] needs a NumPy array, got {type(array).__name__}")
    return _from_ndarray(array)


def _from_ndarray(array):
    dtype = array.dtype
    if dtype.name == "bfloat16":
        bits = _core._imported(_regular(array).view("int16"))
        return _core._reinterpret(bits, _core.bfloat16)
    if dtype.kind not in "biuf" or dtype.name not in _NAMES:
        raise _core.DTypeError(
            f"[from_numpy] arrays of {dtype} cannot become tensors; the element types are {', '.join(sorted(_NAMES))}"
        )
    return _core._imported(_regular(array))


_NAMES = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}


def _regular(array):
    """The array itself, or a copy where its layout or byte order is none that tensors have."""
    item = array.dtype.itemsize
    regular = (
        array.dtype.isnative
        and array.flags.aligned
        and all(stride % item == 0 for stride in array.strides)
    )
    return array if regular else _numpy().array(array, dtype=array.dtype.newbyteorder("="), order="C")


def _array(data):
    """A NumPy array of a list or of what has `__array__`; Python's floats are float32."""
    numpy = _numpy()
    if isinstance(data, (list, tuple)):
        data = [element.numpy() if isinstance(element, Tensor) else element for element in data]
        wide = not any(isinstance(leaf, (numpy.ndarray, numpy.generic)) for leaf in _leaves(data))
    else:
        wide = False
    try:
        array = numpy.asarray(data)
    except ValueError as error:
        raise _core.ShapeError(f"[tensor] the lists do not form an array: {error}") from None
    if wide and array.dtype == numpy.float64:
        array = array.astype(numpy.float32)
    return array


def _leaves(data):
    for element in data:
        if isinstance(element, (list, tuple)):
            yield from _leaves(element)
        else:
            yield element


def as_tensor(data, dtype=None, device=None):
    """`data` as a tensor on the default device (or `device`), without a copy where that can be.

    Accepts tensors, numbers, nested lists, NumPy arrays and what has `__dlpack__` or `__array__`.
    """
    if isinstance(data, Tensor):
        result = data
    elif isinstance(data, (bool, int, float)):
        kind = _core.bool_ if isinstance(data, bool) else _core.int64 if isinstance(data, int) else _core.float32
        array = _numpy().asarray(data)
        result = _core._imported(array).to(kind).to(device or _core.get_device())
    else:
        numpy = _numpy()
        if isinstance(data, (numpy.ndarray, numpy.generic)):
            result = _from_ndarray(numpy.asarray(data))
        elif not isinstance(data, (list, tuple)) and hasattr(data, "__dlpack__"):
            result = from_dlpack(data)
        else:
            result = _from_ndarray(_array(data))
        if device is None:
            result = result.to(_core.get_device())
    if dtype is not None:
        result = result.to(dtype)
    if device is not None:
        result = result.to(device)
    return result


def tensor(data, dtype=None, device=None, requires_grad=False):
    """A copy of `data` (numbers, nested lists, arrays, tensors) as a new tensor."""
    result = _core.copy(as_tensor(data, dtype, device).detach()).eval()
    return result.requires_grad_() if requires_grad else result


def numpy(self):
    """The elements as a NumPy array that shares the tensor's memory (a copy of it, from a GPU). It is read-only,
    because other tensors may share the memory; `.copy()` of it is not."""
    array = _numpy()
    host = self if self.device.type == "cpu" else self.cpu()
    if self.dtype == _core.bfloat16:
        try:
            import ml_dtypes
        except ImportError:
            raise _core.DTypeError(
                "[numpy] NumPy has no bfloat16; install ml_dtypes, or convert with x.float()"
            ) from None
        return array.asarray(_core._exported(_core._reinterpret(host, _core.int16))).view(ml_dtypes.bfloat16)
    return array.asarray(_core._exported(host))


def _array_protocol(self, dtype=None, copy=None):
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("a copy is needed to change the dtype")
        return array.astype(dtype)
    return array.copy() if copy else array


def _reduce(self):
    """Pickling: bytes, shape, dtype."""
    return _restore, (_core._to_bytes(self), self.shape, self.dtype.name, self.requires_grad and self.is_leaf, type(self))


def _restore(data, shape, dtype, requires_grad, kind):
    with _core._DeviceScope("cpu"):
        result = _core._from_bytes(data, shape, getattr(_core, dtype))
    if kind is not Tensor:
        result = kind(result)
    return result.requires_grad_() if requires_grad else result


def _format(self, spec):
    """f"{loss:.3f}" is that of the number; of several, as they are shown."""
    return format(self.item() if spec and self.numel() == 1 else repr(self), spec)


Tensor.numpy = numpy
Tensor.__format__ = _format
Tensor.__array__ = _array_protocol
Tensor.__reduce__ = _reduce
Tensor.__copy__ = lambda self: _restore_copy(self)
Tensor.__deepcopy__ = lambda self, memo: _restore_copy(self)


def _restore_copy(self):
    with _core._NoGrad():
        result = _core.copy(self.detach()).eval()
    if type(self) is not Tensor:
        result = type(self)(result)
    return result.requires_grad_() if self.requires_grad else result

# Functions of the library are pickled and copied by name, as Python's own are: models hold them as activations.
copyreg.pickle(type(_core.exp), lambda function: function.__name__)
