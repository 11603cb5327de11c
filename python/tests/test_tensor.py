"""What tensors are: factories, values, modes, in-place changes, and wrong use."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import hearth as ht


def test_factories():
    assert ht.zeros(2, 3).shape == ht.zeros((2, 3)).shape == ht.zeros([2, 3]).shape == (2, 3)
    assert ht.zeros().shape == () and ht.ones(2, dtype="int8").dtype == ht.int8
    assert ht.randn(1024, 1024).shape == (1024, 1024)
    assert abs(ht.randn(100000).mean().item()) < 0.02 and abs(ht.randn(100000).std().item() - 1) < 0.02
    u = ht.rand(10000).numpy()
    assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.02
    assert ht.full((2,), 3).tolist() == [3, 3]
    assert ht.arange(4).tolist() == [0, 1, 2, 3] and ht.arange(4).dtype == ht.int64
    assert ht.arange(1, 2, 0.5).tolist() == [1, 1.5] and ht.arange(1, 2, 0.5).dtype == ht.float32
    assert ht.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
    assert ht.eye(2).tolist() == [[1, 0], [0, 1]]
    i = ht.randint(3, 7, (1000,)).numpy()
    assert set(i) == {3, 4, 5, 6}
    assert sorted(ht.randperm(5).tolist()) == [0, 1, 2, 3, 4]
    assert ht.zeros_like(ht.ones(2)).tolist() == [0, 0] and ht.ones_like(ht.zeros(2)).tolist() == [1, 1]
    assert ht.full_like(ht.zeros(2), 5).tolist() == [5, 5] and ht.empty(3).shape == (3,)
    assert ht.rand_like(ht.zeros(2)).shape == ht.randn_like(ht.zeros(2)).shape == (2,)
    assert abs(ht.bernoulli((10000,), 0.3, "float32").mean().item() - 0.3) < 0.03
    assert set(ht.multinomial(ht.tensor([0.0, 1.0, 1.0]), 100).tolist()) == {1, 2}


def test_seeds():
    ht.manual_seed(5)
    state, first = ht.get_rng_state(), ht.randn(3).tolist()
    ht.set_rng_state(state)
    assert ht.randn(3).tolist() == first != ht.randn(3).tolist()


def test_a_device_is_one_wherever_one_is_wanted():
    device = ht.device("cuda" if ht.cuda.is_available() else "cpu")
    assert ht.ones(2, device=device).device == device and ht.ones(2).to(device).device == device
    layer = ht.nn.Linear(2, 2).to(device)
    assert layer.weight.device == device and layer.to(device=device) is layer
    assert str(device) == str(ht.Device(str(device))) and device == ht.device(device) and device != 5
    assert device.type in repr(device) and {device: 1}[ht.device(device)] == 1
    with device:
        assert ht.ones(1).device == device
    with pytest.raises(ht.Error):
        ht.device("abacus")


def test_the_graph_is_kept_in_any_case():
    x = ht.ones(2, requires_grad=True)
    y = (x * 3).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [6, 6]


def test_formats():
    assert f"{ht.tensor(1.23456):.2f}" == "1.23" and f"{ht.tensor([7]):03d}" == "007"
    x = ht.ones(2)
    assert f"{x}" == str(x)
    with pytest.raises(ValueError):
        f"{x:.2f}"


def test_moving_as_pytorch_users_write_it():
    x = ht.ones(2)
    assert x.to(dtype=ht.float16).dtype == ht.float16 and x.to(device="cpu", dtype="int32").dtype == ht.int32
    assert x.to("cpu", ht.float16).dtype == x.to("cpu", dtype=ht.float16).dtype == ht.float16
    assert x.to("cpu", non_blocking=True).dtype == ht.float32
    layer = ht.nn.BatchNorm1d(2)
    assert layer.to(device="cpu", dtype=ht.float16).weight.dtype == ht.float16
    assert layer.num_batches_tracked.dtype == ht.int64 and layer.to("cpu", non_blocking=True) is layer
    for wrong in (lambda: x.to(dtype="abacus"), lambda: x.to(device="abacus"), lambda: layer.to(device="abacus")):
        with pytest.raises((ht.Error, TypeError)):
            wrong()


def test_repr_and_html():
    x = ht.arange(3)
    assert "[0, 1, 2]" in repr(x) and "i64" in repr(x)
    assert "<table>" in x._repr_html_() and "int64" in x._repr_html_()
    assert "hearth" not in repr(ht.float32) and ht.float32.name == "float32"
    assert "..." in repr(ht.zeros(1000)) and "<td>" in ht.zeros(3, 1000)._repr_html_()
    for odd in (ht.zeros(0, 3), ht.tensor(1.0), ht.zeros(1, 2, 3), ht.ones(2, dtype="bool")):
        assert odd._repr_html_()


def test_operators():
    x, a = ht.tensor([1.0, -2.0, 3.0]), np.float32([1, -2, 3])
    for ours, theirs in [
        (x + 1, a + 1), (2 - x, 2 - a), (x * x, a * a), (1 / x, 1 / a), (x**2, a**2), (2**x, 2**a), (x // 2, a // 2),
        (x % 2, a % 2), (-x, -a), (abs(x), abs(a)), (x > 0, a > 0), (x == 1, a == 1), (x @ x, a @ a), (a + x, a + a),
    ]:
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)
    i = ht.tensor([6, 5])
    assert (i & 3).tolist() == [2, 1] and (i | 8).tolist() == [14, 13] and (~i).tolist() == [-7, -6]
    assert (i << 1).tolist() == [12, 10] and (i >> 1).tolist() == [3, 2] and (i ^ 1).tolist() == [7, 4]
    assert (x * 2.0).dtype == ht.float32 and (x.half() * 2.0).dtype == ht.float16 and (i * 2).dtype == ht.int64
    assert x.__add__("text") is NotImplemented


def test_in_place():
    x = ht.zeros(2)
    alias = x
    x += 1
    x *= 3
    assert alias.tolist() == [3, 3] and alias is x
    with pytest.raises(ht.ShapeError):
        x += ht.ones(3, 2)
    with pytest.raises(ht.DTypeError):
        i = ht.zeros(2, dtype="int32")
        i += 0.5
    w = ht.ones(2, requires_grad=True)
    with pytest.raises(ht.ValueError, match="no_grad"):
        w += 1
    with ht.no_grad():
        w -= 0.5
    assert w.requires_grad and w.tolist() == [0.5, 0.5]
    y = w * 2
    y += w
    y.sum().backward()
    assert w.grad.tolist() == [3, 3]


def test_gradients():
    x = ht.tensor([1.0, 2.0], requires_grad=True)
    assert x.grad is None and x.is_leaf
    for _ in range(2):
        (x * x).sum().backward()
    assert x.grad.tolist() == [4, 8]
    with ht.no_grad():
        assert not (x * 2).requires_grad
    assert ht.no_grad()(lambda: (x * 2).requires_grad)() is False
    assert not x.detach().requires_grad
    assert ht.grad(lambda a: (a**3).sum())(x).tolist() == [3, 12]
    value, (da, db) = ht.value_and_grad(lambda a, b: (a * b).sum(), (0, 1))(x, ht.tensor([3.0, 4.0]))
    assert value.item() == 11 and da.tolist() == [3, 4] and db.tolist() == [1, 2]
    tree = ht.grad(lambda p: (p["w"] * p["b"][0]).sum())({"w": x, "b": [ht.tensor([5.0, 6.0])]})
    assert tree["w"].tolist() == [5, 6] and tree["b"][0].tolist() == [1, 2]
    (second,) = ht.gradients(ht.gradients((x**3).sum(), [x], create_graph=True)[0].sum(), [x])
    assert second.tolist() == [6, 12]
    with pytest.raises(ht.ShapeError):
        (x * 2).backward()
    (x * 2).backward(ht.tensor([1.0, 10.0]))
    with pytest.raises(ht.ValueError):
        ht.ones(1).backward()
    with pytest.raises(ht.DTypeError):
        ht.arange(3).requires_grad_()
    with pytest.raises(ht.ShapeError):
        ht.grad(lambda a: a)(x)


def test_compile():
    calls = []
    counter = ht.zeros(())

    @ht.compile
    def f(x, scale, options=None):
        calls.append(1)
        counter.assign(counter + 1)
        return {"y": (x * scale).sum(), "pair": (x + 1, [options])}

    for i in range(4):
        out = f(ht.full((3,), i), 2)
        assert out["y"].item() == 6 * i and out["pair"][0].tolist() == [i + 1] * 3 and out["pair"][1] == [None]
    assert len(calls) == f.traces() == 1 and counter.item() == 4
    assert f(ht.ones(3), 3)["y"].item() == 9 and f(ht.ones(2), 2)["y"].item() == 4 and len(calls) == 3
    assert "step" in f.explain()
    with pytest.raises(ht.ValueError, match="compil"):
        ht.compile(lambda x: x * x.sum().item())(ht.ones(2))
    with pytest.raises(ZeroDivisionError):
        ht.compile(lambda x: x / (1 // 0))(ht.ones(2))
    with pytest.raises(ht.ValueError, match="hashable"):
        f(ht.ones(2), {1, 2})


def test_compiled_functions_return_what_their_trace_did():
    step = ht.compile(lambda x: (x.sum(), x.shape[0]))
    assert [step(ht.ones(size))[1] for size in (32, 7, 32, 7)] == [32, 7, 32, 7] and step.traces() == 2

    weight = ht.ones(3, requires_grad=True)

    @ht.compile
    def accumulate(x):  # two traces of the same arguments
        first = weight.grad is None
        (x * weight).sum().backward()
        return first

    found = [accumulate(ht.ones(3)), accumulate(ht.ones(3))]
    weight.zero_grad()
    assert [*found, accumulate(ht.ones(3))] == [True, False, True] and accumulate.traces() == 2

    outer = ht.compile(lambda x: (step(x), step(x[1:])))  # their structures as well, where they are part of another
    (_, whole), (_, rest) = outer(ht.ones(5))
    assert (whole, rest) == (5, 4) and step(ht.ones(32))[1] == 32


def test_compiled_functions_tell_equal_arguments_apart():
    f = ht.compile(lambda x, scale: (x * scale, scale))
    x = ht.arange(3)
    for scale in (2, 2.0, 1, 1.0, True, 2, 0.0, -0.0):
        y, given = f(x, scale)
        assert y.dtype == (x * scale).dtype and repr(given) == repr(scale)
    assert f.traces() == 7
    keys = ht.compile(lambda x, table: list(table))
    assert repr([keys(x, {key: 0}) for key in (1, 1.0, True)]) == "[[1], [1.0], [True]]"


def test_quantised():
    w, x = ht.randn(64, 256), ht.randn(3, 256)
    q = ht.quantize(w, "q8_0")
    assert q.dtype == ht.q8_0 and "q8_0" in repr(q)
    np.testing.assert_allclose(ht.dequantize(q).numpy(), w.numpy(), atol=0.03)
    np.testing.assert_allclose(ht.quantized_matmul(x, q).numpy(), (x @ w.T).numpy(), atol=0.7)
    for wrong in (lambda: q + 1, lambda: q.numpy(), lambda: ht.quantize(x[:, :5], "q8_0")):
        with pytest.raises((ht.DTypeError, ht.ShapeError)):
            wrong()


@pytest.mark.parametrize(
    "wrong, kind",
    [
        (lambda: ht.zeros(3, 4) @ ht.zeros(5, 6), ht.ShapeError),
        (lambda: ht.zeros(2, 3).reshape(4, 2), ht.ShapeError),
        (lambda: ht.zeros(-1), ht.ShapeError),
        (lambda: ht.zeros(2**40, 2**40), ht.ShapeError),
        (lambda: ht.zeros(2**44).eval(), ht.OutOfMemory),
        (lambda: ht.randn(2**22, 2**22).eval(), MemoryError),
        (lambda: ht.zeros(2.5), TypeError),
        (lambda: ht.zeros("a"), TypeError),
        (lambda: ht.zeros(2, dtype="complex64"), TypeError),
        (lambda: ht.zeros(2, device="moon"), ht.ValueError),
        (lambda: ht.zeros(2, device="rocm:250"), ht.DeviceUnavailable),
        (lambda: ht.exp("text"), TypeError),
        (lambda: ht.exp(None), TypeError),
        (lambda: ht.exp(), TypeError),
        (lambda: ht.sum(ht.zeros(2), dim=3), IndexError),
        (lambda: ht.sum(ht.zeros(2), dim="x"), TypeError),
        (lambda: ht.zeros(2).item(), ht.ShapeError),
        (lambda: ht.max(ht.zeros(0)), ht.ValueError),
        (lambda: ht.stack([]), ht.ValueError),
        (lambda: ht.concat([ht.zeros(2), "x"]), TypeError),
        (lambda: ht.take(ht.zeros(2), [5]).eval(), ht.IndexError),
        (lambda: ht.conv2d(ht.zeros(1, 3, 4, 4), ht.zeros(2, 4, 3, 3)), ht.ShapeError),
        (lambda: ht.cross_entropy(ht.zeros(2, 3), ht.zeros(5)), ht.Error),
        (lambda: ht.einsum("ij,jk", ht.zeros(2), ht.zeros(2)), ht.Error),
        (lambda: ht.bitwise_and(ht.zeros(2), 1), ht.DTypeError),
        (lambda: ht.arange(0, 1, 0), ht.ValueError),
        (lambda: ht.set_device(5), TypeError),
        (lambda: ht.ones(2) + ht.Tensor.__new__(ht.Tensor), TypeError),
        (lambda: ht.exp(ht.Tensor.__new__(ht.Tensor)), TypeError),
        (lambda: ht.max(ht.ones(2), ht.Tensor.__new__(ht.Tensor)), TypeError),
        (lambda: ht.ones(2).to(ht.Tensor.__new__(ht.Tensor)), TypeError),
        (lambda: ht.eval(ht.Tensor.__new__(ht.Tensor)), TypeError),
        (lambda: memoryview(ht.Tensor.__new__(ht.Tensor)), (TypeError, BufferError)),
        (lambda: ht.kernels.compile("x", "y", "cpu"), ht.DeviceError),
        (lambda: ht.load("/nonexistent.safetensors"), OSError),
        (lambda: ht.load("/nonexistent.txt"), ht.ValueError),
        (lambda: ht.llm.load("/nonexistent.gguf"), ht.FileError),
        (lambda: ht.set_config(threads=-5), ht.ConfigError),
        (lambda: ht.set_config(thread=5), ht.ConfigError),
        (lambda: ht.autocast(ht.int8).__enter__(), ht.DTypeError),
    ],
)
def test_wrong_use_raises(wrong, kind):
    with pytest.raises(kind):
        wrong()
    assert (ht.ones(2) + 1).tolist() == [2, 2]


def test_errors_are_one_family():
    assert issubclass(ht.ShapeError, ht.Error) and issubclass(ht.ShapeError, ValueError)
    assert issubclass(ht.DTypeError, TypeError) and issubclass(ht.OutOfMemory, MemoryError)
    assert issubclass(ht.DeviceUnavailable, RuntimeError) and issubclass(ht.FileError, OSError)
    with pytest.raises(ht.Error, match=r"\[matmul\] inner sizes differ: \(3, 4\) @ \(5, 6\)"):
        ht.zeros(3, 4) @ ht.zeros(5, 6)
    try:
        ht.zeros(2**44).eval()
    except ht.OutOfMemory as error:
        assert error.requested >= 2**46 > error.available >= 0


def test_devices():
    assert ht.get_device() == "cpu" and ht.zeros(1).device == "cpu" and str(ht.zeros(1).device) == "cpu"
    info = ht.device_info()
    assert info["type"] == "cpu" and info["cores"] >= 1 and info["total_memory"] > 0
    assert ht.Device("cpu") in ht.devices() and ht.Device("cpu").type == "cpu"
    assert ht.rocm_device_count() == 0 or ht.rocm_is_available()
    ht.synchronize()
    with ht.device("cpu"):
        assert ht.zeros(1).device.type == "cpu"
    begin = ht.Event()
    assert ht.Event().seconds_since(begin) >= 0


def test_threads():
    """Shared tensors, graphs of their own, arrays that die in other threads: the same results, no deadlock."""
    shared = ht.randn(64, 64).eval()
    expected = (shared @ shared + 1).numpy()
    wrong = []

    def work(seed):
        for i in range(40):
            array = np.full((64, 64), seed + i, np.float32)
            x = ht.from_numpy(array)
            del array
            if not np.array_equal((shared @ shared + 1).numpy(), expected) or (x - seed - i).abs().sum().item() != 0:
                wrong.append(seed)
            with ht.no_grad():
                w = ht.ones(3, requires_grad=True)
            (w * seed).sum().backward()
            if w.grad.tolist() != [seed] * 3:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not wrong


def test_variables_that_change_under_a_reader():
    """One thread assigns, others look: each sees one of the values, whole."""
    x = ht.zeros(1000).contiguous().eval()
    stop, wrong = threading.Event(), []

    def look():
        while not stop.is_set():
            for seen in (x.numpy(), np.asarray(x.tolist()), (x * 2).numpy() / 2):
                if seen.min() != seen.max():
                    wrong.append(seen)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(200):
        x.assign(ht.full((1000,), i))
        x += 1
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong and x[0].item() == 200


def test_compiled_functions_take_turns():
    f, results = ht.compile(lambda a: (a * 2).sum()), []
    threads = [
        threading.Thread(target=lambda i=i: results.extend(f(ht.full((4,), i)).item() == 8 * i for _ in range(50)))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 200 and all(results)


def test_the_gil_is_released():
    """While one thread computes, another counts."""
    x = ht.randn(700, 700).eval()
    ticks, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            ticks[0] += 1
            stop.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = ticks[0]
    y = x
    for _ in range(20):
        y = y @ x * 0.01
    y.eval()
    during = ticks[0] - before
    stop.set()
    thread.join()
    assert during >= 3


SCRIPT = """
import os, signal, threading, time
import hearth as ht
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins with it ignored
def interrupt():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    while True:
        (ht.randn(200, 200) @ ht.randn(200, 200)).eval()
