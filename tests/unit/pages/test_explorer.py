"""The attribution explorer's data equal the stored results."""

import base64
import hashlib
import html
import json
import re

import numpy as np
import pytest

from helpers import goldens
from helpers.finished_run import (
    DATASETS,
    FLOOR,
    GRID,
    METHODS,
    packed_data,
    settings,
    unpacked,
    write_run,
)
from pisoft.faithfulness.calibration import clip_scores
from pisoft.faithfulness.scores import normalise
from pisoft.pages.explorer import explorer_data, explorer_page
from pisoft.store.parquet import read_rows, write_rows


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def data(run):
    return explorer_data(run.files, settings())


def samples_of(data):
    """Yield model, dataset and sample, with shared scores copied to its steps."""
    for model in data["models"]:
        for dataset in model["datasets"]:
            for sample in dataset["samples"]:
                steps = [{**s, "methods": sample["scores"][s["scores"]]} for s in sample["steps"]]
                yield model["name"], dataset["name"], {**sample, "steps": steps}


def sample_of(data, model, dataset, name):
    (sample,) = [s for m, d, s in samples_of(data) if (m, d, s["id"]) == (model, dataset, name)]
    return sample


def test_the_data_equal_the_golden_file(tmp_path):
    """Every sample of the first model but the long one; other models differ only in scores."""
    datasets = {
        name: [record for record in records if record.name != "long"]
        for name, records in DATASETS.items()
    }
    run = write_run(tmp_path, datasets=datasets)
    first, second = explorer_data(run.files, settings()).pop("models")
    lines = []
    for dataset in first.pop("datasets"):
        samples = dataset.pop("samples")
        lines += [dataset, *({"sample": name, **one} for name, one in enumerate(samples))]
    assert len(second.pop("datasets")) == len(DATASETS)
    # With 4 significant digits.
    shorter = [
        json.loads(json.dumps(line), parse_float=lambda text: float(f"{float(text):.4g}"))
        for line in (first, second, *lines)
    ]
    texts = [json.dumps(line, ensure_ascii=True) for line in shorter]
    goldens.compare("\n".join([*texts, ""]), goldens.file("finished run", "pages", "explorer"))


@pytest.mark.parametrize("how", ["minmax", "rank", "max"])
def test_every_score_is_the_stored_one_normalised_and_calibrated(tmp_path, how):
    run = write_run(tmp_path, how)
    data = explorer_data(run.files, settings(normalisation=how))
    entries = {
        (model, method, dataset, sample["id"], step["step"]): (sample["perturbable"], entry)
        for model, dataset, sample in samples_of(data)
        for step in sample["steps"]
        for method, entry in step["methods"].items()
    }
    assert {key for key, (_, entry) in entries.items() if "raw" in entry} == set(run.raw)
    for key, raw in run.raw.items():
        perturbable, entry = entries[key]
        np.testing.assert_allclose(entry["raw"], raw.astype(float), rtol=5e-5)
        scores = normalise(raw[perturbable], how)
        logarithms = np.array(entry["log"])
        np.testing.assert_allclose(np.exp(logarithms), scores, rtol=0, atol=2e-5)
        within = np.clip(logarithms, np.log(FLOOR), np.log(1 - FLOOR))
        for alpha, pi in zip(entry.get("alpha", ()), GRID, strict="alpha" in entry):
            shown = np.exp(alpha * within)
            assert shown.mean() == pytest.approx(pi, abs=2e-5)
            exact = clip_scores(scores, FLOOR) ** alpha
            np.testing.assert_allclose(shown, exact, rtol=0, atol=2e-5)


def test_scores_shared_by_steps_are_written_once(tmp_path):
    run = write_run(tmp_path, aggregated=True)
    data = explorer_data(run.files, settings(step_scores="aggregated"))
    sample = sample_of(data, "llama", "open", "two steps")
    assert [step["step"] for step in sample["steps"]] == [0, 5]
    (scores,) = sample["scores"]
    raw = [run.raw["llama", "random", "open", "two steps", step] for step in (0, 5)]
    np.testing.assert_allclose(scores["random"]["raw"], np.mean(raw, axis=0), rtol=1e-4)


def test_unmeasured_and_unevaluated_values_are_omitted(run):
    kinds = ("evidence_samples", "datamodel_samples", "soft")
    data = explorer_data(run.files | dict.fromkeys(kinds, ()), settings())
    for *_, sample in samples_of(data):
        assert all(list(kinds) == ["areas", "curves"] for kinds in sample["measured"].values())
    (step,) = sample_of(data, "llama", "words", "plain")["steps"]
    assert step["methods"]["random"].keys() == {"raw", "log", "evaluation"}
    assert step["methods"]["random"]["evaluation"] is None


def test_an_empty_scope_has_a_status(tmp_path):
    run = write_run(tmp_path)
    for path in run.files["prompts"]:
        rows = read_rows(path, "prompts")
        rows = [row | {"user_mask": [False] * len(row["user_mask"])} for row in rows]
        write_rows(path, "prompts", rows, {})
    data = explorer_data(run.files, settings(scope="user_turn"))
    sample = sample_of(data, "llama", "words", "plain")
    assert sample["perturbable"] == []
    (step,) = sample["steps"]
    assert step["methods"] == {key: {"status": "no_content_tokens"} for key in METHODS}


def test_only_the_first_samples_are_shown_but_all_are_counted(run):
    data = explorer_data(run.files, settings(samples=2))
    words = data["models"][0]["datasets"][0]
    assert [sample["id"] for sample in words["samples"]] == [
        record.name for record in DATASETS["words"][:2]
    ]
    assert words["total"] == len(DATASETS["words"])


def test_records_are_escaped_without_loss(data):
    page = explorer_page(data)
    assert page.count("</script>") == 2
    assert page.count("<script") == 2
    assert page.count("<!--") == page.count("<img") == page.count("<b>") == 0
    text = packed_data(page)
    assert re.fullmatch("[A-Za-z0-9+/=]+", text)
    assert unpacked(text) == json.loads(json.dumps(data))
    assert base64.b64decode(text)[4:8] == bytes(4), "no timestamp, so equal data are equal bytes"


def test_the_page_loads_nothing_and_allows_only_its_own_script(data):
    page = explorer_page(data)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    directives = html.unescape(policy).split("; ")
    assert directives[0] == "default-src 'none'"
    assert "unsafe" not in policy
    for kind in ("script", "style"):
        (text,) = re.findall(f"<{kind}>(.*?)</{kind}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in directives
    head = page.split('<script type="application/gzip"')[0]
    assert re.findall(r'(?:src|href)="([^"]*)"', head) == ["data:,"]
    assert not re.search(r"url\(|@import", head)


def test_the_explorer_of_the_papers_run_is_below_ten_megabytes(data):
    """It shows 690,000 scores: of 20 samples of five datasets, by 13, 13 and 8 methods."""
    scores = [entries for *_, sample in samples_of(data) for entries in sample["scores"]]
    count = sum(len(entry.get("raw", ())) for entries in scores for entry in entries.values())
    assert len(explorer_page(data)) / count * 690_000 < 10e6
