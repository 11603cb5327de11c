"""Optimisers and schedules of the learning rate. Formulas and defaults are PyTorch's."""

from . import _core
from ._core import Tensor
from ._core import _optim as _native
from ._core._optim import EMA


class _Group:
    """One group of parameters, with its learning rate as PyTorch's param_groups has it."""

    def __init__(self, native, index, parameters):
        self._native, self._index, self._parameters = native, index, parameters

    def __getitem__(self, name):
        if name == "lr":
            return self._native.learning_rate(self._index)
        if name == "params":
            return self._parameters
        raise KeyError(name)

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
        unknown = [name for name in options if name not in self._defaults]
        if unknown or len(values) > len(names):
            raise TypeError(f"{type(self).__name__} has no option {unknown or values}; it has {', '.join(names)}")
        common = {**self._defaults, **dict(zip(names, values)), **options}
        params = [params] if isinstance(params, (Tensor, dict)) else list(params)
        if not params:
            raise _core.ValueError(f"[{type(self).__name__}] there are no parameters")
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        native = []
        for group in groups:
            given = group["params"]
            tensors = [given] if isinstance(given, Tensor) else list(given)
            own = {**common, **{name: value for name, value in group.items() if name != "params"}}
            if "betas" in own:
                own["beta1"], own["beta2"] = own.pop("betas")
            native.append((tensors, own))
        self._native = self._kind(native)
        self.param_groups = [_Group(self._native, i, tensors) for i, (tensors, _) in enumerate(native)]

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


def _one_of(kind, name, value, known):
    if value not in known:
        raise _core.ValueError(f"[{kind}] {name} is {' or '.join(map(repr, known))}, not {value!r}")


class lr_scheduler:
    """Learning rates over time: call step() after the optimiser's."""

    class LRScheduler:
        def __init__(self, optimizer, schedule):
            self.optimizer, self.schedule = optimizer, schedule
            self._native = _native.Scheduler(optimizer._native, schedule)

        def step(self):
            self._native.step()

        @property
        def last_epoch(self):
            return self._native.count()

        def get_last_lr(self):
            return [group["lr"] for group in self.optimizer.param_groups]

        def state_dict(self):
            return self._native.state_dict()

        def load_state_dict(self, state):
            self._native.load_state_dict(state)

    class StepLR(LRScheduler):
        def __init__(self, optimizer, step_size, gamma=0.1):
            super().__init__(optimizer, _native.step(step_size, gamma))

    class MultiStepLR(LRScheduler):
        def __init__(self, optimizer, milestones, gamma=0.1):
            super().__init__(optimizer, _native.multi_step(milestones, gamma))

    class ExponentialLR(LRScheduler):
        def __init__(self, optimizer, gamma):
            super().__init__(optimizer, _native.exponential(gamma))

    class LinearLR(LRScheduler):
        def __init__(self, optimizer, start_factor=1 / 3, end_factor=1.0, total_iters=5):
            super().__init__(optimizer, _native.linear(start_factor, end_factor, total_iters))

    class PolynomialLR(LRScheduler):
        def __init__(self, optimizer, total_iters=5, power=1.0):
            super().__init__(optimizer, _native.polynomial(total_iters, power))

    class CosineAnnealingLR(LRScheduler):
        def __init__(self, optimizer, T_max, eta_min=0.0):
            super().__init__(optimizer, _native.cosine(T_max, eta_min))

    class CosineAnnealingWarmRestarts(LRScheduler):
        def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0):
            super().__init__(optimizer, _native.cosine_warm_restarts(T_0, T_mult, eta_min))

    class LambdaLR(LRScheduler):
        def __init__(self, optimizer, lr_lambda):
            super().__init__(optimizer, _native.lambda_(lr_lambda))

    class WarmupLR(LRScheduler):
        """Linearly up over `steps`, then as `then` (another scheduler's schedule), or constant."""

        def __init__(self, optimizer, steps, then=None, start_factor=0.0):
            schedule = then.schedule if isinstance(then, lr_scheduler.LRScheduler) else then or _native.constant()
            super().__init__(optimizer, _native.warmup(steps, schedule, start_factor))

    class OneCycleLR(LRScheduler):
        def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                     anneal_strategy="cos", *, div_factor=25.0, final_div_factor=1e4, three_phase=False):
            _one_of("OneCycleLR", "anneal_strategy", anneal_strategy, ("cos", "linear"))
            if total_steps is None:
                if epochs is None or steps_per_epoch is None:
                    raise _core.ValueError("[OneCycleLR] total_steps is needed, or epochs and steps_per_epoch")
                total_steps = epochs * steps_per_epoch
            super().__init__(
                optimizer,
                _native.one_cycle(
                    max_lr, total_steps, pct_start, anneal_strategy == "linear", div_factor, final_div_factor, three_phase
                ),
            )

    class ReduceLROnPlateau:
        """Lowers the learning rate when a metric stops improving: step(metric)."""

        def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel",
                     cooldown=0, min_lr=0.0, eps=1e-8):
            _one_of("ReduceLROnPlateau", "mode", mode, ("min", "max"))
            _one_of("ReduceLROnPlateau", "threshold_mode", threshold_mode, ("rel", "abs"))
            self.optimizer = optimizer
            self._native = _native.ReduceOnPlateau(
                optimizer._native, mode == "max", factor, patience, threshold, threshold_mode == "rel", cooldown, min_lr, eps
            )

        def step(self, metric):
            self._native.step(float(metric))

        def state_dict(self):
            return self._native.state_dict()

        def load_state_dict(self, state):
            self._native.load_state_dict(state)
