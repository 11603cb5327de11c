"""Functions of layers. Under an autocast, those that multiply matrices work in its type and the delicate ones in float32."""

from .. import _core
from .._core import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    cosine_similarity,
    full_precision as _full,
    gelu_tanh,
    glu,
    hardshrink,
    logsigmoid,
    low_precision as _low,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    one_hot,
    prelu,
    sigmoid,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
)


def _activation(function):
    """One that takes `inplace`, as PyTorch's do; it changes nothing, the result is what counts."""

    def activation(x, *options, inplace=False, **named):
        return function(x, *options, **named)

    activation.__name__ = activation.__qualname__ = function.__name__
    activation.__doc__ = function.__doc__
    return activation


celu = _activation(_core.celu)
dropout = _activation(_core.dropout)
elu = _activation(_core.elu)
hardsigmoid = _activation(_core.hardsigmoid)
hardswish = _activation(_core.hardswish)
hardtanh = _activation(_core.hardtanh)
leaky_relu = _activation(_core.leaky_relu)
mish = _activation(_core.mish)
relu = _activation(_core.relu)
relu6 = _activation(_core.relu6)
selu = _activation(_core.selu)
silu = _activation(_core.silu)


def gelu(x, approximate="none"):
    """x * Phi(x), with the error function or its approximation by tanh."""
    return gelu_tanh(x) if approximate == "tanh" else _core.gelu(x)


def interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=False):
    """The spatial axes resized to `size`, or by `scale_factor`; a number stands for all of them."""
    axes = x.ndim - 2
    if (size is None) == (scale_factor is None):
        raise _core.ValueError("[interpolate] either size or scale_factor is needed")
    if size is None:
        factors = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * axes
        size = tuple(int(n * s) for n, s in zip(x.shape[2:], factors, strict=True))
    return _core.interpolate(x, size, mode, bool(align_corners))


def embedding(indices, weight, padding_idx=None):
    """Rows of `weight`."""
    return _core.embedding(indices, weight, padding_idx)


# ---- matrix work


def linear(x, weight, bias=None):
    """x @ weight^T + bias."""
    return _core.linear(_low(x), _low(weight), None if bias is None else _low(bias))


def _convolution(function):
    def convolve(x, weight, bias=None, *options, **more):
        return function(_low(x), _low(weight), None if bias is None else _low(bias), *options, **more)

    convolve.__doc__ = function.__doc__
    return convolve


conv1d = _convolution(_core.conv1d)
conv2d = _convolution(_core.conv2d)
conv3d = _convolution(_core.conv3d)
conv_transpose1d = _convolution(_core.conv_transpose1d)
conv_transpose2d = _convolution(_core.conv_transpose2d)
conv_transpose3d = _convolution(_core.conv_transpose3d)


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """Attention of (..., heads, length, size); in a bool mask true means "may attend". Keys may have fewer heads, whatever
    enable_gqa says."""
    return _core.attention(_low(query), _low(key), _low(value), attn_mask, dropout_p, is_causal, scale)


# ---- in float32


def softmax(x, dim=-1, dtype=None):
    """e^x / sum(e^x) along an axis, of x in `dtype` if one is given."""
    return _core.softmax(_full(x) if dtype is None else x.to(dtype), dim)


def log_softmax(x, dim=-1, dtype=None):
    """log(softmax(x))."""
    return _core.log_softmax(_full(x) if dtype is None else x.to(dtype), dim)


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalised over the last axes."""
    return _core.layer_norm(_full(x), normalized_shape, weight, bias, eps)


_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def rms_norm(x, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) * weight over the last axes; eps None: the distance of 1 to the next number of x's dtype."""
    x = _full(x)
    axes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not axes or x.shape[-len(axes) :] != axes:
        raise _core.ShapeError(f"[rms_norm] the last axes of {x.shape} are not {axes}")
    if eps is None:
        eps = _EPSILON[x.dtype.name]
    if len(axes) == 1:
        return _core.rms_norm(x, weight, eps)
    flat = x.reshape(x.shape[: -len(axes)] + (-1,))
    return _core.rms_norm(flat, None if weight is None else weight.reshape(-1), eps).reshape(x.shape)


def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalised over groups of channels."""
    return _core.group_norm(_full(x), num_groups, weight, bias, eps)


def instance_norm(
    x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    """Normalised over each channel, by its own statistics: there are no running ones."""
    if running_mean is not None or running_var is not None or not use_input_stats:
        raise _core.ValueError("[instance_norm] there are no running statistics")
    return _core.instance_norm(_full(x), weight, bias, eps)


def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalised per channel. Training uses the batch's statistics and assigns the running ones."""
    x = _full(x)
    if not training:
        return _core.batch_norm(x, running_mean, running_var, weight, bias, False, eps)
    output, mean, variance = _core.batch_norm_train(x, weight, bias, eps)
    if running_mean is not None:
        with _core._NoGrad():
            count = x.numel() // x.size(1)
            mean, variance = mean.detach(), variance.detach() * (count / max(count - 1, 1))
            running_mean.assign(running_mean + momentum * (mean - running_mean))
            running_var.assign(running_var + momentum * (variance - running_var))
    return output


def normalize(x, p=2.0, dim=1, eps=1e-12):
    """x / max(norm, eps) along an axis."""
    return x / _core.clamp(_core.norm(x, p, dim, True), eps, None)


def pad(x, pad, mode="constant", value=0.0):
    """Elements added around x; pairs for the last axis first, as PyTorch has it."""
    if mode != "constant":
        raise _core.ValueError(f"[pad] mode is 'constant', not {mode!r}")
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return _core.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1], value)


# ---- losses


def _loss(function):
    def loss(input, target, *options, **more):
        return function(_full(input), target, *options, **more)

    loss.__doc__ = function.__doc__
    return loss


mse_loss = _loss(_core.mse_loss)
l1_loss = _loss(_core.l1_loss)
smooth_l1_loss = _loss(_core.smooth_l1_loss)
huber_loss = _loss(_core.huber_loss)
nll_loss = _loss(_core.nll_loss)
cross_entropy = _loss(_core.cross_entropy)
binary_cross_entropy = _loss(_core.bce_loss)


def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    """Binary cross entropy of scores. `weight` is of elements, `pos_weight` of those whose target is 1."""
    input = _full(input)
    if weight is None and pos_weight is None:
        return _core.bce_with_logits_loss(input, target, reduction)
    if pos_weight is None:
        loss = _core.bce_with_logits_loss(input, target, "none")
    else:
        loss = (1 - target) * input + (1 + (pos_weight - 1) * target) * _core.softplus(-input)
    loss = loss if weight is None else loss * weight
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise _core.ValueError(f"[loss] reduction is mean, sum or none, not {reduction!r}")
    return loss.mean() if reduction == "mean" else loss.sum()


def kl_div(input, target, reduction="mean", log_target=False):
    """Kullback-Leibler divergence; input holds log-probabilities. reduction "batchmean": the sum by the samples."""
    input = _full(input)
    if reduction != "batchmean":
        return _core.kl_div_loss(input, target, reduction, log_target)
    return _core.kl_div_loss(input, target, "sum", log_target) / input.size(0)


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """target is 1 (alike) or -1."""
    return _core.cosine_embedding_loss(_full(input1), _full(input2), target, margin, reduction)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, reduction="mean"):
    """max(0, distance to positive - distance to negative + margin)."""
    return _core.triplet_margin_loss(_full(anchor), _full(positive), _full(negative), margin, p, reduction)
