"""Jobs on arbitrary files succeed correctly or end in one line, without partial output."""

from __future__ import annotations

import argparse
import copy
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import attribute
import evaluate_ranking
import evaluate_soft
from helpers import explained_rows
from helpers.fetch_jobs import fetch_job
from helpers.random_models import model_and_network
from helpers.small_configuration import CATALOGUE, RUN, load_tree
from helpers.soft_files import STATISTICS, soft_rows
from pisoft.config.datasets import FileDataset, Labels
from pisoft.config.evaluation import DrawSettings, RankingSettings
from pisoft.config.jobs.cells import AttributeJob, EvaluateJob, RankingJob
from pisoft.config.jobs.fields import LoadedModel
from pisoft.config.jobs.summaries import SummariseRankingJob
from pisoft.config.resolved import Config
from pisoft.datasets.sources import fetch
from pisoft.errors import BenchmarkError
from pisoft.models.model import ExplainedSample
from pisoft.statistics import insertion_deletion
from pisoft.statistics.reading import Files
from pisoft.statistics.results import summary_table
from pisoft.statistics.soft import summarise
from pisoft.store.parquet import read_rows, write_rows, write_table
from pisoft.store.schemas import SCHEMAS

COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}
LONGEST_MESSAGE = 2010  # characters


def one_line(error):
    """Check that an error is one readable line."""
    message = str(error.value if hasattr(error, "value") else error)
    assert message
    assert "\n" not in message
    assert len(message) < LONGEST_MESSAGE
    message.encode()


# Configurations -------------------------------------------------------------------------------

CHANGEABLE = RUN | {
    "datasets": ["reviews", "made"], "methods": "all", "seed": 1, "max_samples": 4,
    "protocols": ["dynamic"], "evaluation": {"pi_grid": [0.2, 0.8], "draws": 2},
    "ranking": {"steps": 4}, "layer_study": {"depths": [1, 2]}, "statistics": {"resamples": 100},
    "restrictions": {"small": {"methods": "all"}}, "generation": {"max_new_tokens": 3},
    "catalogue": {
        "models": {"mine": {"extends": "small", "label": "Mine"}},
        "methods": {"layers": {"method": "grad_ellm", "options": {"layers": 1}}},
    },
}  # fmt: skip
TREE = {"run": CHANGEABLE, **CATALOGUE}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**21, -1, 0, float("nan"), float("inf"), 1e-320]),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.sampled_from(["all", "", "../x", "a b", "{text}", "{", "<script>", "latin", "remove"]),
    st.recursive(
        st.sampled_from(["x", 1, None]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=8,
    ),
)


