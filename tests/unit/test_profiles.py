"""Profiles differ only in settings of the machine."""

import re
from pathlib import Path

import pytest
import yaml

from pisoft.cost.report import flops_per_second

ROOT = Path(__file__).parents[2]
PROFILES = ROOT / "profiles"


def profile(name):
    return yaml.safe_load((PROFILES / name / "config.yaml").read_text(encoding="utf-8"))


def test_the_profile_of_several_gpus_differs_only_in_resources():
    default, several = profile("default"), profile("local-gpus")
    assert default.pop("resources")["gpu"] == 1
    assert several.pop("resources")["gpu"] > 1
    assert several == default


def test_the_cluster_profile_states_the_speed_of_its_gpus():
    stated = profile("slurm")["default-resources"]["throughput"]
    assert 0 < flops_per_second(str(stated)) < 1e16, "TFLOP/s, not FLOP/s"
    assert "default-resources" not in profile("default") | profile("local-gpus")


def test_cluster_rounds_choose_from_as_many_jobs_as_the_queue_holds():
    slurm = profile("slurm")
    assert slurm["scheduler-subsample"] >= slurm["jobs"]
    assert "resources" not in slurm, "a pool of one GPU must not apply to a cluster"
    assert slurm["slurm-pass-command-as-script"] is True, "no shell reads the command line"
    assert "scheduler-subsample" not in profile("default"), "its jobs need not fit at once"


def test_re_runs_do_not_depend_on_the_profile():
    keys = ("keep-going", "rerun-incomplete", "scheduler", "max-checksum-file-size")
    slurm, default = ([profile(name)[key] for key in keys] for name in ("slurm", "default"))
    assert slurm == default


def test_every_fault_in_the_docs_has_a_test():
    page = (ROOT / "docs/how-to/run-on-a-cluster.md").read_text(encoding="utf-8")
    files = [ROOT / f"tests/workflow/test_{name}.py" for name in ("slurm", "kills")]
    tests = "".join(file.read_text(encoding="utf-8") for file in files)
    assert set(re.findall(r"`(test_\w+)`", page)) == set(re.findall(r"def (test_\w+)", tests))


@pytest.mark.parametrize("file", sorted(PROFILES.glob("*/*")), ids=lambda file: file.parent.name)
def test_every_path_in_a_profile_exists(file):
    """Regression: comments named deleted rule files."""
    made_by_the_site = {"profiles/slurm/partitions.yaml"}
    text = file.read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:rules|docs|profiles|scripts|config|envs)/[\w./-]*\w", text))
    assert not {path for path in named - made_by_the_site if not (ROOT / path).exists()}
