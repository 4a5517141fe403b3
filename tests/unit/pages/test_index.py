"""The front page: what it says follows from the numbers, whatever they are."""

import itertools
from pathlib import Path

import pandas as pd
import pytest

from estimating import estimated
from pisoft.pages.findings import Findings, Names
from pisoft.pages.index import facts_of, index_page
from pisoft.pages.page import Figure, write_html, write_verdicts
from pisoft.tables.layout import Table

NAMES = Names({"llama": "Llama"}, {"sst2": "SST-2", "imdb": "IMDb"}, {
    "random": "Random", "good": "Good", "twin": "Twin", "bad": "<Bad>",
})  # fmt: skip
LEVELS = {"random": 0.3, "good": 0.9, "twin": 0.9, "bad": 0.1}
TABLE = Table("Main", "Dataset", (), (), (), pd.DataFrame())
FIGURE = Figure("data:image/svg+xml;base64,", "curves")
METRICS = ("auc_pi_soft_ns", "auc_pi_soft_ns_unclamped", "auc_pi_soft_nc", "h0", "identity",
           "auc_numerator_ns", "auc_numerator_nc", "monte_carlo_ns", "monte_carlo_nc",
           "numerical")  # fmt: skip


FILES = {
    "Curves over π": ["figures/pi_curves/dynamic/llama/sst2.svg"],
    "Token by token": ["explorer.html"],
    "Against the paper": ["tables/published/against_paper.html"],
    "Other statistics": ["tables/robust_statistics/dynamic/llama.html"],
    "Cost": ["tables/cost.html"],
    "Mine": ["tables/my_table/llama.html", "figures/my_table.svg"],
}


def rows_of(levels, failed=(), samples=12):
    """Rows of `soft_samples`: `levels` = {(method, dataset): level}; small noise by sample."""
    return [
        {
            "protocol": "dynamic", "model": "llama", "method": method, "dataset": dataset,
            "sample_id": f"s{number}", "metric": metric,
            "value": None if (method, number) in failed else value_of(metric, level, number),
            "status": "nonfinite_attribution" if (method, number) in failed else "ok",
        }
        for (method, dataset), level in levels.items()
        for number in range(samples)
        for metric in METRICS
    ]  # fmt: skip


def value_of(metric, level, number):
    constants = {"h0": 0.5, "identity": 0.0, "numerical": 0.0}
    if metric.startswith("monte_carlo"):
        return 0.0
    return constants.get(metric, level + (number % 5 - 2) * (0.01 + level / 100))


def page_of(rows, cost=None):
    found = estimated(rows, resamples=2000)
    frame = pd.DataFrame(rows)
    rules = {"rule": ["attribute"], "jobs": [3], "forwards_high": [2e6], "flops_high": [3e12],
             "timed_jobs": [2], "seconds": [600.0]}  # fmt: skip
    findings = Findings(
        found.statistics, found.comparisons, found.leave_one_out,
        frame[frame["metric"] == "identity"], pd.DataFrame(rules),
    )  # fmt: skip
    return index_page(
        "demo", findings, NAMES, table=TABLE, figure=FIGURE, facts=("Code: abc",),
        files={title: [Path(name) for name in names] for title, names in FILES.items()},
        warning="Nothing <real>.",
    )  # fmt: skip


def panels(page):
    (section,) = [s for s in page.sections if s.panels]
    assert section.heading == "Llama: which scores are faithful? (n = 24 samples)"
    return section.panels


def reading(page):
    (section,) = [s for s in page.sections if s.heading.startswith("Reading")]
    return section.points


def everywhere(levels):
    return {(method, dataset): v for method, v in levels.items() for dataset in NAMES.datasets}


def test_the_reading_names_the_best_what_equals_it_and_the_control():
    points = reading(page_of(rows_of(everywhere(LEVELS))))
    assert points[0].startswith("π-Soft-NS")
    assert "Good (0.895 [" in points[0]  # 0.9 and the mean of the noise
    assert "Twin (0.895 [" in points[0]
    assert points[0].endswith("are highest; every other method is told apart from the best.")
    assert points[1] == (
        "Against the control, better than random scores: Good, Twin; worse than they are: <Bad>."
    )


def test_the_first_panel_ranks_the_methods_and_says_who_leads():
    ns, nc = panels(page_of(rows_of(everywhere(LEVELS))))
    assert (ns.title, nc.title) == (
        "AUC π-Soft-NS ↑, dynamic routing", "AUC π-Soft-NC ↑, dynamic routing"
    )  # fmt: skip
    assert ns.verdict == (
        "Good, Twin lead. Every other method is told apart from the best. "
        "Better than random scores: 2 of 3."
    )
    assert [(bar.label, bar.group, bar.control) for bar in ns.bars] == [
        ("Good", "best", False), ("Twin", "best", False),
        ("Random", "other", True), ("<Bad>", "other", False),
    ]  # fmt: skip
    for bar in ns.bars:
        assert 0 <= bar.low < bar.at < bar.high <= 100
    assert ns.bars[0].text.startswith("0.895 [.8")


