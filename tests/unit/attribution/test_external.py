"""Imported scores: the steps that need scores, and one line per problem in a file."""

from __future__ import annotations

import argparse
import math
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import check_scores
import export_prompts
import import_scores
from helpers import explained_rows
from helpers.explained_rows import DATASET, MODEL, answer, prompt
from pisoft.config.jobs.cells import ExportJob, ImportJob
from pisoft.errors import BenchmarkError
from pisoft.store.cells import read_attributions
from pisoft.store.parquet import read_rows, write_rows

FAILED = "prompt_too_long"
PROMPTS = [prompt("a", ["x", "y"]), prompt("b", ["z"]), prompt("c", ["w"], status=FAILED)]
NOTHING = {"output_ids": [], "output_token_texts": [], "steps": [], "target_ids": []}
ANSWERS = [
    answer("a", steps=(0, 2)) | {"output_ids": [7, 8, 9], "target_ids": [7, 9]},
    answer("b"),
    answer("c", status=FAILED) | NOTHING,
]


class Cell:
    """A model's prompts, answers and file of scores in a folder."""

    def __init__(self, folder, prompts=PROMPTS, answers=ANSWERS, target="label"):
        self.target = target
        self.prompts = self.whole = explained_rows.write(folder, "prompts", prompts, MODEL)
        self.generations = explained_rows.write(folder, "generations", answers, MODEL)
        self.exported = folder / "to_score.parquet"
        self.scores = folder / "scores.parquet"
        self.output = folder / "attributions.parquet"

    def export(self):
        """Export the steps to score and return them as a user reads them, with scores."""
        files = {"prompts": [self.prompts], "generations": [self.generations]}
        settings = ExportJob(target=self.target).to_json()
        given = argparse.Namespace(
            settings=settings, files=files, outputs={"to_score": [self.exported]}
        )
        export_prompts.main(given)
        rows = pd.read_parquet(self.exported)
        return rows.assign(scores=[np.arange(len(ids)) / 7 for ids in rows["input_ids"]])

    def import_(self, rows=None):
        """Write scores, if there are any, and import them as a job does."""
        if rows is not None:
            table = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows)
            pq.write_table(table, self.scores)
        settings = ImportJob(model=MODEL, dataset=DATASET, target=self.target).to_json()
        kinds = ("prompts", "generations", "whole", "scores")
        files, outputs = {kind: [getattr(self, kind)] for kind in kinds}, [self.output]
        given = {"files": files, "outputs": {"attributions": outputs}}
        import_scores.main(argparse.Namespace(settings=settings, **given))
        return read_rows(self.output, "attributions")


@pytest.fixture
def cell(tmp_path):
    return Cell(tmp_path)


def test_every_explained_step_of_ok_samples_is_exported(cell):
    cell.export()
    rows = read_rows(cell.exported, "to_score")
    assert [(row["sample_id"], row["step"]) for row in rows] == [("a", 0), ("a", 2), ("b", 0)]
    assert {(row["model"], row["dataset"]) for row in rows} == {(MODEL, DATASET)}
    assert rows[1] == {
        **{name: PROMPTS[0][name] for name in ("input_ids", "token_texts", "content_mask")},
        "model": MODEL, "dataset": DATASET, "sample_id": "a", "step": 2, "output_ids": [7, 8],
        "target_id": 9, "target_text": " t2", "foil_ids": [], "scores": None,
    }  # fmt: skip


def test_scores_for_another_target_token_are_refused(tmp_path):
    word = answer("a", "Yes", "Yes") | {
        "output_ids": [50], "target_ids": [50], "output_token_texts": ["Yes"],
        "greedy_token_id": 9, "greedy_token_text": " Sure", "runner_up_ids": [60], "margins": [1.0],
    }  # fmt: skip
    words = {"label_words": ["Yes", "No"], "label_token_ids": [50, 60]}
    prompts = [PROMPTS[0] | {"label": "Yes"} | words]
    rows = {}
    for target in ("label", "generated", "contrastive"):
        cell = Cell(tmp_path / target, prompts, [word], target)
        rows[target] = cell.export()
        (row,) = read_rows(cell.exported, "to_score")
        token = (9, " Sure") if target == "generated" else (50, "Yes")
        assert (row["target_id"], row["target_text"]) == token
        assert row["foil_ids"] == ([60] if target == "contrastive" else [])
    with pytest.raises(BenchmarkError, match=r"wrong target_id: .* 9, expected 50"):
        cell.import_(rows["generated"])
    with pytest.raises(BenchmarkError, match=r"wrong foil_ids: .* is nothing, expected 60"):
        cell.import_(rows["label"])
    assert cell.import_(rows["contrastive"])[0]["status"] == "ok"


