"""Tuning and memory of AMD GPUs under the names of PyFlame's ROCm backend. All of it works on any device."""

from . import _core, memory, tune
from .config import get_config, set_config


class _TuningCache:
    """Choices measured once per shape and remembered in a file."""

    def enable_exhaustive_search(self, enabled=True):
        tune.enable(enabled)

    def set_cache_file(self, path):
        """Raises ConfigError or FileError where that cannot be a file."""
        tune.set_file(str(path))

    def get_stats(self):
        return tune.stats()


class _PinnedPool:
    """Memory of the host that copies to and from a GPU go through."""

    def warmup(self, sizes):
        """Lets the pool grow to hold buffers of these sizes at once."""
        needed = sum(sizes) / (1 << 20)
        if needed > get_config()["pinned_pool_size_mb"]:
            set_config(pinned_pool_size_mb=needed)
        if _core.get_device() != "cpu":
            for size in sizes:
                _core.zeros(size, dtype=_core.uint8, device="cpu").eval().to(_core.get_device())
            _core.synchronize()

    def get_stats(self):
        stats = memory.stats()
        return {"allocated": stats["pinned_allocated"], "reserved": stats["pinned_reserved"]}


class _MemoryManager:
    """The pool of the current device."""

    def clear_pool(self):
        memory.empty_cache()

    def get_stats(self):
        return memory.stats()


def get_tuning_cache():
    """The measured choices of ways to compute."""
    return _TuningCache()


def get_pinned_pool():
    """The pool of pinned memory."""
    return _PinnedPool()


def get_memory_manager():
    """The memory pool of the current device."""
    return _MemoryManager()


def warmup_memory_pool(batch_size=32, model_size="medium"):
    """Gets memory from the system ahead of time: for each sample in a batch 4 MiB, 16 MiB or 64 MiB."""
    sizes = {"small": 4 << 20, "medium": 16 << 20, "large": 64 << 20}
    if model_size not in sizes:
        raise _core.ValueError(f"[warmup_memory_pool] model_size is small, medium or large, not {model_size!r}")
    memory.warm_up(bytes=batch_size * sizes[model_size])
