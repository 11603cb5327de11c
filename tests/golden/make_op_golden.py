"""Writes ops.safetensors: cases of operations, with values and gradients computed by PyTorch in float64.

Run it with a Python that has torch, numpy and safetensors; the output is the same at every run. golden_ops_test.cpp
reads it. The metadata entry "cases" is a JSON list; a case is

    {"name": "conv2d/stride", "function": "conv2d", "attributes": {...},
     "inputs": ["f", "f", null, "i", "b"],      # kind of each input: floating, integer, bool; null: not given
     "gradients": [0, 1]}                       # inputs whose gradient is there

and its tensors are "<number>.in<i>" (F32, I64, BOOL), "<number>.out" (F64, I64 or BOOL), "<number>.seed" (F32: the
gradient of the output), "<number>.grad<i>" (F64) and "<number>.half" (F32: the output for inputs rounded to bf16, which
f16 holds exactly as well).
"""

import json
import math
import pathlib
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

torch.set_default_dtype(torch.float64)
warnings.filterwarnings("ignore", message="reduction: 'mean' divides")  # kl_div: that is the one meant
random = np.random.default_rng(20240607)
cases = []
tensors = {}


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def uniform(low, high, *shape):
    return random.uniform(low, high, shape).astype(np.float32)


def distinct(*shape):
    """Values whose order survives rounding to bf16, for operations that compare."""
    count = math.prod(shape)
    return (random.permutation(count).reshape(shape).astype(np.float32) - count // 2) / 8


def integers(low, high, *shape):
    return random.integers(low, high, shape, dtype=np.int64)


def floats(*values):
    return np.array(values, dtype=np.float32)


def kind_of(value):
    if value is None:
        return None
    return {"f": "f", "i": "i", "b": "b"}[np.asarray(value).dtype.kind]


def to_torch(value, half=False):
    if value is None:
        return None
    value = torch.from_numpy(np.ascontiguousarray(value))
    if not value.is_floating_point():
        return value
    return (value.bfloat16() if half else value).double()


def case(name, compute, inputs, gradients=None, half=True, **attributes):
    """`name` is "function/what is special"; `compute` takes the inputs as torch tensors; `gradients` lists the inputs to
    differentiate by, all floating ones unless given."""
    number = f"{len(cases):03d}"
    kinds = [kind_of(x) for x in inputs]
    given = [to_torch(x) for x in inputs]
    if gradients is None:
        gradients = [i for i, kind in enumerate(kinds) if kind == "f"]
    for i in gradients:
        given[i].requires_grad_()
    output = compute(*given)
    if not output.is_floating_point():
        gradients = []
    for i, x in enumerate(inputs):
        if x is not None:
            tensors[f"{number}.in{i}"] = np.ascontiguousarray(x)
    tensors[f"{number}.out"] = output.detach().contiguous().numpy()
    if gradients:
        seed = normal(*output.shape)
        tensors[f"{number}.seed"] = seed
        results = torch.autograd.grad(output, [given[i] for i in gradients], torch.from_numpy(seed).double())
        for i, gradient in zip(gradients, results):
            tensors[f"{number}.grad{i}"] = gradient.contiguous().numpy()
    if half and output.is_floating_point():
        rounded = compute(*[to_torch(x, half=True) for x in inputs])
        tensors[f"{number}.half"] = rounded.detach().contiguous().float().numpy()
    cases.append({"name": name, "function": name.split("/")[0], "attributes": attributes, "inputs": kinds,
                  "gradients": gradients})


# ---- convolution
def convolution(what, function, x, weight, bias, **options):
    transposed = "transpose" in function
    torch_options = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    channels = weight[1] * options.get("groups", 1) if transposed else weight[0]
    compute = lambda x, w, b: getattr(F, function)(x, w, b, **torch_options)
    case(f"{function}/{what}", compute, [normal(*x), normal(*weight), normal(channels) if bias else None], **options)


convolution("plain", "conv1d", (2, 3, 11), (4, 3, 3), True)
convolution("strided_padded", "conv1d", (2, 3, 12), (4, 3, 4), False, stride=3, padding=2)
convolution("dilated_grouped", "conv1d", (1, 4, 13), (6, 2, 3), True, dilation=2, groups=2, padding=1)
convolution("depthwise", "conv1d", (2, 5, 9), (5, 1, 3), True, groups=5, padding=1)
convolution("plain", "conv2d", (2, 3, 7, 6), (4, 3, 3, 3), True)
convolution("one_by_one", "conv2d", (2, 5, 4, 3), (6, 5, 1, 1), True)
convolution("strided_padded", "conv2d", (2, 2, 9, 8), (3, 2, 3, 3), False, stride=2, padding=1)
convolution("different_per_axis", "conv2d", (1, 2, 9, 11), (3, 2, 3, 2), True, stride=[2, 3], padding=[1, 0],
            dilation=[1, 2])
convolution("dilated", "conv2d", (1, 2, 10, 10), (2, 2, 3, 3), False, dilation=3, padding=3)
convolution("grouped", "conv2d", (2, 6, 5, 5), (4, 3, 3, 3), True, groups=2, padding=1)
convolution("depthwise_multiplier", "conv2d", (1, 3, 6, 6), (6, 1, 3, 3), True, groups=3, stride=2, padding=1)
convolution("kernel_is_image", "conv2d", (2, 3, 4, 4), (5, 3, 4, 4), True)
convolution("padding_beyond_kernel", "conv2d", (1, 1, 3, 3), (1, 1, 2, 2), False, padding=3)
convolution("plain", "conv3d", (1, 2, 5, 4, 4), (3, 2, 2, 3, 2), True)
convolution("strided_padded_grouped", "conv3d", (1, 4, 5, 5, 4), (4, 2, 3, 2, 3), True, stride=[2, 1, 2],
            padding=[1, 0, 1], groups=2)
convolution("dilated", "conv3d", (1, 1, 5, 5, 5), (2, 1, 2, 2, 2), False, dilation=[2, 1, 3], padding=1)

convolution("plain", "conv_transpose1d", (2, 3, 5), (3, 4, 3), True)
convolution("output_padding", "conv_transpose1d", (2, 4, 5), (4, 2, 3), True, stride=3, padding=1, output_padding=2,
            groups=2)
convolution("dilated", "conv_transpose1d", (1, 2, 6), (2, 3, 3), False, dilation=2, stride=2, padding=2)
convolution("plain", "conv_transpose2d", (1, 3, 4, 3), (3, 2, 3, 3), True)
convolution("strided_output_padding", "conv_transpose2d", (2, 2, 4, 4), (2, 3, 3, 3), True, stride=2, padding=1,
            output_padding=1)
convolution("different_per_axis", "conv_transpose2d", (1, 4, 3, 4), (4, 3, 2, 3), False, stride=[2, 3],
            padding=[0, 1], output_padding=[1, 0], dilation=[2, 1], groups=2)
convolution("kernel_is_stride", "conv_transpose2d", (1, 2, 3, 3), (2, 2, 2, 2), True, stride=2)
convolution("strided", "conv_transpose3d", (1, 2, 3, 2, 3), (2, 2, 2, 3, 2), True, stride=2, padding=[0, 1, 0],
            output_padding=[1, 0, 1])
convolution("grouped_dilated", "conv_transpose3d", (1, 4, 2, 3, 2), (4, 1, 2, 2, 2), False, groups=2,
            dilation=[1, 2, 1])


# ---- pooling
def pool(what, function, shape, **options):
    torch_options = {"kernel_size" if key == "kernel" else key: value for key, value in options.items()}
    case(f"{function}/{what}", lambda x: getattr(F, function)(x, **torch_options), [distinct(*shape)], **options)


for function, shape, kernel in [("pool1d", (2, 3, 11), [3]), ("pool2d", (2, 2, 7, 8), [3, 2]),
                                ("pool3d", (1, 2, 5, 6, 4), [2, 3, 2])]:
    pool("plain", "max_" + function, shape, kernel=kernel)
    pool("overlapping_padded", "max_" + function, shape, kernel=kernel, stride=[1] * len(kernel),
         padding=[1] * len(kernel))
    pool("plain", "avg_" + function, shape, kernel=kernel)
    pool("padded_counted", "avg_" + function, shape, kernel=kernel, stride=[2] * len(kernel), padding=[1] * len(kernel))
    pool("padded_not_counted", "avg_" + function, shape, kernel=kernel, stride=[2] * len(kernel),
         padding=[1] * len(kernel), count_include_pad=False)
pool("one_value_for_all_axes", "max_pool2d", (1, 1, 6, 6), kernel=2, stride=2)
pool("one_value_for_all_axes", "avg_pool2d", (1, 1, 7, 5), kernel=3, stride=2, padding=1)
case("max_pool2d/ties", lambda x: F.max_pool2d(x, 2), [floats(1, 1, 2, 0, 1, 1, 0, 2).reshape(1, 1, 2, 4)],
     kernel=[2, 2])

for what, size in [("shrinking", 4), ("growing", 9), ("to_one", 1)]:
    case(f"adaptive_avg_pool1d/{what}", lambda x: F.adaptive_avg_pool1d(x, size), [normal(2, 3, 7)], size=size)
    case(f"adaptive_max_pool1d/{what}", lambda x: F.adaptive_max_pool1d(x, size), [distinct(2, 3, 7)], size=size)
for what, size in [("non_divisible", [3, 5]), ("divisible", [2, 4]), ("one", [1, 1])]:
    case(f"adaptive_avg_pool2d/{what}", lambda x: F.adaptive_avg_pool2d(x, size), [normal(2, 2, 8, 8)], size=size)
    case(f"adaptive_max_pool2d/{what}", lambda x: F.adaptive_max_pool2d(x, size), [distinct(2, 2, 8, 8)], size=size)
case("adaptive_avg_pool3d/non_divisible", lambda x: F.adaptive_avg_pool3d(x, [2, 3, 2]), [normal(1, 2, 5, 4, 3)],
     size=[2, 3, 2])

# ---- interpolation
for what, shape, size in [("linear_up", (1, 2, 5), [8]), ("linear_down", (1, 2, 9), [4]),
                          ("bilinear_up", (1, 2, 4, 5), [7, 9]), ("bilinear_down", (1, 2, 8, 7), [3, 4]),
                          ("bilinear_same", (1, 1, 3, 4), [3, 4]), ("bilinear_to_one", (1, 1, 3, 4), [1, 1]),
                          ("trilinear_up", (1, 1, 3, 2, 4), [5, 4, 6]), ("trilinear_mixed", (1, 1, 4, 3, 2), [2, 5, 3])]:
    mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(size)]
    for align in [False, True]:
        case(f"interpolate/{what}{'_aligned' if align else ''}",
             lambda x: F.interpolate(x, size=size, mode=mode, align_corners=align), [normal(*shape)], size=size,
             mode="linear", align_corners=align)
