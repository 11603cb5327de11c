"""Measured choices: on a GPU, the ways to compute a product are timed once per shape and the fastest is remembered."""

from ._core import _runtime
from .config import configured, set_config


def stats():
    """Of the tuning file and this process: entries, refused, hits, misses, tuned."""
    return _runtime.tuning_stats()


def enable(enabled=True):
    """Measures the shapes that are met for the first time from now on."""
    set_config(enable_tuning=enabled)


def set_file(path):
    """Where choices are remembered: a path, "off", or "" for the one in the user's cache folder."""
    set_config(tuning_file=path)


def tuning():
    """enable() for the time of a with statement."""
    return configured(enable_tuning=True)
