"""Functions of functions: grad, value_and_grad, compile; and the modes no_grad, autocast, device."""

import functools
import threading

from . import _core
from ._core import Tensor, _Autocast, _DeviceScope, _NoGrad


class _Mode:
    """A mode as a context manager and as a decorator."""

    def __call__(self, function):
        @functools.wraps(function)
        def within(*arguments, **options):
            with self:
                return function(*arguments, **options)

        return within


class no_grad(_NoGrad, _Mode):
    """While in it, operations are not recorded for gradients."""


class autocast(_Autocast, _Mode):
    """While in it, layers of ht.nn multiply matrices in a 16-bit type; norms, softmax and losses work in float32."""

    def __init__(self, dtype=_core.bfloat16, enabled=True):
        super().__init__(dtype if enabled else None)


class device(_DeviceScope, _Mode):
    """A device. While in it, this thread makes tensors there: with ht.device("cpu"): ..."""

    def __init__(self, device):
        self._device = _core.Device(device)
        super().__init__(self._device)

    type = property(lambda self: self._device.type)
    index = property(lambda self: self._device.index)

    def __eq__(self, other):
        return self._device == getattr(other, "_device", other)

    def __hash__(self):
        return hash(self._device)

    def __str__(self):
        return str(self._device)

    def __repr__(self):
        return f"device('{self}')"


# ---- trees: nested tuples, lists and dictionaries with tensors as leaves


def _flatten(tree, leaves):
    """Puts the tensors of a tree into `leaves`; returns the tree with their places (_Leaf) instead."""
    if isinstance(tree, Tensor):
        leaves.append(tree)
        return _LEAF
    if isinstance(tree, (list, tuple)):
        parts = [_flatten(part, leaves) for part in tree]
        return (type(tree) if not hasattr(tree, "_fields") else tuple, tuple(parts))
    if isinstance(tree, dict):
        return (dict, tuple((_exact(key), _flatten(value, leaves)) for key, value in tree.items()))
    return (None, _exact(tree))


def _exact(value):
    """A value with what tells it from others that are equal: 2, 2.0 and True; 0.0 and -0.0."""
    return (value, type(value), str(value) if isinstance(value, float) else None)


def _unflatten(structure, leaves):
    if structure is _LEAF:
        return next(leaves)
    kind, parts = structure
    if kind is None:
        return parts[0]
    if kind is dict:
        return {key[0]: _unflatten(value, leaves) for key, value in parts}
    return kind(_unflatten(part, leaves) for part in parts)


class _Leaf:
    def __repr__(self):
        return "Tensor"


_LEAF = _Leaf()


class Compiled:
    """What compile() returns: call it as the function."""

    def __init__(self, function):
        self._function = function
        self._variants = {}  # by the structure of the arguments and what in them is no tensor
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *arguments, **options):
        if _core.is_compiling():  # part of another function's trace
            return self._function(*arguments, **options)
        leaves = []
        key = _flatten((arguments, options), leaves)
        try:
            variant = self._variants.get(key)
        except TypeError:
            raise _core.ValueError(
                "[compile] arguments are tensors, hashable values, and lists, tuples and dictionaries of them"
            ) from None
        if variant is None:
            variant = self._variants[key] = _Variant(self._function, key)
        return variant(leaves)

    def traces(self):
        """How often the function has been traced."""
        return sum(variant.native.traces() for variant in self._variants.values())

    def explain(self):
        """The plans of all variants: passes, steps, memory."""
        return "\n".join(variant.native.explain() for variant in self._variants.values())


class _Variant:
    """The function for one structure of its arguments."""

    def __init__(self, function, structure):
        self._function, self._structure = function, structure
        self._results = {}  # structures of what it returned, by the number of the trace
        self._lock = threading.RLock()  # a compiled function runs in one thread at a time
        self.native = _core._Compiled(self._traced)

    def _traced(self, leaves):
        arguments, options = _unflatten(self._structure, iter(leaves))
        results = []
        self._results[self.native.traces()] = _flatten(self._function(*arguments, **options), results)
        return results

    def __call__(self, leaves):
        with self._lock:
            results = self.native(leaves)
            structure = self._results[self.native.last_trace()]
        return _unflatten(structure, iter(results))


def compile(function):
    """A function that is traced once per signature of its arguments and then replayed from its plan.

    The function runs only while it is traced. Tensors it captures are read anew at every call, and variables it assigns
    (parameters, optimiser state, gradients, running statistics) are assigned at every call. Also a decorator.
    """
    return Compiled(function)


def value_and_grad(function, argnums=0):
    """A function that returns (value, gradients) of one with a scalar result.

    `argnums` names the arguments that are differentiated by: one number, or several for a tuple of gradients. An argument
    may be a tensor or a list, tuple or dictionary of them; its gradient has the same form.
    """
    several = isinstance(argnums, (tuple, list))
    numbers = tuple(argnums) if several else (argnums,)

    @functools.wraps(function)
    def differentiated(*arguments, **options):
        arguments = list(arguments)
        leaves, structures = [], []
        for number in numbers:
            own = []
            structure = _flatten(arguments[number], own)
            own = [tensor.detach().requires_grad_() for tensor in own]
            arguments[number] = _unflatten(structure, iter(own))
            structures.append((structure, len(own)))
            leaves += own
        value = function(*arguments, **options)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise _core.ShapeError("[grad] the function must return a tensor with one element")
        gradients = iter(_core.gradients(value, leaves) if value.requires_grad else map(_core.zeros_like, leaves))
        trees = [_unflatten(structure, gradients) for structure, _ in structures]
        if not _core.is_compiling():
            collected = []
            _flatten(trees, collected)
            _core.eval(collected, value)
        return value.detach(), tuple(trees) if several else trees[0]

    return differentiated


def grad(function, argnums=0):
    """The gradient of a function with a scalar result, as a function of the same arguments; see value_and_grad()."""
    both = value_and_grad(function, argnums)

    @functools.wraps(function)
    def gradient(*arguments, **options):
        return both(*arguments, **options)[1]

    return gradient
