"""Optimisers and schedules of the learning rate. Formulas and defaults are PyTorch's."""

from .. import _core
from .._core import Tensor
from .._core import _optim as _native
from .._core._optim import EMA
from . import lr_scheduler


class _Group:
    """One group of parameters with its options, as PyTorch's param_groups has it."""

    def __init__(self, native, index, parameters, options):
        self._native, self._index, self._parameters, self._options = native, index, parameters, options

    def __getitem__(self, name):
        if name == "lr":
            return self._native.learning_rate(self._index)
        if name == "params":
            return self._parameters
        return self._options[name]

    def __contains__(self, name):
        return name == "params" or name in self._options

    def __setitem__(self, name, value):
        if name != "lr":
            raise KeyError(f"{name!r} cannot be changed, only 'lr'")
        self._native.set_learning_rate(self._index, value)


class Optimizer:
    """Turns gradients into new parameter values; step() computes them.

    `params` are tensors, or dictionaries {"params": tensors, option: value, ...} with options of their own.
    """

    _kind = None
    _defaults = {}

    def __init__(self, params, *values, **options):
        names = list(self._defaults)
        for name in ("foreach", "fused"):  # of PyTorch's ways to compute the same
            options.pop(name, None)
        unknown = [name for name in options if name not in self._defaults]
        if unknown or len(values) > len(names):
            raise TypeError(f"{type(self).__name__} has no option {unknown or values}; it has {', '.join(names)}")
        common = {**self._defaults, **dict(zip(names, values)), **options}
        params = [params] if isinstance(params, (Tensor, dict)) else list(params)
        if not params:
            raise _core.ValueError(f"[{type(self).__name__}] there are no parameters")
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        native, given_options = [], []
        for group in groups:
            given = group["params"]
            tensors = [given] if isinstance(given, Tensor) else list(given)
            own = {**common, **{name: value for name, value in group.items() if name != "params"}}
            given_options.append(dict(own))
            if "betas" in own:
                own["beta1"], own["beta2"] = own.pop("betas")
            native.append((tensors, own))
        self._native = self._kind(native)
        self.param_groups = [
            _Group(self._native, i, tensors, own) for i, ((tensors, _), own) in enumerate(zip(native, given_options))
        ]

    def step(self, closure=None):
        """Updates every parameter that has a gradient."""
        loss = closure() if closure is not None else None
        self._native.step()
        return loss

    def zero_grad(self, set_to_none=True):
        self._native.zero_grad()

    def state_dict(self):
        return self._native.state_dict()

    def load_state_dict(self, state):
        self._native.load_state_dict(state)

    def variables(self):
        """All that step() assigns."""
        return self._native.variables()

    def __repr__(self):
        return f"{type(self).__name__}(lr={self._native.learning_rate()})"


def _optimizer(name, doc, **defaults):
    return type(name, (Optimizer,), {"_kind": getattr(_native, name), "_defaults": defaults, "__doc__": doc})


SGD = _optimizer(
    "SGD", "Stochastic gradient descent.", lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False,
    master_weights=False,
)
Adam = _optimizer(
    "Adam", "Adam.", lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, master_weights=False
)
AdamW = _optimizer(
    "AdamW", "Adam with decoupled weight decay.", lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False,
    master_weights=False,
)
RMSprop = _optimizer(
    "RMSprop", "RMSprop.", lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False,
    master_weights=False,
)
Adagrad = _optimizer(
    "Adagrad", "Adagrad.", lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10,
    master_weights=False,
)
AdamATan2 = _optimizer(
    "AdamATan2", "Adam with atan2(m, sqrt(v)): no epsilon.", lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0,
    master_weights=False,
)
Lion = _optimizer(
    "Lion", "The sign of momentum and gradient.", lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, master_weights=False
)


class GradScaler(_native.GradScaler):
    """Keeps small float16 gradients from vanishing: the loss is scaled, and steps whose gradients overflow are skipped."""

    def unscale_(self, optimizer):
        super().unscale_(optimizer._native)

    def step(self, optimizer):
        super().step(optimizer._native)
