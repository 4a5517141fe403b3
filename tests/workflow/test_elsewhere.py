"""Code in one folder, results and run files in another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

METHODS = Path(__file__).parents[2] / "config/catalogue/methods.yaml"
TABLE = "results/tiny/tables/accuracy.html"
RUN_PATHS = ("results", ".snakemake", "toy-model", "config/tiny.yaml")
OUTER = """\
configfile: "config/tiny.yaml"


module benchmark:
    snakefile:
        "{snakefile}"
    config:
        config


use rule * from benchmark as benchmark_*


rule shout:
    default_target: True
    input:
        "results/tiny/tables/accuracy.csv",
    output:
        "loud.csv",
    shell:
        "tr a-z A-Z < {{input}} > {{output}}"
"""


@pytest.fixture
def moved_code(finished, tmp_path):
    """Return a finished run whose code has been moved away, and the folder of the code."""
    run, code = type(finished)(tmp_path / "run"), tmp_path / "moved/code"
    (run.folder / "config").mkdir(parents=True)
    for name in RUN_PATHS:
        shutil.move(finished.folder / name, run.folder / name)
    shutil.move(finished.folder, code)
    return run, code


def test_a_snakefile_in_another_folder_finds_its_code(moved_code):
    run, code = moved_code
    there = ("--snakefile", str(code / "Snakefile"))
    assert "Nothing to be done" in run.snakemake(*there, "--dry-run").stdout
    (run.folder / TABLE).unlink()
    run.snakemake(*there, "--cores", "1")
    assert (run.folder / TABLE).is_file()
    assert not (code / "results").exists()
    script = code / "scripts/pisoft/figures/ranks.py"
    script.write_text(script.read_text() + "\n# edited\n")
    listed = run.snakemake(*there, "--dry-run").stdout
    assert "plot_ranks" in listed, "an edit there must be noticed"
    assert "tabulate" not in listed
    assert "plot_scores" not in listed


def test_the_embedded_default_needs_no_file_in_the_working_directory(moved_code, tmp_path):
    run, code = moved_code
    empty = type(run)(tmp_path / "empty")
    empty.folder.mkdir()
    shutil.copyfile(METHODS, code / "config/catalogue/methods.yaml")  # not the tests' methods
    listed = empty.bare("--snakefile", str(code / "Snakefile"), "--dry-run").stdout
    assert "train_model" in listed


def test_results_go_to_the_given_directory(moved_code):
    run, code = moved_code
    beside = type(run)(code)  # called in the folder of the code
    there = ("--configfile", str(run.folder / "config/tiny.yaml"), "--directory", str(run.folder))
    assert "Nothing to be done" in beside.bare(*there, "--dry-run").stdout
    (run.folder / TABLE).unlink()
    beside.bare(*there, "--cores", "1")
    assert (run.folder / TABLE).is_file()
    assert not (code / "results").exists()


def test_another_workflow_can_use_this_one_as_a_module(moved_code):
    run, code = moved_code
    run.write("Snakefile", OUTER.format(snakefile=code / "Snakefile"))
    assert "benchmark_tabulate" not in run.bare("--dry-run").stdout, "nothing is stale"
    (run.folder / TABLE).with_suffix(".csv").unlink()
    run.bare("--cores", "1")
    assert "MODEL" in (run.folder / "loud.csv").read_text()
    run.write("config/tiny.yaml", (run.folder / "config/tiny.yaml").read_text() + "sede: 2\n")
    refused = run.bare("--dry-run", check=False)
    assert refused.returncode != 0
    assert "config/tiny.yaml: sede: unknown key; did you mean 'seed'?" in refused.stdout