for what, shape, size in [("nearest_1d", (2, 2, 5), [7]), ("nearest_2d", (1, 2, 4, 7), [9, 3]),
                          ("nearest_2d_twice", (1, 2, 3, 3), [6, 6]), ("nearest_3d", (1, 1, 2, 3, 4), [3, 2, 7])]:
    case(f"interpolate/{what}", lambda x: F.interpolate(x, size=size, mode="nearest"), [normal(*shape)], size=size,
         mode="nearest", align_corners=False)


# ---- normalisation

case("layer_norm/last_axis", lambda x, w, b: F.layer_norm(x, [9], w, b), [normal(3, 4, 9), normal(9), normal(9)],
     normalized=[9])
case("layer_norm/two_axes", lambda x, w, b: F.layer_norm(x, [4, 5], w, b, 1e-3),
     [normal(3, 4, 5), normal(4, 5), normal(4, 5)], normalized=[4, 5], epsilon=1e-3)
case("layer_norm/plain", lambda x: F.layer_norm(x, [33]), [normal(2, 33)], normalized=[33])
case("layer_norm/no_bias", lambda x, w: F.layer_norm(x, [6], w), [normal(4, 6), normal(6)], normalized=[6])
# The mean rounds like a number of size 100, the results are of size 1.
case("layer_norm/offset", lambda x: F.layer_norm(x, [16]), [normal(3, 16) + np.float32(100)], half=False, condition=16,
     normalized=[16])