def test_scores_are_imported_in_sample_order(cell):
    rows = cell.export()
    other = rows.assign(model="other", scores=None)
    imported = cell.import_(pd.concat([other, rows[::-1]]).drop(columns="token_texts"))
    float32 = [float(np.float32(place / 7)) for place in range(5)]
    assert [(row["sample_id"], row["step"], row["status"]) for row in imported] == [
        ("a", 0, "ok"), ("a", 2, "ok"), ("b", 0, "ok"), ("c", 0, FAILED),
    ]  # fmt: skip
    assert [row["raw_scores"] for row in imported] == [float32, float32, float32[:4], None]
    pairs = list(zip(PROMPTS, ANSWERS, strict=True))
    read_attributions(cell.output, cell.prompts, PROMPTS, pairs)


def test_constant_scores_give_a_warning(cell, caplog):
    kind = "scores that are all equal, which order no tokens"
    rows = cell.export()
    cell.import_(rows)
    assert kind not in caplog.text
    equal = rows.assign(scores=[[0.1] * len(ids) for ids in rows["input_ids"]])
    assert cell.import_(equal)[0]["raw_scores"] == [float(np.float32(0.1))] * 5
    assert f"{cell.scores}: {kind}: 3 of 3 rows, the first: sample 'a', step 0" in caplog.text


def test_a_shard_imports_its_samples_and_refuses_unknown_ones(cell, tmp_path):
    rows = cell.export()
    shard = Cell(tmp_path / "shard", PROMPTS[1:], ANSWERS[1:])
    shard.whole = cell.prompts
    assert [row["sample_id"] for row in shard.import_(rows)] == ["b", "c"]
    strange = pd.concat([rows, rows[:1].assign(sample_id="q")])
    with pytest.raises(BenchmarkError, match=r"unknown samples: 1 of 2 rows.* 'q'"):
        shard.import_(strange)
    with pytest.raises(BenchmarkError, match=r"missing samples: 1 of 1 samples.* 'b'"):
        shard.import_(rows[:2])


def changed(name, place, value):
    """Return a function that changes one value of a column."""

    def change(rows):
        column = rows[name].tolist()
        column[place] = value(column[place]) if callable(value) else value
        return rows.assign(**{name: column})

    return change


def exactly(rows):
    """Return rows as a table in which NaN is not null, as it is to pandas."""
    return pa.table({name: pa.array(list(rows[name]), from_pandas=False) for name in rows})


def added(place, **changes):
    """Return a function that appends a modified copy of a row."""
    return lambda rows: pd.concat([rows, rows[place : place + 1].assign(**changes)])


