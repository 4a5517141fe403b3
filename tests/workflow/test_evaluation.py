"""Evaluation in the workflow: budgets of draws, both protocols, and models that break."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file, save_file

from helpers.shared_runs import GRID, SAMPLES
from pisoft.store.parquet import read_provenance

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

SOFT = "results/tiny/data/soft/{}/toy/saliency/toy-sentiment.parquet"


def with_evaluation(project, settings):
    """Replace the evaluation settings of the run file."""
    path = project.folder / "config/tiny.yaml"
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("evaluation:")]
    project.write("config/tiny.yaml", "\n".join([*kept, f"evaluation: {settings}", ""]))


def rows(project, protocol="dynamic"):
    return pq.read_table(project.folder / SOFT.format(protocol)).to_pylist()


def test_a_budget_at_its_maximum_equals_fixed_draws(finished):
    with_evaluation(
        finished, "{pi_grid: [0.2, 0.5, 0.8], draws: {target_half_width: 1.0e-9, max: 4}}"
    )
    finished.snakemake("--cores", "1", SOFT.format("dynamic"))
    budget = rows(finished)
    with_evaluation(finished, "{pi_grid: [0.2, 0.5, 0.8], draws: 4}")
    finished.snakemake("--cores", "1", SOFT.format("dynamic"))
    for one, other in zip(budget, rows(finished), strict=True):
        assert one["alpha"] == other["alpha"]
        assert len(one["ns_distances"]) == 4
        assert one["ns_distances"] == pytest.approx(other["ns_distances"], abs=1e-5)
        assert one["nc_distances"] == pytest.approx(other["nc_distances"], abs=1e-5)


def test_both_protocols_are_evaluated_unless_restricted(finished):
    project, path = finished, finished.folder / "config/tiny.yaml"
    path.write_text(path.read_text() + "protocols: [dynamic, fixed]\n")
    project.snakemake("--cores", "1", SOFT.format("fixed"))
    dynamic, fixed = rows(project), rows(project, "fixed")
    assert [row["alpha"] for row in dynamic] == [row["alpha"] for row in fixed]
    assert [row["h0"] for row in dynamic] != [row["h0"] for row in fixed]
    assert max(row["identity"] for row in [*dynamic, *fixed]) < 1e-3
    facts = read_provenance(project.folder / SOFT.format("fixed"))
    assert facts["token_budget_used"] == 1024, "the default for CPUs"
    lines, draws = 4, 2
    assert facts["forwards"] == SAMPLES * (2 * lines * draws + 3)
    path.write_text(path.read_text() + "restrictions: {toy: {protocols: [fixed]}}\n")
    assert not [name for name in project.pending() if "dynamic" in name]


def test_float32_comparisons_do_not_depend_on_shards(finished):
    chosen = ("--cores", "2", "--config", "methods=[saliency]", "--")
    path = finished.folder / "config/tiny.yaml"
    local = "source: {kind: local, path: toy-model}"
    text = path.read_text().replace(local, f"{local}\n      dtype: bfloat16").rstrip()
    path.write_text(f"{text}\n      shard_size: 8\n")
    folder = SOFT.format("dynamic").removesuffix(".parquet")
    finished.snakemake(*chosen, f"{folder}/0-{SAMPLES}.parquet")
    whole = pq.read_table(finished.folder / folder / f"0-{SAMPLES}.parquet").to_pylist()
    repeated = {row["sample_id"] for row in whole if row["ns_noise"] is not None}
    assert len(repeated) == 3, "one per block of at most two samples"
    lines = 4
    facts = read_provenance(finished.folder / folder / f"0-{SAMPLES}.parquet")
    assert facts["forwards"] == SAMPLES * (2 * lines * 2 + 3) + 3 * (2 * lines + 3)
    path.write_text(path.read_text() + "      evaluation_shard_size: 4\n")
    shards = [f"{folder}/{places}.parquet" for places in ("0-4", f"4-{SAMPLES}")]
    assert "attribute" not in finished.snakemake("--dry-run", *chosen, *shards).stdout
    finished.snakemake(*chosen, *shards)
    made = (pq.read_table(finished.folder / shard).to_pylist() for shard in shards)
    assert [row for shard in made for row in shard] == whole


def test_nonfinite_logits_give_a_status_and_are_reported(finished):
    """They are finite in float32, which the check at loading uses."""
    weights = finished.folder / "toy-model/model.safetensors"
    large = load_file(weights)
    large["model.norm.weight"] *= 3e4
    save_file(large, weights, metadata={"format": "pt"})
    path, local = finished.folder / "config/tiny.yaml", "source: {kind: local, path: toy-model}"
    path.write_text(path.read_text().replace(local, f"{local}\n      dtype: float16"))
    made = finished.job(SOFT.format("dynamic"))
    assert made.returncode == 0, made.stdout
    assert {row["status"] for row in rows(finished)} == {"nonfinite_logits"}
    count = SAMPLES * (1 + len(GRID))
    assert f"toy-sentiment.parquet: of {count} rows, {count} nonfinite_logits" in made.stdout
