"""The front page: what it says follows from the numbers, whatever they are."""

import itertools
from pathlib import Path

import pytest

from helpers.browser import check_accessible, chromium, visit
from helpers.estimated_results import estimated
from helpers.result_rows import frame, result_row
from pisoft.config.jobs.displays import LabelSettings
from pisoft.pages.example import PI, example_table
from pisoft.pages.findings import Numbers
from pisoft.pages.index import EVIDENCE, facts_of, index_page
from pisoft.pages.links import links as link_section
from pisoft.pages.page import Figure, Link, write_html, write_verdicts

LABELS = LabelSettings(
    models={"llama": "Llama"},
    datasets={"sst2": "SST-2", "imdb": "IMDb"},
    methods={"random": "Random", "good": "Good", "equal": "Equal", "bad": "<Bad>"},
)
LEVELS = {"random": 0.3, "good": 0.9, "equal": 0.9, "bad": 0.1}
FIGURE = Figure("data:image/svg+xml;base64,", "curves")
METRICS = ("auc_pi_soft_ns", "auc_pi_soft_ns_unclamped", "auc_pi_soft_nc", "h0", "identity",
           "auc_numerator_ns", "auc_numerator_nc", "monte_carlo_ns", "monte_carlo_nc",
           "numerical")  # fmt: skip


