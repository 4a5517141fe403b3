"""List the licence of every locked package; refuse those that are unknown or not allowed."""

from __future__ import annotations

import argparse
import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from pisoft.errors import BenchmarkError
from pisoft.workflow.commandline import run

# Permissive licences, and the MPL, whose conditions cover only its own files.
ALLOWED = re.compile(r"\b(0BSD|Apache|BSD|BSL|CC0|ISC|MIT|MPL|PSF|Public Domain|Python|Zlib)\b")
REFUSED = re.compile(r"GPL|GNU|Affero|Proprietary|Commercial|Clause-Clear|NoDerivs", re.I)
# Packages with missing or misleading metadata: licences read in their files.
INTERFACES = ("common", "logger-plugins", "report-plugins", "scheduler-plugins", "storage-plugins")
READ = {
    "axe-playwright-python": "MIT",
    "conda-inject": "MIT",
    "docutils": "BSD-2-Clause AND BSD-3-Clause AND Public Domain",  # GPL: its Emacs mode only
    **{f"snakemake-interface-{kind}": "MIT" for kind in INTERFACES},
}
# Under the GPL, but only called as a program by `make lint`: neither imported nor distributed.
TOOLS = {"codespell"}
# NVIDIA's own terms: dependencies of torch, installed by users. They are not part of this project.
CUDA = re.compile(r"(cuda|nvidia)-")


def main(arguments: argparse.Namespace) -> None:
    """Print name, version and licence of every locked package."""
    lock = arguments.lock.read_text(encoding="utf-8")
    refused = []
    for name, version, marker in re.findall(r"^([\w.-]+)==([^ ;]+)( ;)?", lock, re.M):
        terms = licence(name)
        # A line with a marker may be for another platform; CPU builds of torch have no CUDA.
        elsewhere = terms is None and (bool(marker) or CUDA.match(name) is not None)
        print(f"{name:40} {version:12} {'not installed here' if elsewhere else terms or 'none'}")
        if not (elsewhere or CUDA.match(name) or name in TOOLS or is_allowed(terms or "")):
            refused.append(f"{name} ({terms or 'no licence is named'})")
    if refused:
        raise BenchmarkError(
            f"{arguments.lock}: licences that tools/list_licences.py does not allow: "
            + ", ".join(refused)
        )


def licence(name: str) -> str | None:
    """Return the licence in a package's metadata, '' without one, None if it is not installed."""
    try:
        fields = metadata(name)
    except PackageNotFoundError:
        return None
    if name in READ:
        return READ[name]
    if fields["License-Expression"]:
        return fields["License-Expression"]
    lines = fields.get_all("Classifier", [])
    kinds = [line.rpartition(" :: ")[2] for line in lines if "OSI Approved" in line]
    first = (fields["License"] or "").strip().partition("\n")[0]  # some contain the whole text
    return " AND ".join(kinds) or first.replace("UNKNOWN", "")


def is_allowed(text: str) -> bool:
    """Return whether every applicable licence, or one of each choice, is allowed."""
    choices = (part.split(" OR ") for part in text.split(" AND "))
    return all(any(ALLOWED.search(x) and not REFUSED.search(x) for x in c) for c in choices)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--lock", type=Path, default=Path("requirements.lock"))
    return line


if __name__ == "__main__":
    run(main, parser())
