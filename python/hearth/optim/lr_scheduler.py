"""Learning rates over time: call step() after the optimiser's."""

from .. import _core
from .._core import _optim as _native


def _one_of(kind, name, value, known):
    if value not in known:
        raise _core.ValueError(f"[{kind}] {name} is {' or '.join(map(repr, known))}, not {value!r}")


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
        schedule = then.schedule if isinstance(then, LRScheduler) else then or _native.constant()
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
