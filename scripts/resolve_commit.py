"""Record the commit of a branch or tag of a hub repository, for all jobs of a run.

It imports nothing that a code hash covers: a new version of the benchmark must keep the commit.
"""

from __future__ import annotations

import argparse
import json

from pisoft.config.jobs.hub import ResolveJob
from pisoft.datasets.hub import resolve_commit
from pisoft.workflow.commandline import job_parser, run


def main(arguments: argparse.Namespace) -> None:
    """Resolve the revision and write it with its commit."""
    settings = ResolveJob.model_validate_json(arguments.settings)
    commit = resolve_commit(settings.repository, settings.revision, settings.kind)
    record = {**settings.model_dump(exclude={"kind"}), "commit": commit}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main, job_parser(__doc__, "output"))
