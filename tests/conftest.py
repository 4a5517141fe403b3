"""What all tests share: a quiet, offline, single-threaded process."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]

# Before torch and the Hugging Face libraries are imported, here and in subprocesses.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


# Shared cores make single examples slow at times, which says nothing about the code.
# On top of the default, which under CI=true tries the same examples every time.
hypothesis.settings.register_profile(
    "shared-cores", parent=hypothesis.settings.default, deadline=None
)
hypothesis.settings.load_profile("shared-cores")


@pytest.fixture(scope="module", autouse=True)
def _short_garbage_collection() -> None:
    """Leave what is loaded so far out of garbage collection, which lacks of memory ask for."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    """Keep torch to one thread: test processes share the cores, and sums keep their order."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared(root: Path) -> Path:
    """Folder with local models and datasets beside the repository; the test is skipped without."""
    folder = root.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"no folder {folder} with local models and datasets")
    return folder
