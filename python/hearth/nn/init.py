"""Initial values, written into tensors that are there: init.xavier_uniform_(layer.weight)."""

from .. import _core


def _fill(tensor, value):
    with _core._NoGrad():
        tensor.assign(value.to(tensor.dtype).to(tensor.device))
    return tensor


def zeros_(tensor):
    return _fill(tensor, _core.zeros_like(tensor))


def ones_(tensor):
    return _fill(tensor, _core.ones_like(tensor))


def constant_(tensor, val):
    return _fill(tensor, _core.full_like(tensor, val))


def uniform_(tensor, a=0.0, b=1.0):
    return _fill(tensor, _core.init.uniform(tensor.shape, a, b))


def normal_(tensor, mean=0.0, std=1.0):
    return _fill(tensor, _core.init.normal(tensor.shape, mean, std))


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0):
    return _fill(tensor, _core.init.truncated_normal(tensor.shape, mean, std, a, b))


def xavier_uniform_(tensor, gain=1.0):
    return _fill(tensor, _core.init.xavier_uniform(tensor.shape, gain))


def xavier_normal_(tensor, gain=1.0):
    return _fill(tensor, _core.init.xavier_normal(tensor.shape, gain))


def kaiming_uniform_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu"):
    return _fill(tensor, _core.init.kaiming_uniform(tensor.shape, a, mode, nonlinearity))


def kaiming_normal_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu"):
    return _fill(tensor, _core.init.kaiming_normal(tensor.shape, a, mode, nonlinearity))


def orthogonal_(tensor, gain=1.0):
    return _fill(tensor, _core.init.orthogonal(tensor.shape, gain))


def calculate_gain(nonlinearity, param=0.01):
    return _core.init.gain(nonlinearity, param)
