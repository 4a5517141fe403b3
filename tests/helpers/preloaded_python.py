"""Snakemake, started from a process that has imported it already, which halves the time of a start.

This module is also the program of that process; it imports nothing of the project.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAM = str(Path(sys.executable).parent / "snakemake")


def snakemake(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in a folder, and return its exit status with all that it printed."""
    command = [PROGRAM, *arguments]
    server = _server()
    with tempfile.NamedTemporaryFile() as out:
        call = {"folder": str(folder), "environment": {**environment}, "out": out.name}
        server.stdin.write(json.dumps(call | {"command": command}) + "\n")
        server.stdin.flush()
        try:
            status = int(server.stdout.readline())
        except BaseException:  # the time limit of a test, for one
            os.killpg(server.pid, signal.SIGKILL)
            _server.cache_clear()
            raise
        return subprocess.CompletedProcess(command, status, Path(out.name).read_text("utf-8"))


@functools.cache
def _server() -> subprocess.Popen[str]:
    """Start the process; it ends with this one, whose end closes its input."""
    return subprocess.Popen(
        [sys.executable, "-P", __file__],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def _run(command: list[str], folder: str, environment: dict[str, str], out: str) -> Any:
    """Be Snakemake."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for file, flags, numbers in ((os.devnull, os.O_RDONLY, (0,)), (out, os.O_WRONLY, (1, 2))):
        opened = os.open(file, flags)
        for number in numbers:
            os.dup2(opened, number)
    sys.argv = command
    sys.exit(cli.main())


if __name__ == "__main__":
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401
    import pydantic  # noqa: F401
    import smart_open  # noqa: F401
    import snakemake.report.html_reporter  # noqa: F401
    from snakemake import cli

    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _run(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
