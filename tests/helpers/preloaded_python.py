"""A Python with preloaded libraries, in which a job with a model starts five times as fast.

:func:`interpreter` returns a program that is called like Python, with a script. It passes the call
to a server, which forks. The script sees the program as `sys.executable`, so a Snakemake started
by it starts its jobs as fast.

This module is also the server; it imports nothing from the project.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

LIBRARIES = (
    *("matplotlib.backends.backend_pdf", "matplotlib.backends.backend_svg"),
    *("grimp", "networkx", "pandas", "pyarrow.dataset", "pydantic", "seaborn", "smart_open"),
    *("snakemake.cli", "snakemake.report.html_reporter"),
    *("sklearn.metrics", "torch._dynamo"),  # transformers imports them
)
HUB_LIBRARIES = (
    "transformers.models.auto.tokenization_auto",
    "transformers.models.llama.modeling_llama",
)
PROGRAM = """\
#!{python} -IS
import os, sys
if len(sys.argv) == 1 or sys.argv[1].startswith("-"):  # no script
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
import json, socket
call = json.dumps([{program!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [len(call).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(call)
    sys.exit(int(server.recv(16)))
"""


def plain_environment() -> dict[str, str]:
    """Return an environment in which only the command itself gives access to the packages."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "PATH": "/usr/local/bin:/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}


def interpreter(with_hub: bool = True) -> str:
    """Return the path of the program.

    Args:
        with_hub: also preload the libraries that read environment variables of the hub.
    """
    return started(HUB_LIBRARIES if with_hub else ())


@functools.cache
def started(libraries: tuple[str, ...]) -> str:
    """Start a server, in a plain environment; it ends with this process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    address, program = f"{folder}/socket", f"{folder}/python"
    names = {"python": sys.executable, "program": program, "address": address}
    Path(program).write_text(PROGRAM.format(**names), encoding="utf-8")
    Path(program).chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, address, *libraries],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=plain_environment(),
    )  # fmt: skip
    assert server.stdout is not None
    assert server.stdout.readline(), "the server did not start"
    return program


def serve(address: str) -> None:
    """Fork for every call until standard input ends; return only in the forks."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the watchers
        print(flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                if not os.fork():
                    listener.close()
                    return watch(connection)
    sys.exit()


def watch(connection: socket.socket) -> None:
    """Return in a fork that runs the script; send its status, or kill it with its caller."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, files, *_ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as stream:
        call = json.loads(stream.read(int.from_bytes(size, "big")))
    child = os.fork()
    if not child:
        return prepare(files, *call)
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if select.select([connection], [], [], 0.01)[0]:  # closed: the caller was killed
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os._exit(1)
    connection.sendall(str(os.waitstatus_to_exitcode(ended[1])).encode())
    os._exit(0)


def prepare(
    files: list[int], program: str, line: list[str], folder: str, environment: Mapping[str, str]
) -> None:
    """Make this process look like a fresh one."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.executable, sys.argv = program, line
    sys.path.insert(0, str(Path(line[0]).resolve().parent))


def run_and_end(script: str) -> NoReturn:
    """Run a script and exit like Python, but without freeing imports, which takes half a second."""
    status: object = None
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        status = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    if not isinstance(status, int | None):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    for library in (*LIBRARIES, *sys.argv[2:]):
        importlib.import_module(library)
    assert len(sys.argv) > 2 or "huggingface_hub" not in sys.modules
    gc.freeze()  # garbage collections in forks would copy every page
    serve(sys.argv[1])
    run_and_end(sys.argv[0])
