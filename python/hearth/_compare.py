"""Whether tensors are the same, or about the same."""

from . import _core
from ._core import Tensor


def equal(a, b):
    """Whether two tensors have one shape and the same elements. NaN equals nothing."""
    return a.shape == b.shape and bool(_core.all(a == b))


def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Where |a - b| <= atol + rtol * |b|, or both are the same infinity; with equal_nan, where both are NaN, too."""
    if not {a.dtype, b.dtype} <= {_core.float32, _core.float64}:  # differences of unsigned numbers would wrap
        a, b = a.to(_core.float64), b.to(_core.float64)
    close = (a == b) | (_core.isfinite(b) & (_core.abs(a - b) <= atol + rtol * _core.abs(b)))
    return close | (_core.isnan(a) & _core.isnan(b)) if equal_nan else close


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether isclose() holds for all elements."""
    return bool(_core.all(isclose(a, b, rtol, atol, equal_nan)))


Tensor.equal = equal
Tensor.isclose = isclose
Tensor.allclose = allclose
