"""Hearth: a deep-learning runtime for the GPU you own.

    import hearth as ht
    x = ht.randn(3, 4, requires_grad=True)
    (x ** 2).sum().backward()
    print(x.grad)

Tensors are computed when a value is needed: by print, item(), numpy(), backward(), an optimiser's step(), or eval().
"""

from ._core import *
from ._convert import as_tensor, from_dlpack, from_numpy, tensor

__version__ = "0.1.0"
