"""Evidence is summarised where records have it, and nothing is made for a run without any."""

from __future__ import annotations

import csv

import pytest

from pisoft.datasets.embedded import make_records

pytestmark = pytest.mark.workflow

JOBS = {"data/summary/evidence_samples.parquet", "tables/evidence_recovery/toy.html"}
FROM_A_FILE = """\
      source: {kind: file, path: records.csv, format: csv}
      label: Toy sentiment
"""


def test_a_run_of_records_without_evidence_makes_no_file_of_it(project):
    with_evidence = project.pending()
    assert with_evidence > JOBS
    run_file = project.folder / "config/tiny.yaml"
    run_file.write_text(run_file.read_text().replace("      label: Toy sentiment\n", FROM_A_FILE))
    with (project.folder / "records.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["text", "label"])
        lines.writerows([r["fields"]["text"], r["label"]] for r in make_records("sentiment", 9, 3))
    assert project.pending() == with_evidence - JOBS
