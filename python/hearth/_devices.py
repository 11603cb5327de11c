"""Functions by kind of device."""

from . import _core


def _count(kind):
    return sum(device.type == kind for device in _core.devices())


def _functions(kind):
    def is_available():
        return _count(kind) > 0

    def device_count():
        return _count(kind)

    def get_device():
        current = _core.get_device()
        return int(current.split(":")[1]) if current.startswith(kind) else -1

    def get_device_info(index=0):
        return _core.device_info(f"{kind}:{index}")

    def set_device(index):
        _core.set_device(f"{kind}:{index}")

    def synchronize(index=None):
        _core.synchronize(f"{kind}:{index}" if index is not None else kind)

    is_available.__doc__ = f"Whether there is a {kind} device."
    device_count.__doc__ = f"How many {kind} devices there are."
    get_device.__doc__ = f"The number of the current device, -1 if it is not a {kind} device."
    get_device_info.__doc__ = f"What is known about a {kind} device."
    set_device.__doc__ = f"Makes a {kind} device the one on which tensors are made."
    synchronize.__doc__ = "Waits for all work on a device."
    return is_available, device_count, get_device, get_device_info, set_device, synchronize


(rocm_is_available, rocm_device_count, rocm_get_device, rocm_get_device_info, rocm_set_device, rocm_synchronize) = _functions(
    "rocm"
)
(cuda_is_available, cuda_device_count, cuda_get_device, cuda_get_device_info, cuda_set_device, cuda_synchronize) = _functions(
    "cuda"
)


def device_count():
    """How many GPUs there are."""
    return sum(device.type != "cpu" for device in _core.devices())
