"""The notebooks of examples/, executed without a screen."""

from pathlib import Path

import nbformat
import pytest
from conftest import EMULATOR, SHARED
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def executed(path, folder):
    """What a notebook shows that runs in a folder: a plot at least."""
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "outputs are not kept in the repository"
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    return outputs


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(path, monkeypatch):
    monkeypatch.setenv("HEARTH_QUICK", "1")
    monkeypatch.setenv("HEARTH_MNIST", str(SHARED / "data" / "mnist"))
    monkeypatch.delenv("HEARTH_MODEL", raising=False)
    if path.stem == "own_kernel":
        if not (EMULATOR / "libamdhip64.so").exists():
            pytest.skip("the emulated GPU is not built")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(EMULATOR))
        monkeypatch.setenv("HIPEMU", "gfx1100")
    executed(path, EXAMPLES)


def test_sudoku_without_its_model(tmp_path, monkeypatch):
    """The notebook trains one then, and says so."""
    monkeypatch.setenv("HEARTH_QUICK", "1")
    outputs = executed(EXAMPLES / "solve_sudoku.ipynb", tmp_path)
    assert "is not there. A tiny model is trained instead" in outputs[0]["text"]