except KeyboardInterrupt:
    print("interrupted", (ht.ones(2) + 1).tolist())
"""


def test_ctrl_c():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.strip() == "interrupted [2.0, 2.0]", done.stderr


def test_nothing_is_left_when_the_interpreter_ends():
    script = "import hearth as ht, numpy as np; x = ht.from_numpy(np.ones(3)); y = x.numpy(); loader = ht.data.DataLoader"
    script += "(ht.data.TensorDataset(ht.ones(9, 2)), num_workers=2); it = iter(loader); next(it); f = ht.compile(lambda a: a)"
    script += "; f(x)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_config_memory_profiler(tmp_path):
    with ht.configured(optimization_level="conservative"):
        assert ht.get_config()["optimization_level"] == "conservative"
    assert ht.get_config()["optimization_level"] == "balanced"
    keep = ht.randn(1000, 1000).eval()
    assert ht.memory.allocated() >= keep.nbytes and ht.memory.peak() >= ht.memory.allocated()
    assert "in use" in ht.memory.summary() and ht.memory.stats()["by_purpose"]["results"] >= keep.nbytes
    ht.memory.reset_peak()
    ht.memory.empty_cache()
    ht.memory.warm_up(bytes=1 << 20)
    with ht.profiler.profile() as profile:
        with ht.profiler.region("outer"), ht.profiler.region("inner"):
            (keep @ keep).eval()
    assert "matmul" in repr(profile) and profile.regions()["outer/inner"]["count"] == 1
    assert profile.steps()["matmul"]["total_ms"] > 0
    profile.export_chrome_trace(tmp_path / "trace.json")
    assert "traceEvents" in (tmp_path / "trace.json").read_text() or (tmp_path / "trace.json").read_text().startswith("[")
    assert set(ht.tune.stats()) == {"entries", "refused", "hits", "misses", "tuned"}
    x = ht.ones(3)
    assert "elementwise" in ht.explain(x * 2 + 1) or "step" in ht.explain(x * 2 + 1)


def test_comparisons_of_whole_tensors():
    numbers = [1.0, 1.0 + 5e-6, 1.1, 0.0, 1e-9, np.inf, -np.inf, np.nan, 1e30]
    a, b = np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))
    for options in ({}, {"rtol": 0.2}, {"atol": 1.0, "rtol": 0}, {"equal_nan": True}):
        close = ht.isclose(ht.tensor(a), ht.tensor(b), **options)
        assert close.tolist() == np.isclose(a, b, **options).tolist()
        for same in (a, b[:5], a[:0]):
            assert ht.tensor(same).allclose(ht.tensor(same), **options) == np.allclose(same, same, **options)
    small, large = ht.tensor([1], dtype=ht.uint8), ht.tensor([2], dtype=ht.uint8)
    assert not ht.allclose(small, large) and ht.allclose(small, large, atol=1)
    assert ht.equal(ht.arange(3), ht.arange(3)) and ht.equal(ht.zeros(0), ht.zeros(0))
    assert not ht.arange(3).equal(ht.arange(4)) and not ht.equal(ht.ones(1, 2), ht.ones(2, 1))
    assert not ht.equal(ht.ones(3), ht.tensor([1.0, 1.0, np.nan]))


def test_save_and_load(tmp_path):
    state = {"model": {"w": ht.randn(2, 3), "b": ht.arange(3)}, "epoch": 4, "note": "text", "rest": [1.5, (None, ht.ones(1))]}
    ht.save(state, tmp_path / "a.safetensors", metadata={"by": "test"})
    loaded, metadata = ht.load(tmp_path / "a.safetensors", return_metadata=True)
    assert metadata == {"by": "test"} and loaded["epoch"] == 4 and loaded["note"] == "text"
    assert loaded["rest"][0] == 1.5 and loaded["rest"][1][0] is None and loaded["rest"][1][1].tolist() == [1]
    assert loaded["model"]["w"].tolist() == state["model"]["w"].tolist()
    flat = {"x": ht.ones(2), "y.z": ht.zeros(3)}
    for name in ("b.safetensors", "b.npz"):
        ht.save(flat, tmp_path / name)
        assert {k: v.tolist() for k, v in ht.load(tmp_path / name).items()} == {"x": [1, 1], "y.z": [0, 0, 0]}
    assert np.load(tmp_path / "b.npz")["x"].tolist() == [1, 1]
    ht.save(ht.ones(2), tmp_path / "c.npy")
    assert np.load(tmp_path / "c.npy").tolist() == ht.load(tmp_path / "c.npy").tolist() == [1, 1]
    for wrong in (({1: ht.ones(1)}, "d.safetensors"), (ht.ones(1), "d.npz"), ({"a": object()}, "d.safetensors"), (flat, "d.txt")):
        with pytest.raises((ht.ValueError, ht.DTypeError)):
            ht.save(wrong[0], tmp_path / wrong[1])
    of_torch = ht.load(Path(__file__).parent / "golden" / "model.pt")
    for name in ("model.pth", "pytorch_model.bin"):
        (tmp_path / name).write_bytes((Path(__file__).parent / "golden" / "model.pt").read_bytes())
        assert ht.load(tmp_path / name)["w"].tolist() == of_torch["w"].tolist()
    assert of_torch["w"].tolist() == [[0, 3], [1, 4], [2, 5]] and of_torch["inner.b"].dtype == ht.bfloat16
    (tmp_path / "e.safetensors").write_bytes(b"garbage")
    with pytest.raises(ht.FormatError):
        ht.load(tmp_path / "e.safetensors")
