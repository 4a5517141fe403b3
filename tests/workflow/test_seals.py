"""Results are shown only if this run's jobs wrote them."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import chdir
from pathlib import Path

import pytest

from pisoft.workflow.seals import CHANGED, MISSING, STALE, UNSEALED, seal_path

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

DATA = "results/tiny/data"
RANDOM, SALIENCY = (
    f"{DATA}/soft/dynamic/toy/{name}/toy-sentiment.parquet" for name in ("random", "saliency")
)
SUMMARY = f"{DATA}/summary/soft_samples.parquet"
TABLE = "results/tiny/tables/pi_soft_auc/dynamic/toy"
OTHER_SEED = ("--config", "seed=7")


def short(name: str) -> str:
    return name.removeprefix("results/tiny/")


def replace(folder, name: str, content: bytes) -> None:
    """Replace the content of a file, but keep its time stamp."""
    path = folder / name
    times = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_seals_replace_snakemakes_records(finished):
    """Without its records, Snakemake would report that nothing is to be done."""
    shutil.rmtree(finished.folder / ".snakemake")
    assert finished.pending() == set()
    before = sorted(finished.folder.rglob("results/**/*"))
    pending = finished.pending(*OTHER_SEED, "-np")
    assert {short(RANDOM), short(SALIENCY), short(f"{TABLE}.html"), "index.html"} <= pending
    assert sorted(finished.folder.rglob("results/**/*")) == before, "a dry run changes nothing"


def test_moved_weights_re_run_jobs_only_if_they_differ(finished):
    places = finished.folder / "toy-model", finished.folder / "weights" / "toy"
    places[1].parent.mkdir()
    places[0].rename(places[1])
    run_file = finished.folder / "config/tiny.yaml"
    run_file.write_text(run_file.read_text().replace("path: toy-model", "path: weights/toy"))
    assert {name for name in finished.pending() if name.startswith("data/")} == set()
    configuration = places[1] / "generation_config.json"
    configuration.write_text(configuration.read_text() + " ")
    assert short(RANDOM) in finished.pending()


@pytest.mark.follows("which recomputes both")
def test_results_from_a_damaged_file_are_discarded(finished):
    content = (finished.folder / SALIENCY).read_bytes()
    replace(finished.folder, SALIENCY, content.replace(b"git_commit", b"git_commiT"))
    refused = finished.snakemake(
        "--cores", "1", "--forcerun", "summarise", "--", SUMMARY, check=False
    )
    assert refused.returncode == 1
    assert f"{SALIENCY} changed before {SUMMARY} was made from it" in refused.stdout
    assert not (finished.folder / SUMMARY).exists()
    assert short(SALIENCY) in finished.pending(), "the next call recomputes it"


def test_unsealed_results_are_refused_until_they_are_touched(finished):
    for seal in finished.folder.rglob("results/**/.*.seal"):
        seal.unlink()
    assert "has no seal" in finished.snakemake("--dry-run", check=False).stdout
    files = sorted((finished.folder / "results").rglob("*"), reverse=True)
    for second, path in enumerate(files):
        os.utime(path, (second, second))  # like in a copy without time stamps
    finished.snakemake("--touch", "--cores", "1")
    assert finished.pending() == set()


@pytest.mark.parametrize("option", [["--touch", "--cores", "1"], ["--report", "report.html"]])
@pytest.mark.follows("run the workflow, which recomputes it")
def test_results_of_other_settings_are_neither_touched_nor_reported(finished, option):
    refused = finished.snakemake(*option, *OTHER_SEED, check=False)
    assert refused.returncode == 1
    assert "was made with other settings, code or inputs" in refused.stdout
    assert "Traceback" not in refused.stdout
    assert short(SALIENCY) in finished.pending(*OTHER_SEED), "the workflow recomputes it"


@pytest.mark.parametrize(
    "option", [["--ignore-incomplete"], ["--keep-incomplete"], ["--persistence-backend", "db"]]
)
def test_options_that_accept_wrong_results_are_refused(finished, option):
    (finished.folder / SALIENCY).unlink()
    refused = finished.snakemake("--cores", "1", *option, check=False)
    assert refused.returncode == 1
    assert f"{option[0]}: " in refused.stdout


def test_check_run_lists_mismatches_and_their_fixes(finished):
    def listed(run="results/tiny"):
        return finished.python("scripts/check_run.py", "--run", run)

    assert "results/tyni: is the run of no run file" in (refused := listed("results/tyni").stdout)
    assert "did you mean 'tiny'?" in refused

    assert "every result is there and matches its seal" in listed().stdout
    page = "results/tiny/index.html"
    removed = [finished.folder / file for file in (page, seal_path(page))]
    for path in removed:
        path.rename(path.with_suffix(".kept"))
    line, *_, fix = listed().stdout.splitlines()
    assert line == f"{page} is missing"
    assert fix.startswith("compute the 1 missing: snakemake --cores all --configfile ")
    for path in removed:
        path.with_suffix(".kept").rename(path)
    unsealed, copied, missing, spoilt = (
        Path(RANDOM.replace("random", name).replace("soft/dynamic", kind))
        for name, kind in (
            ("random", "soft/dynamic"), ("attention", "soft/dynamic"),
            ("saliency", "soft/dynamic"), ("random", "ranking"),
        )
    )  # fmt: skip
    edited, *swapped = (
        Path(f"results/tiny/tables/{name}/toy.csv")
        for name in ("original_soft/dynamic", "pi_soft_auc/dynamic", "ranks/dynamic")
    )
    with chdir(finished.folder):
        shutil.copyfile(missing, copied)
        missing.unlink()
        seal_path(str(unsealed)).unlink()
        seal_path(str(spoilt)).write_text("{")
        replace(finished.folder, str(edited), edited.read_bytes().replace(b"1", b"2"))
        for path_of in (str, seal_path):  # with their seals
            first, second = (Path(path_of(str(path))) for path in swapped)
            first.rename("spare")
            second.rename(first)
            Path("spare").rename(second)
    before = sorted(finished.folder.rglob("results/**/*"))
    listing = listed()
    assert listing.returncode == 1
    expected = {f"{missing} {MISSING}", f"{unsealed} {UNSEALED}", f"{spoilt} {STALE}"}
    expected |= {f"{path} {CHANGED}" for path in (copied, edited)}
    expected |= {f"{path} {STALE}" for path in swapped}
    assert expected <= {*listing.stdout.splitlines()}
    vouching = f"snakemake --touch --cores 1 --configfile config/tiny.yaml -- {unsealed}"
    assert vouching in listing.stdout
    assert "recompute the other 6: snakemake --cores all" in listing.stdout
    assert sorted(finished.folder.rglob("results/**/*")) == before
    finished.snakemake("--touch", "--cores", "1", "--", str(unsealed))
    files = {*map(str, (missing, spoilt, copied, edited, *swapped))}
    remade = {short(file).replace(".csv", ".html") for file in files}
    assert remade <= (pending := finished.pending())
    assert short(str(unsealed)) not in pending


@pytest.mark.follows("wait for it, or stop it with `kill …`")
def test_no_run_starts_while_a_job_of_a_killed_run_is_alive(finished):
    run = str((finished.folder / "results/tiny").resolve())
    (finished.folder / SALIENCY).unlink()
    with subprocess.Popen(["sleep", "600"], env={"PISOFT_RUNS": run}) as orphan:
        refused = finished.snakemake("--cores", "1", "--", SALIENCY, check=False)
        orphan.kill()
    assert f"process {orphan.pid} is a job of an earlier run" in refused.stdout
    finished.snakemake("--cores", "1", "--", SALIENCY)
