"""Leaderboard: summaries survive a round trip, defects are reported, the page ranks and filters."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from check_summary import main, parser, problems
from comparable_runs import settings_hash
from helpers.browser import check_accessible, chromium, visit
from helpers.result_sets import CASES, rows_of, values_of
from keep_summary import BOARD, PAGE_RUN
from leaderboard import leaderboard
from pisoft.errors import BenchmarkError
from pisoft.statistics.metrics import AUC_METRICS
from pisoft.statistics.results import KEYS, select
from summary import KEPT, Summary, keep, kept, results_of, samples_of

ENTRY = Path(__file__).parents[3] / BOARD / f"{PAGE_RUN}.json"
ADDRESS = "dynamic smollm2-135m-instruct-q4 imdb-laptop auc_pi_soft_ns"
Content = dict[str, Any]


@pytest.fixture(scope="module")
def content() -> Content:
    """Return the stored entry with only the areas."""
    whole = json.loads(ENTRY.read_text(encoding="utf-8"))
    statistics = whole["results"]["statistics"]
    place = statistics["columns"].index("metric")
    statistics["rows"] = [row for row in statistics["rows"] if row[place] in AUC_METRICS]
    whole["results"] = {kind: whole["results"][kind] for kind in ("statistics", "accuracy")}
    return whole


def edited(content: Content, **settings: Any) -> Content:
    """Return a copy of an entry with other settings and their hash."""
    other = copy.deepcopy(content)
    other["settings"] |= settings
    other["settings_hash"] = settings_hash(other["settings"])
    return other


def table(content: Content) -> tuple[list[str], list[list[Any]]]:
    """Return columns and rows of the statistics; the first row is π-Soft-NS of random scores."""
    statistics = content["results"]["statistics"]
    return statistics["columns"], statistics["rows"]


def put(name: str, value: Any) -> Callable[[Content], None]:
    """Return a change of a number of the first row."""

    def change(content: Content) -> None:
        columns, rows = table(content)
        rows[0][columns.index(name)] = value

    return change


def no_value(content: Content) -> None:
    columns, _ = table(content)
    columns[columns.index("value")] = "valeu"


def double(content: Content) -> None:
    rows = table(content)[1]
    rows.append(rows[0])


def exchanged_ranks(content: Content) -> None:
    columns, rows = table(content)
    place = columns.index("rank")
    rows[0][place], rows[1][place] = rows[1][place], rows[0][place]


def other_average(content: Content) -> None:
    columns, rows = table(content)
    names = [columns.index(name) for name in ("dataset", "metric")]
    row = next(r for r in rows if [r[n] for n in names] == ["average", "auc_pi_soft_nc"])
    row[columns.index("value")] += 1e-4


def samples(*values: float) -> Callable[[Content], None]:
    """Return an addition of values of the samples of the first row."""

    def change(content: Content) -> None:
        columns, rows = table(content)
        names = ["protocol", "model", "dataset", "metric", "method"]
        keys = [rows[0][columns.index(name)] for name in names]
        lines = [[*keys, value] for value in values]
        content["samples"] = {"columns": [*names, "value"], "rows": lines}

    return change


DEFECTS: dict[str, tuple[Callable[[Content], Any], str]] = {
    "key": (
        lambda c: c.update(device=c.pop("devices")),
        "device: unknown key; did you mean 'devices'?",
    ),
    "column": (no_value, "results.statistics.columns: unknown name 'valeu'; did you mean 'value'?"),
    "no column": (no_value, "results.statistics.columns: 'value' is required and missing"),
    "question": (
        lambda c: c["results"].update(statistic=c["results"]["accuracy"]),
        "results: unknown key 'statistic'; did you mean 'statistics'?",
    ),
    "short row": (lambda c: table(c)[1][0].pop(), "rows.0: has 19 entries for 20 columns"),
    "type": (put("value", "0.2"), "results.statistics.rows.0.value: must be a number (got '0.2')"),
    "infinite": (put("value", np.inf), "must be a finite number (got inf)"),
    "method": (put("method", "randon"), "unknown name 'randon'; did you mean 'random'?"),
    "metric": (put("metric", "auc_pi_soft_n"), "unknown name 'auc_pi_soft_n'; did you mean 'auc_"),
    "twice": (double, f"statistics: two numbers of {ADDRESS} random"),
    "n": (put("n", 0), f"{ADDRESS} random: n is 0, but there is a value; allowed from 1"),
    "failed": (put("n_failed", -1), f"{ADDRESS} random: n_failed is -1; allowed from 0"),
    "low": (put("low", 0.3), "low ≤ value ≤ high does not hold: 0.3, 0.231791, 0.323202"),
    "high": (put("high", 0.2), "low ≤ value ≤ high does not hold: 0.188199, 0.231791, 0.2"),
    "one end": (put("low", None), "low ≤ value ≤ high does not hold: nan, 0.231791, 0.323202"),
    "p": (put("p_value", 1.2), "p_value is 1.2; allowed from 0 to 1"),
    "negative": (put("value", -0.1), "value is -0.1; allowed from 0"),
    "above one": (put("value", 1.5), "value is 1.5; allowed up to 1"),
    "best": (put("best", "random"), f"{ADDRESS}: best is 'random'; by the values, value_zeroing"),
    "rank": (exchanged_ranks, f"{ADDRESS} random: rank is 12; by the values, 13"),
    "average": (other_average, "auc_pi_soft_nc random: value is 0.535"),
    "hash": (lambda c: c["settings"].update(target="generated"), "settings_hash: is '"),
    "setting": (
        lambda c: c["settings"].update({"evaluation.operater": "zero"}),
        "settings: unknown key 'evaluation.operater'; did you mean 'evaluation.operator'?",
    ),
    "sample": (samples(*[0.231791] * 8, 0.3), "random: value is 0.231791, of the samples' 0.2"),
    "too few": (samples(*[0.231791] * 8), f"{ADDRESS} random: n is 9, of the samples' 8"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "line"), DEFECTS.values(), ids=DEFECTS)
def test_each_defect_gives_one_line(
    content: Content, change: Callable[[Content], Any], line: str, tmp_path: Path, capsys: Any
) -> None:
    wrong, path = copy.deepcopy(content), tmp_path / "wrong.json"
    change(wrong)
    path.write_text(json.dumps(wrong), encoding="utf-8")
    with pytest.raises(BenchmarkError, match="cannot be an entry as it is"):
        main(parser().parse_args([str(path)]))
    lines = capsys.readouterr().out.splitlines()
    assert sum(line in one for one in lines) == 1, lines
    assert all(one.startswith(f"{path}: ") for one in lines)


@pytest.mark.parametrize("path", sorted(ENTRY.parent.glob("*.json")), ids=lambda path: path.stem)
def test_every_stored_entry_is_valid(path: Path) -> None:
    assert problems(path) == []


def test_methods_of_equal_values_may_have_any_order(content: Content, tmp_path: Path) -> None:
    other, path = copy.deepcopy(content), tmp_path / "tied.json"
    columns, rows = table(other)
    rows[1][columns.index("value")] = rows[0][columns.index("value")]
    exchanged_ranks(other)
    samples(*[0.231791] * 9)(other)
    path.write_text(json.dumps(other), encoding="utf-8")
    assert all(" average " in line or "gradient_shap" in line for line in problems(path))
    assert not [line for line in problems(path) if "rank is" in line]


@pytest.mark.parametrize("case", ["several", "uneven", "one sample"])
def test_stored_results_survive_a_round_trip(content: Content, case: str, tmp_path: Path) -> None:
    of = CASES[case]
    values = values_of(of)
    kinds = (*KEPT, "soft_samples")
    frames = {
        kind: pd.DataFrame(rows_of(kind, of, values[kind])).replace({None: np.nan})
        for kind in kinds
    }
    path = tmp_path / "run.json"
    summary = Summary(
        **{**content, "results": results_of(frames), "samples": samples_of(frames["soft_samples"])}
    )
    keep(path, summary)
    assert kept(path) == summary
    for kind, read in kept(path).numbers.rows.items():
        written = select(frames[kind], **KEPT[kind]).reset_index(drop=True)
        names = [*KEYS[:-1], "value", "low", "high", "n", "n_failed", "rank"]
        pd.testing.assert_frame_equal(read[names], written[names], rtol=1e-5, check_dtype=False)
    assert "s0" not in path.read_text(encoding="utf-8"), "a sample has a name"


def page(summaries: dict[str, Content], path: Path) -> None:
    """Write a page with only the rankings."""
    board = leaderboard({name: Summary.model_validate(one) for name, one in summaries.items()})
    head = '<!doctype html><html lang="en"><title>Leaderboard</title><main><h1>Leaderboard</h1>'
    path.write_text(f"{head}{board}</main>", encoding="utf-8")


def test_comparable_runs_are_ranked_together_and_others_list_differences(
    content: Content, tmp_path: Path
) -> None:
    path = tmp_path / "index.html"
    options = {"saliency.attributed_function": "logit"}
    runs = {
        "a": content,
        "precise": edited(content, **{"evaluation.draws": 15, "evaluation.sampler": "iid"}, seed=2),
        "logits": edited(content, **options),
        "mean": edited(content, **{"evaluation.operator": "mean"}),
        "short": edited(content, **{"generation.max_new_tokens": 5}),
    }
    assert runs["a"]["settings_hash"] == runs["precise"]["settings_hash"]
    assert len({run["settings_hash"] for run in runs.values()}) == 4
    page(runs, path)
    with chromium() as browser:
        opened = visit(browser, path, width=390)
        ranking = opened.page.locator(".ranking:visible")
        assert ranking.count() == 1, "filters choose one"
        text = ranking.inner_text()
        assert "Comparable: a, precise, logits." in text
        assert "Methods of logits have other options (saliency.attributed_function: " in text
        assert "Not comparable with mean: evaluation.operator: zero, there mean." in text
        assert "Not comparable with short: generation.max_new_tokens: 10, there 5." in text
        first = ranking.locator("tbody").first.locator("tr")
        assert first.count() == 3 * 13
        cells = first.nth(0).locator("td").all_inner_texts()
        assert cells == ["2", "Value Zeroing", "0.381", "[.352, .405]", "45", "a"]
        opened.page.get_by_label("Dataset").focus()
        opened.page.keyboard.press("I")  # IMDb, by keyboard only
        text = opened.page.locator(".ranking:visible").inner_text()
        assert "IMDb, dynamic routing" in text
        assert "Comparable: a, precise, logits, short." in text, "label words without open text"
        opened.assert_silent_and_offline()
        check_accessible(browser, path)


def test_larger_samples_come_first_and_missing_datasets_are_named_once(
    content: Content, tmp_path: Path
) -> None:
    fewer = copy.deepcopy(content)
    settings = {k: v for k, v in fewer["settings"].items() if not k.startswith("wikibio-laptop.")}
    settings["datasets"] = [name for name in settings["datasets"] if name != "wikibio-laptop"]
    fewer |= {"settings": settings, "settings_hash": settings_hash(settings)}
    columns, rows = table(fewer)
    for row in rows:
        row[columns.index("n")] = 2
    page({"fewer": fewer, "more": content}, tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    first = text.index("Not comparable with fewer: datasets: here also wikibio-laptop.</p>")
    second = text.index("Not comparable with more: datasets: there also wikibio-laptop.</p>")
    assert first < second, "one below the other"


def test_datasets_with_equal_labels_are_separate_rankings(content: Content, tmp_path: Path) -> None:
    renamed = json.loads(json.dumps(content).replace("imdb-laptop", "imdb"))
    page({"a": content, "b": renamed}, tmp_path / "index.html")
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert text.count("<option>IMDb</option>") == 1
    assert text.count("<option>IMDb (imdb)</option>") == 1
    assert text.count('data-dataset="IMDb"') == text.count('data-dataset="IMDb (imdb)"') == 4
