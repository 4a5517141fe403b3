"""Download the files of a run's hub models, at the recorded commits."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.config.jobs.hub import FetchHubJob
from pisoft.datasets.hub import download, hub_advice, read_commit
from pisoft.errors import BenchmarkError
from pisoft.formatting import scaled
from pisoft.workflow.commandline import job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Download one repository after the other, and print its size."""
    settings = FetchHubJob.model_validate_json(arguments.settings)
    lines = []
    for (name, revision), record in zip(settings.models, arguments.commits, strict=True):
        commit = read_commit(record, name, revision)
        print(f"{name}, commit {commit}", flush=True)
        try:
            folder = download(name, commit, weights=True)
        except Exception as error:  # the libraries below raise dozens of classes
            raise BenchmarkError(hub_advice(error, name, commit, "models")) from error
        files = [file for file in folder.rglob("*") if file.is_file()]
        size = scaled(sum(file.stat().st_size for file in files), "B")
        lines.append(f"{name}: {len(files)} files, {size}")
        print(lines[-1], flush=True)
    arguments.output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = job_parser(__doc__, "output")
    line.add_argument("--commits", required=True, nargs="*", type=Path, help="their records")
    return line


if __name__ == "__main__":
    run(main, parser())