case("layer_norm/tiny_variance", lambda x: F.layer_norm(x, [8]), [normal(3, 8) * np.float32(1e-3)], normalized=[8])
case("rms_norm/weighted", lambda x, w: F.rms_norm(x, [12], w, 1e-5), [normal(2, 3, 12), normal(12)])
case("rms_norm/plain", lambda x: F.rms_norm(x, [7], None, 1e-2), [normal(4, 7)], epsilon=1e-2)
case("group_norm/two_groups", lambda x, w, b: F.group_norm(x, 2, w, b), [normal(2, 6, 3, 2), normal(6), normal(6)],
     groups=2)
case("group_norm/one_group", lambda x, w, b: F.group_norm(x, 1, w, b), [normal(2, 4, 5), normal(4), normal(4)], groups=1)
case("group_norm/plain", lambda x: F.group_norm(x, 3, eps=1e-3), [normal(3, 6)], groups=3, epsilon=1e-3)
case("instance_norm/affine", lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
     [normal(2, 3, 4, 3), normal(3), normal(3)])
case("instance_norm/plain", lambda x: F.instance_norm(x, eps=1e-2), [normal(2, 3, 7)], epsilon=1e-2)
case("instance_norm/3d", lambda x: F.instance_norm(x), [normal(1, 2, 3, 2, 3)])


def channels(statistic, x):
    return statistic.reshape([1, -1] + [1] * (x.ndim - 2))


def batch_norm(x, mean, variance, w=None, b=None, epsilon=1e-5):
    y = (x - channels(mean, x)) / torch.sqrt(channels(variance, x) + epsilon)
    if w is not None:
        y = y * channels(w, x)
    return y if b is None else y + channels(b, x)


case("batch_norm/affine", batch_norm, [normal(3, 4, 2, 3), normal(4), uniform(0.5, 2, 4), normal(4), normal(4)])
case("batch_norm/plain_2d", batch_norm, [normal(5, 3), normal(3), uniform(0.5, 2, 3)])
case("batch_norm_train/affine", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
     [normal(3, 4, 2, 3), normal(4), normal(4)])
case("batch_norm_train/plain_2d", lambda x: F.batch_norm(x, None, None, training=True, eps=1e-3), [normal(6, 3)],
     epsilon=1e-3)
case("batch_norm_train/3d", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
     [normal(2, 3, 2, 2, 2), normal(3), normal(3)])
# The statistics of halves are f32, so they are not compared as halves.
case("batch_norm_train_mean/4d", lambda x: x.mean([0, 2, 3]), [normal(3, 4, 2, 3)], half=False)
case("batch_norm_train_variance/4d", lambda x: x.var([0, 2, 3], correction=0), [normal(3, 4, 2, 3)],
     half=False)

# ---- softmax and reductions
for axis in [0, 1, -1]:
    for function in ["softmax", "log_softmax"]:
        case(f"{function}/axis_{axis}", lambda x: getattr(torch, function)(x, axis), [normal(3, 5, 4) * np.float32(3)],
             axis=axis)
case("softmax/large_values", lambda x: torch.softmax(x, -1), [normal(3, 9) * np.float32(1000)], half=False, axis=-1)
case("log_softmax/large_values", lambda x: torch.log_softmax(x, -1), [normal(3, 9) * np.float32(200)], half=False, axis=-1)
case("softmax/masked_with_infinity", lambda x: torch.softmax(x, -1),
     [floats(0.5, -np.inf, 2, -np.inf, 1, -3, 0.25, -np.inf).reshape(2, 4)], axis=-1)
for what, axes in [("all", []), ("axis_0", [0]), ("axes_0_2", [0, 2]), ("last", [-1])]:
    dims = axes or list(range(3))
    x = normal(3, 4, 5)
    case(f"logsumexp/{what}", lambda x: torch.logsumexp(x, dims), [x], axes=axes, keepdims=False)
    case(f"logsumexp/{what}_kept", lambda x: torch.logsumexp(x, dims, keepdim=True), [x], axes=axes, keepdims=True)
    case(f"sum/{what}", lambda x: torch.sum(x, dims), [x], axes=axes, keepdims=False)
    case(f"mean/{what}", lambda x: torch.mean(x, dims, keepdim=True), [x], axes=axes, keepdims=True)
    case(f"max/{what}", lambda x: torch.amax(x, dims), [distinct(3, 4, 5)], axes=axes, keepdims=False)
    case(f"min/{what}", lambda x: torch.amin(x, dims, keepdim=True), [distinct(3, 4, 5)], axes=axes, keepdims=True)
    for correction in [0, 1, 2.5]:
        case(f"var/{what}_{correction}", lambda x: torch.var(x, dims, correction=correction), [x], axes=axes,
             correction=correction, keepdims=False)
        case(f"std/{what}_{correction}", lambda x: torch.std(x, dims, correction=correction, keepdim=True), [x], axes=axes,
             correction=correction, keepdims=True)
    for p in [1, 2, 3, "inf"]:
        case(f"norm/{what}_{p}", lambda x: torch.linalg.vector_norm(x, float(p), dims), [distinct(3, 4, 5) + np.float32(1 / 16)],
             axes=axes, p=p, keepdims=False)
