"""The settings of each job: exactly the configuration values that it depends on.

A rule passes them to its script as JSON. Snakemake re-runs a job when they change, so they must not
include labels, resources or entries of other methods.

A field's value comes from its :class:`At`, if it has one; else from the field of the same name in
the section that the class names; else it is the field's default.
"""

from __future__ import annotations

import re

from pisoft.config.jobs import cells, displays, hub, pages, records, summaries, training
from pisoft.config.settings import JobSettings

# The settings of every job by the name that rules give them: `LayerStudyJob` is `layer_study`.
JOBS: dict[str, type[JobSettings]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Job")).lower(): settings
    for module in (records, training, cells, summaries, displays, pages, hub)
    for name, settings in vars(module).items()
    if name.endswith("Job")
}
