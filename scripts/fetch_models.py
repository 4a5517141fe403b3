"""Download what a run loads of the hub's models, at the commits that it has recorded."""

from __future__ import annotations

import argparse
from pathlib import Path

from pisoft.commandline import run
from pisoft.config.models import HubModel
from pisoft.config.slices.hub import commit_file, hub_sources
from pisoft.errors import BenchmarkError
from pisoft.hub import download, hub_advice, read_commit
from pisoft.units import scaled
from plan import configuration_of, run_parser


def main(arguments: argparse.Namespace) -> None:
    """Download one repository after the other, and say how large each is."""
    config = configuration_of(arguments)
    data = Path("results", config.run_file.run, "data")
    models = [source for source in hub_sources(config) if isinstance(source, HubModel)]
    for record, source in {commit_file(data, source): source for source in models}.items():
        name, commit = source.repository, read_commit(record, source.repository, source.revision)
        try:
            folder = download(name, commit, weights=True)
        except Exception as error:  # the libraries below raise dozens of classes
            raise BenchmarkError(hub_advice(error, name, commit, "models")) from error
        files = [file for file in folder.rglob("*") if file.is_file()]
        size = scaled(sum(file.stat().st_size for file in files), "B")
        print(f"{name}, commit {commit}: {len(files)} files, {size}", flush=True)


if __name__ == "__main__":
    run(main, run_parser(__doc__))
