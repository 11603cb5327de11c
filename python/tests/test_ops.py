"""Every operation against NumPy and JAX, gradients against JAX."""

import builtins

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from op_table import CASES

import hearth as ht
from hearth import _core

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)  # compiling is most of the time these tests take

# Functions of the module that are no operations with a result that NumPy or JAX could tell.
NO_OPERATION = set(
    "arange bernoulli empty eye full full_like linspace multinomial ones ones_like rand rand_like randint randn randn_like "
    "randperm zeros zeros_like manual_seed get_rng_state set_rng_state "  # make tensors: test_tensor.py
    "eval explain gradients is_grad_enabled is_compiling autocast_dtype plan_cache_stats clear_plan_cache last_plan_stats "
    "devices set_device get_device device_info synchronize dtype_size dtype_name promote_types "
    "low_precision full_precision quantize dequantize quantized_matmul".split()  # test_nn.py, test_tensor.py
)

PARAMETERS = [pytest.param(name, case, id=f"{name}-{i}") for name, cases in CASES.items() for i, case in enumerate(cases)]


def test_the_table_is_complete():
    functions = {name for name in dir(_core) if not name.startswith("_") and type(getattr(_core, name)) is type(_core.exp)}
    assert functions - NO_OPERATION - set(CASES) == set()
    assert set(_core.unary_ops) | set(_core.binary_ops) <= set(CASES)
    for name in functions:
        assert getattr(ht, name).__doc__, f"{name} has no documentation"


def doubled(argument):
    """What the references compute with."""
    if isinstance(argument, list):
        return [doubled(part) for part in argument]
    if isinstance(argument, np.ndarray) and argument.dtype == np.float32:
        return argument.astype(np.float64)
    return argument


def parts(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def seeds_of(results):
    """What gradients are weighted with."""
    generator = np.random.default_rng(3)
    return [generator.standard_normal(r.shape).astype(np.float32) for r in results]


def reference(case):
    """JAX's results, and the gradients of their weighted sum; compiled as one, which takes less time than op by op."""
    arguments = [doubled(argument) for argument in case.arguments]
    arrays = [i for i, argument in enumerate(arguments) if isinstance(argument, (np.ndarray, list))]

    def scalar(differentiated, rest):
        given = list(arguments)
        for i in arrays:
            given[i] = differentiated[i] if i in differentiated else rest[i]
        results = parts(case.jax(*given, **case.options))
        floating = [r for r in results if jnp.issubdtype(r.dtype, jnp.floating)]
        return builtins.sum((r * s).sum() for r, s in zip(floating, seeds_of(floating))) + 0.0, results

    differentiated = {i: arguments[i] for i in case.gradients}
    rest = {i: arguments[i] for i in arrays if i not in differentiated}
    if not differentiated:
        return jax.jit(lambda rest: scalar({}, rest)[1])(rest), {}
    gradients, results = jax.jit(jax.grad(scalar, has_aux=True))(differentiated, rest)
    return results, gradients


def compare(actual, expected):
    for ours, theirs in zip(parts(actual), parts(expected), strict=True):
        theirs = np.asarray(theirs)
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=3e-5, atol=3e-5)
        assert (ours.dtype == ht.bool_) == (theirs.dtype == np.bool_)


@pytest.mark.parametrize("name, case", PARAMETERS)
def test_operation(name, case):
    leaves = {i: ht.tensor(case.arguments[i], requires_grad=True) for i in case.gradients}
    arguments = [leaves.get(i, argument) for i, argument in enumerate(case.arguments)]
    results = getattr(ht, name)(*arguments, **case.options)
    if case.numpy is not None:
        with np.errstate(all="ignore"):
            compare(results, case.numpy(*[doubled(argument) for argument in case.arguments], **case.options))
    expected, gradients = reference(case)
    compare(results, expected)
    if not leaves:
        return
    tracked = [r for r in parts(results) if r.requires_grad]
    builtins.sum((r * s).sum() for r, s in zip(tracked, seeds_of(tracked))).backward()
    for i, leaf in leaves.items():
        np.testing.assert_allclose(leaf.grad.numpy(), gradients[i], rtol=1e-4, atol=1e-4)