case("logsumexp/large_values", lambda x: torch.logsumexp(x, [1]), [normal(3, 5) * np.float32(500)], half=False, axes=[1],
     keepdims=False)
case("logsumexp/minus_infinity", lambda x: torch.logsumexp(x, [1]), [floats(-np.inf, 1, 2, -np.inf, -np.inf, 0).reshape(2, 3)],
     axes=[1], keepdims=False)
case("norm/of_zeros", lambda x: torch.linalg.vector_norm(x, 2, 1), [floats(0, 0, 0, 3, 4, 0).reshape(2, 3)], axes=[1], p=2,
     keepdims=False)
case("max/ties", lambda x: torch.amax(x, 1), [floats(1, 3, 3, 2, 2, 2).reshape(2, 3)], axes=[1], keepdims=False)
case("min/ties", lambda x: torch.amin(x, 1), [floats(1, 1, 3, 2, 2, 2).reshape(2, 3)], axes=[1], keepdims=False)
case("prod/axis", lambda x: torch.prod(x, 1), [normal(3, 4)], axes=[1], keepdims=False)
case("prod/all", torch.prod, [normal(2, 5)], axes=[], keepdims=False)
case("prod/with_zeros", lambda x: torch.prod(x, 1),
     [floats(1, 2, 0, 4, 0, 3, 0, 1, 2, 3, 4, 5).reshape(3, 4)], axes=[1], keepdims=False)
case("argmax/axis", lambda x: torch.argmax(x, 1), [distinct(3, 4, 5)], axis=1)
case("argmax/flattened", torch.argmax, [distinct(3, 4, 5)])
case("argmin/axis", lambda x: torch.argmin(x, -1), [distinct(3, 4, 5)], axis=-1)

# ---- along an axis
for axis in [0, 1, -1]:
    case(f"cumsum/axis_{axis}", lambda x: torch.cumsum(x, axis), [normal(3, 4, 5)], axis=axis)
    case(f"cumprod/axis_{axis}", lambda x: torch.cumprod(x, axis), [uniform(0.5, 1.5, 3, 4, 5)], axis=axis)
    case(f"sort/axis_{axis}", lambda x: torch.sort(x, axis)[0], [distinct(3, 4, 5)], axis=axis, descending=False)
    case(f"sort/axis_{axis}_descending", lambda x: torch.sort(x, axis, descending=True)[0], [distinct(3, 4, 5)], axis=axis,
         descending=True)
    case(f"argsort/axis_{axis}", lambda x: torch.argsort(x, axis), [distinct(3, 4, 5)], axis=axis, descending=False)
    for largest in [True, False]:
        x = distinct(3, 4, 5)
        what = f"axis_{axis}_{'largest' if largest else 'smallest'}"
        case(f"topk/{what}", lambda x: torch.topk(x, 2, axis, largest)[0], [x], k=2, axis=axis, largest=largest)
        case(f"topk_indices/{what}", lambda x: torch.topk(x, 2, axis, largest)[1], [x], k=2, axis=axis, largest=largest)
case("sort/long", lambda x: torch.sort(x, -1)[0], [distinct(2, 131)], axis=-1, descending=False)
case("cumsum/long", lambda x: torch.cumsum(x, 1), [normal(2, 300)], half=False, axis=1)
case("argsort/stable", lambda x: torch.argsort(x, dim=-1, stable=True), [np.float32(integers(0, 4, 2, 40))], axis=-1,
     descending=False)
case("argsort/stable_descending", lambda x: torch.sort(x, dim=-1, descending=True, stable=True)[1],
     [np.float32(integers(0, 4, 2, 40))], axis=-1, descending=True)


# ---- attention
def attention(q, k, v, mask=None, causal=False, window=0, scale=None):
    repeats = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    queries, keys = q.shape[2], k.shape[2]
    scores = q @ k.transpose(2, 3) * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    if mask is not None and mask.dtype != torch.bool:
        scores = scores + mask
    position = torch.arange(queries).unsqueeze(1) + (keys - queries)
    key = torch.arange(keys).unsqueeze(0)
    allowed = torch.ones(queries, keys, dtype=torch.bool)
    if causal or window:
        allowed = allowed & (key <= position)
    if window:
        allowed = allowed & (key > position - window)
    if mask is not None and mask.dtype == torch.bool:
        allowed = allowed & mask
    allowed = allowed & (scores.detach() > -math.inf)
    scores = torch.where(allowed, scores, -1e300)
    weights = torch.where(allowed, torch.softmax(scores, -1), 0)
    return weights @ v


def attend(what, q, k, mask=None, check=None, gradients=None, **options):
    q, key, v = normal(*q), normal(*k), normal(*k)
    compute = lambda q, k, v, mask=None: attention(q, k, v, mask, **options)
    inputs = [q, key, v] + ([] if mask is None else [mask])
    case(f"attention/{what}", compute, inputs, gradients=gradients or [0, 1, 2], **options)
    if check is not None:  # the formula above against PyTorch's own
        mine = compute(*[to_torch(x) for x in inputs])
        theirs = F.scaled_dot_product_attention(*[to_torch(x) for x in inputs[:3]], enable_gqa=True, **check)
        assert torch.allclose(mine, theirs, rtol=1e-12, atol=1e-12), what


