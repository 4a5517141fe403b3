"""The attribution explorer's data: what the page is given is what the files hold."""

import base64
import hashlib
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

from helpers import goldens
from helpers.finished_run import (
    DATASETS,
    FLOOR,
    GRID,
    HOSTILE,
    METHODS,
    Record,
    packed_data,
    settings,
    unpacked,
    write_run,
)
from pisoft.attribution import load_method
from pisoft.config.loading import load_config
from pisoft.config.validation import read_yaml
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.calibration import clip_scores
from pisoft.faithfulness.scores import normalise
from pisoft.pages.explorer import explorer_data, explorer_page
from pisoft.store.parquet import read_rows, write_rows

ROOT = Path(__file__).parents[3]
HOSTILE_ID = DATASETS["words"][1].name


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def data(run):
    return explorer_data(run.files, settings())


def samples_of(data):
    """Yield model, dataset and sample, whose steps have the scores that they share."""
    for model in data["models"]:
        for dataset in model["datasets"]:
            for sample in dataset["samples"]:
                steps = [{**s, "methods": sample["scores"][s["scores"]]} for s in sample["steps"]]
                yield model["name"], dataset["name"], {**sample, "steps": steps}


def sample_of(data, model, dataset, name):
    (sample,) = [s for m, d, s in samples_of(data) if (m, d, s["id"]) == (model, dataset, name)]
    return sample


def shortened(entry):
    """Return data whose numbers have 4 significant digits."""
    if isinstance(entry, dict):
        return {key: shortened(one) for key, one in entry.items()}
    if isinstance(entry, list):
        return [shortened(one) for one in entry]
    return float(f"{entry:.4g}") if isinstance(entry, float) else entry


def test_it_shows_what_the_golden_says(tmp_path):
    """Of every sample of the first model but the long one; other models differ in scores alone."""
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
    texts = (json.dumps(shortened(line), ensure_ascii=True) for line in (first, second, *lines))
    goldens.compare("\n".join([*texts, ""]), goldens.file("finished run", "pages", "explorer"))


@pytest.mark.parametrize("how", ["minmax", "rank", "max"])
def test_every_score_is_the_stored_one_normalised_and_calibrated(tmp_path, how):
    run = write_run(tmp_path, how)
    data = explorer_data(run.files, settings(normalisation=how))
    seen = set()
    for model, dataset, sample in samples_of(data):
        for step in sample["steps"]:
            for method, entry in step["methods"].items():
                key = (model, method, dataset, sample["id"], step["step"])
                if "raw" not in entry:
                    assert key not in run.raw
                    continue
                seen.add(key)
                raw = run.raw[key]
                np.testing.assert_allclose(entry["raw"], raw.astype(float), rtol=5e-5)
                scores = normalise(raw[sample["perturbable"]], how)
                logarithms = np.array(entry["log"])
                np.testing.assert_allclose(np.exp(logarithms), scores, rtol=0, atol=2e-5)
                if "alpha" not in entry:
                    continue
                within = np.clip(logarithms, np.log(FLOOR), np.log(1 - FLOOR))
                for alpha, pi in zip(entry["alpha"], GRID, strict=True):
                    shown = np.exp(alpha * within)
                    assert shown.mean() == pytest.approx(pi, abs=2e-5)
                    exact = clip_scores(scores, FLOOR) ** alpha
                    np.testing.assert_allclose(shown, exact, rtol=0, atol=2e-5)
    assert seen == set(run.raw)


def test_large_powers_are_among_the_tested(data):
    steps = [s for *_, sample in samples_of(data) for s in sample["steps"]]
    alphas = [a for s in steps for entry in s["methods"].values() for a in entry.get("alpha", [])]
    assert max(alphas) > 100
    assert min(alphas) < 0.05


@pytest.mark.parametrize(("how", "different"), [("own", 2), ("aggregated", 1)])
def test_scores_that_steps_share_are_written_once(tmp_path, how, different):
    run = write_run(tmp_path, aggregated=how == "aggregated")
    data = explorer_data(run.files, settings(step_scores=how))
    sample = sample_of(data, "llama", "open", "two steps")
    assert [step["step"] for step in sample["steps"]] == [0, 5]
    assert len(sample["scores"]) == different
    for place, step in enumerate(sample["steps"]):
        raw = [run.raw["llama", "random", "open", "two steps", s] for s in (0, 5)]
        expected = raw[place] if how == "own" else np.mean(raw, axis=0)
        np.testing.assert_allclose(step["methods"]["random"]["raw"], expected, rtol=1e-4)


def test_without_evidence_and_random_scores_there_are_areas_alone(run):
    none = {"evidence_samples": [], "datamodel_samples": []}
    data = explorer_data(run.files | none, settings())
    for *_, sample in samples_of(data):
        assert all(list(kinds) == ["areas", "curves"] for kinds in sample["measured"].values())


def test_scores_without_an_evaluation_are_shown_without_powers(run):
    files = run.files | {"soft": []}
    data = explorer_data(files, settings())
    (step,) = sample_of(data, "llama", "words", "plain")["steps"]
    assert set(step["methods"]["random"]) == {"raw", "log", "evaluation"}
    assert step["methods"]["random"]["evaluation"] is None


