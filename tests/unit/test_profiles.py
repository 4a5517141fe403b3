"""Profiles agree in what has nothing to do with the machine."""

import re
from pathlib import Path

import pytest
import yaml

from pisoft.cost.report import flops_per_second

ROOT = Path(__file__).parents[2]
PROFILES = ROOT / "profiles"


def profile(name):
    return yaml.safe_load((PROFILES / name / "config.yaml").read_text(encoding="utf-8"))


def test_several_gpus_differ_from_one_in_what_the_machine_has_alone():
    default, several = profile("default"), profile("local-gpus")
    assert default.pop("resources")["gpu"] == 1
    assert several.pop("resources")["gpu"] > 1
    assert several == default


def test_the_cluster_s_gpus_have_a_speed():
    stated = profile("slurm")["default-resources"]["throughput"]
    assert 0 < flops_per_second(str(stated)) < 1e16, "TFLOP/s, not FLOP/s"
    assert "default-resources" not in profile("default") | profile("local-gpus")


def test_a_round_of_a_cluster_s_run_chooses_from_as_many_jobs_as_fit_into_the_queue():
    slurm = profile("slurm")
    assert slurm["scheduler-subsample"] >= slurm["jobs"]
    assert "resources" not in slurm, "the pool of one GPU never holds for a cluster"
    assert slurm["slurm-pass-command-as-script"] is True, "no shell reads the command line"
    assert "scheduler-subsample" not in profile("default"), "its jobs need not fit at all times"


def test_what_is_run_again_does_not_depend_on_where():
    keys = ("keep-going", "rerun-incomplete", "scheduler", "max-checksum-file-size")
    slurm, default = ([profile(name)[key] for key in keys] for name in ("slurm", "default"))
    assert slurm == default


def test_every_fault_that_the_docs_list_has_its_test():
    page = (ROOT / "docs/how-to/run-on-a-cluster.md").read_text(encoding="utf-8")
    files = [ROOT / f"tests/workflow/test_{name}.py" for name in ("slurm", "kills")]
    tests = "".join(file.read_text(encoding="utf-8") for file in files)
    assert set(re.findall(r"`(test_\w+)`", page)) == set(re.findall(r"def (test_\w+)", tests))


@pytest.mark.parametrize("file", sorted(PROFILES.glob("*/*")), ids=lambda file: file.parent.name)
def test_every_path_that_a_profile_names_exists(file):
    """Comments named rule files that were gone."""
    made_by_the_site = {"profiles/slurm/partitions.yaml"}
    text = file.read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:rules|docs|profiles|scripts|config|envs)/[\w./-]*\w", text))
    assert not {path for path in named - made_by_the_site if not (ROOT / path).exists()}