attend("plain", (2, 2, 5, 4), (2, 2, 6, 4), check={})
attend("scaled", (1, 2, 3, 4), (1, 2, 3, 4), scale=0.3, check={"scale": 0.3})
attend("causal", (2, 2, 5, 4), (2, 2, 5, 4), causal=True, check={"is_causal": True})
attend("causal_more_keys", (1, 2, 3, 4), (1, 2, 7, 4), causal=True)
attend("causal_more_queries", (1, 1, 6, 4), (1, 1, 4, 4), causal=True)  # the first two rows see nothing
attend("grouped_heads", (2, 6, 4, 4), (2, 2, 5, 4), check={})
attend("one_key_head_causal", (1, 4, 5, 8), (1, 1, 5, 8), causal=True, check={"is_causal": True})
attend("window_causal", (1, 2, 7, 4), (1, 2, 7, 4), causal=True, window=3)
attend("window_more_keys", (1, 2, 3, 4), (1, 1, 8, 4), causal=True, window=2)
attend("window_wider_than_keys", (1, 1, 4, 4), (1, 1, 4, 4), causal=True, window=9)
attend("one_query", (2, 4, 1, 8), (2, 2, 9, 8), causal=True)
bool_mask = random.random((1, 2, 4, 6)) < 0.6
bool_mask[0, :, :, 0] = True
attend("bool_mask", (1, 2, 4, 4), (1, 2, 6, 4), mask=bool_mask, check={"attn_mask": torch.from_numpy(bool_mask)})
attend("bool_mask_broadcast", (2, 2, 4, 4), (2, 2, 4, 4), mask=bool_mask[:1, :1, :1, :4])
empty_rows = bool_mask.copy()
empty_rows[0, 0, 1] = False
empty_rows[0, 1, 3] = False
attend("bool_mask_empty_rows", (1, 2, 4, 4), (1, 2, 6, 4), mask=empty_rows)
attend("bool_mask_causal", (1, 2, 6, 4), (1, 2, 6, 4), mask=bool_mask[:, :, :1], causal=True)
attend("additive_mask", (1, 2, 4, 4), (1, 2, 6, 4), mask=normal(1, 2, 4, 6), gradients=[0, 1, 2, 3])
additive = normal(1, 1, 4, 6)
additive[0, 0, :, 4:] = -np.inf
attend("additive_mask_infinity", (2, 2, 4, 4), (2, 2, 6, 4), mask=additive)
additive = additive.copy()
additive[0, 0, 2] = -np.inf
attend("additive_mask_empty_row", (1, 2, 4, 4), (1, 2, 6, 4), mask=additive)


