"""The attribution explorer's data: what the page is given is what the files hold."""

import base64
import hashlib
import html
import json
import re

import numpy as np
import pytest

from explorable import DATASETS, FLOOR, GRID, HOSTILE, METHODS, MODELS, settings, write_run
from pisoft.contracts import read_rows, write_rows
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.calibration import clip_scores
from pisoft.faithfulness.scores import normalise
from pisoft.pages.explorer import explorer_data, explorer_page

HOSTILE_ID = DATASETS["words"][1].name


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def data(run):
    return explorer_data(**run.files, settings=settings())


def floats(text):
    return np.frombuffer(base64.b64decode(text), "<f4")


def samples_of(data):
    """Yield model, dataset and sample."""
    for model in data["models"]:
        for dataset in model["datasets"]:
            for sample in dataset["samples"]:
                yield model["name"], dataset["name"], sample


def sample_of(data, model, dataset, name):
    (found,) = [s for m, d, s in samples_of(data) if (m, d, s["id"]) == (model, dataset, name)]
    return found


def test_models_datasets_methods_and_samples_keep_their_order(data):
    assert [(model["name"], model["label"]) for model in data["models"]] == list(MODELS.items())
    for model in data["models"]:
        assert [(m["name"], m["label"]) for m in model["methods"]] == list(METHODS.items())
        found = {d["name"]: [sample["id"] for sample in d["samples"]] for d in model["datasets"]}
        assert found == {key: [r.name for r in records] for key, records in DATASETS.items()}
        assert list(found) == list(DATASETS)


def test_tokens_and_answers_are_the_stored_ones(data, run):
    for path in run.files["prompts"]:
        model, dataset = path.parent.name, path.stem
        answers = {row["sample_id"]: row for row in read_rows(
            path.parents[2] / "generations" / model / path.name, "generations"
        )}  # fmt: skip
        for row in read_rows(path, "prompts"):
            sample = sample_of(data, model, dataset, row["sample_id"])
            answer = answers[row["sample_id"]]
            assert sample["tokens"] == row["token_texts"]
            assert sample["truncated"] == row["truncated"]
            assert sample["output"] == answer["output_token_texts"]
            assert sample["predicted"] == answer["predicted_label"]
            assert sample["label"] == answer["label"]
            assert sample["correct"] == answer["correct"]
            assert sample["status"] == answer["status"]
            positions = [place for place, bit in enumerate(row["content_mask"]) if bit]
            assert all(step["perturbable"] == positions for step in sample["steps"])


def test_evidence_is_known_unknown_or_none(data):
    evidence = {s["id"]: s["evidence"] for m, d, s in samples_of(data) if m == "llama"}
    assert evidence["plain"] == [4]
    assert evidence["hebrew"] is None


@pytest.mark.parametrize("how", ["minmax", "rank", "max"])
def test_every_score_is_the_stored_one_normalised_and_calibrated(tmp_path, how):
    run = write_run(tmp_path, how)
    data = explorer_data(**run.files, settings=settings(normalisation=how))
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
                assert floats(entry["raw"]).tobytes() == raw.tobytes()
                scores = normalise(raw[step["perturbable"]], how)
                logarithms = floats(entry["log"]).astype(np.float64)
                np.testing.assert_allclose(np.exp(logarithms), scores, rtol=0, atol=1e-6)
                if "alpha" not in entry:
                    continue
                within = np.clip(logarithms, np.log(FLOOR), np.log(1 - FLOOR))
                for alpha, pi in zip(entry["alpha"], GRID, strict=True):
                    shown = np.exp(alpha * within)
                    assert shown.mean() == pytest.approx(pi, abs=1e-6)
                    exact = clip_scores(scores, FLOOR) ** alpha
                    np.testing.assert_allclose(shown, exact, rtol=0, atol=1e-6)
    assert seen == set(run.raw)


def test_large_powers_are_among_the_tested(data):
    steps = [s for *_, sample in samples_of(data) for s in sample["steps"]]
    alphas = [a for s in steps for entry in s["methods"].values() for a in entry.get("alpha", [])]
    assert max(alphas) > 100
    assert min(alphas) < 0.05


def test_what_failed_says_why_and_has_no_scores(data):
    (step,) = sample_of(data, "llama", "words", "failed")["steps"]
    assert step["methods"] == {key: {"status": "prompt_too_long"} for key in METHODS}
    (step,) = sample_of(data, "llama", "words", "bytes")["steps"]
    assert step["methods"]["mine"] == {"status": "nonfinite_attribution"}
    assert "raw" in step["methods"]["random"]
    (step,) = sample_of(data, "llama", "words", "degenerate")["steps"]
    for entry in step["methods"].values():
        assert entry["evaluation"] == "degenerate_baseline"
        assert "alpha" not in entry


def test_a_method_without_a_file_of_one_dataset_is_missing_there_only(data):
    for step in sample_of(data, "mistral", "open", "two steps")["steps"]:
        assert list(step["methods"]) == ["random", "2"]
    assert [s["step"] for s in sample_of(data, "mistral", "open", "two steps")["steps"]] == [0, 5]


def test_scores_without_an_evaluation_are_shown_without_powers(run):
    files = run.files | {"soft": []}
    data = explorer_data(**files, settings=settings())
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
    data = explorer_data(**run.files, settings=settings(scope="user_turn"))
    (step,) = sample_of(data, "llama", "words", "plain")["steps"]
    assert step["perturbable"] == []
    assert step["methods"] == {key: {"status": "no_content_tokens"} for key in METHODS}


def test_the_first_samples_are_shown_and_all_are_counted(run):
    data = explorer_data(**run.files, settings=settings(samples=2))
    words = data["models"][0]["datasets"][0]
    assert [sample["id"] for sample in words["samples"]] == ["plain", HOSTILE_ID]
    assert words["total"] == len(DATASETS["words"])


def test_a_prompt_without_its_generation_is_an_error(tmp_path):
    run = write_run(tmp_path)
    path = run.files["generations"][0]
    write_rows(path, "generations", read_rows(path, "generations")[1:], {})
    with pytest.raises(BenchmarkError, match=r"words\.parquet: sample 'plain': has no row; delete"):
        explorer_data(**run.files, settings=settings())


def test_nothing_of_a_record_is_markup_and_nothing_is_lost(data):
    page = explorer_page(data)
    assert page.count("</script>") == 2
    assert page.count("<script") == 2
    assert page.count("<!--") == page.count("<img") == page.count("<b>") == 0
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert "<" not in text
    assert json.loads(text) == json.loads(json.dumps(data))
    tokens = sample_of(json.loads(text), "llama", "words", HOSTILE_ID)["tokens"]
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
    head = explorer_page(data).split('<script type="application/json"')[0]
    assert re.findall(r'(?:src|href)="([^"]*)"', head) == ["data:,"]
    assert "url(" not in head
    assert "@import" not in head


def test_equal_inputs_give_equal_bytes(run, data):
    again = explorer_data(**run.files, settings=settings())
    assert explorer_page(again) == explorer_page(data)
