"""Following the advice of an error message works: a test follows every advice."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from snakemake.utils import update_config

import pisoft
from helpers.attributions import attribute
from helpers.fetch_jobs import fetch_job, file_source, json_lines
from helpers.random_models import random_model, samples, save_random_llama
from helpers.small_configuration import CATALOGUE, RUN, load_tree
from helpers.tiny_tokenizers import llama_tokenizer
from pisoft.attribution import load_method
from pisoft.config.jobs.fields import LoadedModel
from pisoft.config.jobs.records import PromptJob
from pisoft.config.shards import evaluation_shards
from pisoft.config.validation import read_yaml, validate
from pisoft.cost.lengths import sample_lengths
from pisoft.datasets.sources import check_columns, fetch
from pisoft.errors import BenchmarkError
from pisoft.prompts.build import build_prompts
from pisoft.statistics.published import HEADER, load_published

ROOT = Path(__file__).parents[2]
VERBS = (
    "add|allow|ask|call|check|choose|copy|delete|end|give|install|leave|lower|make|merge|move|pass|"
    "raise|remove|rename|run|set|shorten|stop|take the|try|use|wait|write"
)
ADVICE = re.compile(rf"(?:[;:,] |[;,] or |[;,] then |, and )(?:{VERBS})\b(?! file)")


def texts_of(module: ast.Module) -> Iterator[str]:
    """Yield a module's strings except docstrings, with an ellipsis for each value."""
    docs = [node.value for node in ast.walk(module) if isinstance(node, ast.Expr)]
    left_out = set(map(id, docs))
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            left_out |= set(map(id, node.values))
            yield "".join(p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
        elif isinstance(getattr(node, "value", None), str) and id(node) not in left_out:
            yield node.value


def test_every_advice_has_a_test() -> None:
    advice = {
        text: path.relative_to(ROOT)
        for path in sorted((ROOT / "scripts").rglob("*.py"))
        for text in texts_of(ast.parse(path.read_text("utf-8")))
        if ADVICE.search(text)
    }
    followed = {
        node.args[0].value
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("pytest.mark.follows", "advised")
        and isinstance(node.args[0], ast.Constant)
    }
    assert len(advice) > 50
    assert [part for part in followed if not any(part in text for text in advice)] == []
    untested = {t: path for t, path in advice.items() if not any(part in t for part in followed)}
    assert untested == {}, "no test is marked `follows` with a part of these texts"


def advised(advice: str, *arguments: Any) -> Any:
    """Return a test case: an advice, and the inputs that trigger it and follow it."""
    return pytest.param(advice, *arguments, id=advice)


def refused_with(advice: str) -> Any:
    """Expect an error with an advice, in which an ellipsis matches any text."""
    return pytest.raises(BenchmarkError, match=".*".join(map(re.escape, advice.split("…"))))


# Configuration --------------------------------------------------------------------------------

CONSTRUCTED = {
    "catalogue": {"methods": {"ideal": {"source": {"kind": "control", "scores": "oracle"}}}}
}


def changed(change: dict[str, Any]) -> dict[str, Any]:
    tree = copy.deepcopy({"run": RUN, **CATALOGUE})
    update_config(tree, change)
    return tree


def run(**changes: Any) -> dict[str, Any]:
    return {"run": changes}


def reviews(**changes: Any) -> dict[str, Any]:
    return {"datasets": {"reviews": changes}}


def scores(path: str) -> dict[str, Any]:
    return {"methods": {"saliency": {"source": {"kind": "scores", "path": path}}}}


TWICE = {"methods": ["saliency", "random"]}


@pytest.mark.parametrize(
    ("advice", "problem", "followed"),
    [
        advised("write […]", run(models="small"), run(models=["small"])),
        advised(
            "write {…}",
            reviews(messages=[{"role": "user", "content": "{text!r:>40}"}]),
            reviews(messages=[{"role": "user", "content": "{text}"}]),
        ),
        advised(
            "give a number of draws",
            run(evaluation={"pi_per_step": 2, "draws": {"target_half_width": 0.1, "max": 9}}),
            run(evaluation={"pi_per_step": 2, "draws": 9}),
        ),
        advised(
            "set `target` of its entry to label, generated or contrastive",
            run(target="span", methods=["grad_ellm"]) | {"methods": {"grad_ellm": {}}},
            run(target="span", methods=["grad_ellm"])
            | {"methods": {"grad_ellm": {"target": "generated"}}},
        ),
        advised(
            "allow it for one of …, or leave it out of `datasets`",
            run(datasets=["reviews", "made"], restrictions={"small": {"datasets": ["made"]}}),
            run(datasets=["made"], restrictions={"small": {"datasets": ["made"]}}),
        ),
        advised(
            "set `label` of '…'",
            run(**TWICE) | {"methods": {"saliency": {"label": "Random"}}},
            run(**TWICE) | {"methods": {"saliency": {"label": "Another"}}},
        ),
        advised(
            "copy it elsewhere",
            scores("results/r/{model}-{dataset}.parquet"),
            scores("mine/{model}-{dataset}.parquet"),
        ),
        advised(
            "leave one of the two out of this run",
            run(methods=["saliency", "ideal"], **CONSTRUCTED),
            run(methods=["saliency"], **CONSTRUCTED),
        ),
        advised(
            "leave it out",
            run(operators={"others": ["zero", "mean"]}),
            run(operators={"others": ["mean"]}),
        ),
        advised(
            "leave it out of sanity_checks.models, or set labels to false",
            run(sanity_checks={"labels": True}),
            run(sanity_checks={"labels": False}),
        ),
        advised(
            "rename its entry",
            run(methods=["saliency", "saliency-permuted-1"], metric_validation={})
            | {"methods": {"saliency-permuted-1": {"method": "random"}}},
            run(methods=["saliency", "renamed"], metric_validation={})
            | {"methods": {"renamed": {"method": "random"}}},
        ),
    ],
)
def test_advice_on_the_configuration_works(advice, problem, followed, tmp_path):
    with refused_with(advice):
        load_tree(changed(problem), tmp_path)
    load_tree(changed(followed), tmp_path)


@pytest.mark.follows("add `--config local_root=DIR` to the command line")
def test_advice_on_the_local_root_works(tmp_path):
    (tmp_path / "records.csv").write_text("review,label\ngood film,1\n")
    source = {"kind": "file", "path": "{local_root}/records.csv", "format": "csv"}
    tree = changed({})
    tree["datasets"]["reviews"]["source"] = source
    with refused_with("add `--config local_root=DIR`"):
        load_tree(tree, tmp_path)
    tree["run"]["local_root"] = str(tmp_path)
    load_tree(tree, tmp_path)


@pytest.mark.follows("write that, or '…' for a text")
def test_advice_on_ambiguous_numbers_works(tmp_path):
    file = tmp_path / "run.yaml"
    values = {}
    for text in ("yes", "true", "'yes'"):
        file.write_text(f"max_samples: {text}\n")
        if text == "yes":
            with refused_with("yes means true in YAML; write that, or 'yes' for a text"):
                read_yaml(file)
        else:
            values[text] = read_yaml(file)["max_samples"]
    assert values == {"true": True, "'yes'": "yes"}


@pytest.mark.parametrize("place", ["datasets/reviews/samples", "run/max_samples"])
@pytest.mark.follows("set the dataset's `samples`, or the run file's `max_samples`")
def test_advice_on_an_unknown_number_of_shards_works(place, tmp_path):
    tree = changed(reviews(shard_size=10))
    with refused_with("set the dataset's `samples`, or the run file's `max_samples`"):
        evaluation_shards(load_tree(tree, tmp_path), "small", "reviews")
    *above, key = place.split("/")
    section = tree
    for name in above:
        section = section[name]
    section[key] = 20
    assert evaluation_shards(load_tree(tree, tmp_path), "small", "reviews").samples == 20


@pytest.mark.follows("add it to the dataset's catalogue entry")
@pytest.mark.follows("add it to the dataset's catalogue entry, or set max_samples")
def test_advice_on_missing_expectations_works(tmp_path):
    expected = {"content_tokens": 30}
    with refused_with("expected.content_tokens: not set…add it to the dataset's catalogue entry"):
        planned(tmp_path, reviews())
    with refused_with("expected.records: not set…catalogue entry, or set max_samples"):
        planned(tmp_path, reviews(expected=expected))
    assert planned(tmp_path, reviews(expected=expected | {"records": 7})) == 7
    assert planned(tmp_path, reviews(expected=expected) | run(max_samples=5)) == 5


def planned(folder, change):
    lengths = sample_lengths(load_tree(changed(change), folder), "small", "reviews", folder)
    return len(lengths.samples)


@pytest.mark.follows("is for methods that read attention, not for '…'; leave it out")
def test_advice_on_options_of_inseq_works():
    with refused_with("layer: 2 is for methods that read attention, not for 'saliency'; leave it"):
        validate(load_method("inseq").Options, {"method": "saliency", "layer": 2}, "options")
    validate(load_method("inseq").Options, {"method": "saliency"}, "options")


# Records and prompts --------------------------------------------------------------------------

RECORDS = [{"text": "good film", "key": "a"}, {"text": "bad film", "key": "b"}]


@pytest.mark.follows("leave `columns` out")
def test_advice_on_header_lines_works(tmp_path):
    path, text = tmp_path / "records.csv", "text,label\ngood film,1\n"
    with refused_with("has a header line; leave `columns` out"):
        check_columns(fetch_job(file_source(path, text, "csv", columns=("text", "label"))))
    check_columns(fetch_job(file_source(path, text, "csv")))


@pytest.mark.parametrize(
    ("advice", "second", "better"),
    [
        advised("give every record one, or choose no column", {"text": "bad film"}, RECORDS[1]),
        advised("choose another column, or none", RECORDS[1] | {"key": "a"}, RECORDS[1]),
    ],
)
def test_advice_on_id_columns_works(advice, second, better, tmp_path):
    job = fetch_job(json_lines(tmp_path / "r", [RECORDS[0], second]), id_column="key")
    with refused_with(advice):
        fetch(job)
    assert len(fetch(job.model_copy(update={"id_column": None}))) == 2
    if "another" in advice:
        assert len(fetch(job.model_copy(update={"id_column": "text"}))) == 2
    else:
        json_lines(tmp_path / "r", [RECORDS[0], better])
        assert [row["sample_id"] for row in fetch(job)] == ["d/a", "d/b"]


@pytest.mark.follows("give records of the same columns")
def test_advice_on_differing_columns_works(tmp_path):
    files = [
        json_lines(tmp_path / name, [record]) for name, record in zip("ab", RECORDS, strict=True)
    ]
    both = files[0].model_copy(update={"path": tuple(file.path for file in files)})
    check_columns(fetch_job(both))
    json_lines(tmp_path / "b", [RECORDS[1] | {"more": 1}])
    with refused_with("give records of the same columns"):
        check_columns(fetch_job(both))


TEMPLATE = llama_tokenizer().chat_template
COUNTING = "{{ messages | length }}{% for m in messages %}{{ m['content'] }}{% endfor %}"
SHORTENING = "{% for m in messages %}{{ m['content'][:6] }}{% endfor %}"


@pytest.mark.parametrize(
    ("advice", "template", "problem", "followed"),
    [
        advised("set `chat_template: plain`", None, {}, {"chat_template": "plain"}),
        advised("lower `generation.max_new_tokens`", TEMPLATE, {"reserved_tokens": 100},
                {"reserved_tokens": 10}),
        advised("choose words that differ there", TEMPLATE, {"label_words": ("Yes", "Yes!")},
                {"label_words": ("Yes", "No")}),
        advised("which cannot be an answer; choose another word", TEMPLATE,
                {"label_words": ("<|eot_id|>", "No")}, {"label_words": ("Yes", "No")}),
        advised("place of a record's text is unknown; use another chat template", SHORTENING, {},
                {"chat_template": "plain"}),
        advised("the answer's first token is unknown; use another chat template", COUNTING,
                {"label_words": ("a", "b")},
                {"label_words": ("a", "b"), "chat_template": "plain"}),
    ],
)  # fmt: skip
def test_advice_on_prompts_works(advice, template, problem, followed):
    tokenizer = copy.deepcopy(llama_tokenizer())
    tokenizer.chat_template = template
    settings = {
        "model": LoadedModel(name="m", dtype="float32", device="cpu"), "dataset": "d",
        "chat_template": "tokenizer", "messages": ({"role": "user", "content": "{text}"},),
        "label_words": (), "truncate": None, "max_tokens": None, "reserved_tokens": 1,
    }  # fmt: skip
    sample = dict.fromkeys(("label", "answer", "counterfactuals", "evidence"))
    sample |= {"sample_id": "d/1", "fields": {"text": "a long text"}, "status": "ok"}

    def status_with(changes):
        (row,) = build_prompts([sample], PromptJob(**settings | changes), tokenizer, 100)
        return row["status"]

    with refused_with(advice):
        status_with(problem)
    assert status_with(followed) == "ok"


@pytest.mark.follows("give the paper's label of the table")
def test_advice_on_published_numbers_works(tmp_path):
    file = tmp_path / "published.csv"
    number = "dynamic,llama-3.1-8b-instruct,auc_pi_soft_ns,imdb,attention,0.603"
    file.write_text(f"{','.join(HEADER)}\n,{number}\n")
    with refused_with("table: is empty; give the paper's label"):
        load_published(file)
    file.write_text(f"{','.join(HEADER)}\ntab:llama-soft,{number}\n")
    assert load_published(file)["value"].tolist() == [0.603]


# Models and Python ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a tiny model."""
    path = tmp_path_factory.mktemp("model")
    save_random_llama(path, llama_tokenizer(), num_hidden_layers=2)
    return path


@pytest.mark.follows("merge the adapter into its model")
def test_advice_on_adapters_works(folder, tmp_path):
    source = {"kind": "local", "path": str(folder)}
    tree = changed(
        run(models=["mine"], catalogue={"models": {"mine": {"label": "M", "source": source}}})
    )
    (folder / "adapter_config.json").touch()
    with refused_with("merge the adapter into its model"):
        load_tree(tree, tmp_path)
    (folder / "adapter_config.json").unlink()  # like a model saved after peft's `merge_and_unload`
    load_tree(tree, tmp_path)


@pytest.mark.follows("use method 'inseq' with options {method: deeplift}")
def test_advice_on_deeplift_works():
    model = random_model("llama-gqa")
    model.decoder.layers[1].mlp.act_fn = torch.nn.ReLU()
    with refused_with("use method 'inseq' with options {method: deeplift}"):
        attribute("deeplift", model, samples())
    answers = attribute("inseq", model, samples(), method="deeplift")
    assert all(scores.isfinite().all() and scores.any() for scores in answers)


@pytest.mark.follows("write [prompt]")
@pytest.mark.follows("remove one of them")
@pytest.mark.follows("pass what `evaluate` returns")
@pytest.mark.follows("give the id of the token to explain as `target`")
def test_advice_in_python_works(folder):
    model = pisoft.load(folder, device="cpu")
    few = {"pi_grid": [0.2, 0.8], "draws": 1}
    with refused_with("write [prompt]"):
        pisoft.evaluate(model, "a film", "random", **few)
    with refused_with("remove one of them"):
        pisoft.evaluate(model, ["a film"] * 2, "random", **few)
    answer = pisoft.evaluate(model, ["a film"], "random", **few)
    with refused_with("pass what `evaluate` returns"):
        pisoft.plot(answer[:0])
    assert pisoft.plot(answer).axes

    token = pisoft.attribute(model, "a film", "random").answer["target_ids"][0]
    model.network.generation_config.eos_token_id = token
    with refused_with("give the id of the token to explain as `target`"):
        pisoft.attribute(model, "a film", "random")
    assert pisoft.attribute(model, "a film", "random", target=token).values.any()