# ---- rotary embedding
def rope(x, positions, base, interleaved):
    size = x.shape[-1]
    frequency = base ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    angle = torch.from_numpy(np.asarray(positions, dtype=np.float64)[:, None] * frequency)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    if interleaved:
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], -1).flatten(-2)
    first, second = x[..., : size // 2], x[..., size // 2 :]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


for interleaved in [False, True]:
    style = "interleaved" if interleaved else "halves"
    case(f"rope/{style}", lambda x: rope(x, np.arange(5), 10000.0, interleaved), [normal(2, 2, 5, 8)], base=10000.0, offset=0,
         interleaved=interleaved)
    case(f"rope/{style}_offset", lambda x: rope(x, np.arange(4) + 37, 500.0, interleaved), [normal(3, 4, 6)], base=500.0,
         offset=37, interleaved=interleaved)
    positions = np.array([3, 0, 11, 11, 250], dtype=np.int64)
    case(f"rope_positions/{style}", lambda x, p: rope(x, p.numpy(), 10000.0, interleaved), [normal(2, 1, 5, 4), positions],
         base=10000.0, interleaved=interleaved)

# ---- losses
for reduction in ["none", "mean", "sum"]:
    pair = lambda: [normal(3, 4), normal(3, 4)]
    case(f"mse_loss/{reduction}", lambda x, t: F.mse_loss(x, t, reduction=reduction), pair(), reduction=reduction)
    case(f"l1_loss/{reduction}", lambda x, t: F.l1_loss(x, t, reduction=reduction), pair(), reduction=reduction)
    for beta in [1.0, 0.3]:
        case(f"smooth_l1_loss/{reduction}_{beta}", lambda x, t: F.smooth_l1_loss(x, t, reduction=reduction, beta=beta), pair(),
             reduction=reduction, beta=beta)
        case(f"huber_loss/{reduction}_{beta}", lambda x, t: F.huber_loss(x, t, reduction=reduction, delta=beta), pair(),
             reduction=reduction, delta=beta)
    probabilities = lambda: [uniform(0.02, 0.98, 3, 4), uniform(0, 1, 3, 4)]
    case(f"bce_loss/{reduction}", lambda x, t: F.binary_cross_entropy(x, t, reduction=reduction), probabilities(),
         gradients=[0], reduction=reduction)
    case(f"bce_with_logits_loss/{reduction}", lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction=reduction),
         [normal(3, 4) * np.float32(4), uniform(0, 1, 3, 4)], reduction=reduction)
    case(f"kl_div_loss/{reduction}", lambda x, t: F.kl_div(x, t, reduction=reduction),
         [normal(3, 4) - np.float32(3), uniform(0.05, 1, 3, 4)], gradients=[0], reduction=reduction, log_target=False)
    case(f"kl_div_loss/{reduction}_log_target", lambda x, t: F.kl_div(x, t, reduction=reduction, log_target=True),
         [normal(3, 4) - np.float32(3), normal(3, 4) - np.float32(3)], reduction=reduction, log_target=True)
    sign = np.array([1, -1, 1, -1, -1], dtype=np.float32)
    for margin in [0.0, 0.3]:
        case(f"cosine_embedding_loss/{reduction}_{margin}",
             lambda a, b, t: F.cosine_embedding_loss(a, b, t, margin=margin, reduction=reduction),
             [normal(5, 3), normal(5, 3), sign], gradients=[0, 1], reduction=reduction, margin=margin)
    for p in [1.0, 2.0]:
        case(f"triplet_margin_loss/{reduction}_{p}",
             lambda a, b, c: F.triplet_margin_loss(a, b, c, margin=0.7, p=p, reduction=reduction),
             [normal(5, 3), normal(5, 3), normal(5, 3)], reduction=reduction, margin=0.7, p=p)

    target = integers(0, 5, 6)
    ignoring = target.copy()
    ignoring[[1, 4]] = -100
    grid = integers(0, 3, 2, 4, 2)
    ignoring_two = grid.copy()  # here class 2 itself is what is ignored
    for function in ["nll_loss", "cross_entropy"]:
        torch_function = getattr(F, function)
        scores = lambda *shape: normal(*shape) if function == "cross_entropy" else normal(*shape) - np.float32(2)
        case(f"{function}/{reduction}", lambda x, t: torch_function(x, t, reduction=reduction), [scores(6, 5), target],
             reduction=reduction)
        case(f"{function}/{reduction}_ignoring", lambda x, t: torch_function(x, t, reduction=reduction),
             [scores(6, 5), ignoring], reduction=reduction)
        case(f"{function}/{reduction}_weighted_ignoring",
             lambda x, t, w: torch_function(x, t, weight=w, reduction=reduction), [scores(6, 5), ignoring, uniform(0.2, 2, 5)],
             gradients=[0], reduction=reduction)
        case(f"{function}/{reduction}_grid_ignoring_2",
             lambda x, t, w: torch_function(x, t, weight=w, reduction=reduction, ignore_index=2),
             [scores(2, 3, 4, 2), ignoring_two, uniform(0.2, 2, 3)], gradients=[0], reduction=reduction, ignore_index=2)
    case(f"cross_entropy/{reduction}_smoothed", lambda x, t: F.cross_entropy(x, t, reduction=reduction, label_smoothing=0.1),
         [normal(6, 5), ignoring], reduction=reduction, label_smoothing=0.1)
    case(f"cross_entropy/{reduction}_smoothed_weighted_grid",
         lambda x, t, w: F.cross_entropy(x, t, weight=w, reduction=reduction, label_smoothing=0.2, ignore_index=0),
         [normal(2, 3, 4, 2), grid, uniform(0.2, 2, 3)], gradients=[0], reduction=reduction, label_smoothing=0.2,
         ignore_index=0)
    spread = uniform(0, 1, 4, 5)
    spread /= spread.sum(1, keepdims=True)
    case(f"cross_entropy/{reduction}_probabilities", lambda x, t: F.cross_entropy(x, t, reduction=reduction),
         [normal(4, 5), spread], reduction=reduction)
    case(f"cross_entropy/{reduction}_probabilities_smoothed_weighted",
         lambda x, t, w: F.cross_entropy(x, t, weight=w, reduction=reduction, label_smoothing=0.1),
         [normal(4, 5), spread, uniform(0.2, 2, 5)], gradients=[0], reduction=reduction, label_smoothing=0.1)
    case(f"cross_entropy/{reduction}_probabilities_grid", lambda x, t: F.cross_entropy(x, t, reduction=reduction),
         [normal(2, 3, 4), uniform(0, 1, 2, 3, 4)], gradients=[0], reduction=reduction)
case("bce_loss/certain", lambda x, t: F.binary_cross_entropy(x, t, reduction="none"),
     [floats(0, 1, 0, 1, 0.5), floats(0, 1, 1, 0, 0.25)], gradients=[], reduction="none")
case("bce_with_logits_loss/large", lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"),
     [floats(-200, 200, -90, 90, 0), floats(0, 1, 1, 0, 0.25)], gradients=[0], reduction="none")
case("kl_div_loss/zero_target", lambda x, t: F.kl_div(x, t, reduction="none"), [normal(4) - np.float32(2), floats(0, 0.5, 0, 0.5)],
     gradients=[0], reduction="none", log_target=False)
case("cross_entropy/large_scores", lambda x, t: F.cross_entropy(x, t, reduction="none"),
     [normal(4, 5) * np.float32(300), integers(0, 5, 4)], half=False, reduction="none")
case("smooth_l1_loss/beta_zero", lambda x, t: F.smooth_l1_loss(x, t, beta=0.0), [normal(6), normal(6)], reduction="mean",
     beta=0.0)
for axis in [0, 1, -1]:
    case(f"cosine_similarity/axis_{axis}", lambda a, b: F.cosine_similarity(a, b, axis), [normal(3, 4, 5), normal(3, 4, 5)],
         axis=axis)