def places(tree, above=()):
    """Yield the path of every value of a nested structure."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from places(value, (*above, key))


PLACES = sorted(places(TREE), key=str)


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(PLACES), VALUES, st.sampled_from(["set", "delete", "add"])),
        min_size=1,
        max_size=3,
    )
)
@settings(max_examples=150, **COMMON)
def test_a_configuration_loads_or_is_refused_in_one_line(tmp_path, changes):
    tree = copy.deepcopy(TREE)
    for path, value, change in changes:
        damage(tree, path, value, change)
    try:
        config = load_tree(tree, tmp_path)
    except BenchmarkError as error:
        one_line(error)
    else:
        assert isinstance(config, Config)
        json.dumps(config.run_file.model_dump(mode="json"), allow_nan=False)


def damage(tree, path, value, change):
    """Change a value, unless an earlier change removed it."""
    inner = tree
    for key in path[:-1]:
        try:
            inner = inner[key]
        except (KeyError, IndexError, TypeError):
            return
    if not isinstance(inner, dict | list):
        return
    if change == "add" and isinstance(inner, dict):
        inner[value if isinstance(value, str | int) else "added"] = value
    elif path[-1] in (inner if isinstance(inner, dict) else range(len(inner))):
        if change == "delete":
            del inner[path[-1]]
        else:
            inner[path[-1]] = value


# Records --------------------------------------------------------------------------------------

LINES = [json.dumps({"text": f"film {n}", "label": n % 2, "id": n}).encode() for n in range(4)]
WORDS = Labels(column="label", words={1: "Positive", 0: "Negative"})
PIECES = st.one_of(
    st.binary(max_size=8),
    st.sampled_from([b'"', b"{", b"[" * 5000, b"9" * 5000, b"\x00", b"\xff", b"\\ud800", b"\n",
                     b",", b"null", b"NaN", b"1e999", b"\xef\xbb\xbf", b"\t"]),
)  # fmt: skip


@given(
    form=st.sampled_from(["jsonl", "csv", "tsv", "parquet"]),
    piece=PIECES,
    where=st.integers(0, 150),
    cut=st.integers(0, 10),
)
@settings(max_examples=200, **COMMON)
def test_damaged_records_are_read_or_refused_in_one_line(tmp_path, form, piece, where, cut):
    content = b"\n".join(LINES)
    if form in ("csv", "tsv"):
        rows = [b"text,label,id", *(b"film,%d,%d" % (n % 2, n) for n in range(4))]
        content = b"\n".join(rows).replace(b",", b"," if form == "csv" else b"\t")
    path = tmp_path / f"records.{form}"
    path.write_bytes(content[:where] + piece + content[where + cut :])
    source = FileDataset(kind="file", path=str(path), format=form)
    try:
        rows = fetch(fetch_job(source, task="classification", labels=WORDS, id_column="id"))
        write_rows(tmp_path / "datasets.parquet", "datasets", rows, {})
    except BenchmarkError as error:
        one_line(error)
    assert not list(tmp_path.glob(".*")), "no partial output"


# Intermediates --------------------------------------------------------------------------------

MODEL = LoadedModel(name="toy", dtype="float64", device="cpu")
SAMPLES = {"a": [1, 5, 6, 7, 8, 9, 30], "b": [1, 44, 3], "c": [1, 70, 71, 72, 73]}
SHARED = {"model": MODEL, "seed": 1, "block_size": 2, "token_budget": 200}
SCRIPTS = {
    "attributions": (
        attribute,
        AttributeJob(
            **SHARED, reinitialised_layers=None, masked_model=None, target="label",
            step_scores=None, scope=None, method="saliency", options={}, first_sample=0,
        ),
    ),
    "soft": (
        evaluate_soft,
        EvaluateJob(
            **SHARED, first_sample=0, compile=False, protocol="fixed", target="label",
            evaluation=DrawSettings(pi_grid=(0.3, 0.7), draws=1),
        ),
    ),
    "ranking": (
        evaluate_ranking,
        RankingJob(
            **SHARED, not_applicable=None, ranking=RankingSettings(steps=3), scope="content"
        ),
    ),
}  # fmt: skip
INPUTS = ("prompts", "generations", "attributions")
STRANGE = {
    pa.string(): st.sampled_from(["", "a", "z", "Maybe", "ok", "empty_record", "\U0010ffff"]),
    pa.int32(): st.sampled_from([-5, -1, 0, 1, 2, 99, 2**31 - 1]),
    pa.bool_(): st.booleans(),
    pa.float32(): st.sampled_from([0.0, -1.0, 3e38, float("nan"), float("inf")]),
    pa.float64(): st.sampled_from([0.0, -1.0, float("nan")]),
}


def rows_of(kind):
    """Return matching rows of three samples."""
    samples = [ExplainedSample(name, ids, [50], [0], [50]) for name, ids in SAMPLES.items()]
    prompts, answers = map(list, zip(*explained_rows.explained_samples(samples), strict=True))
    if kind == "generations":
        of_words = {"label": "Yes", "correct": True, "runner_up_ids": [60], "margins": [0.5]}
        return [row | of_words for row in answers]
    if kind == "prompts":
        for row in prompts:
            begin = [place == 0 for place in range(len(row["input_ids"]))]
            inside = [not first for first in begin]
            row |= {"content_mask": inside, "user_mask": inside, "bos_mask": begin, "label": "Yes"}
        return prompts
    return [
        {"sample_id": name, "step": 0, "raw_scores": [float(place) for place in range(len(ids))],
         "converged": None, "status": "ok"}
        for name, ids in SAMPLES.items()
    ]  # fmt: skip


@st.composite
def damages(draw):
    """Return a script and its input files, one of them damaged."""
    output = draw(st.sampled_from(list(SCRIPTS)))
    inputs = INPUTS[:2] if output == "attributions" else INPUTS
    rows = {kind: rows_of(kind) for kind in INPUTS}
    kind = draw(st.sampled_from(inputs))
    change = draw(st.sampled_from(["value", "value", "value", "drop", "repeat", "turn", "bytes"]))
    place = draw(st.integers(0, 2))
    if change == "drop":
        del rows[kind][place]
    elif change == "repeat":
        rows[kind].append(rows[kind][place])
    elif change == "turn":
        rows[kind].reverse()
    elif change == "value":
        field = draw(st.sampled_from(list(SCHEMAS[kind])))
        rows[kind][place][field.name] = draw(strange(field))
    cut = draw(st.integers(1, 2000)) if change == "bytes" else None
    return output, rows, kind, cut


def strange(field):
    """Return a strategy for values valid in a column but perhaps not in a row."""
    values = strange_of(field.type)
    return values | st.none() if field.nullable else values


def strange_of(kind):
    """Return a strategy for values of a type."""
    if pa.types.is_list(kind):
        return st.lists(strange_of(kind.value_type), max_size=8)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: strange_of(field.type) for field in kind})
    return STRANGE[kind]


@given(damaged=damages())
@settings(max_examples=200, **COMMON)
def test_damaged_intermediates_are_used_correctly_or_refused_in_one_line(tmp_path, damaged):
    output, rows, kind, cut = damaged
    script, slice_ = SCRIPTS[output]
    for path in tmp_path.iterdir():
        path.unlink()
    paths = {name: tmp_path / f"{name}.parquet" for name in INPUTS}
    for name, path in paths.items():
        pq.write_table(pa.Table.from_pylist(rows[name], schema=SCHEMAS[name]), path)
    if cut is not None:
        content = paths[kind].read_bytes()
        paths[kind].write_bytes(content[: cut % len(content)])
    made = tmp_path / "made.parquet"
    given_files = set(tmp_path.iterdir())
    arguments = argparse.Namespace(
        settings=slice_.to_json(), **paths, model=[tmp_path / "model/config.json"], masked_model=[],
        gpus=None, output=made, replacements=[],
        times=tmp_path / "times.parquet",
    )  # fmt: skip
    try:
        script.main(arguments)
    except BenchmarkError as error:
        one_line(error)
        assert set(tmp_path.iterdir()) == given_files, "nothing is written"
    else:
        assert {row["sample_id"] for row in read_rows(made, output)} == set(SAMPLES)


# Results --------------------------------------------------------------------------------------


def result_rows(kind):
    """Return the rows of an evaluated cell of three samples."""
    if kind == "soft":
        return soft_rows({"a": 2, "b": 1, "c": 1}, draws=2)
    return [
        {"sample_id": name, "curve": curve, "perturbable": 3, "flips": [False, True], "auc": 0.5,
         "log_probabilities": None, "status": "ok"}
        for name in SAMPLES
        for curve in ("deletion", "insertion")
    ]  # fmt: skip


@given(data=st.data(), kind=st.sampled_from(["soft", "ranking"]))
@settings(max_examples=200, **COMMON)
def test_damaged_results_are_summarised_or_refused_in_one_line(tmp_path, data, kind):
    rows = result_rows(kind)
    place = data.draw(st.integers(0, len(rows) - 1))
    change = data.draw(st.sampled_from(["value", "value", "value", "drop", "repeat", "turn"]))
    if change == "drop":
        del rows[place]
    elif change == "repeat":
        rows.append(rows[place])
    elif change == "turn":
        rows.reverse()
    else:
        field = data.draw(st.sampled_from(list(SCHEMAS[kind])))
        rows[place][field.name] = data.draw(strange(field))
    path = tmp_path / kind / "dynamic/llama/mine/sst2.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMAS[kind]), path)
    try:
        if kind == "soft":
            kinds = ("soft_samples", "curves", "soft_sample_curves")
            tables = dict(zip(kinds, summarise([path], **STATISTICS), strict=True))
        else:
            job = SummariseRankingJob(not_applicable={})
            rows = insertion_deletion.summaries(Files(ranking=[path]), job)
            tables = {kind: summary_table(kind, frames) for kind, frames in rows.items()}
        for name, table in tables.items():
            write_table(tmp_path / f"{name}.parquet", name, table, {})
    except BenchmarkError as error:
        one_line(error)


@pytest.fixture(autouse=True)
def _model_at_hand(monkeypatch):
    """Every job gets a model that is loaded already."""
    model, _ = model_and_network("llama-gqa", torch.float64)
    for script in (attribute, evaluate_soft, evaluate_ranking):
        monkeypatch.setattr(script, "load_model", lambda *_: model)