WRONG = [
    (added(0, sample_id="q"), "unknown samples: 1 of 4 rows, the first: sample 'q', step 0"),
    (added(0, sample_id="c"), "unknown samples: 1 of 4 rows, the first: sample 'c'"),  # failed
    (lambda rows: rows[:2], "missing samples: 1 of 2 samples, the first: sample 'b'"),
    (lambda rows: rows.drop(index=1), "missing steps: 1 of 3 steps, the first: sample 'a', step 2"),
    (added(2, step=5), "unknown steps: 1 of 4 rows, the first: sample 'b', step 5"),
    (added(1), "duplicate rows: 1 of 4 rows, the first: sample 'a', step 2"),
    (changed("input_ids", 2, lambda ids: [*ids[:2], 99, ids[3]]),
     "wrong input_ids: 1 of 3 rows, the first: sample 'b', step 0: position 2, counted from 0, is "
     "99, expected 2 ('z')"),
    (changed("input_ids", 0, lambda ids: ids[:-1]), "from 0, is nothing, expected 4 ('</s>')"),
    (changed("input_ids", 0, lambda ids: [*ids, 1]), "0, is 1, expected nothing"),
    (changed("input_ids", 0, None), "wrong input_ids: 1 of 3 rows"),
    (changed("output_ids", 1, lambda ids: [ids[0], 5]),
     "wrong output_ids: 1 of 3 rows, the first: sample 'a', step 2: position 1, counted from 0, is "
     "5, expected 8"),
    (changed("target_id", 1, 8), "wrong target_id: 1 of 3 rows, the first: sample 'a', step 2: 8"),
    (changed("scores", 1, None), "no scores: 1 of 3 rows, the first: sample 'a', step 2"),
    (lambda rows: rows.assign(scores=None), "no scores: 3 of 3 rows"),
    (changed("scores", 0, lambda scores: scores[:-1]),
     "wrong number of scores: 1 of 3 rows, the first: sample 'a', step 0: 4 for 5 prompt tokens"),
    (lambda rows: exactly(changed("scores", 2, [0.0, math.nan, 1.0, math.inf])(rows)),
     "scores that are not finite: 1 of 3 rows, the first: sample 'b', step 0: nan at position 1"),
    (changed("scores", 2, [0.0, 1.0, 1.0, None]), "step 0: nan at position 3, counted from 0"),
    (changed("scores", 2, [0.0, 1.0, 1e39, 0.0]),
     "scores that float32 does not hold: 1 of 3 rows, the first: sample 'b', step 0: 1e+39 at "
     "position 2, counted from 0, of scores from 0.0 to 1e+39; shift or scale them"),
    (changed("scores", 2, [1.0, 1.0, 1 + 1e-9, 1.0]), "1.000000001 at position 2, counted from 0"),
    (changed("scores", 2, [0.0, 1e-50, 0.0, 0.0]), "step 0: 1e-50 at position 1, counted from 0"),
    (lambda rows: rows.drop(columns=["target_id", "scores"]),
     "columns are missing: target_id, scores; `make export CONFIG=…` writes a file to begin"),
    (lambda rows: rows.assign(scores="0.1 0.2"), "'scores' is large_string, expected list<"),
    (changed("input_ids", slice(None), [["one"]] * 3), "is list<element: string>, expected list<"),
    (lambda rows: rows.assign(model="other"),
     "has no row of model 'llama' on dataset 'sst2'; it has rows of: other on sst2"),
    (lambda rows: rows[:0], "it has rows of: none"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_problems_are_reported_in_one_line_and_nothing_is_written(cell, change, message):
    with pytest.raises(BenchmarkError) as caught:
        cell.import_(change(cell.export()))
    assert str(caught.value).startswith(f"{cell.scores}: ")
    assert message in str(caught.value)
    assert not cell.output.exists()


def test_missing_and_invalid_parquet_files_are_named(cell):
    with pytest.raises(BenchmarkError, match=r"scores\.parquet: no such file; `make export"):
        cell.import_()
    cell.scores.write_text("sample_id,score\n", encoding="utf-8")
    with pytest.raises(BenchmarkError, match=r"scores\.parquet: is not a readable Parquet file"):
        cell.import_()


def test_column_types_of_other_writers_are_read(cell):
    """Large lists and strings, fixed lists, dictionaries, wider and narrower numbers."""
    rows = cell.export()[2:]
    whole = Cell(cell.prompts.parents[3] / "one", PROMPTS[1:2], ANSWERS[1:2])
    table = pa.table(
        {
            "model": pa.array(rows["model"]).dictionary_encode(),
            "dataset": pa.array(rows["dataset"], pa.large_string()),
            "sample_id": pa.array(rows["sample_id"], pa.large_string()),
            "step": pa.array(rows["step"], pa.uint8()),
            "input_ids": pa.array(rows["input_ids"], pa.large_list(pa.int64())),
            "output_ids": pa.array(rows["output_ids"], pa.list_(pa.int64())),
            "target_id": pa.array(rows["target_id"], pa.int64()),
            "foil_ids": pa.array(rows["foil_ids"], pa.list_(pa.int64())),
            "scores": pa.array([[1, 2, 3, 4]], pa.list_(pa.int64(), 4)),
        }
    )
    pq.write_table(table, whole.scores)
    assert [row["raw_scores"] for row in whole.import_()] == [[1.0, 2.0, 3.0, 4.0]]


RUN_FILE = """\
run: tiny
models: [toy]
datasets: [sst2]
methods: [random, mine]
catalogue:
  models: {toy: {label: Toy, source: {kind: hub, repository: no/where}}}
  methods: {mine: {source: {kind: scores, path: "{local_root}/{model}-{dataset}.parquet"}}}
"""


def test_the_check_lists_every_kind_of_problem_and_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = Cell(tmp_path).export().assign(model="toy")
    exported = tmp_path / "results/tiny/data/to_score.parquet"
    write_rows(exported, "to_score", rows.assign(scores=None).to_dict("records"), {})
    (tmp_path / "tiny.yaml").write_text(RUN_FILE, encoding="utf-8")
    given = argparse.Namespace(configfile=[tmp_path / "tiny.yaml"], config=["local_root=."])
    equal = "fine: 3 rows", "scores that are all equal, which order no tokens: 1 of 3 rows, the fir"
    cases = [
        (None, False, ["toy-sst2.parquet: no such file"]),
        (rows, True, equal[:1]),
        (changed("scores", 0, [0.1] * 5)(rows), True, equal),
        (
            changed("scores", 0, None)(changed("target_id", 1, 8)(rows[:2])),
            False,
            ["no scores", "wrong target_id", "missing samples"],
        ),
    ]
    for table, fine, lines in cases:
        if table is not None:
            table.to_parquet(tmp_path / "toy-sst2.parquet")
        with nullcontext() if fine else pytest.raises(BenchmarkError, match="imported as they are"):
            check_scores.main(given)
        printed = capsys.readouterr().out.splitlines()
        for line, expected in zip(printed, lines, strict=True):
            assert line.startswith(f"mine, toy on sst2: {expected}")


def test_a_run_without_imported_scores_is_reported(tmp_path):
    given = argparse.Namespace(configfile=[check_scores.CONFIG_FOLDER / "config.yaml"], config=[])
    with pytest.raises(BenchmarkError, match=r"config.yaml: no method has a `source` of kind"):
        check_scores.main(given)
