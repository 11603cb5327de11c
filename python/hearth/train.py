"""The training loop: epochs, evaluation, checkpoints, resumption.

    trainer = ht.train.Trainer(model, optimizer, ht.nn.functional.cross_entropy, epochs=3, checkpoint_folder="run")
    result = trainer.fit(train_loader, test_loader)
"""

import contextlib

from . import _core
from ._core import _train
from ._core._train import best_checkpoint, list_checkpoints
from ._progress import in_notebook


class Callback:
    """What a program wants to do in between; override what you need. An exception ends fit() and is raised there."""

    def on_begin(self, trainer):
        pass

    def on_step(self, trainer, step, loss):
        pass

    def on_record(self, trainer, record):
        """After each evaluation, or each epoch where nothing is evaluated."""

    def on_checkpoint(self, trainer, path):
        pass

    def on_end(self, trainer, result):
        pass


def _bound(module):
    """The C++ loop's view of a Python module."""
    bound = _train.BoundModule()
    for name, tensor in module._parameters.items():
        if tensor is not None:
            (bound.add_parameter if tensor.requires_grad else bound.add_buffer)(name, tensor)
    for name, tensor in module._buffers.items():
        if tensor is not None:
            bound.add_buffer(name, tensor)
    for name, child in module.named_children():
        bound.add_child(name, _bound(child))
    return bound


@contextlib.contextmanager
def _evaluating(model):
    """The model in evaluation; afterwards each module is in its own mode again."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


class Trainer:
    """The loop around model, optimiser and data.

    loss       function of (model(batch[0]), batch[1]); or None, with `forward`
    forward    function of (model, batch) that returns the loss, or (loss, output, target) for the metrics
    options    epochs, steps, accumulate, clip_norm, clip_value, precision ("float32", "bfloat16", "float16"), ema_decay,
               schedule (a scheduler of optim.lr_scheduler, or a function of (base, step)), schedule_interval ("step",
               "epoch"), evaluate_steps, monitor, patience, minimum_change, checkpoint_folder, checkpoint_steps, keep_last,
               resume ("never", "automatic", "required"), compile, handle_interrupts, progress

    Ctrl-C finishes the step, saves a checkpoint where there is a folder, and returns with the ending "interrupted".
    """

    OPTIONS = (
        "epochs steps accumulate clip_norm clip_value precision ema_decay schedule schedule_interval evaluate_steps monitor "
        "patience minimum_change checkpoint_folder checkpoint_steps keep_last resume compile handle_interrupts progress"
    ).split()

    def __init__(self, model, optimizer, loss=None, *, forward=None, metrics=(), callbacks=(), **options):
        unknown = [name for name in options if name not in self.OPTIONS]
        if unknown:
            raise TypeError(f"Trainer has no option {unknown}; it has {', '.join(self.OPTIONS)}")
        if (loss is None) == (forward is None):
            raise TypeError("Trainer needs a loss or a forward function, and not both")
        options = {name: value for name, value in options.items() if value is not None}
        if "checkpoint_folder" in options:
            options["checkpoint_folder"] = str(options["checkpoint_folder"])
        if hasattr(options.get("schedule"), "schedule"):
            options["schedule"] = options["schedule"].schedule
        notebook = in_notebook() and options.get("progress", True)
        if notebook:
            options["progress"] = False
        self.model, self.optimizer = model, optimizer
        self._bound = _bound(model)
        self._native = _train.Trainer(self._bound, optimizer._native, self._forward, options)
        self._loss, self._custom = loss, forward
        for metric in metrics:
            self._native.add_metric(metric)
        for callback in callbacks:
            self._native.add_callback(callback, self)
        if notebook:
            from ._progress import TrainingBar

            self._native.add_callback(TrainingBar(options.get("steps"), options.get("epochs")), self)

    def _forward(self, batch):
        if not self._bound.training:
            with _evaluating(self.model):
                return self._result(batch)
        if not self.model.training:
            self.model.train()
        return self._result(batch)

    def _result(self, batch):
        if self._custom is None:
            output = self.model(batch[0])
            return self._loss(output, batch[1]), output, batch[1]
        result = self._custom(self.model, batch)
        return tuple(result) if isinstance(result, (tuple, list)) else (result, None, None)

    def add_metric(self, metric):
        self._native.add_metric(metric)

    def add_callback(self, callback):
        self._native.add_callback(callback, self)

    def fit(self, train, evaluation=None):
        """Trains until a limit, early stopping, stop() or Ctrl-C. Returns a dictionary: ending, steps, history, best, ..."""
        if evaluation is train:
            raise _core.ValueError("[fit] training and evaluation need a loader each: a loader has one place in the data")
        self._train_loader = train
        return self._native.fit(train._native, None if evaluation is None else evaluation._native)

    def evaluate(self, loader):
        """Loss and metrics over a whole loader."""
        return self._native.evaluate(loader._native)

    def stop(self):
        """Ends fit() after the present step; for callbacks."""
        self._native.stop()

    @property
    def step(self):
        return self._native.step()

    def save(self, path, train=None):
        self._native.save(str(path), (train or self._train_loader)._native)

    def load(self, path, train):
        self._native.load(str(path), train._native)


def load_model(model, checkpoint, averaged=True):
    """Loads only the model from a checkpoint; the averaged weights where there are some."""
    _train.load_model(_bound(model), str(checkpoint), averaged)
    return model
