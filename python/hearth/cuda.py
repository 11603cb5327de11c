"""PyTorch's names for GPUs. As in its ROCm build, "cuda" means whatever GPU is there, AMD's included."""

from . import _core, memory


def _gpus():
    return [device for device in _core.devices() if device.type != "cpu"]


def is_available():
    """Whether there is a GPU."""
    return bool(_gpus())


def device_count():
    """How many GPUs there are."""
    return len(_gpus())


def _gpu(index):
    gpus = _gpus()
    if not 0 <= index < len(gpus):
        raise _core.DeviceUnavailable(f"[cuda] there is no GPU {index}; there are {len(gpus)}")
    return gpus[index]


def get_device_name(index=0):
    """The name of a GPU, as people know it."""
    return _core.device_info(_gpu(index))["name"]


def set_device(index):
    """Makes a GPU the device on which tensors are made."""
    _core.set_device(_gpu(index))


def synchronize(index=0):
    """Waits for all work on a GPU."""
    _core.synchronize(_gpu(index))


def memory_allocated(index=0):
    """Bytes in use on a GPU."""
    return memory.allocated(_gpu(index))


def empty_cache():
    """Returns cached memory of all devices to the system."""
    for device in _core.devices():
        memory.empty_cache(device)
