"""Hearth under the names of KernelPyTorch's AMD backend: configuration, backend, optimiser, compiler, memory, utilities.

Nothing is simulated. Without an AMD GPU the CPU computes, with a warning.
"""

import enum
import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass

from . import _core, kernels, memory, profiler
from ._core import (
    BlasError as ROCBLASError,
    CompileError as HIPCompilationError,
    ConfigError as AMDConfigurationError,
    DeviceError as AMDDeviceError,
    DeviceUnavailable as ROCmNotAvailableError,
    DnnError as MIOpenError,
    Error as AMDBackendError,
    KernelError as HIPKernelError,
    MatrixUnitError as MatrixCoreError,
    OptimizationError as AMDOptimizationError,
    OutOfMemory as ROCmMemoryError,
)
from .config import get_config, set_config


class AMDArchitecture(enum.Enum):
    """Generations of AMD GPUs; AUTO takes the one that is there."""

    AUTO = "auto"
    CDNA = "cdna"
    CDNA2 = "cdna2"
    CDNA3 = "cdna3"
    CDNA4 = "cdna4"
    RDNA2 = "rdna2"
    RDNA3 = "rdna3"
    RDNA4 = "rdna4"


_CHIPS = {"gfx908": "CDNA", "gfx90a": "CDNA2", "gfx94": "CDNA3", "gfx95": "CDNA4", "gfx103": "RDNA2", "gfx11": "RDNA3",
          "gfx12": "RDNA4"}
_PRECISIONS = {"fp32": "f32", "fp16": "f16", "bf16": "bf16"}


def architecture_of(chip):
    """The generation of a chip by its name ("gfx1100"); None for one that is no AMD GPU."""
    for prefix, name in _CHIPS.items():
        if chip.startswith(prefix):
            return AMDArchitecture[name]
    return None


@dataclass
class AMDConfig:
    """Options as KernelPyTorch names them; config.h says what they do. Wrong values raise AMDConfigurationError."""

    architecture: AMDArchitecture = AMDArchitecture.AUTO
    device_id: int = 0
    optimization_level: str = "balanced"
    enable_matrix_cores: bool = True
    enable_mixed_precision: bool = True
    enable_operator_fusion: bool = True
    enable_memory_pooling: bool = True
    memory_pool_size_gb: float | None = None  # None: as much as suits the device
    max_memory_fraction: float = 0.9
    hip_kernel_cache_enabled: bool = True  # false: the compiler's kernels are compiled anew each time
    hip_compiler_cache_size: int = 100  # kernels that one compiler keeps
    hip_compiler_cache_dir: str | None = None  # counts before the first kernel; None: the user's cache folder
    rocblas_enabled: bool = True
    enable_rocblas_tuning: bool = False  # measures the ways to compute a product
    miopen_enabled: bool = True
    miopen_find_mode: str = "NORMAL"
    default_precision: str = "fp32"
    allow_fp16: bool = True
    allow_bf16: bool = True
    enable_profiling: bool = False
    enable_strict_validation: bool = False
    enable_oom_protection: bool = True

    def __post_init__(self):
        def check(condition, name):
            if not condition:
                raise AMDConfigurationError(f"[AMDConfig] {name} cannot be {getattr(self, name)!r}")

        check(isinstance(self.architecture, AMDArchitecture), "architecture")
        check(isinstance(self.device_id, int) and self.device_id >= 0, "device_id")
        check(self.optimization_level in ("conservative", "balanced", "aggressive"), "optimization_level")
        check(self.default_precision in _PRECISIONS, "default_precision")
        check(self.miopen_find_mode in ("NORMAL", "FAST", "HYBRID"), "miopen_find_mode")
        check(self.hip_compiler_cache_size > 0, "hip_compiler_cache_size")
        check(0 < self.max_memory_fraction <= 1, "max_memory_fraction")
        check(self.memory_pool_size_gb is None or self.memory_pool_size_gb > 0, "memory_pool_size_gb")

    def apply(self):
        """Makes these the options of the runtime."""
        set_config(
            optimization_level=self.optimization_level,
            enable_matrix_cores=self.enable_matrix_cores,
            enable_mixed_precision=self.enable_mixed_precision,
            enable_operator_fusion=self.enable_operator_fusion,
            enable_memory_pooling=self.enable_memory_pooling,
            memory_pool_size_gb=-1 if self.memory_pool_size_gb is None else self.memory_pool_size_gb,
            max_memory_fraction=self.max_memory_fraction,
            vendor_blas_enabled=self.rocblas_enabled,
            vendor_dnn_enabled=self.miopen_enabled,
            miopen_find_mode=self.miopen_find_mode.lower(),
            enable_tuning=self.enable_rocblas_tuning,
            default_precision=_PRECISIONS[self.default_precision],
            allow_fp16=self.allow_fp16,
            allow_bf16=self.allow_bf16,
            enable_profiling=self.enable_profiling,
            enable_strict_validation=self.enable_strict_validation,
            enable_oom_protection=self.enable_oom_protection,
        )
        if self.hip_compiler_cache_dir:
            os.environ["HEARTH_KERNEL_CACHE"] = self.hip_compiler_cache_dir


