"""The rules of the workflow, as Snakemake parses them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from snakemake.api import OutputSettings, ResourceSettings, SnakemakeApi
from snakemake.rules import Rule
from snakemake.settings.types import ConfigSettings, Quietness

ROOT = Path(__file__).parents[2]


def parsed_rules(configfiles: Iterable[Path] = (), **resources: Any) -> dict[str, Rule]:
    """Return the rules of a run by name, without the target rule.

    Args:
        configfiles: run files; none: the embedded default.
        resources: further resource settings.
    """
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
            workflow = api.workflow(
                resource_settings=ResourceSettings(cores=1, **resources),
                config_settings=ConfigSettings(configfiles=configfiles),
                snakefile=ROOT / "Snakefile",
            )._workflow
            return {rule.name: rule for rule in workflow.rules if rule.name != "all"}
    finally:
        os.chdir(before)
