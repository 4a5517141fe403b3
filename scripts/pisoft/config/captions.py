"""Texts about a run for captions and pages: its settings as YAML, a warning on demonstrations.

Jinja templates of captions see the run file without defaults, so they use these resolved sections.
"""

from __future__ import annotations

from textwrap import indent

import yaml

from pisoft.config.resolved import Config


class Sections(dict[str, str]):
    """Sections of a run file as YAML; their type identifies them in a raw configuration."""


def settings_as_yaml(config: Config) -> Sections:
    """Return each section of the resolved run file as YAML, indented like a literal block."""
    sections = config.run_file.model_dump(mode="json")
    texts = {
        name: yaml.safe_dump({name: section}, allow_unicode=True, sort_keys=False)
        for name, section in sections.items()
    }
    return Sections({name: indent(text, "  ") for name, text in texts.items()})


def demonstration_warning(config: Config) -> str:
    """Return the warning for models or records made by the workflow, or an empty string.

    `report.html` renders this job parameter as markup: names are safe there, labels are not.
    """
    embedded = {
        "models": [n for n, entry in config.models.items() if entry.source.kind == "trained"],
        "records": [n for n, entry in config.datasets.items() if entry.source.kind == "embedded"],
    }
    made = " and ".join(f"{kind} ({', '.join(names)})" for kind, names in embedded.items() if names)
    return made and (
        f"A demonstration with {made} made by the workflow. The numbers show that the benchmark "
        "works, not how faithful the methods are on real models and texts."
    )
