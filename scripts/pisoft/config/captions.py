"""What captions and pages say of a run: its settings as YAML, and what its numbers do not show.

A caption's Jinja template sees the run file without defaults, so it takes resolved sections here.
"""

from __future__ import annotations

from textwrap import indent

import yaml

from pisoft.config.resolved import Config


class Sections(dict[str, str]):
    """Sections of a run file as YAML; in a raw configuration, they are recognised by their type."""


def settings_as_yaml(config: Config) -> Sections:
    """Return each section of the resolved run file as YAML, indented like a literal block."""
    sections = config.run_file.model_dump(mode="json")
    texts = {
        name: yaml.safe_dump({name: section}, allow_unicode=True, sort_keys=False)
        for name, section in sections.items()
    }
    return Sections({name: indent(text, "  ") for name, text in texts.items()})


def demonstration_warning(config: Config) -> str:
    """Return what numbers of models or records that the workflow made do not show, or nothing.

    It is a job's parameter, which `report.html` shows as markup: names are safe there, labels not.
    """
    embedded = {
        "models": [n for n, entry in config.models.items() if entry.source.kind == "trained"],
        "records": [n for n, entry in config.datasets.items() if entry.source.kind == "embedded"],
    }
    what = " and ".join(f"{kind} ({', '.join(names)})" for kind, names in embedded.items() if names)
    return what and (
        f"A demonstration with {what} made by the workflow. The numbers show that the benchmark "
        "works, not how faithful the methods are on real models and texts."
    )
