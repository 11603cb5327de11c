"""What the tests share."""

import os
from pathlib import Path

import numpy as np
import pytest

import hearth as ht

SHARED = Path(os.environ.get("HEARTH_SHARED_DIR") or Path(__file__).resolve().parents[3] / "shared")
EMULATOR = Path(os.environ.get("HEARTH_EMULATOR", "/nonexistent"))


@pytest.fixture(autouse=True)
def _seeds():
    ht.manual_seed(0)
    np.random.seed(0)


@pytest.fixture
def shared():
    """Models and data sets beside the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    return SHARED
