"""The Python examples of PyFlame's and KernelPyTorch's documents, run as they are written but for their imports."""

import os
import re
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from conftest import EMULATOR, SHARED

import hearth as ht

IMPORTS = [
    (r"from pyflame\.backend\.rocm import", "from hearth.rocm import"),
    (r"import pyflame\.nn as nn", "import hearth.nn as nn"),
    (r"import pyflame as pf", "import hearth as pf"),
    (r"from kernel_pytorch\.[a-z_.]+ import", "from hearth.amd import"),
    (r"import torch\.nn as nn", "import hearth.nn as nn"),
    (r"import torch\b", "import hearth as torch"),
]
USED = set()
PYFLAME, KERNEL_PYTORCH = "001_549a558684b2a470.txt", "002_3334104f47f02a36.txt"


def examples(name):
    path = SHARED / "seeds" / name
    if not path.is_file():
        return []
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", path.read_text(), re.M | re.S)
    return [textwrap.dedent(code) for _, code in blocks]


def adapted(code):
    """Only lines that import are changed."""
    lines = code.split("\n")
    for i, line in enumerate(lines):
        if re.match(r"\s*(from|import) ", line):
            for pattern, replacement in IMPORTS:
                line = re.sub(pattern, replacement, line)
            lines[i] = line
    return "\n".join(lines)


def find(name, *words):
    """The one example with all these words."""
    found = [code for code in examples(name) if all(word in code for word in words)]
    if not found:
        pytest.skip("the documents are not there")
    assert len(found) == 1, words
    USED.add(found[0])
    return adapted(found[0])


@pytest.fixture(autouse=True)
def _as_before():
    options = ht.get_config()
    yield
    ht.set_config(**options)
    ht.set_device("cpu")


@pytest.fixture
def on_cpu(monkeypatch):
    """'rocm' means the CPU: for examples that are too large for the emulated GPU."""
    real = ht.set_device
    monkeypatch.setattr(ht, "set_device", lambda name: real("cpu" if name.startswith("rocm") else name))


def run(code, **names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "example", "exec"), names)
    return names


def emulated(script, chips="gfx1100"):
    """What a script prints on an emulated AMD GPU."""
    if not (EMULATOR / "libamdhip64.so").exists():
        pytest.skip("the emulated GPU is not built")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300,
        env={**os.environ, "LD_LIBRARY_PATH": str(EMULATOR), "HIPEMU": chips},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- PyFlame


def test_pyflame_on_two_gpus(tmp_path):
    """Installation, devices, a network, tuning, pinned memory, the pool, comparison with the CPU, several GPUs."""
    script = "\n".join(
        [
            find(PYFLAME, "ROCm available"),
            "assert pf.rocm_is_available() and pf.rocm_device_count() == 2 and info['architecture'] == 'gfx1100'",
            find(PYFLAME, "Use first AMD GPU"),
            "assert pf.get_device() == 'rocm:1' and info['architecture'] == 'gfx942'",
            "pf.manual_seed(3)",
            find(PYFLAME, "nn.Sequential"),
            "assert logits.device == 'rocm:0' and logits.shape == (32, 10)",
            "import numpy as np",
            "h = x.numpy()",
            "for layer in list(model)[::2]: h = np.maximum(h @ layer.weight.numpy().T + layer.bias.numpy(), -1e9 if layer is"
            " model[4] else 0)",
            "np.testing.assert_allclose(logits.numpy(), h, atol=1e-4)",
            "e = np.log(np.exp(h).sum(1)) - h[np.arange(32), targets.numpy()]",
            "np.testing.assert_allclose(loss.item(), e.mean(), rtol=1e-4)",
            find(PYFLAME, "enable_exhaustive_search").replace("/path/to/miopen_cache.bin", str(tmp_path / "tuning.json")),
            "assert pf.get_config()['enable_tuning'] and cache.get_stats()['hits'] == 0",
            "cache.enable_exhaustive_search(False)",
            "batch_size = 1",
            find(PYFLAME, "get_pinned_pool"),
            "assert pool.get_stats()['reserved'] > 0",
            find(PYFLAME, "clear_pool"),
            "a, b = pf.randn(20, 30), pf.randn(30, 25)",
            find(PYFLAME, "result_gpu"),
            "np.testing.assert_allclose(result_gpu, a.numpy() @ b.numpy(), rtol=1e-4, atol=1e-5)",
            "pf.set_device('rocm:0')",
            "with pf.device('cpu'): here = pf.ones(2) + 1",
            "there = pf.ones(2) + 2",
            "pf.eval(here, there)  # of two devices at once",
            "assert here.tolist() == [2, 2] and there.tolist() == [3, 3] and there.device == 'rocm:0'",
            "there += 1  # computed with whatever is asked for next, here on the CPU",
            "assert (here * 2).tolist() == [4, 4] and there.is_evaluated()",
            find(PYFLAME, "num_gpus"),
            "print('all done')",
        ]
    )
    printed = emulated(script, "gfx1100,gfx942")
    assert "ROCm available: True" in printed and "GPU count: 2" in printed and "rocm:1" in printed
    assert "GPU 1:" in printed and printed.endswith("all done\n")


