"""Progress bars: redrawn in place on a terminal, a bar of HTML in a notebook, nothing elsewhere."""

import sys
import time


def in_notebook():
    """Whether this runs in a Jupyter kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


class Bar:
    """A task of `total` units."""

    def __init__(self, label, total, stream=None):
        self.label, self.total, self.done, self.text = label, total, 0, ""
        self._stream = stream or sys.stderr
        self._handle = None
        self._last = 0.0
        self._begun = time.monotonic()
        if in_notebook():
            from IPython.display import display

            self._handle = display(self, display_id=True)

    def update(self, done, text=""):
        self.done, self.text = done, text
        now = time.monotonic()
        if now - self._last >= 0.1 or done == self.total:
            self._last = now
            self._draw()

    def close(self):
        self._draw()
        if self._handle is None and self._stream.isatty():
            self._stream.write("\n")

    def _draw(self):
        if self._handle is not None:
            self._handle.update(self)
        elif self._stream.isatty():
            self._stream.write("\r" + repr(self) + "\033[K")
            self._stream.flush()

    def __repr__(self):
        share = min(self.done / self.total, 1) if self.total else 0
        filled = round(30 * share)
        seconds = time.monotonic() - self._begun
        return f"{self.label} |{'#' * filled}{'.' * (30 - filled)}| {self.done}/{self.total} {seconds:.0f} s {self.text}"

    def _repr_html_(self):
        from html import escape

        seconds = time.monotonic() - self._begun
        return (
            f"<div>{escape(self.label)} <progress value='{self.done}' max='{self.total or 1}'></progress> "
            f"{self.done}/{self.total}, {seconds:.0f} s {escape(self.text)}</div>"
        )


def progress(iterable, label="", total=None):
    """The same elements, with a bar that shows how many have been taken."""
    bar = Bar(label, total if total is not None else len(iterable))
    for count, element in enumerate(iterable, 1):
        yield element
        bar.update(count)
    bar.close()


class TrainingBar:
    """The bar of a Trainer in a notebook."""

    def __init__(self, steps=None, epochs=None):
        self._steps, self._epochs = steps, epochs

    def on_begin(self, trainer):
        per_epoch = len(trainer._train_loader)
        limits = [limit for limit in (self._steps, self._epochs and self._epochs * per_epoch) if limit]
        self._bar = Bar("training", min(limits))

    def on_step(self, trainer, step, loss):
        self._bar.update(step, f"loss {loss:.4f}")

    def on_end(self, trainer, result):
        self._bar.close()
