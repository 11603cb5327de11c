"""Layers. Defaults, initial values and names in state dictionaries are PyTorch's, so its weights load."""

import math

from .. import _core
from . import functional as F
from .module import Module, Parameter


def _tuple(value, count):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


# ---- activations: a function as a module


def _activation(function, **defaults):
    """A class whose constructor takes the function's options, in order or by name."""
    names = list(defaults)

    class Activation(Module):
        __doc__ = function.__doc__

        def __init__(self, *values, inplace=False, **options):
            super().__init__()
            unknown = [name for name in options if name not in defaults]
            if unknown or len(values) > len(names):
                raise TypeError(f"{type(self).__name__} takes {names}, not {unknown or values}")
            self.options = {**defaults, **dict(zip(names, values)), **options}

        def forward(self, x):
            return function(x, **self.options)

        def extra_repr(self):
            return ", ".join(f"{name}={value}" for name, value in self.options.items())

    return Activation


def _named(name, kind):
    kind.__name__ = kind.__qualname__ = name
    return kind


ReLU = _named("ReLU", _activation(F.relu))
ReLU6 = _named("ReLU6", _activation(F.relu6))
LeakyReLU = _named("LeakyReLU", _activation(F.leaky_relu, negative_slope=0.01))
ELU = _named("ELU", _activation(F.elu, alpha=1.0))
CELU = _named("CELU", _activation(F.celu, alpha=1.0))
SELU = _named("SELU", _activation(F.selu))
GELU = _named("GELU", _activation(F.gelu, approximate="none"))
SiLU = _named("SiLU", _activation(F.silu))
Mish = _named("Mish", _activation(F.mish))
Sigmoid = _named("Sigmoid", _activation(F.sigmoid))
LogSigmoid = _named("LogSigmoid", _activation(F.logsigmoid))
Softplus = _named("Softplus", _activation(F.softplus))
Softsign = _named("Softsign", _activation(F.softsign))
Tanh = _named("Tanh", _activation(F.tanh))
Tanhshrink = _named("Tanhshrink", _activation(F.tanhshrink))
Softshrink = _named("Softshrink", _activation(F.softshrink, lambd=0.5))
Hardshrink = _named("Hardshrink", _activation(F.hardshrink, lambd=0.5))
Hardtanh = _named("Hardtanh", _activation(F.hardtanh, min_val=-1.0, max_val=1.0))
Hardsigmoid = _named("Hardsigmoid", _activation(F.hardsigmoid))
Hardswish = _named("Hardswish", _activation(F.hardswish))
GLU = _named("GLU", _activation(F.glu, dim=-1))
Softmax = _named("Softmax", _activation(F.softmax, dim=-1))
LogSoftmax = _named("LogSoftmax", _activation(F.log_softmax, dim=-1))
Flatten = _named("Flatten", _activation(_core.flatten, start_dim=1, end_dim=-1))


class PReLU(Module):
    """leaky_relu with learned slopes: one, or one per channel."""

    def __init__(self, num_parameters=1, init=0.25):
        super().__init__()
        self.weight = Parameter(_core.full((num_parameters,), init))

    def forward(self, x):
        return F.prelu(x, self.weight)


class Identity(Module):
    """x"""

    def __init__(self, *ignored, **options):
        super().__init__()

    def forward(self, x):
        return x


class Unflatten(Module):
    """One axis as several."""

    def __init__(self, dim, unflattened_size):
        super().__init__()
        self.dim, self.sizes = dim, tuple(unflattened_size)

    def forward(self, x):
        axis = self.dim % x.ndim
        return x.reshape(x.shape[:axis] + self.sizes + x.shape[axis + 1 :])


# ---- linear, convolution, embedding


def _default_weight(*shape):
    return Parameter(_core.init.kaiming_uniform(shape, math.sqrt(5)))


def _default_bias(wanted, size, weight_shape):
    if not wanted:
        return None
    fan = _core.init.fan_in(weight_shape)
    bound = 1 / math.sqrt(fan) if fan > 0 else 0.0
    return Parameter(_core.init.uniform((size,), -bound, bound))