def test_pyflame_operations(on_cpu):
    names = run(find(PYFLAME, "y_gelu"))
    a, b, c, x = (names[name].numpy() for name in "abcx")
    np.testing.assert_allclose(c, a @ b, atol=1e-3)
    np.testing.assert_array_equal(names["y_relu"].numpy(), np.maximum(x, 0))
    np.testing.assert_allclose(names["y_silu"].numpy(), x / (1 + np.exp(-x)), atol=1e-5)
    import jax

    np.testing.assert_allclose(names["y_gelu"].numpy(), jax.nn.gelu(x, approximate=False), atol=1e-5)
    output = names["output"]
    assert output.shape == (32, 64, 112, 112)
    image, weight = names["input"].numpy()[3], names["weight"].numpy()
    patch = np.pad(image, ((0, 0), (3, 3), (3, 3)))[:, 20:27, 40:47]
    np.testing.assert_allclose(output[3, :, 10, 20].numpy(), (weight * patch).sum((1, 2, 3)), atol=1e-3)


def test_pyflame_synchronisation(on_cpu, capsys):
    code = find(PYFLAME, "time.time()")
    names = run(code)
    assert re.match(r"Time: \d+\.\d{3}s", capsys.readouterr().out)
    # Nothing was asked for, so nothing was computed; a value that is asked for is the product.
    y = names["y"]
    assert y.shape == (10000, 10000) and not y.is_evaluated()
    row = names["x"][:2].eval()
    np.testing.assert_allclose((row @ names["x"][:, :3]).numpy(), (row @ names["x"])[:, :3].numpy(), atol=1e-2)


def test_pyflame_warm_up(on_cpu):
    run(find(PYFLAME, "warmup_memory_pool"))
    assert ht.memory.stats()["reserved"] >= 32 * (16 << 20)
    ht.memory.empty_cache()


# ---- KernelPyTorch


def test_kernel_pytorch_quick_start(capsys):
    names = run(find(KERNEL_PYTORCH, "prepared_model = backend"))
    assert names["prepared_model"](ht.randn(4, 512)).shape == (4, 10)
    assert "Using device: cpu" in capsys.readouterr().out or ht.rocm_is_available()
    names = run(find(KERNEL_PYTORCH, "# Configure for MI300X (CDNA3)"), nn=ht.nn)
    assert names["summary"]["optimization_level"] == "aggressive"
    assert ht.get_config()["optimization_level"] == "aggressive"
    assert names["optimized_model"](ht.randn(2, 1024)).shape == (2, 1024)


