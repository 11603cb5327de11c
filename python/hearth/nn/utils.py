"""Gradients of several parameters together."""

from .._core import Tensor, _optim


def clip_grad_norm_(parameters, max_norm, norm_type=2.0):
    """Scales all gradients so that their norm together is at most max_norm. Returns the norm before."""
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return _optim.clip_grad_norm(parameters, max_norm, norm_type)


def clip_grad_value_(parameters, clip_value):
    """Limits every element of every gradient to [-clip_value, clip_value]."""
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    _optim.clip_grad_value(parameters, clip_value)
