"""Run code in a fresh process, which has imported nothing yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"


def run_code(
    code: str, *arguments: str, scripts: Path = SCRIPTS
) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that imports the package from a folder of scripts."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=scripts.parent, env={**os.environ, "PYTHONPATH": str(scripts)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
