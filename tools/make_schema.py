"""Write the configuration's editor schemas and the generated pages of the docs."""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path

from configuration_reference import PAGE as CONFIGURATION
from configuration_reference import reference
from configuration_schemas import schemas
from pisoft.attribution import available_methods, load_method, method_without_models
from pisoft.config.jobs.pages import PublishedJob
from pisoft.config.loading import load_config, read_yaml
from pisoft.config.models import TOKEN_BUDGETS
from pisoft.workflow.commandline import run
from reference_pages import CONTRACTS, PAPER_SETTINGS, contracts_page, paper_settings_page

ROOT = Path(__file__).parents[1]
PAPER = ROOT / "config/paper.yaml"


def main(arguments: argparse.Namespace) -> None:
    """Write every generated file."""
    for name, text in generated().items():
        path = arguments.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@cache
def generated() -> dict[str, str]:
    """Return the text of every generated file by its path in the repository."""
    methods = {name: load_method(name) for name in available_methods()}
    page = (ROOT / CONFIGURATION).read_text(encoding="utf-8")
    paper = load_config(read_yaml(PAPER), ROOT / "config/catalogue", str(PAPER), load_method)
    return {
        **schemas(),
        CONFIGURATION: reference(page, methods, {name: _passes(name) for name in methods}),
        CONTRACTS: contracts_page(),
        PAPER_SETTINGS: paper_settings_page(PublishedJob.from_config(paper)),
    }


def _passes(name: str) -> list[float]:
    """Return a method's passes for 100 tokens, with one explained step and with ten."""
    method = method_without_models(name, {}, TOKEN_BUDGETS["cuda"])
    return [method.forwards(100, steps) for steps in (1, 10)]


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="the repository")
    return parser


if __name__ == "__main__":
    run(main, parser())