class Linear(Module):
    """x @ weight^T + bias, weight (out, in)."""

    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _default_weight(out_features, in_features)
        self.register_parameter("bias", _default_bias(bias, out_features, self.weight.shape))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class _Convolution(Module):
    axes = 0
    transposed = False
    function = None
    end_padding = ()  # zeros that padding="same" puts at the end of each axis beside those at both ends

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, *more, dilation=1, groups=1, bias=True,
        output_padding=0,
    ):
        super().__init__()
        # Where PyTorch's orders differ: Conv(dilation, groups, bias), ConvTranspose(output_padding, groups, bias, dilation).
        names = ("output_padding", "groups", "bias", "dilation") if self.transposed else ("dilation", "groups", "bias")
        if len(more) > len(names):
            raise TypeError(f"{type(self).__name__} takes at most {5 + len(names)} arguments")
        given = dict(zip(names, more))
        dilation, groups = given.get("dilation", dilation), given.get("groups", groups)
        bias, output_padding = given.get("bias", bias), given.get("output_padding", output_padding)
        kernel = _tuple(kernel_size, self.axes)
        if padding == "same":
            whole = [d * (k - 1) for d, k in zip(_tuple(dilation, self.axes), kernel)]
            padding, self.end_padding = tuple(w // 2 for w in whole), tuple(w % 2 for w in whole)
            if self.transposed and any(self.end_padding):
                raise _core.ValueError(f"[{type(self).__name__}] padding 'same' needs odd kernels, got {kernel}")
        elif padding == "valid":
            padding = 0
        if groups <= 0 or in_channels % groups or out_channels % groups:
            raise _core.ValueError(
                f"[{type(self).__name__}] groups must divide the channels: {groups}, {in_channels}, {out_channels}"
            )
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel
        self.options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if self.transposed:
            self.options["output_padding"] = output_padding
            self.weight = _default_weight(in_channels, out_channels // groups, *kernel)
        else:
            self.weight = _default_weight(out_channels, in_channels // groups, *kernel)
        self.register_parameter("bias", _default_bias(bias, out_channels, self.weight.shape))

    def forward(self, x):
        if any(self.end_padding):
            x = _core.pad(x, [(0, 0)] * (x.ndim - self.axes) + [(0, zeros) for zeros in self.end_padding])
        return type(self).function(x, self.weight, self.bias, **self.options)

    def extra_repr(self):
        shown = {**self.options, "end_padding": self.end_padding} if any(self.end_padding) else self.options
        options = ", ".join(f"{name}={value}" for name, value in shown.items())
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, {options}"


def _convolution(name, axes, transposed, function):
    body = {"axes": axes, "transposed": transposed, "function": staticmethod(function), "__doc__": function.__doc__}
    return type(name, (_Convolution,), body)


Conv1d = _convolution("Conv1d", 1, False, F.conv1d)
Conv2d = _convolution("Conv2d", 2, False, F.conv2d)
Conv3d = _convolution("Conv3d", 3, False, F.conv3d)
ConvTranspose1d = _convolution("ConvTranspose1d", 1, True, F.conv_transpose1d)
ConvTranspose2d = _convolution("ConvTranspose2d", 2, True, F.conv_transpose2d)
ConvTranspose3d = _convolution("ConvTranspose3d", 3, True, F.conv_transpose3d)


class Embedding(Module):
    """Rows of `weight`; the row of padding_idx starts as zeros and gets no gradient."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None):
        super().__init__()
        weight = _core.randn(num_embeddings, embedding_dim)
        if padding_idx is not None:
            padding_idx %= num_embeddings
            weight[padding_idx] = 0.0
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.weight = Parameter(weight)

    def forward(self, indices):
        return F.embedding(indices, self.weight, self.padding_idx)

    def extra_repr(self):
        return f"{self.weight.size(0)}, {self.weight.size(1)}"


# ---- pooling


class _Pool(Module):
    function = None

    def __init__(self, kernel_size, stride=None, padding=0, *, dilation=1, ceil_mode=False, **options):
        super().__init__()
        if dilation != 1 or ceil_mode:
            raise _core.ValueError(f"[{type(self).__name__}] windows are whole and have no gaps: no dilation, no ceil_mode")
        self.options = {"kernel_size": kernel_size, "stride": stride, "padding": padding, **options}

    def forward(self, x):
        return type(self).function(x, **self.options)

    def extra_repr(self):
        return ", ".join(f"{name}={value}" for name, value in self.options.items())


class _AdaptivePool(Module):
    function = None

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, x):
        return type(self).function(x, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"


def _pool(base, name, function):
    return type(name, (base,), {"function": staticmethod(function), "__doc__": function.__doc__})


MaxPool1d = _pool(_Pool, "MaxPool1d", F.max_pool1d)
MaxPool2d = _pool(_Pool, "MaxPool2d", F.max_pool2d)
MaxPool3d = _pool(_Pool, "MaxPool3d", F.max_pool3d)
AvgPool1d = _pool(_Pool, "AvgPool1d", F.avg_pool1d)
AvgPool2d = _pool(_Pool, "AvgPool2d", F.avg_pool2d)
AvgPool3d = _pool(_Pool, "AvgPool3d", F.avg_pool3d)
AdaptiveAvgPool1d = _pool(_AdaptivePool, "AdaptiveAvgPool1d", F.adaptive_avg_pool1d)
AdaptiveAvgPool2d = _pool(_AdaptivePool, "AdaptiveAvgPool2d", F.adaptive_avg_pool2d)
AdaptiveAvgPool3d = _pool(_AdaptivePool, "AdaptiveAvgPool3d", F.adaptive_avg_pool3d)
AdaptiveMaxPool1d = _pool(_AdaptivePool, "AdaptiveMaxPool1d", F.adaptive_max_pool1d)
AdaptiveMaxPool2d = _pool(_AdaptivePool, "AdaptiveMaxPool2d", F.adaptive_max_pool2d)


class GlobalAvgPool2d(Module):
    """(N, C, H, W) -> (N, C)"""

    def forward(self, x):
        return x.mean((-2, -1))


class Upsample(Module):
    """The spatial axes resized to `size`, or by `scale_factor`."""

    def __init__(self, size=None, scale_factor=None, mode="nearest", align_corners=False):
        super().__init__()
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners

    def forward(self, x):
        return F.interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)


# ---- normalisation


class _BatchNorm(Module):
    """Training normalises by the batch and assigns the running statistics; evaluation normalises by those."""

    ndims = ()

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.register_parameter("weight", Parameter(_core.ones(num_features)) if affine else None)
        self.register_parameter("bias", Parameter(_core.zeros(num_features)) if affine else None)
        track = track_running_stats
        self.register_buffer("running_mean", _core.zeros(num_features) if track else None)
        self.register_buffer("running_var", _core.ones(num_features) if track else None)
        self.register_buffer("num_batches_tracked", _core.zeros(dtype=_core.int64) if track else None)

    def forward(self, x):
        if x.ndim not in self.ndims:
            raise _core.ShapeError(f"[{type(self).__name__}] {' or '.join(map(str, self.ndims))} axes, got {x.shape}")
        tracked = self.running_mean is not None
        momentum = self.momentum
        if self.training and tracked:
            with _core._NoGrad():
                self.num_batches_tracked.assign(self.num_batches_tracked + 1)
                if momentum is None:  # the average of all batches
                    momentum = 1.0 / self.num_batches_tracked.float()
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training or not tracked, momentum, self.eps
        )

    def extra_repr(self):
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(_BatchNorm):
    ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    ndims = (4,)


class BatchNorm3d(_BatchNorm):
    ndims = (5,)


class LayerNorm(Module):
    """Normalised over the last axes, which have the shape `normalized_shape`."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True):
        super().__init__()
        self.normalized_shape, self.eps = _tuple(normalized_shape, 1), eps
        self.register_parameter("weight", Parameter(_core.ones(self.normalized_shape)) if elementwise_affine else None)
        self.register_parameter(
            "bias", Parameter(_core.zeros(self.normalized_shape)) if elementwise_affine and bias else None
        )

    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last axes; eps None: as in functional.rms_norm."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True):
        super().__init__()
        self.normalized_shape, self.eps = _tuple(normalized_shape, 1), eps
        self.register_parameter("weight", Parameter(_core.ones(self.normalized_shape)) if elementwise_affine else None)

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Normalised over groups of channels."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True):
        super().__init__()
        self.num_groups, self.eps = num_groups, eps
        self.register_parameter("weight", Parameter(_core.ones(num_channels)) if affine else None)
        self.register_parameter("bias", Parameter(_core.zeros(num_channels)) if affine else None)

    def forward(self, x):
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class InstanceNorm(Module):
    """Normalised over each channel, by its own statistics: momentum is of running ones, which there are not."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False):
        super().__init__()
        if track_running_stats:
            raise _core.ValueError(f"[{type(self).__name__}] there are no running statistics")
        self.eps = eps
        self.register_parameter("weight", Parameter(_core.ones(num_features)) if affine else None)
        self.register_parameter("bias", Parameter(_core.zeros(num_features)) if affine else None)

    def forward(self, x):
        return F.instance_norm(x, weight=self.weight, bias=self.bias, eps=self.eps)


InstanceNorm1d = InstanceNorm2d = InstanceNorm3d = InstanceNorm


# ---- dropout


class Dropout(Module):
    """Elements zeroed with probability p in training, the others scaled by 1 / (1 - p)."""

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p < 1:
            raise _core.ValueError(f"[{type(self).__name__}] p is in [0, 1), not {p}")
        self.p = p

    def forward(self, x):
        return F.dropout(x, self.p, self.training)

    def extra_repr(self):
        return f"p={self.p}"


class _ChannelDropout(Dropout):
    """Whole channels zeroed."""

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        channels = x.shape[:2] + (1,) * (x.ndim - 2)
        with _core._DeviceScope(x.device):
            kept = _core.bernoulli(channels, 1 - self.p, x.dtype)
        return x * (kept / (1 - self.p))


class Dropout1d(_ChannelDropout):
    pass


class Dropout2d(_ChannelDropout):
    pass


class Dropout3d(_ChannelDropout):
    pass


class AlphaDropout(Dropout):
    """Keeps mean and variance of inputs that are normal, as after SELU."""

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        saturated = -1.7580993408473766  # of SELU
        keep = 1 - self.p
        scale = (keep + saturated**2 * keep * self.p) ** -0.5
        shift = -scale * saturated * self.p
        with _core._DeviceScope(x.device):
            kept = _core.bernoulli(x.shape, keep)
        return _core.where(kept, x, saturated) * scale + shift