def test_kernel_pytorch_installation(capsys):
    code = find(KERNEL_PYTORCH, "torch.__version__")
    if ht.cuda.is_available():
        run(code)
    else:
        with pytest.raises(ht.DeviceUnavailable):  # as PyTorch: there is no device 0 to name
            run(code)
    assert f"PyTorch version: {ht.__version__}" in capsys.readouterr().out


def test_kernel_pytorch_configurations():
    names = run(find(KERNEL_PYTORCH, "hip_compiler_cache_dir"))
    assert names["config"].memory_pool_size_gb == 8.0
    architectures = {"AMDConfig": ht.amd.AMDConfig, "AMDArchitecture": ht.amd.AMDArchitecture}
    assert run(find(KERNEL_PYTORCH, "# CDNA2 (MI200)"), **architectures)["config"].optimization_level == "conservative"
    assert run(find(KERNEL_PYTORCH, "# Best for Matrix Cores"), **architectures)["config"].default_precision == "bf16"
    assert run(find(KERNEL_PYTORCH, "enable_rocblas_tuning=True,\n)"), **architectures)["config"].enable_rocblas_tuning
    assert run(find(KERNEL_PYTORCH, "Large pool"), **architectures)["config"].memory_pool_size_gb == 16.0
    assert run(find(KERNEL_PYTORCH, "Always specify"), **architectures)["config"].architecture.name == "CDNA3"
    assert run(find(KERNEL_PYTORCH, "Identify bottlenecks"), **architectures)["config"].enable_profiling
    assert run(find(KERNEL_PYTORCH, "Start with conservative"), **architectures)["config"].optimization_level == "aggressive"
    with pytest.raises(ht.amd.AMDConfigurationError):
        ht.amd.AMDConfig(optimization_level="extreme")


def test_kernel_pytorch_backend_and_optimizer(capsys):
    names = run(find(KERNEL_PYTORCH, "# Check availability"), nn=ht.nn)
    x = ht.randn(3, 512)
    layer = names["model"]
    expected = x.numpy() @ layer.weight.numpy().T + layer.bias.numpy()
    np.testing.assert_allclose(names["prepared"](x).numpy(), expected, atol=1e-4)
    names = run(find(KERNEL_PYTORCH, "Applied optimizations"), model=layer)
    assert "operator_fusion" in capsys.readouterr().out
    np.testing.assert_allclose(names["optimized"](x).numpy(), expected, atol=1e-4)


def test_kernel_pytorch_compiler():
    code = find(KERNEL_PYTORCH, 'print(f"Kernel: {kernel.name}")')
    add = "int i = threadIdx.x; c[i] = a[i] + b[i];"
    script = "\n".join(
        [
            "import hearth as ht",
            "from hearth.amd import HIPCompilationError",
            "try:",
            textwrap.indent(code, "    "),  # with { ... } for its body, the example is no program
            "    raise SystemExit('compiled')",
            "except HIPCompilationError as error:",
            "    assert error.log",
            code.replace('"__global__', "'extern \"C\" __global__").replace('{ ... }"', "{ " + add + " }'")
            .replace("void add(", "void add_kernel("),
            "assert kernel.name == 'add_kernel' and kernel.architecture == 'gfx1100'",
            "a, b = ht.arange(8, dtype='float32', device='rocm').eval(), ht.ones(8, device='rocm').contiguous().eval()",
            "c = ht.copy(ht.zeros(8, device='rocm')).eval()",
            "kernel = compiler.compile_kernel(kernel_source, 'add_kernel')",
            "kernel.launch(1, 8, a, ht.copy(b), c)",
            "print(c.tolist())",
        ]
    )
    assert "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]" in emulated(script)