def test_what_is_not_told_apart_from_the_best_is_shaded_and_counted():
    rows = rows_of(everywhere(LEVELS))
    for row in rows:
        if row["method"] == "twin" and row["metric"].startswith("auc"):
            row["value"] += 0.002 * (1 if int(row["sample_id"][1:]) % 2 else -1.1)
    first, _ = panels(page_of(rows))
    assert [bar.group for bar in first.bars] == ["best", "tied", "other", "other"]
    assert first.verdict.startswith("Good leads. Not told apart from the best: 1 of 3 others.")


def test_every_file_is_linked_under_its_group_by_its_labels():
    page = page_of(rows_of(everywhere(LEVELS)))
    cards = {s.heading: s.cards for s in page.sections if s.cards}
    assert list(cards) == ["Answer", "Robustness", "Provenance", "More"]
    curves, explorer, published = cards["Answer"]
    assert curves.title == "Curves over π"
    address = "figures/pi_curves/dynamic/llama/sst2.svg"
    assert curves.links == ((address, "figure · dynamic · Llama · SST-2"),)
    assert explorer.links == (("explorer.html", "page"),)
    assert published.links == (("tables/published/against_paper.html", "page"),)
    (mine,) = cards["More"]
    assert mine.title == "Mine"
    assert [said for _, said in mine.links] == ["table · Llama", "figure"]
    linked = [
        address for of_group in cards.values() for card in of_group for address, _ in card.links
    ]
    assert sorted(linked) == sorted(itertools.chain(*FILES.values()))


def test_equal_methods_are_not_said_to_differ():
    points = reading(page_of(rows_of(everywhere(dict.fromkeys(LEVELS, 0.5)))))
    assert points[0].endswith("are highest.")
    assert points[0].count("0.4") >= 4, "all four are"
    assert "better" not in points[1]
    assert "not distinguishable from them: Good, Twin, <Bad>" in points[1]


def test_a_dataset_that_decides_on_the_best_is_named():
    levels = everywhere({**LEVELS, "twin": 0.5})
    levels["twin", "imdb"] = 1.5
    points = " ".join(reading(page_of(rows_of(levels))))
    assert "Good (" not in points.split("is highest")[0].split(":")[0]
    assert "hangs on single datasets: without IMDb it is Good" in points


def test_a_best_that_single_samples_make_is_contrasted_with_the_ratio_of_means():
    rows = rows_of(everywhere(LEVELS))
    for row in rows:
        if row["method"] == "random" and row["metric"].startswith("auc_numerator"):
            row["value"] = 2.0
    assert any("ratio of means" in point and "Random" in point for point in reading(page_of(rows)))


def test_failures_are_counted_by_model_dataset_and_reason():
    failed = {("bad", 1), ("bad", 2), ("good", 1)}
    text = failures(page_of(rows_of(everywhere(LEVELS), failed)))
    assert "Llama, SST-2, dynamic: 2 nonfinite_attribution (2 methods)" in text
    assert failures(page_of(rows_of(everywhere(LEVELS)))).startswith("None")


def failures(page):
    (section,) = [s for s in page.sections if "could not" in s.heading]
    (text,) = section.paragraphs
    return text


def test_a_method_without_values_does_not_break_the_reading():
    failed = {(method, number) for method in LEVELS for number in range(12)}
    points = reading(page_of(rows_of(everywhere(LEVELS), failed)))
    assert points == tuple(
        f"{title}: no method has a value in every dataset."
        for title in (
            "π-Soft-NS (do the tokens with high scores suffice?)",
            "π-Soft-NC (does the model miss them?)",
        )
    )


def test_the_page_is_one_file_with_labels_as_text(tmp_path):
    write_html(page_of(rows_of(everywhere(LEVELS))), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "&lt;Bad&gt;" in text
    assert '<p class="warning">Nothing &lt;real&gt;.</p>' in text
    assert text.count('<a href="') == 7
    assert "<Bad>" not in text
    assert "http" not in text


def test_the_verdicts_are_text_that_begins_with_the_warning(tmp_path):
    page = page_of(rows_of(everywhere(LEVELS)))
    write_verdicts(page, tmp_path / "verdicts.txt")
    ns, nc = panels(page)
    assert (tmp_path / "verdicts.txt").read_text(encoding="utf-8").splitlines() == [
        "Nothing <real>.",
        "",
        "Llama: which scores are faithful? (n = 24 samples)",
        f"- AUC π-Soft-NS ↑, dynamic routing: {ns.verdict}",
        f"- AUC π-Soft-NC ↑, dynamic routing: {nc.verdict}",
    ]


@pytest.mark.parametrize("quantization", ["none", "nf4"])
def test_facts_name_model_type_device_and_code(quantization):
    model = {"repository": "a/b", "revision": "main", "dtype": "bfloat16"}
    origin = {
        "settings": {"model": model | {"quantization": quantization}},
        "device": "NVIDIA X", "model_commit": "c0ffee", "git_commit": None, "python": "3.11",
        "packages": {"torch": "2.13"},
    }  # fmt: skip
    first, code, packages = facts_of({"B": origin})
    kind = "bfloat16" if quantization == "none" else "bfloat16, nf4"
    assert first == f"B: a/b, {kind}, on NVIDIA X, revision c0ffee"
    assert code == "Code: not a git checkout"
    assert packages == "Packages: python 3.11, torch 2.13"