FILES = {
    "Curves over π": ["figures/pi_curves/dynamic/llama/sst2.html"],
    "Token by token": ["explorer.html"],
    "Against the paper": ["tables/published/against_paper.html"],
    "Other statistics": ["tables/variance_components/dynamic/llama.html"],
    "Cost": ["tables/timings.html"],
    "Mine": ["tables/my_table/llama.html", "figures/my_table.html"],
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


def page_of(rows, labels=LABELS, **evidence):
    results = vars(estimated(rows, resamples=2000))
    none = dict.fromkeys(EVIDENCE, frame([]))
    given = {**none, "variance_components": results["variance_components"], **evidence}
    return index_page(
        "demo", Numbers(results, labels), evidence=given, figure=FIGURE,
        facts=(f"Code: {'a1' * 32}",),
        files={title: [Path(name) for name in names] for title, names in FILES.items()},
        warning="Nothing <real>.",
    )  # fmt: skip


def rankings(page):
    (section,) = [s for s in page.sections if s.rankings]
    assert section.heading == "Llama: which methods are most faithful? (n = 24 samples)"
    return section.rankings


def everywhere(levels):
    return {(method, dataset): v for method, v in levels.items() for dataset in LABELS.datasets}


def test_the_page_says_which_datasets_a_model_has_where_they_differ():
    rows = rows_of({cell: level for cell, level in everywhere(LEVELS).items() if cell[1] == "sst2"})
    rows += [{**row, "model": "mistral"} for row in rows_of(everywhere(LEVELS))]
    labels = LABELS.model_copy(update={"models": {"llama": "Llama", "mistral": "Mistral"}})
    page = page_of(rows, labels)
    assert [section.heading for section in page.sections if section.rankings] == [
        "Llama on SST-2: which methods are most faithful? (n = 12 samples)",
        "Mistral on SST-2, IMDb: which methods are most faithful? (n = 24 samples)",
    ]
    sentence = "Datasets of each model: Llama: SST-2; Mistral: SST-2, IMDb."
    (measured,) = [s for s in page.sections if s.heading == "How to read these numbers"]
    assert measured.paragraphs[1].endswith(sentence)
    both = [{**row, "model": name} for name in labels.models for row in rows_of(everywhere(LEVELS))]
    headings = [section.heading for section in page_of(both, labels).sections if section.rankings]
    assert headings[0].startswith("Llama: which")


def test_the_rankings_have_one_scale_for_all_models_and_say_who_leads():
    rows = rows_of(everywhere(LEVELS))
    ns, nc = rankings(page_of(rows))
    assert (ns.title, nc.title) == (
        "AUC π-Soft-NS ↑, dynamic routing", "AUC π-Soft-NC ↑, dynamic routing"
    )  # fmt: skip
    assert ns.verdict == (
        "Good, Equal lead. Every other method is significantly worse. "
        "Significantly better than random scores: 2 of 3."
    )
    assert [(one.rank, one.label, one.leads, one.control) for one in ns.standings] == [
        ("1.5", "Good", True, False), ("1.5", "Equal", True, False),
        ("3", "Random", False, True), ("4", "<Bad>", False, False),
    ]  # fmt: skip
    for one in ns.standings:
        assert 0 <= one.low < one.at < one.high <= 100
    assert ns.standings[0].text.startswith("0.895 [.8")
    assert list(ns.ticks) == [0, 50, 100]
    assert float(ns.ticks[0]) <= 0.1
    assert float(ns.ticks[100]) >= 0.9
    far = [{**row, "model": "far"} for row in rows_of(everywhere({**LEVELS, "good": 3}))]
    labels = LABELS.model_copy(update={"models": {"llama": "Llama", "far": "Far"}})
    sections = [s.rankings for s in page_of([*rows, *far], labels).sections if s.rankings]
    assert {str(one.ticks) for section in sections for one in section} == {
        str(sections[1][0].ticks)
    }
    assert float(sections[0][0].ticks[100]) >= 3


def test_the_page_begins_with_the_answer_and_the_terms_in_it():
    answer = page_of(rows_of(everywhere({**LEVELS, "equal": 0.8}))).sections[0]
    assert answer.paragraphs == (
        "Good leads by both metrics: by π-Soft-NS, 0.100 ahead of Equal (significant); "
        "by π-Soft-NC, 0.100 ahead of Equal (significant).",
    )
    assert [point.split(":")[0] for point in answer.points] == [
        "π-Soft-NS", "π-Soft-NC", "Dynamic routing",
    ]  # fmt: skip


def test_methods_not_significantly_better_than_random_scores_are_marked():
    levels = everywhere({**LEVELS, "equal": 0.3})
    first, _ = rankings(page_of(rows_of(levels)))
    assert {one.label: one.marks for one in first.standings} == {
        "Good": "", "Random": "", "Equal": "†", "<Bad>": "†",
    }  # fmt: skip
    failed = {("equal", number) for number in range(12)}
    assert "†" not in {one.marks for one in rankings(page_of(rows_of({
        cell: level for cell, level in levels.items() if cell[0] != "random"
    }, failed)))[0].standings}, "there is nothing to compare with"  # fmt: skip


def test_evidence_is_linked_and_what_a_run_lacks_is_named_with_the_command_that_shows_it():
    rows = rows_of(everywhere(LEVELS))
    *lacking, rounding = claims(page_of(rows))
    assert rounding.link.address == "tables/variance_components/dynamic/llama.html"
    assert rounding.link.text in rounding.link.name
    end = "Not tested in this run (make demo-trust shows how)."
    questions = [question for question, _ in EVIDENCE.values()]
    assert [(one.text, one.link) for one in lacking] == [
        (f"{question} {end}", None) for question in questions[:2]
    ]
    gain = result_row("statistics", 0.1, metric="auc_pi_soft_ns", dataset="average", part="gain",
                      p_adjusted=0.01)  # fmt: skip
    needed = result_row("statistics", 7, metric="auc_pi_soft_ns", part="samples_needed")
    given = {"permutation_baseline": frame([gain]), "metric_validation": frame([needed])}
    texts = [claim.text for claim in claims(page_of(rows, **given))]
    assert [text.split("? ")[0] + "?" for text in texts] == questions
    assert not [text for text in texts if "Not tested" in text]


def claims(page):
    (section,) = [section for section in page.sections if section.claims]
    return section.claims


def test_the_worked_example_keeps_half_of_the_tokens_on_average():
    table = example_table()
    scores, kept = table.values["score"], table.values["probability"]
    assert len(scores) == 8
    assert kept.mean() == pytest.approx(PI, abs=1e-9)
    assert list(kept.rank()) == list(scores.rank()), "a power keeps the order"
    assert (table.values["ns"] != table.values["nc"]).all(), "masks are complements"


def test_methods_not_significantly_different_from_the_best_are_shaded_and_counted():
    rows = rows_of(everywhere(LEVELS))
    for row in rows:
        if row["method"] == "equal" and row["metric"].startswith("auc"):
            row["value"] += 0.002 * (1 if int(row["sample_id"][1:]) % 2 else -1.1)
    first, _ = rankings(page_of(rows))
    assert [one.leads for one in first.standings] == [True, True, False, False]
    assert [one.marks for one in first.standings] == ["", "≈", "", "†"]
    assert first.verdict.startswith(
        "Good leads. No significant difference from the best: 1 of 3 other methods."
    )


def test_every_file_is_linked_once_under_its_group():
    cards = cards_of(page_of(rows_of(everywhere(LEVELS))))
    assert list(cards) == ["Answer", "Robustness", "Provenance", "More"]
    curves, explorer, published = cards["Answer"]
    name = "Curves over π (figure), Llama, dynamic, SST-2"
    link = Link("figures/pi_curves/dynamic/llama/sst2.html", "SST-2", name)
    assert curves == ("Curves over π (figure)", {"Llama dynamic": [link]})
    link = Link("explorer.html", "Token by token", "Token by token")
    assert explorer == ("", {"": [link]})
    assert published[1][""][0].text == "Against the paper"
    assert [title for title, _ in cards["More"]] == ["Mine (table)", ""]
    linked = [link.address for link in links_of(cards)]
    assert sorted(linked) == sorted(itertools.chain(*FILES.values()))


def test_links_of_a_model_stand_together_and_each_has_a_name_of_its_own():
    names = LABELS.model_copy(update={"models": {"a": "A", "b": "B"}})
    variants = ["dynamic/a", "dynamic/b", "fixed/a", "fixed/b"]
    files = {"AUC": [Path(f"tables/auc/{one}.html") for one in variants]}
    files["AUC"] += [Path(f"figures/auc/{one}/sst2.html") for one in variants]
    (card,) = link_section(files, names).cards
    table, figure = card.lines
    assert [(heading, [link.text for link in own]) for heading, own in table[1].items()] == [
        ("A", ["dynamic", "fixed"]), ("B", ["dynamic", "fixed"]),
    ]  # fmt: skip
    assert list(figure[1]) == [
        "A dynamic", "B dynamic", "A fixed", "B fixed",
    ]  # fmt: skip
    spoken = [link.name for link in links_of({card.title: card.lines})]
    assert len(set(spoken)) == 8
    assert all(link.text in link.name for link in links_of({card.title: card.lines}))


def cards_of(page):
    """Lines of links by the title of their card."""
    (section,) = [section for section in page.sections if section.cards]
    return {card.title: card.lines for card in section.cards}


def links_of(cards):
    return [
        link
        for lines in cards.values()
        for _, groups in lines
        for own in groups.values()
        for link in own
    ]


def test_the_first_screen_holds_answer_ranking_and_n(tmp_path):
    write_html(page_of(rows_of(everywhere(LEVELS))), tmp_path / "page.html")
    with chromium() as browser:
        phone = visit(browser, tmp_path / "page.html", width=390, height=844)
        box = phone.page.get_by_text("lead by both metrics").bounding_box()
        assert box["y"] + box["height"] <= 844
        opened = visit(browser, tmp_path / "page.html", width=1440, height=900)
        for seen in (
            opened.page.get_by_text("lead by both metrics"),
            opened.page.get_by_text("n = 24 samples"),
            opened.page.get_by_text("lead. Every other method").first,
            opened.page.locator(".ranking").nth(0),
            opened.page.locator(".ranking").nth(1),
        ):
            box = seen.bounding_box()
            assert box["y"] + box["height"] <= 900
        opened.assert_silent_and_offline()
        check_accessible(browser, tmp_path / "page.html")


def test_equal_methods_do_not_differ():
    first, _ = rankings(page_of(rows_of(everywhere(dict.fromkeys(LEVELS, 0.5)))))
    assert first.verdict.startswith(
        "All 4 methods are level. Significantly better than random scores: 0"
    )


def test_a_dataset_that_decides_on_the_best_is_named():
    levels = everywhere({**LEVELS, "equal": 0.5})
    levels["equal", "imdb"] = 1.5
    first, _ = rankings(page_of(rows_of(levels)))
    assert first.verdict.startswith("Equal leads")
    assert first.verdict.endswith("depends on single datasets: without IMDb it is Good.")


def test_a_best_that_single_samples_make_is_contrasted_with_the_ratio_of_means():
    rows = rows_of(everywhere(LEVELS))
    for row in rows:
        if row["method"] == "random" and row["metric"].startswith("auc_numerator"):
            row["value"] = 2.0
    first, _ = rankings(page_of(rows))
    assert first.verdict.endswith("no single sample can dominate, Random leads instead.")


def test_methods_without_a_value_in_every_dataset_are_named():
    failed = {("equal", number) for number in range(12)}
    first, _ = rankings(page_of(rows_of(everywhere(LEVELS), failed)))
    assert [one.label for one in first.standings] == ["Good", "Random", "<Bad>"]
    assert "No value in every dataset: Equal. " in first.verdict
    failed = {(method, number) for method in LEVELS for number in range(12)}
    (section,) = [s for s in page_of(rows_of(everywhere(LEVELS), failed)).sections if s.rankings]
    assert [(one.verdict, one.standings) for one in section.rankings] == [
        ("No method has a value in every dataset.", ())
    ] * 2


def test_failures_are_counted_by_model_dataset_and_reason():
    failed = {("bad", 1), ("bad", 2), ("good", 1)}
    text = failures(page_of(rows_of(everywhere(LEVELS), failed)))
    assert "Llama, SST-2, dynamic: up to 2 nonfinite_attribution per method (2 methods)" in text
    assert "(nonfinite_attribution: a score is not a finite number)" in text
    assert failures(page_of(rows_of(everywhere(LEVELS)))).startswith("None")


def failures(page):
    (section,) = [s for s in page.sections if "could not" in s.heading]
    (text,) = section.paragraphs
    return text


def test_the_page_is_one_file_with_labels_as_text(tmp_path):
    write_html(page_of(rows_of(everywhere(LEVELS))), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "&lt;Bad&gt;" in text
    assert '<p class="warning">Nothing &lt;real&gt;.</p>' in text
    assert text.count('<a href="') == 7 + 1, "one supports a sentence"
    assert "<Bad>" not in text
    assert "http" not in text


def test_the_verdicts_are_text_that_begins_with_the_warning(tmp_path):
    page = page_of(rows_of(everywhere(LEVELS)))
    write_verdicts(page, tmp_path / "verdicts.txt")
    ns, nc = rankings(page)
    assert (tmp_path / "verdicts.txt").read_text(encoding="utf-8").splitlines() == [
        "Nothing <real>.",
        "",
        "Llama: which methods are most faithful? (n = 24 samples)",
        f"- AUC π-Soft-NS ↑, dynamic routing: {ns.verdict}",
        f"- AUC π-Soft-NC ↑, dynamic routing: {nc.verdict}",
    ]


@pytest.mark.parametrize("quantization", ["none", "nf4"])
def test_facts_name_model_type_device_and_code(quantization):
    model = {"repository": "a/b", "revision": "main", "dtype": "bfloat16"}
    origin = {
        "settings": {"model": model | {"quantization": quantization}},
        "device": "NVIDIA X", "model_commit": "c0ffee",
    }  # fmt: skip
    versions = {"code": (), "python": ("3.11",), "torch": ("2.13",)}
    first, code, packages = facts_of({"B": origin}, versions)
    kind = "bfloat16" if quantization == "none" else "bfloat16, nf4"
    assert first == f"B: a/b, {kind}, on NVIDIA X, revision c0ffee"
    assert code == "Code: not a git checkout"
    assert packages == "Packages: python 3.11, torch 2.13"
    *_, packages, mixed = facts_of({"B": origin}, versions | {"torch": ("2.13", "2.14")})
    assert packages == "Packages: python 3.11, torch 2.13 and 2.14"
    assert mixed == "Not all results were computed with the same version of torch"
