"""The settings of each job: what it depends on of the configuration, and nothing else.

A rule passes them to its script as JSON. Snakemake re-runs a job when they change, so
labels, resources and entries of other methods must not be part of it.

A field's value stands below the place that the class names by `of`, under the field's own name; or
where the field names it by :class:`At`; else it is the field's default.
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