# ---- indexing
indices = np.array([[1, 4, 1], [0, 6, 2]], dtype=np.int64)
case("embedding/plain", lambda i, w: F.embedding(i, w), [indices, normal(7, 5)])
case("embedding/padding", lambda i, w: F.embedding(i, w, padding_idx=1), [indices, normal(7, 5)], padding_index=1)
for axis, shape in [(0, (2, 4, 5)), (1, (3, 6, 5)), (-1, (3, 4, 2))]:
    size = [3, 4, 5][axis]
    index = integers(0, size, *shape)
    case(f"gather/axis_{axis}", lambda x, i: torch.gather(x, axis, i), [normal(3, 4, 5), index], axis=axis)
    case(f"scatter_add/axis_{axis}", lambda x, i, s: torch.scatter_add(x, axis, i, s), [normal(3, 4, 5), index, normal(*shape)],
         axis=axis)
    unique_shape = [3, 4, 5]
    unique_shape[axis] = 2
    order = np.argsort(random.random((3, 4, 5)), axis).take([0, 1], axis)
    case(f"scatter/axis_{axis}", lambda x, i, s: torch.scatter(x, axis, i, s), [normal(3, 4, 5), order, normal(*unique_shape)],
         axis=axis)
    case(f"take/axis_{axis}", lambda x, i: torch.index_select(x, axis, i), [normal(3, 4, 5), integers(0, size, 6)], axis=axis)
case("gather/smaller_index", lambda x, i: torch.gather(x, 1, i), [normal(3, 4, 5), integers(0, 4, 2, 3, 4)], axis=1)
case("scatter_add/smaller_index", lambda x, i, s: torch.scatter_add(x, 1, i, s),
     [normal(3, 4, 5), integers(0, 4, 2, 3, 4), normal(2, 3, 4)], axis=1)
case("take/matrix_of_indices", lambda x, i: x[i], [normal(5, 3), integers(-5, 5, 2, 3)], axis=0)
case("take/matrix_of_indices_axis_1", lambda x, i: x[:, i], [normal(4, 5, 2), integers(-5, 5, 2, 3)], axis=1)

# ---- einsum
for equation, *shapes in [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,kj->ik", (3, 4), (5, 4)), ("ij,jk->ki", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("i,j->ij", (3,), (4,)),
    ("i,i->", (5,), (5,)), ("i,i", (5,), (5,)), ("ij->ji", (3, 4)), ("ij->", (3, 4)), ("ij->j", (3, 4)), ("ii->", (4, 4)), ("ii->i", (4, 4)),
    ("bii->bi", (2, 3, 3)), ("ba", (2, 3)), ("ij,ij->ij", (3, 4), (3, 4)), ("ijk,ilm,njm,nlk,abc->", (2, 2, 2), (2, 2, 2), (3, 2, 2), (3, 2, 2), (2, 1, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)), ("bi,oik,bk->bo", (2, 3), (4, 3, 5), (2, 5)), ("abc,cd->abd", (2, 3, 4), (4, 5)),
    ("abcd->dbca", (2, 3, 4, 5)), ("abc,bc->a", (2, 3, 4), (3, 4)), ("ij,k->ikj", (2, 3), (4,)), ("bnij,bnjk->nik", (2, 3, 2, 3), (2, 3, 3, 2)),
    ("iij,jk->ik", (3, 3, 4), (4, 2)), ("ij,ij->", (3, 4), (3, 4)), (" i j , j k -> i k ", (2, 3), (3, 2)),
]:
    case(f"einsum/{equation.replace(' ', '_')}", lambda *operands: torch.einsum(equation, *operands), [normal(*s) for s in shapes],
         equation=equation)
