"""Options of the runtime; include/hearth/config.h describes each."""

from ._core import _runtime


def get_config():
    """All options by name."""
    return _runtime.get_config()


def set_config(**options):
    """Changes options: set_config(optimization_level="aggressive", threads=4). Holds for plans made afterwards."""
    texts = {}
    for name, value in options.items():
        texts[name] = str(value).lower() if isinstance(value, bool) else getattr(value, "name", str(value))
    _runtime.set_config(texts)


class configured:
    """set_config() for the time of a with statement."""

    def __init__(self, **options):
        self._options = options

    def __enter__(self):
        before = get_config()
        set_config(**self._options)
        self._before = {name: before[name] for name in self._options}
        return self

    def __exit__(self, *error):
        set_config(**self._before)
