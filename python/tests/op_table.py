"""Every operation with arguments, and what NumPy and JAX compute for them.

A case is (arguments, NumPy's function or None, JAX's function, which arguments have gradients). Arguments that are NumPy
arrays become tensors; the references get them in double precision.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import jax.scipy.special as js
import numpy as np

rng = np.random.default_rng(7)


@dataclass
class Case:
    arguments: tuple
    numpy: object
    jax: object
    options: dict = field(default_factory=dict)
    gradients: tuple = (0,)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def between(low, high, *shape):
    return rng.uniform(low, high, shape).astype(np.float32)


def whole(low, high, *shape):
    return rng.integers(low, high, shape)


def flags(*shape):
    return rng.random(shape) < 0.5


CASES = {}


def case(name, arguments, numpy, jax_function, gradients=(0,), **options):
    CASES.setdefault(name, []).append(Case(tuple(arguments), numpy, jax_function, options, gradients))


# ---- elementwise, one argument: name, domain, NumPy, JAX
apart = np.array([-2.3, -1.4, -0.6, 0.4, 1.3, 2.7], np.float32)  # away from where derivatives jump
U = [
    ("neg", normal(3, 4), np.negative, jnp.negative),
    ("abs", apart, np.abs, jnp.abs),
    ("square", normal(3, 4), np.square, jnp.square),
    ("reciprocal", between(0.5, 3, 3, 4), np.reciprocal, jnp.reciprocal),
    ("sqrt", between(0.1, 9, 3, 4), np.sqrt, jnp.sqrt),
    ("rsqrt", between(0.1, 9, 3, 4), lambda x: 1 / np.sqrt(x), jax.lax.rsqrt),
    ("cbrt", between(0.1, 9, 3, 4), np.cbrt, jnp.cbrt),
    ("exp", normal(3, 4), np.exp, jnp.exp),
    ("exp2", normal(3, 4), np.exp2, jnp.exp2),
    ("expm1", normal(3, 4) * 0.1, np.expm1, jnp.expm1),
    ("log", between(0.1, 9, 3, 4), np.log, jnp.log),
    ("log2", between(0.1, 9, 3, 4), np.log2, jnp.log2),
    ("log10", between(0.1, 9, 3, 4), np.log10, jnp.log10),
    ("log1p", between(-0.5, 2, 3, 4), np.log1p, jnp.log1p),
    ("sin", normal(3, 4) * 3, np.sin, jnp.sin),
    ("cos", normal(3, 4) * 3, np.cos, jnp.cos),
    ("tan", between(-1, 1, 3, 4), np.tan, jnp.tan),
    ("asin", between(-0.9, 0.9, 3, 4), np.arcsin, jnp.arcsin),
    ("acos", between(-0.9, 0.9, 3, 4), np.arccos, jnp.arccos),
    ("atan", normal(3, 4), np.arctan, jnp.arctan),
    ("sinh", normal(3, 4), np.sinh, jnp.sinh),
    ("cosh", normal(3, 4), np.cosh, jnp.cosh),
    ("tanh", normal(3, 4), np.tanh, jnp.tanh),
    ("asinh", normal(3, 4), np.arcsinh, jnp.arcsinh),
    ("acosh", between(1.1, 5, 3, 4), np.arccosh, jnp.arccosh),
    ("atanh", between(-0.9, 0.9, 3, 4), np.arctanh, jnp.arctanh),
    ("erf", normal(3, 4), None, js.erf),
    ("erfc", normal(3, 4), None, js.erfc),
    ("erfinv", between(-0.9, 0.9, 3, 4), None, js.erfinv),
    ("relu", apart, lambda x: np.maximum(x, 0), jax.nn.relu),
    ("sigmoid", normal(3, 4), lambda x: 1 / (1 + np.exp(-x)), jax.nn.sigmoid),
    ("logsigmoid", normal(3, 4), lambda x: -np.log1p(np.exp(-x)), jax.nn.log_sigmoid),
    ("silu", normal(3, 4), lambda x: x / (1 + np.exp(-x)), jax.nn.silu),
    ("silu_slope", normal(3, 4), None, lambda x: jax.vmap(jax.grad(jax.nn.silu))(x.ravel()).reshape(x.shape)),
    ("gelu", normal(3, 4), None, lambda x: jax.nn.gelu(x, approximate=False)),
    ("gelu_slope", normal(3, 4), None,
     lambda x: jax.vmap(jax.grad(lambda v: jax.nn.gelu(v, approximate=False)))(x.ravel()).reshape(x.shape)),
    ("gelu_tanh", normal(3, 4), None, lambda x: jax.nn.gelu(x, approximate=True)),
    ("softplus", normal(3, 4), lambda x: np.log1p(np.exp(x)), jax.nn.softplus),
    ("mish", normal(3, 4), lambda x: x * np.tanh(np.log1p(np.exp(x))), lambda x: x * jnp.tanh(jax.nn.softplus(x))),
    ("selu", normal(3, 4), None, jax.nn.selu),
    ("relu6", apart * 3, lambda x: np.clip(x, 0, 6), jax.nn.relu6),
    ("hardsigmoid", apart, None, lambda x: jax.nn.relu6(x + 3) / 6),
    ("hardswish", apart, None, lambda x: x * jax.nn.relu6(x + 3) / 6),
    ("softsign", apart, lambda x: x / (1 + np.abs(x)), jax.nn.soft_sign),
    ("tanhshrink", normal(3, 4), lambda x: x - np.tanh(x), lambda x: x - jnp.tanh(x)),
    ("contiguous", normal(3, 4), np.ascontiguousarray, lambda x: x),
    ("copy", normal(3, 4), np.copy, lambda x: x),
]
for name, x, of_numpy, of_jax in U:
    case(name, [x], of_numpy, of_jax)


def second(function):
    return lambda x: jax.vmap(jax.grad(jax.grad(function)))(x.ravel()).reshape(x.shape)


def first(function):
    return lambda x: jax.vmap(jax.grad(function))(x.ravel()).reshape(x.shape)


case("silu_curvature", [normal(3, 4)], None, second(jax.nn.silu), ())
case("gelu_tanh_slope", [normal(3, 4)], None, first(lambda v: jax.nn.gelu(v, approximate=True)), ())
case("mish_slope", [normal(3, 4)], None, first(lambda v: v * jnp.tanh(jax.nn.softplus(v))), ())
special = np.array([0.5, -1.5, np.nan, np.inf, -np.inf, 2.5, 0.0], np.float32)
for name, of_numpy, of_jax in [
    ("sign", np.sign, jnp.sign), ("floor", np.floor, jnp.floor), ("ceil", np.ceil, jnp.ceil),
    ("round", np.round, jnp.round), ("trunc", np.trunc, jnp.trunc), ("isnan", np.isnan, jnp.isnan),
    ("isinf", np.isinf, jnp.isinf), ("isfinite", np.isfinite, jnp.isfinite),
    ("logical_not", np.logical_not, jnp.logical_not),
]:
    case(name, [special], of_numpy, of_jax, ())
case("bitwise_not", [whole(-50, 50, 3, 4)], np.bitwise_not, jnp.bitwise_not, ())
case("bitwise_not", [flags(5)], np.bitwise_not, jnp.bitwise_not, ())

# ---- elementwise, two arguments, which broadcast
a, b = between(0.5, 3, 3, 4), between(0.6, 2.9, 4)
for name, of_numpy, of_jax in [
    ("add", np.add, jnp.add), ("sub", np.subtract, jnp.subtract), ("mul", np.multiply, jnp.multiply),
    ("div", np.divide, jnp.divide), ("pow", np.power, jnp.power), ("maximum", np.maximum, jnp.maximum),
    ("minimum", np.minimum, jnp.minimum), ("remainder", np.remainder, jnp.remainder), ("fmod", np.fmod, jnp.fmod),
    ("atan2", np.arctan2, jnp.arctan2), ("hypot", np.hypot, jnp.hypot), ("logaddexp", np.logaddexp, jnp.logaddexp),
]:
    case(name, [a, b], of_numpy, of_jax, (0, 1))
    case(name, [b.reshape(4, 1), a[:1]], of_numpy, of_jax, (0, 1))
case("floor_divide", [normal(3, 4) * 5, b], np.floor_divide, jnp.floor_divide, ())
case("floor_divide", [whole(-9, 9, 3, 4), whole(1, 5, 4)], np.floor_divide, jnp.floor_divide, ())
case("share_of_larger", [np.float32([1, 2, 3]), np.float32([2, 2, 2])], lambda x, y: (np.sign(x - y) + 1) / 2,
     lambda x, y: (jnp.sign(x - y) + 1) / 2, ())
m, n = whole(-3, 3, 3, 4), whole(-3, 3, 4)
for name, of_numpy in [
    ("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater),
    ("ge", np.greater_equal), ("logical_and", np.logical_and), ("logical_or", np.logical_or),
    ("logical_xor", np.logical_xor), ("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or),
    ("bitwise_xor", np.bitwise_xor),
]:
    case(name, [m, n], of_numpy, getattr(jnp, of_numpy.__name__), ())
case("shift_left", [whole(0, 50, 4), whole(0, 5, 4)], np.left_shift, jnp.left_shift, ())
case("shift_right", [whole(-50, 50, 4), whole(0, 5, 4)], np.right_shift, jnp.right_shift, ())

# ---- elementwise with parameters
case("where", [flags(3, 4), normal(3, 4), normal(4)], np.where, jnp.where, (1, 2))
case("clamp", [apart], lambda x, **_: np.clip(x, -1, 1), lambda x, **_: jnp.clip(x, -1, 1), min=-1.0, max=1.0)
case("lerp", [normal(3), normal(3), normal(3)], lambda x, y, w: x + w * (y - x), lambda x, y, w: x + w * (y - x), (0, 1, 2))
case("nan_to_num", [special], lambda x, **_: np.nan_to_num(np.float32(x), nan=2.0),
     lambda x, **_: jnp.nan_to_num(jnp.float32(x), nan=2.0), (), nan=2.0)
mask = flags(3, 4)
case("masked_fill", [normal(3, 4), mask], lambda x, k, **_: np.where(k, 2.0, x), lambda x, k, **_: jnp.where(k, 2.0, x),
     value=2.0)
case("leaky_relu", [apart], None, lambda x, **_: jax.nn.leaky_relu(x, 0.1), negative_slope=0.1)
case("prelu", [normal(2, 3, 4), between(0.1, 0.4, 3)], None,
     lambda x, w: jnp.where(x > 0, x, x * w.reshape(1, 3, 1)), (0, 1))
case("elu", [apart], None, lambda x, **_: jax.nn.elu(x, 0.7), alpha=0.7)
case("celu", [apart], None, lambda x, **_: jax.nn.celu(x, 0.7), alpha=0.7)
case("hardtanh", [apart], None, lambda x, **_: jnp.clip(x, -0.9, 1.2), min_val=-0.9, max_val=1.2)
case("softshrink", [apart], None, lambda x, **_: jnp.sign(x) * jnp.maximum(jnp.abs(x) - 0.5, 0))
case("hardshrink", [apart], None, lambda x, **_: jnp.where(jnp.abs(x) > 0.5, x, 0))
case("glu", [normal(3, 4)], None, lambda x: jax.nn.glu(x))
case("glu", [normal(4, 3)], None, lambda x, dim: jax.nn.glu(x, dim), dim=0)
case("cast", [normal(3, 4) * 9], lambda x, **_: x.astype("int32"), lambda x, **_: x.astype("int32"), (), dtype="int32")

# ---- reductions
cube = normal(2, 3, 4)
for name, of_numpy, of_jax in [
    ("sum", np.sum, jnp.sum), ("mean", np.mean, jnp.mean), ("max", np.max, jnp.max), ("min", np.min, jnp.min),
    ("prod", np.prod, jnp.prod), ("logsumexp", None, js.logsumexp),
]:
    def reference(function):
        if function is None:
            return None
        return lambda x, dim=None, keepdim=False: function(x, axis=dim, keepdims=keepdim)

    case(name, [cube], reference(of_numpy), reference(of_jax))
    case(name, [cube], reference(of_numpy), reference(of_jax), dim=1)
    case(name, [cube], reference(of_numpy), reference(of_jax), dim=(0, -1), keepdim=True)
for name, of_numpy, of_jax in [("all", np.all, jnp.all), ("any", np.any, jnp.any)]:
    case(name, [flags(3, 4)], lambda x, dim, f=of_numpy: f(x, axis=dim), lambda x, dim, f=of_jax: f(x, axis=dim), (), dim=1)
for name, of_numpy, of_jax in [("argmax", np.argmax, jnp.argmax), ("argmin", np.argmin, jnp.argmin)]:
    case(name, [cube], of_numpy, of_jax, ())
    case(name, [cube], lambda x, dim, f=of_numpy: f(x, axis=dim), lambda x, dim, f=of_jax: f(x, axis=dim), (), dim=1)
for name, of_numpy, of_jax in [("var", np.var, jnp.var), ("std", np.std, jnp.std)]:
    case(name, [cube], lambda x, dim, f=of_numpy: f(x, axis=dim, ddof=1), lambda x, dim, f=of_jax: f(x, axis=dim, ddof=1),
         dim=1)
    case(name, [cube], lambda x, correction, f=of_numpy: f(x), lambda x, correction, f=of_jax: f(x), correction=0.0)
case("norm", [cube], lambda x, dim: np.sqrt((x * x).sum(dim)), lambda x, dim: jnp.sqrt((x * x).sum(dim)), dim=2)
case("norm", [apart], lambda x, p: np.abs(x).sum(), lambda x, p: jnp.abs(x).sum(), p=1.0)

# ---- along one axis
case("cumsum", [cube], lambda x, dim: np.cumsum(x, dim), lambda x, dim: jnp.cumsum(x, dim), dim=1)
case("cumprod", [cube], lambda x, dim: np.cumprod(x, dim), lambda x, dim: jnp.cumprod(x, dim), dim=-1)
case("sort", [cube], lambda x: np.sort(x), lambda x: jnp.sort(x))
case("sort", [cube], None, lambda x, dim, descending: -jnp.sort(-x, axis=dim), dim=0, descending=True)
case("argsort", [cube], lambda x: np.argsort(x), lambda x: jnp.argsort(x), ())
case("topk", [cube], None, lambda x, k: jax.lax.top_k(x, k), k=2)
case("softmax", [cube], None, lambda x: jax.nn.softmax(x))
case("softmax", [cube], None, lambda x, dim: jax.nn.softmax(x, dim), dim=1)
case("log_softmax", [cube], None, lambda x, dim: jax.nn.log_softmax(x, dim), dim=0)

# ---- shape
case("reshape", [cube], lambda x, shape: x.reshape(shape), lambda x, shape: x.reshape(shape), shape=(4, -1))
case("view", [cube], lambda x, shape: x.reshape(shape), lambda x, shape: x.reshape(shape), shape=(24,))
case("flatten", [cube], lambda x, start_dim: x.reshape(2, 12), lambda x, start_dim: x.reshape(2, 12), start_dim=1)
case("transpose", [cube], lambda x, dim0, dim1: x.swapaxes(0, 2), lambda x, dim0, dim1: x.swapaxes(0, 2), dim0=0, dim1=2)
case("permute", [cube], lambda x, shape: x.transpose(shape), lambda x, shape: x.transpose(shape), shape=(2, 0, 1))
case("squeeze", [normal(2, 1, 3, 1)], np.squeeze, jnp.squeeze)
case("squeeze", [normal(2, 1, 3, 1)], lambda x, dim: np.squeeze(x, dim), lambda x, dim: jnp.squeeze(x, dim), dim=1)
case("unsqueeze", [cube], lambda x, dim: np.expand_dims(x, dim), lambda x, dim: jnp.expand_dims(x, dim), dim=-1)
case("broadcast_to", [normal(3, 1)], lambda x, shape: np.broadcast_to(x, shape),
     lambda x, shape: jnp.broadcast_to(x, shape), shape=(2, 3, 4))
case("slice", [cube], lambda x, slices: x[tuple(slices)], lambda x, slices: x[tuple(slices)],
     slices=[slice(None), slice(2, None, -1), slice(1, 4, 2)])
case("narrow", [cube], lambda x, **_: x[:, 1:3], lambda x, **_: x[:, 1:3], dim=1, start=1, length=2)
case("select", [cube], lambda x, **_: x[:, -1], lambda x, **_: x[:, -1], dim=1, index=-1)
case("flip", [cube], lambda x, dims: np.flip(x, dims), lambda x, dims: jnp.flip(x, dims), dims=(0, 2))
case("roll", [cube], lambda x, shift, dim: np.roll(x, shift, dim), lambda x, shift, dim: jnp.roll(x, shift, dim), shift=2,
     dim=2)
case("tile", [normal(2, 3)], lambda x, repeats: np.tile(x, repeats), lambda x, repeats: jnp.tile(x, repeats), repeats=(2, 2))
case("repeat_interleave", [normal(2, 3)], lambda x, repeats, dim: np.repeat(x, repeats, dim),
     lambda x, repeats, dim: jnp.repeat(x, repeats, dim), repeats=2, dim=1)
case("concat", [[normal(2, 3), normal(2, 2)]], lambda t, dim: np.concatenate(t, dim),
     lambda t, dim: jnp.concatenate(t, dim), (), dim=1)
case("cat", [[normal(2, 3), normal(1, 3)]], np.concatenate, jnp.concatenate, ())
case("stack", [[normal(2, 3), normal(2, 3)]], lambda t, dim: np.stack(t, dim), lambda t, dim: jnp.stack(t, dim), (), dim=1)
case("split", [cube], lambda x, split_size, dim: np.split(x, [3], dim), lambda x, split_size, dim: jnp.split(x, [3], dim),
     split_size=3, dim=2)
case("split", [cube], lambda x, split_size, dim: np.split(x, [1], dim), lambda x, split_size, dim: jnp.split(x, [1], dim),
     split_size=(1, 3), dim=2)
case("chunk", [cube], lambda x, chunks, dim: np.split(x, 2, dim), lambda x, chunks, dim: jnp.split(x, 2, dim), chunks=2,
     dim=2)
case("pad", [normal(2, 3)], lambda x, widths, value: np.pad(x, widths, constant_values=value),
     lambda x, widths, value: jnp.pad(x, widths, constant_values=value), widths=[(1, 0), (2, 3)], value=0.5)
case("tril", [normal(3, 4)], lambda x, diagonal: np.tril(x, diagonal), lambda x, diagonal: jnp.tril(x, diagonal), diagonal=1)
case("triu", [normal(3, 4)], lambda x: np.triu(x), lambda x: jnp.triu(x))
case("diagonal", [normal(2, 3, 3)], lambda x: np.diagonal(x, axis1=-2, axis2=-1),
     lambda x: jnp.diagonal(x, axis1=-2, axis2=-1))

# ---- indexing
case("take", [cube, np.array([[2, 0], [-1, 1]])], lambda x, i, dim: np.take(x, i, dim), lambda x, i, dim: jnp.take(x, i % 3, dim),
     dim=1)
case("index_select", [cube, 1, np.array([2, 0])], lambda x, d, i: np.take(x, i, d), lambda x, d, i: jnp.take(x, i, int(d)))
index = whole(0, 3, 2, 2, 4)
case("gather", [cube, 1, index], lambda x, d, i: np.take_along_axis(x, i, d),
     lambda x, d, i: jnp.take_along_axis(x, i, int(d)))
case("take_along", [cube, index], lambda x, i, dim: np.take_along_axis(x, i, dim),
     lambda x, i, dim: jnp.take_along_axis(x, i, dim), dim=1)
rows = np.array([[2, 0, 1]])
case("scatter", [normal(3, 3), 0, rows, normal(1, 3)], None, lambda x, d, i, s: jnp.asarray(x).at[i, jnp.arange(3)].set(s), (0, 3))
case("scatter_add", [normal(3, 3), 0, np.array([[1, 1, 0], [1, 2, 0]]), normal(2, 3)], None,
     lambda x, d, i, s: jnp.asarray(x).at[i, jnp.arange(3)].add(s), (0, 3))
case("one_hot", [np.array([[0, 2], [1, 1]])], lambda i, num_classes: np.eye(num_classes)[i],
     lambda i, num_classes: jax.nn.one_hot(i, num_classes), (), num_classes=3)
case("embedding", [np.array([[0, 2], [1, 1]]), normal(3, 4)], lambda i, w: w[i], lambda i, w: w[i], (1,))

# ---- contraction
for left, right in [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 2, 3), (3, 4)), ((2, 1, 2, 3), (3, 3, 2))]:
    case("matmul", [normal(*left), normal(*right)], np.matmul, jnp.matmul, (0, 1))
case("batch_matmul", [normal(2, 3, 4), normal(2, 4, 2)], np.matmul, jnp.matmul, (0, 1))
case("bmm", [normal(2, 3, 4), normal(2, 4, 2)], np.matmul, jnp.matmul, (0, 1))
case("outer", [normal(3), normal(4)], np.outer, jnp.outer, (0, 1))
case("dot", [normal(5), normal(5)], np.dot, jnp.dot, (0, 1))
case("einsum", ["bij,bjk->ik", normal(2, 3, 4), normal(2, 4, 5)], np.einsum, jnp.einsum, (1, 2))
case("linear", [normal(2, 3), normal(4, 3), normal(4)], lambda x, w, c: x @ w.T + c, lambda x, w, c: x @ w.T + c, (0, 1, 2))


def convolution(axes, transposed=False):
    names = ("NCDHW"[0] + "C" + "DHW"[3 - axes :],) * 2
    spec = (names[0], ("IO" if transposed else "OI") + "DHW"[3 - axes :], names[0])

    def run(x, w, c=None, stride=1, padding=0, dilation=1, groups=1, output_padding=0):
        if transposed:
            # The gradient of a convolution by its input, at the output's size.
            size = [
                (n - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1
                for n, k in zip(x.shape[2:], w.shape[2:])
            ]
            channels = w.shape[1] * groups

            def forward(y):
                return jax.lax.conv_general_dilated(
                    y, w, [stride] * axes, [(padding, padding)] * axes, rhs_dilation=[dilation] * axes,
                    dimension_numbers=(names[0], "OI" + "DHW"[3 - axes :], names[0]), feature_group_count=groups,
                )

            y = jax.vjp(forward, jnp.zeros((x.shape[0], channels, *size), x.dtype))[1](x)[0]
        else:
            y = jax.lax.conv_general_dilated(
                x, w, [stride] * axes, [(padding, padding)] * axes, rhs_dilation=[dilation] * axes,
                dimension_numbers=spec, feature_group_count=groups,
            )
        return y if c is None else y + c.reshape(1, -1, *[1] * axes)

    return run


for axes in (1, 2, 3):
    space, kernel = (5,) * axes, (3,) * axes
    case(f"conv{axes}d", [normal(2, 4, *space), normal(6, 4, *kernel), normal(6)], None, convolution(axes), (0, 1, 2))
    case(f"conv{axes}d", [normal(2, 4, *space), normal(6, 2, *kernel)], None, convolution(axes), (0, 1), stride=2, padding=1,
         groups=2)
    case(f"conv_transpose{axes}d", [normal(2, 4, *space), normal(4, 3, *kernel), normal(3)], None, convolution(axes, True),
         (0, 1, 2))
    case(f"conv_transpose{axes}d", [normal(2, 4, *space), normal(4, 3, *kernel)], None, convolution(axes, True), (0, 1),
         stride=2, padding=1, output_padding=1)


# ---- pooling
def pooling(kind, axes):
    def run(x, kernel_size, stride=None, padding=0, count_include_pad=True):
        stride = stride or kernel_size
        window, steps = (1, 1) + (kernel_size,) * axes, (1, 1) + (stride,) * axes
        pads = ((0, 0), (0, 0)) + ((padding, padding),) * axes
        if kind == "max":
            return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, steps, pads)
        total = jax.lax.reduce_window(x, 0.0, jax.lax.add, window, steps, pads)
        if count_include_pad:
            return total / kernel_size**axes
        return total / jax.lax.reduce_window(jnp.ones_like(x), 0.0, jax.lax.add, window, steps, pads)

    return run


for axes in (1, 2, 3):
    space = (6,) * axes
    for kind in ("max", "avg"):
        case(f"{kind}_pool{axes}d", [normal(2, 3, *space)], None, pooling(kind, axes), kernel_size=2)
        case(f"{kind}_pool{axes}d", [normal(2, 3, *space)], None, pooling(kind, axes), kernel_size=3, stride=2, padding=1)
case("avg_pool2d", [normal(1, 2, 5, 5)], None, pooling("avg", 2), kernel_size=3, stride=2, padding=1, count_include_pad=False)


def adaptive(reduce, axes):
    def run(x, output_size):
        sizes = output_size if isinstance(output_size, tuple) else (output_size,) * axes
        for axis, count in zip(range(-axes, 0), sizes):
            n = x.shape[axis]
            parts = [
                reduce(jax.lax.slice_in_dim(x, i * n // count, -((-(i + 1) * n) // count), axis=axis), axis=axis, keepdims=True)
                for i in range(count)
            ]
            x = jnp.concatenate(parts, axis)
        return x

    return run


case("adaptive_avg_pool1d", [normal(2, 3, 7)], None, adaptive(jnp.mean, 1), output_size=3)
case("adaptive_avg_pool2d", [normal(2, 3, 7, 6)], None, adaptive(jnp.mean, 2), output_size=(3, 2))
case("adaptive_avg_pool3d", [normal(1, 2, 4, 5, 3)], None, adaptive(jnp.mean, 3), output_size=(2, 2, 2))
case("adaptive_max_pool1d", [normal(2, 3, 7)], None, adaptive(jnp.max, 1), output_size=3)
case("adaptive_max_pool2d", [normal(2, 3, 7, 6)], None, adaptive(jnp.max, 2), output_size=(3, 2))
case("interpolate", [normal(2, 3, 4)], lambda x, size: x[..., [0, 0, 1, 1, 2, 2, 3, 3]],
     lambda x, size: jax.image.resize(x, (2, 3, 8), "nearest"), size=8)
case("interpolate", [normal(1, 2, 4, 4)], None, lambda x, **_: jax.image.resize(x, (1, 2, 8, 8), "linear"), size=(8, 8),
     mode="bilinear")


# ---- normalisation
def normalised(x, axes, weight=None, bias=None, eps=1e-5, shape=None):
    y = (x - x.mean(axes, keepdims=True)) / jnp.sqrt(x.var(axes, keepdims=True) + eps)
    shape = shape or (1, -1, *[1] * (x.ndim - 2))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


image, channel = normal(2, 4, 3, 3), normal(4)
case("layer_norm", [normal(2, 3, 4), 4, normal(4), normal(4)], None,
     lambda x, n, w, c: normalised(x, -1, w, c, shape=(-1,)), (0, 2, 3))
case("layer_norm", [normal(2, 3, 4), (3, 4)], None, lambda x, n: normalised(x, (1, 2)))
case("rms_norm", [normal(2, 3, 4), normal(4)], None,
     lambda x, w: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w, (0, 1))
case("group_norm", [image, 2, channel, normal(4)], None,
     lambda x, g, w, c: normalised(x.reshape(2, 2, 18), -1).reshape(x.shape) * w.reshape(1, 4, 1, 1) + c.reshape(1, 4, 1, 1),
     (0, 2, 3))
case("instance_norm", [image, channel, normal(4)], None, lambda x, w, c: normalised(x, (2, 3), w, c), (0, 1, 2))
case("batch_norm", [image, normal(4), between(0.5, 2, 4), channel, normal(4)], None,
     lambda x, m, v, w, c: ((x.transpose(0, 2, 3, 1) - m) / jnp.sqrt(v + 1e-5) * w + c).transpose(0, 3, 1, 2), (0, 3, 4))
case("batch_norm", [image, channel, channel], None, lambda x, m, v, training: normalised(x, (0, 2, 3)), training=True)
case("batch_norm_train", [image, channel, normal(4)], None,
     lambda x, w, c: (normalised(x, (0, 2, 3), w, c), x.mean((0, 2, 3)), x.var((0, 2, 3))), (0, 1, 2))


# ---- attention
def attention(q, k, v, attn_mask=None, is_causal=False, scale=None):
    groups = q.shape[1] // k.shape[1]
    k, v = jnp.repeat(k, groups, 1), jnp.repeat(v, groups, 1)
    scores = q @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if is_causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:])) > 0, scores, -jnp.inf)
    if attn_mask is not None:
        scores = jnp.where(attn_mask, scores, -jnp.inf) if attn_mask.dtype == bool else scores + attn_mask
    return jax.nn.softmax(scores) @ v


q, k, v = normal(2, 4, 5, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 8)
case("attention", [q, k, v], None, attention, (0, 1, 2))
case("attention", [q, k, v], None, attention, (0, 1, 2), is_causal=True, scale=0.3)
case("attention", [q, k, v, normal(5, 5)], None, attention, (0, 1, 2))


def rotary(x, interleaved=False):
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[-2])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    if interleaved:
        one, two = x[..., 0::2], x[..., 1::2]
    else:
        one, two = x[..., :half], x[..., half:]
    first_part, second_part = one * jnp.cos(angles) - two * jnp.sin(angles), two * jnp.cos(angles) + one * jnp.sin(angles)
    if interleaved:
        return jnp.stack([first_part, second_part], -1).reshape(x.shape)
    return jnp.concatenate([first_part, second_part], -1)


case("rope", [normal(2, 5, 8)], None, rotary)
case("rope", [normal(2, 5, 8)], None, rotary, interleaved=True)
case("dropout", [normal(3, 4)], lambda x, training: x, lambda x, training: x, training=False)


# ---- losses
def reduced(values, reduction="mean"):
    return values.mean() if reduction == "mean" else values.sum() if reduction == "sum" else values


x, y = normal(3, 4), normal(3, 4)
p, t = between(0.1, 0.9, 3, 4), between(0.1, 0.9, 3, 4)
for reduction in ("mean", "sum", "none"):
    option = {"reduction": reduction}
    case("mse_loss", [x, y], None, lambda a, c, reduction: reduced((a - c) ** 2, reduction), (0, 1), **option)
    case("l1_loss", [x, y], None, lambda a, c, reduction: reduced(jnp.abs(a - c), reduction), (0, 1), **option)
    case("bce_loss", [p, t], None,
         lambda a, c, reduction: reduced(-(c * jnp.log(a) + (1 - c) * jnp.log(1 - a)), reduction), (0,), **option)
    case("bce_with_logits_loss", [x, t], None,
         lambda a, c, reduction: reduced(-(c * jax.nn.log_sigmoid(a) + (1 - c) * jax.nn.log_sigmoid(-a)), reduction), (0,),
         **option)
    case("nll_loss", [x, np.array([1, 0, 3])], None,
         lambda a, c, reduction: reduced(-jnp.take_along_axis(a, c[:, None], 1)[:, 0], reduction), (0,), **option)
    case("cross_entropy", [x, np.array([1, 0, 3])], None,
         lambda a, c, reduction: reduced(-jnp.take_along_axis(jax.nn.log_softmax(a), c[:, None], 1)[:, 0], reduction), (0,),
         **option)
    case("kl_div_loss", [x, p], None, lambda a, c, reduction: reduced(c * (jnp.log(c) - a), reduction), (0,), **option)
case("cross_entropy", [x, jax.nn.softmax(y).__array__()], None, lambda a, c: -(c * jax.nn.log_softmax(a)).sum(1).mean())
case("cross_entropy", [x, np.array([1, 0, 3])], None,
     lambda a, c, label_smoothing: -((jax.nn.one_hot(c, 4) * 0.9 + 0.025) * jax.nn.log_softmax(a)).sum(1).mean(),
     label_smoothing=0.1)


def huber(a, c, delta):
    d = jnp.abs(a - c)
    return jnp.where(d < delta, d * d / 2, delta * (d - delta / 2)).mean()


case("huber_loss", [x, y], None, lambda a, c, delta: huber(a, c, delta), (0, 1), delta=0.7)
case("smooth_l1_loss", [x, y], None, lambda a, c, beta: huber(a, c, beta) / beta, (0, 1), beta=0.7)


def cosine(a, c, axis=1):
    return (a * c).sum(axis) / jnp.sqrt((a * a).sum(axis) * (c * c).sum(axis))


case("cosine_similarity", [x, y], None, cosine, (0, 1))
sides = np.array([1, -1, 1])
case("cosine_embedding_loss", [x, y, sides], None,
     lambda a, c, s: jnp.where(s > 0, 1 - cosine(a, c), jnp.maximum(cosine(a, c), 0)).mean(), (0, 1))
case("triplet_margin_loss", [x, y, normal(3, 4)], None,
     lambda a, c, d: jnp.maximum(
         jnp.sqrt(((a - c + 1e-6) ** 2).sum(1)) - jnp.sqrt(((a - d + 1e-6) ** 2).sum(1)) + 1, 0).mean(), (0, 1, 2))