def test_a_scope_without_tokens_is_a_status(tmp_path):
    run = write_run(tmp_path)
    for path in run.files["prompts"]:
        rows = [
            {**r, "user_mask": [False] * len(r["user_mask"])} for r in read_rows(path, "prompts")
        ]
        write_rows(path, "prompts", rows, {})
    data = explorer_data(run.files, settings(scope="user_turn"))
    sample = sample_of(data, "llama", "words", "plain")
    assert sample["perturbable"] == []
    (step,) = sample["steps"]
    assert step["methods"] == {key: {"status": "no_content_tokens"} for key in METHODS}


def test_the_first_samples_are_shown_and_all_are_counted(run):
    data = explorer_data(run.files, settings(samples=2))
    words = data["models"][0]["datasets"][0]
    assert [sample["id"] for sample in words["samples"]] == ["plain", HOSTILE_ID]
    assert words["total"] == len(DATASETS["words"])


def test_a_prompt_without_its_generation_is_an_error(tmp_path):
    run = write_run(tmp_path)
    path = run.files["generations"][0]
    write_rows(path, "generations", read_rows(path, "generations")[1:], {})
    with pytest.raises(BenchmarkError, match=r"words\.parquet: sample 'plain': has no row; delete"):
        explorer_data(run.files, settings())


def test_nothing_of_a_record_is_markup_and_nothing_is_lost(data):
    page = explorer_page(data)
    assert page.count("</script>") == 2
    assert page.count("<script") == 2
    assert page.count("<!--") == page.count("<img") == page.count("<b>") == 0
    text = packed_data(page)
    assert re.fullmatch("[A-Za-z0-9+/=]+", text)
    stored = unpacked(text)
    assert stored == json.loads(json.dumps(data))
    tokens = sample_of(stored, "llama", "words", HOSTILE_ID)["tokens"]
    assert tokens[1:-2] == list(HOSTILE)


def test_the_policy_names_the_only_script_and_style_that_may_run(data):
    page = explorer_page(data)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    policy = html.unescape(policy)
    assert policy.startswith("default-src 'none';")
    for kind, element in (
        ("script-src", "<script>(.*?)</script>"),
        ("style-src", "<style>(.*?)</style>"),
    ):
        (text,) = re.findall(element, page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        (allowed,) = re.findall(rf"{kind} ([^;]*);", policy)
        assert allowed == f"'sha256-{digest}'"
    assert "unsafe" not in policy


def test_the_page_loads_nothing(data):
    head = explorer_page(data).split('<script type="application/gzip"')[0]
    assert re.findall(r'(?:src|href)="([^"]*)"', head) == ["data:,"]
    assert "url(" not in head
    assert "@import" not in head


def test_equal_inputs_give_equal_bytes(run, data):
    again = explorer_data(run.files, settings())
    assert explorer_page(again) == explorer_page(data)


def test_the_explorer_of_the_papers_run_stays_below_ten_megabytes(tmp_path):
    """A part of it: 4 of 20 samples, a model with all methods, texts as long as are expected."""
    content = read_yaml(ROOT / "config/paper.yaml")
    restricted = content["restrictions"]
    config = load_config(content, ROOT / "config/catalogue", "paper.yaml", load_method)
    samples = config.run_file.explorer.samples
    assert (len(config.models), samples, len(config.datasets)) == (3, 20, 5)
    datasets = {
        name: [paper_like(f"{name}/{number}", entry) for number in range(samples // 5)]
        for name, entry in config.datasets.items()
    }
    evaluation = config.run_file.evaluation
    run = write_run(
        tmp_path,
        models=["one"],
        datasets=datasets,
        methods=config.methods,
        grid=evaluation.pi_grid,
        aggregated=evaluation.step_scores == "aggregated",
    )
    shown = settings(
        models={"one": "One"},
        datasets=dict.fromkeys(datasets, ""),
        methods=dict.fromkeys(config.methods, ""),
        pi_grid=evaluation.pi_grid,
        step_scores=evaluation.step_scores,
        targets=dict.fromkeys(datasets, ("label",)),
    )
    page = explorer_page(explorer_data(run.files, shown))
    methods = [restricted.get(m, {}).get("methods", config.methods) for m in config.models]
    size = 5 * len(page) / len(config.methods) * sum(map(len, methods))
    assert size < 10e6


def paper_like(name, entry):
    """Return a sample of the dataset's mean length, with a template and answers of 50 tokens."""
    generator = np.random.default_rng([ord(letter) for letter in name])
    words = ["".join(letters) for letters in generator.choice(list("abcdefgh "), (500, 5))]
    length = 50 + round(entry.expected.content_tokens)
    open_answer = entry.task == "generation"
    return Record(
        name,
        list(generator.choice(words, length)),
        output=list(generator.choice(words, 50)) if open_answer else ["Positive"],
        predicted=None if open_answer else "Positive",
        label=None if open_answer else "Negative",
    )
