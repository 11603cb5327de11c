"""Where the time goes.

    with ht.profiler.profile() as p:
        with ht.profiler.region("forward"):
            model(x).eval()
    print(p)                       # a table
    p.export_chrome_trace("trace.json")
"""

from ._core import _runtime
from ._core._runtime import Region as region, clear_profile as clear, profile_table as table
from .config import configured


class profile:
    """Records the time of every step while in it. Begins anew: what was recorded before is forgotten."""

    def __init__(self):
        self._config = configured(enable_profiling=True)

    def __enter__(self):
        clear()
        self._config.__enter__()
        return self

    def __exit__(self, *error):
        self._config.__exit__()

    def steps(self):
        """Per kind of step: count, total_ms, avg_ms, min_ms, max_ms."""
        return _runtime.profile_summary()

    def regions(self):
        """Per region, those around it included in the name."""
        return _runtime.profile_regions()

    def export_chrome_trace(self, path):
        """All steps and regions, for chrome://tracing and ui.perfetto.dev."""
        _runtime.write_profile_trace(str(path))

    def __repr__(self):
        return table()
