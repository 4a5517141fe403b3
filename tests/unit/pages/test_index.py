"""The front page: its statements follow from the numbers."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from helpers import goldens
from helpers.browser import check_accessible, chromium, visit
from helpers.result_rows import frame
from helpers.result_sets import CASES, LABELS, Case, rows_of, values_of
from pisoft.pages.example import PI, example_table
from pisoft.pages.findings import Numbers, failures
from pisoft.pages.index import EVIDENCE, facts_of, index_page
from pisoft.pages.page import Figure, write_html, write_verdicts

PLAIN = Case(("random", "saliency", "attention"), labels=LABELS, models={"llama": "Llama"})
TWO = replace(PLAIN, models={"llama": "Llama", "mistral": "Mistral"})
FILES = {
    "Curves over π": ["figures/pi_curves/dynamic/llama/sst2.html"],
    "Token by token": ["explorer.html"],
    "Against the paper": ["tables/published/against_paper.html"],
    "Other statistics": ["tables/variance_components/dynamic/llama.html"],
    "AUC": [
        f"{room}/auc/{protocol}/{model}.html"
        for room in ("tables", "figures")
        for protocol in ("dynamic", "fixed")
        for model in ("llama", "mistral")
    ],
    "Cost": ["tables/timings.html"],
    "Mine": ["tables/my_table/llama.html", "figures/my_table.html"],
}


def rows(case: Case, *kinds: str) -> dict[str, pd.DataFrame]:
    """Return a result set by kind, as passed to the page."""
    values = values_of(case)
    return {kind: frame(rows_of(kind, case, values[kind])) for kind in kinds}


def numbers_of(case: Case) -> Numbers:
    return Numbers(rows(case, "statistics", "comparisons", "ranks", "coverage"), case.settings)


def page_of(case: Case, numbers: Numbers | None = None, evidence: bool = True):
    return index_page(
        "demo",
        numbers or numbers_of(case),
        evidence=rows(case, *EVIDENCE) if evidence else dict.fromkeys(EVIDENCE, frame([])),
        figure=Figure("data:image/svg+xml;base64,", "curves"),
        facts=(f"Code: {'a1' * 32}",),
        files={title: [Path(name) for name in names] for title, names in FILES.items()},
        warning="Nothing <real>.",
    )


@pytest.mark.parametrize(
    "name", ["several", "uneven", "no random scores", "no value", "one sample", "one method"]
)
def test_the_page_equals_its_golden_file(name):
    page = page_of(CASES[name], evidence=name != "no random scores")
    goldens.compare(goldens.page_text(page), goldens.file(name, "pages", "index"))


def test_the_page_lists_datasets_by_model_if_they_differ():
    numbers = numbers_of(TWO)
    rows = numbers.rows["statistics"]
    numbers.rows["statistics"] = rows.query("model != 'llama' or dataset != 'imdb'")
    page = page_of(TWO, numbers)
    assert [section.heading for section in page.sections if section.rankings] == [
        "Llama on SST-2: which methods are most faithful? (n = 20 samples)",
        "Mistral on SST-2, IMDb: which methods are most faithful? (n = 20 samples)",
    ]
    (measured,) = [s for s in page.sections if s.heading == "How to read these numbers"]
    sentence = "Datasets of each model: Llama: SST-2; Mistral: SST-2, IMDb."
    assert measured.paragraphs[1].endswith(sentence)


def test_rankings_share_a_scale_per_metric():
    numbers = numbers_of(TWO)
    large = numbers.rows["statistics"]
    for column in ("value", "low", "high"):
        large.loc[large["metric"] == "auc_pi_soft_nc", column] *= 100
    rankings = [one for section in page_of(TWO, numbers).sections for one in section.rankings]
    for metric in ("π-Soft-NS", "π-Soft-NC"):
        by_metric = [one for one in rankings if metric in one.title]
        (axis,) = {tuple(one.ticks.values()) for one in by_metric}
        lines = [line for one in by_metric for line in one.standings]
        assert len(by_metric) == 2
        assert 0 <= min(line.low for line in lines) < 30 < 70 < max(line.high for line in lines)
        assert (float(axis[-1]) > 5) == (metric == "π-Soft-NC")


@pytest.mark.parametrize("has_control", [True, False])
def test_marks_and_shading_match_the_legend(has_control):
    numbers = numbers_of(PLAIN)
    rows = numbers.rows["statistics"]
    rows[["p_adjusted", "p_equivalence"]] = 0.01
    if not has_control:
        rows.loc[rows["method"] == "random", "value"] = None
    section = page_of(PLAIN, numbers).sections[2]
    verdict, standings = section.rankings[0].verdict, section.rankings[0].standings
    assert (standings[1].marks[0], standings[1].leads) == ("≡", True), "equivalent to the best"
    assert any("†" in line.marks for line in standings) == has_control
    assert ("†" in section.paragraphs[0]) == has_control
    count = verdict.count("Not tested against random scores, which have no value here.")
    assert count == (not has_control)


def test_the_worked_example_keeps_half_of_the_tokens_on_average():
    values = example_table().values
    assert len(values) == 8
    assert values["probability"].mean() == pytest.approx(PI, abs=1e-9)
    assert list(values["probability"].rank()) == list(values["score"].rank()), "a power keeps order"
    assert (values["ns"] != values["nc"]).all(), "masks are complements"


def test_a_run_without_failures_says_so():
    coverage = numbers_of(PLAIN).rows["coverage"].query("part == 'ok'")
    sentence = "None: every sample was evaluated."
    assert failures(Numbers({"coverage": coverage}, PLAIN.settings)) == sentence


def test_the_first_screen_holds_answer_ranking_and_n(tmp_path):
    numbers = numbers_of(PLAIN)
    numbers.rows["ranks"] = numbers.rows["ranks"].query("other == ''")  # none without a dataset
    path = tmp_path / "page.html"
    write_html(page_of(PLAIN, numbers, evidence=False), path)
    below = (".ranking >> nth=0", ".ranking >> nth=1", "text=n = 20 samples")
    with chromium() as browser:
        for width, height, others in ((390, 844, ()), (1440, 900, below)):
            opened = visit(browser, path, width=width, height=height)
            for selector in ("#answer + p", *others):
                box = opened.page.locator(selector).first.bounding_box()
                assert box["y"] + box["height"] <= height
            opened.assert_silent_and_offline()
        check_accessible(browser, path)


def test_the_verdicts_are_text_and_start_with_the_warning(tmp_path):
    page = page_of(PLAIN)
    write_verdicts(page, tmp_path / "verdicts.txt")
    ((ns, nc),) = [section.rankings for section in page.sections if section.rankings]
    assert (tmp_path / "verdicts.txt").read_text(encoding="utf-8").splitlines() == [
        "Nothing <real>.",
        "",
        "Llama: which methods are most faithful? (n = 20 samples)",
        f"- AUC π-Soft-NS ↑, dynamic routing: {ns.verdict}",
        f"- AUC π-Soft-NC ↑, dynamic routing: {nc.verdict}",
    ]


@pytest.mark.parametrize(("quantization", "kind"), [("none", ""), ("nf4", ", nf4")])
def test_facts_state_model_dtype_device_and_code(quantization, kind):
    model = {"repository": "a/b", "revision": "main", "dtype": "bfloat16"}
    settings = {"model": model | {"quantization": quantization}}
    origins = {"B": {"settings": settings, "device": "NVIDIA X", "model_commit": "c0ffee"}}
    versions = {"code": (), "python": ("3.11",), "torch": ("2.13", "2.14")}
    described, code, packages, mixed = facts_of(origins, versions)
    assert described == f"B: a/b, bfloat16{kind}, on NVIDIA X, revision c0ffee"
    assert code == "Code: not a git checkout"
    assert packages == "Packages: python 3.11, torch 2.13 and 2.14"
    assert mixed == "Not all results were computed with the same version of torch"
    assert len(facts_of(origins, versions | {"torch": ("2.13",)})) == 3