def test_kernel_pytorch_memory_and_profiling(capsys):
    keep = ht.randn(1 << 20).eval()
    names = run(find(KERNEL_PYTORCH, "manager.get_allocation_summary()"))
    assert names["stats"].allocated_mb >= keep.nbytes / 2**20 and names["summary"]["results"] >= keep.nbytes
    run(find(KERNEL_PYTORCH, "Memory usage:"), AMDMemoryManager=ht.amd.AMDMemoryManager, config=ht.amd.AMDConfig())
    model, data = ht.nn.Linear(8, 8), ht.randn(2, 8)
    names = run(find(KERNEL_PYTORCH, "create_stream"), model=model, input_data=data)
    assert names["output"].shape == (2, 8) and "forward_pass" in names["summary"]["regions"]
    assert "forward_pass:" in capsys.readouterr().out
    given = {"AMDConfig": ht.amd.AMDConfig, "HIPUtilities": ht.amd.HIPUtilities}
    assert "critical_path" in run(find(KERNEL_PYTORCH, "critical_path"), **given)["summary"]["regions"]
    run(find(KERNEL_PYTORCH, "suspect_code"), **given)
    assert "suspect_code:" in capsys.readouterr().out


def test_kernel_pytorch_training_loop(capsys):
    inputs = [ht.randn(8, 1024) for _ in range(2)]
    batches = [(x, x * 0.5) for x in inputs]
    names = run(find(KERNEL_PYTORCH, "for batch in dataloader"), dataloader=batches)
    losses = [float(text) for text in re.findall(r"loss=([\d.]+)", capsys.readouterr().out)]
    assert len(losses) == 10 and losses[-1] < 0.5 * losses[0]
    assert names["optimizer"]._native.step_count() == 20
    assert ht.autocast_dtype() == ht.bfloat16 and names["model"](inputs[0]).dtype == ht.bfloat16


def test_kernel_pytorch_portability():
    model = ht.nn.Linear(4, 3)
    weights = model.weight.tolist()
    names = run(find(KERNEL_PYTORCH, "nvidia_backend"), model=model)
    assert names["amd_model"].weight.tolist() == weights and names["checkpoint"]["epoch"] == 10


def test_kernel_pytorch_errors_and_fallback(capsys):
    names = run(find(KERNEL_PYTORCH, "AMDBackendError,"), AMDBackend=ht.amd.AMDBackend, config=ht.amd.AMDConfig(),
                model=ht.nn.Linear(2, 2))
    for name in ("ROCmNotAvailableError", "AMDDeviceError", "HIPCompilationError", "ROCmMemoryError", "MatrixCoreError",
                 "AMDOptimizationError", "AMDConfigurationError"):
        assert issubclass(names[name], names["AMDBackendError"])
    run(find(KERNEL_PYTORCH, "Running in CPU fallback mode"), AMDBackend=ht.amd.AMDBackend)
    assert "Running in CPU fallback mode" in capsys.readouterr().out or ht.rocm_is_available()
    given = {"AMDBackend": ht.amd.AMDBackend, "batch_size": 64}
    assert run(find(KERNEL_PYTORCH, "Adjust batch size"), **given)["batch_size"] == (64 if ht.rocm_is_available() else 16)


def test_kernel_pytorch_troubleshooting():
    given = {"AMDConfig": ht.amd.AMDConfig, "backend": None, "torch": ht}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given["backend"] = ht.amd.AMDBackend()
    assert run(find(KERNEL_PYTORCH, "Use less memory"), **given)["config"].max_memory_fraction == 0.8
    given = {"ROCmCompiler": ht.amd.ROCmCompiler, "config": ht.amd.AMDConfig()}
    assert run(find(KERNEL_PYTORCH, "Clear cache if corrupted"), **given)["stats"]["compilation_errors"] == 0


def test_every_example_was_run(request):
    here = [item for item in request.session.items if item.path == request.node.path]
    if len(here) < sum(name.startswith("test_") for name in globals()):
        pytest.skip("not all tests of this file were asked for")
    assert USED == set(examples(PYFLAME) + examples(KERNEL_PYTORCH))
