"""Memory of devices: what is in use, limits, the pool. Sizes are in bytes; without a device the default one is meant."""

from ._core._runtime import (
    empty_cache,
    memory_stats as stats,
    memory_summary as summary,
    reset_peak_memory as reset_peak,
    warm_up,
)

__all__ = ["stats", "summary", "reset_peak", "empty_cache", "warm_up", "allocated", "peak"]


def allocated(device=None):
    """Bytes in use by tensors and plans."""
    return stats(device)["allocated"]


def peak(device=None):
    """The largest `allocated` since reset_peak()."""
    return stats(device)["peak"]
