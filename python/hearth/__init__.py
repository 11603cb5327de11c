"""Hearth: a deep-learning runtime for the GPU you own.

    import hearth as ht
    x = ht.randn(3, 4, requires_grad=True)
    (x ** 2).sum().backward()
    print(x.grad)

Tensors are computed when a value is needed: by print, item(), numpy(), backward(), an optimiser's step(), or eval().
"""

from . import _core
from ._compare import allclose, equal, isclose
from ._convert import as_tensor, from_dlpack, from_numpy, tensor
from ._core import *
from ._devices import *
from ._transform import autocast, compile, device, grad, no_grad, value_and_grad
from .config import configured, get_config, set_config
from .io import load, save
from ._progress import progress
from . import amd, config, cuda, data, hrm, kernels, llm, memory, metrics, nn, optim, profiler, rocm, train, tune, _display

__version__ = "0.1.0"
for _error in vars(_core).copy().values():  # as people import them
    if isinstance(_error, type) and issubclass(_error, Exception):
        _error.__module__ = "hearth"
bool = _core.bool_  # as PyTorch names it
float = _core.float32
half = _core.float16
double = _core.float64
long = _core.int64
int = _core.int32
