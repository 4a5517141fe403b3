"""Settings and fixtures of all tests: a quiet, offline, single-threaded process."""

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


# No deadline: single examples may be slow on shared cores.
# Based on the default profile, which tries the same examples every time if CI=true.
hypothesis.settings.register_profile(
    "shared-cores", parent=hypothesis.settings.default, deadline=None
)
hypothesis.settings.load_profile("shared-cores")


@pytest.fixture(scope="module", autouse=True)
def _short_garbage_collection() -> None:
    """Freeze loaded objects: out-of-memory handlers collect garbage, which would be slow."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    """Limit torch to one thread: test processes share cores, and sums need a fixed order."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared(root: Path) -> Path:
    """Folder with local models and datasets next to the repository; skip the test if missing."""
    folder = root.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"no folder {folder} with local models and datasets")
    return folder
