"""How good a model is: update(output, target) as often as you like, then value().

A metric of your own is any object with name, larger_is_better, update(), value() and reset().
"""

from ._core._metrics import *