class _Backend:
    """A kind of GPU, or the CPU where there is none."""

    kind = ""

    def __init__(self, config=None):
        self.config = config or AMDConfig()
        if isinstance(self.config, AMDConfig):
            self.config.apply()
        index = getattr(self.config, "device_id", 0)
        found = [device for device in _core.devices() if device.type == self.kind]
        if found and index >= len(found):
            raise ROCmNotAvailableError(f"[{type(self).__name__}] there is no {self.kind}:{index}, only {len(found)} devices")
        if not found:
            warnings.warn(f"{type(self).__name__}: there is no {self.kind} device; the CPU computes", stacklevel=3)
        self.device = found[index] if found else _core.Device("cpu")
        wanted = getattr(self.config, "architecture", AMDArchitecture.AUTO)
        if found and self.kind == "rocm" and wanted is not AMDArchitecture.AUTO:
            chip = _core.device_info(self.device)["architecture"]
            if architecture_of(chip) is not wanted:
                warnings.warn(f"the configuration is for {wanted.name}, the GPU is {chip}; the GPU counts", stacklevel=3)

    def is_available(self):
        return self.device.type == self.kind

    def get_device_info(self):
        info = _core.device_info(self.device)
        return {
            "device_type": info["type"],
            "name": info["name"],
            "architecture": info["architecture"],
            "total_memory_gb": info["total_memory"] / 1e9,
            "matrix_cores_available": bool(info.get("matrix_unit")),
            "rocm_available": info["type"] == "rocm",
            **info,
        }

    def get_all_devices(self):
        return [_core.device_info(device) for device in _core.devices() if device.type == self.kind]

    def device_count(self):
        return len(self.get_all_devices())

    def prepare_model(self, model):
        """The model on the backend's device. Layers multiply in the configuration's precision."""
        return model.to(self.device)

    def to_device(self, tensor):
        return tensor.to(self.device)

    def synchronize(self):
        _core.synchronize(self.device)

    def empty_cache(self):
        memory.empty_cache(self.device)

    def get_memory_stats(self):
        return memory.stats(self.device)

    def get_memory_summary(self):
        return memory.summary(self.device)

    def cleanup(self):
        """Waits for all work and gives cached memory back."""
        self.synchronize()
        self.empty_cache()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.cleanup()


class AMDBackend(_Backend):
    """AMD GPUs, or the CPU where there is none."""

    kind = "rocm"


class KernelPyTorchConfig(AMDConfig):
    """The options of a backend that is not AMD's."""


class NVIDIABackend(_Backend):
    """NVIDIA GPUs, or the CPU where there is none."""

    kind = "cuda"


class AMDOptimizer:
    """Optimisation levels: which passes a plan goes through. explain() of a result shows what they did."""

    _PASSES = {
        "conservative": [],
        "balanced": ["common_subexpressions", "operator_fusion"],
        "aggressive": ["common_subexpressions", "operator_fusion", "division_by_numbers", "measured_products"],
    }

    def __init__(self, config=None):
        self.config = config or AMDConfig()
        self.config.apply()
        self._level = self.config.optimization_level

    def optimize(self, model, level=None):
        """The model; what it computes is planned at `level`, or the configuration's."""
        level = level or self.config.optimization_level
        if level not in self._PASSES:
            raise AMDOptimizationError(f"[optimize] level is one of {', '.join(self._PASSES)}, not {level!r}")
        self._level = level
        set_config(optimization_level=level)
        return model

    def get_optimization_summary(self):
        config = get_config()
        passes = list(self._PASSES[self._level])
        if not config["enable_operator_fusion"] and "operator_fusion" in passes:
            passes.remove("operator_fusion")
        found = [device for device in _core.devices() if device.type == "rocm"]
        info = _core.device_info(found[0]) if found else _core.device_info("cpu")
        return {
            "optimization_level": self._level,
            "architecture": info["architecture"],
            "matrix_cores_enabled": bool(info.get("matrix_unit")) and config["enable_matrix_cores"],
            "mixed_precision": config["enable_mixed_precision"],
            "operator_fusion": "operator_fusion" in passes,
            "fused_operations": _core.last_plan_stats()["fused_nodes"],
            "optimizations_applied": passes,
        }