for equation, *shapes in [("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)), ("...ij,jk->...ik", (2, 2, 3, 4), (4, 5)),
                          ("...i->...", (2, 3, 4)), ("i...->...i", (2, 3, 4)), ("...,...->...", (2, 3), (3,)),
                          ("b...c,cd->b...d", (2, 3, 2, 4), (4, 3))]:
    case(f"einsum/{equation}", lambda *operands: torch.einsum(equation, *operands), [normal(*s) for s in shapes],
         equation=equation)

# ---- contraction
for what, a, b in [("matrices", (3, 4), (4, 5)), ("vector_matrix", (4,), (4, 5)), ("matrix_vector", (3, 4), (4,)),
                   ("vectors", (4,), (4,)), ("batched", (2, 3, 4), (2, 4, 5)), ("broadcast_batch", (2, 1, 3, 4), (3, 4, 2)),
                   ("batch_vector", (2, 3, 4), (4,)), ("vector_batch", (4,), (2, 4, 3))]:
    case(f"matmul/{what}", torch.matmul, [normal(*a), normal(*b)])
case("linear/bias", F.linear, [normal(2, 3, 4), normal(5, 4), normal(5)])
case("linear/no_bias", F.linear, [normal(3, 4), normal(5, 4)])
case("linear/vector", F.linear, [normal(4), normal(5, 4), normal(5)])
case("outer/plain", torch.outer, [normal(3), normal(4)])
case("dot/plain", torch.dot, [normal(7), normal(7)])
case("batch_matmul/plain", torch.bmm, [normal(2, 3, 4), normal(2, 4, 3)])

# ---- shape
case("pad/constant", lambda x: F.pad(x, (3, 0, 1, 2), value=1.5), [normal(3, 4)], widths=[1, 2, 3, 0], value=1.5)
case("pad/three_axes", lambda x: F.pad(x, (0, 1, 2, 0, 1, 1)), [normal(2, 3, 2)], widths=[1, 1, 2, 0, 0, 1], value=0.0)
for shift, axis in [(1, 0), (-2, 1), (9, -1)]:
    case(f"roll/{shift}_axis_{axis}", lambda x: torch.roll(x, shift, axis), [normal(3, 4, 5)], shift=shift, axis=axis)
for axes in [[0], [1, -1], [0, 1, 2]]:
    case(f"flip/{axes}", lambda x: torch.flip(x, axes), [normal(3, 4, 5)], axes=axes)
for repeats in [[2, 3], [1, 2], [2, 1, 3]]:
    case(f"tile/{repeats}", lambda x: torch.tile(x, repeats), [normal(3, 2)], repeats=repeats)
case("tile/fewer_repeats", lambda x: torch.tile(x, [2]), [normal(3, 2)], repeats=[2])
for diagonal in [-2, -1, 0, 1, 3]:
    case(f"tril/{diagonal}", lambda x: torch.tril(x, diagonal), [normal(2, 3, 5)], diagonal=diagonal)
    case(f"triu/{diagonal}", lambda x: torch.triu(x, diagonal), [normal(2, 5, 3)], diagonal=diagonal)
for axis in [0, 1, -1]:
    case(f"repeat_interleave/axis_{axis}", lambda x: torch.repeat_interleave(x, 3, axis), [normal(2, 3, 2)], repeats=3, axis=axis)
case("diagonal/square", lambda x: torch.diagonal(x, dim1=-2, dim2=-1), [normal(2, 4, 4)])
case("diagonal/wide", lambda x: torch.diagonal(x, dim1=-2, dim2=-1), [normal(3, 5)])
case("diagonal/tall", lambda x: torch.diagonal(x, dim1=-2, dim2=-1), [normal(5, 3)])
case("concat/axis_1", lambda a, b, c: torch.cat([a, b, c], 1), [normal(2, 1, 3), normal(2, 3, 3), normal(2, 2, 3)], axis=1)
case("stack/axis_-1", lambda a, b: torch.stack([a, b], -1), [normal(2, 3), normal(2, 3)], axis=-1)

# ---- activations: at ordinary values, and at the corners, where PyTorch decides what the gradient is
# hardsigmoid and celu are written out: PyTorch's own have constants of single precision in their gradients.
corners = floats(-6, -3, -2.5, -1, -0.5, -0.25, 0, 0.25, 0.5, 1, 2.5, 3, 6, 9)
for name, torch_function, options in [
    ("relu", F.relu, {}), ("relu6", F.relu6, {}), ("selu", F.selu, {}), ("hardsigmoid", lambda x: F.relu6(x + 3) / 6, {}),
    ("hardswish", F.hardswish, {}), ("softsign", F.softsign, {}), ("tanhshrink", F.tanhshrink, {}), ("silu", F.silu, {}),
    ("gelu", F.gelu, {}), ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), {}), ("mish", F.mish, {}),
    ("softplus", F.softplus, {}), ("logsigmoid", F.logsigmoid, {}), ("sigmoid", torch.sigmoid, {}), ("tanh", torch.tanh, {}),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.2), {"slope": 0.2}), ("elu", lambda x: F.elu(x, 0.7), {"alpha": 0.7}),
    ("celu", lambda x: torch.where(x > 0, x, 1.7 * torch.expm1(torch.where(x > 0, 0, x) / 1.7)), {"alpha": 1.7}), ("hardtanh", lambda x: F.hardtanh(x, -2.5, 0.5), {"low": -2.5, "high": 0.5}),
    ("softshrink", lambda x: F.softshrink(x, 0.25), {"lambda": 0.25}), ("hardshrink", lambda x: F.hardshrink(x, 0.5), {"lambda": 0.5}),
    ("clamp", lambda x: torch.clamp(x, -1, 2.5), {"low": -1, "high": 2.5}), ("clamp", lambda x: torch.clamp(x, max=1), {"high": 1}),
    ("clamp", lambda x: torch.clamp(x, min=-0.5), {"low": -0.5}),
]:
    case(f"{name}/values", torch_function, [normal(40) * np.float32(3)], **options)
    case(f"{name}/corners", torch_function, [corners], **options)
case("prelu/one_slope", F.prelu, [np.append(corners, normal(6)).reshape(2, 10), floats(0.3)])
case("prelu/per_channel", F.prelu, [normal(2, 3, 4), floats(0.3, -0.2, 1.5)])
for axis in [0, 1, -1]:
    case(f"glu/axis_{axis}", lambda x: F.glu(x, axis), [normal(4, 2, 6)], axis=axis)
case("lerp/plain", torch.lerp, [normal(3, 4), normal(3, 4), uniform(0, 1, 3, 4)])
case("where/broadcast", torch.where, [random.random((3, 1)) < 0.5, normal(3, 4), normal(4)])
case("masked_fill/plain", lambda x, m: torch.masked_fill(x, m, -2.5), [normal(3, 4), random.random((3, 4)) < 0.5], value=-2.5)
case("maximum/ties", torch.maximum, [floats(1, 2, 2, -1), floats(2, 2, 1, -1)])
case("minimum/ties", torch.minimum, [floats(1, 2, 2, -1), floats(2, 2, 1, -1)])
case("pow/tensors", torch.pow, [uniform(0.2, 3, 20), normal(20)])
case("pow/corners", torch.pow, [floats(0, 0, -2, -2, 4, 0, 1), floats(2, 1, 3, 2, 0, 0, 5)], gradients=[0])
case("remainder/signs", torch.remainder, [floats(5.5, -5.5, 5.5, -5.5, 6), floats(2, 2, -2, -2, 3)])
case("fmod/signs", torch.fmod, [floats(5.5, -5.5, 5.5, -5.5, 6), floats(2, 2, -2, -2, 3)])
case("atan2/quadrants", torch.atan2, [floats(1, -1, 1, -1, 2), floats(1, 1, -1, -1, 3)])

names = [c["name"] for c in cases]
duplicates = {name for name in names if names.count(name) > 1}
for name in duplicates:
    for number, c in enumerate([c for c in cases if c["name"] == name]):
        c["name"] = f"{name}_{number + 1}"

path = pathlib.Path(__file__).with_name("ops.safetensors")
save_file(dict(sorted(tensors.items())), path, {"cases": json.dumps(cases, separators=(",", ":"))})
print(f"{len(cases)} cases, {path.stat().st_size} bytes")