class ROCmCompiler:
    """Compiles HIP kernels for the GPU; what was compiled is kept in memory and on disk."""

    def __init__(self, config=None):
        self.config = config or AMDConfig()
        self._kernels = {}
        self._begin = kernels.cache_stats()

    def compile_kernel(self, source, name, options=()):
        """A kernel that can be launched: kernel.launch(blocks, threads, arguments...). Raises HIPCompilationError with the
        compiler's log, ROCmNotAvailableError without an AMD GPU."""
        key = (source, name, tuple(options))
        if self.config.hip_kernel_cache_enabled and key in self._kernels:
            return self._kernels[key]
        kernel = kernels.compile(source, name, f"rocm:{self.config.device_id}", list(options))
        self._kernels[key] = kernel
        while len(self._kernels) > self.config.hip_compiler_cache_size:
            self._kernels.pop(next(iter(self._kernels)))
        return kernel

    def get_compilation_stats(self):
        now = kernels.cache_stats()
        hits = sum(now[name] - self._begin[name] for name in ("memory_hits", "disk_hits"))
        misses = now["compilations"] - self._begin["compilations"]
        return {
            "total_compilations": hits + misses,
            "cache_hits": hits,
            "cache_misses": misses,
            "compilation_errors": now["errors"] - self._begin["errors"],
            "cache_size": len(self._kernels),
            "cache_hit_rate_percent": 100.0 * hits / (hits + misses) if hits + misses else 0.0,
        }

    def clear_cache(self):
        self._kernels.clear()
        kernels.clear_cache()


@dataclass
class MemoryStats:
    """Megabytes (2^20 bytes)."""

    total_mb: float
    allocated_mb: float
    reserved_mb: float
    free_mb: float
    peak_mb: float
    num_allocations: int
    fragmentation_percent: float


class AMDMemoryManager:
    """Memory of the AMD GPU, or of the host where there is none."""

    def __init__(self, config=None):
        self.config = config or AMDConfig()
        self.config.apply()
        self.device = next((device for device in _core.devices() if device.type == "rocm"), _core.Device("cpu"))

    def allocate_tensor(self, shape, dtype=_core.float32, requires_grad=False):
        """Zeros on the device. Raises ROCmMemoryError."""
        tensor = _core.copy(_core.zeros(shape, dtype=dtype, device=self.device)).eval()
        return tensor.requires_grad_() if requires_grad else tensor

    def get_memory_stats(self):
        info, stats = _core.device_info(self.device), memory.stats(self.device)
        mb = 1 << 20
        return MemoryStats(
            info["total_memory"] / mb, stats["allocated"] / mb, stats["reserved"] / mb, info["free_memory"] / mb,
            stats["peak"] / mb, stats["allocations"], 100 * stats["fragmentation"],
        )

    def get_allocation_summary(self):
        """Bytes by what they are for."""
        return memory.stats(self.device)["by_purpose"]

    def clear_pool(self):
        memory.empty_cache(self.device)

    def reset_peak_stats(self):
        memory.reset_peak(self.device)

    def cleanup(self):
        self.clear_pool()


class Stream:
    """Hearth has one stream per device, in which work runs in order; a named one is a place to wait for it."""

    def __init__(self, name, device):
        self.name, self.device = name, device

    def synchronize(self):
        _core.synchronize(self.device)


class HIPUtilities:
    """Coordination and profiling."""

    def __init__(self, config=None):
        self.config = config or AMDConfig()
        self.config.apply()
        self.device = next((device for device in _core.devices() if device.type == "rocm"), _core.Device("cpu"))
        self._streams = {}

    def create_stream(self, name, priority=0):
        if priority != 0:
            raise AMDConfigurationError("[create_stream] the stream of a device has no priority but 0")
        return self._streams.setdefault(name, Stream(name, self.device))

    def get_stream(self, name):
        return self._streams[name]

    def create_event(self):
        return _core.Event(self.device)

    @contextmanager
    def profile_region(self, name):
        """Counts the time within, work of the device included, where enable_profiling is set."""
        with profiler.region(name):
            yield
            _core.synchronize(self.device)

    def get_profiling_summary(self):
        return {"regions": profiler._runtime.profile_regions(), "steps": profiler._runtime.profile_summary()}

    def get_device_properties(self):
        return _core.device_info(self.device)

    def synchronize_device(self):
        _core.synchronize(self.device)

    def cleanup(self):
        self._streams.clear()
        profiler.clear()
