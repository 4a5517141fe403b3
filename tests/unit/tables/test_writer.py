"""The three file formats of a table: full precision, marks, intervals, hostile labels."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pandas as pd
import pytest

from helpers import goldens
from helpers.browser import check_accessible, chromium, visit
from helpers.latex import needs_latex, typeset
from helpers.soft_tables import MEANS, areas_of, sample_rows, written
from pisoft.formatting import NOTHING
from pisoft.tables.grid import Block, Entry, Row, Table
from pisoft.tables.writer import explorer_links, write


def test_csv_holds_every_number_in_full_precision(tmp_path):
    table = areas_of(sample_rows({cell: mean / 3 for cell, mean in MEANS.items()}))
    path, _, _ = written(table, tmp_path)
    columns = ["metric", "dataset", "method", "value", "low", "high"]
    expected = table.values[columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.read_csv(path)[columns], expected, check_exact=True)


HOSTILE = (
    r"50% a_b & c#d $e ^~ {f} \g [h] * <script>alert('x')</script> | "
    "\N{MULTIPLICATION SIGN} \N{EN DASH} π"
)


def hostile_table():
    rows = (
        Row(HOSTILE, (Entry("1.000", strong=True), Entry(NOTHING))),
        Row(f"[{HOSTILE}", (Entry("2.000", mark="≈"), Entry("3.000"))),
        Row("* star", (Entry("2.000"), Entry("3.000"))),
    )
    return Table(
        title=HOSTILE,
        corner=HOSTILE,
        columns=(HOSTILE, "B"),
        blocks=(Block(HOSTILE, rows), Block("[second]", rows)),
        notes=(HOSTILE, "second\n\nnote"),
        values=pd.DataFrame({"metric": [HOSTILE]}),
        spanners=((HOSTILE, 2),),
    )


def single(columns, *blocks, **more):
    return Table("Title", "Row", columns, blocks, ("A note.",), pd.DataFrame(), **more)


def html_of(table, folder):
    _, _, path = written(table, folder)
    return path.read_text(encoding="utf-8")


def test_dataset_headings_link_to_samples_only_in_html(tmp_path):
    datasets = {"a&b": HOSTILE, "other": "Other"}
    links = explorer_links("../explorer.html", {"a-model": "A model"}, datasets)
    csv_file, tex, path = written(replace(hostile_table(), links=links), tmp_path)
    text = path.read_text(encoding="utf-8")
    leads = re.findall(r'<th scope="(\w+)"[^>]*><a href="([^"]*)">', text)
    assert {place for place, _ in leads} == {"col", "row"}
    assert "Scores token by token: A model (<a " in text
    assert {address for _, address in leads} == {"../explorer.html#model=a-model&amp;dataset=a%26b"}
    assert '<th scope="col">B</th>' in text
    assert "explorer.html" not in csv_file.read_text() + tex.read_text(encoding="utf-8")


def test_tables_of_several_models_link_to_each_models_samples(tmp_path):
    row = Row("Data", (Entry("1"),))
    table = single(("Data",), Block("One", (row,)), Block("Two", (row,)))
    links = explorer_links("explorer.html", {"a": "One", "b": "Two"}, {"d": "Data"})
    text = html_of(replace(table, links=links), tmp_path)
    addresses = [f"explorer.html#model={model}&amp;dataset=d" for model in "ab"]
    assert re.findall(r'<th scope="row"><a href="([^"]*)">', text) == addresses
    listed = "; ".join(
        f'{label} (<a href="{address}">Data</a>)'
        for label, address in zip(("One", "Two"), addresses, strict=True)
    )
    assert f"Scores token by token: {listed}." in text
    assert '<th scope="col">Data</th>' in text, "a column holds both models"


LONG = Block("Long", tuple(Row(f"row {n}", (Entry("1", interval="[0]"),)) for n in range(15)))
WIDE = tuple(f"c{place}" for place in range(25))
LATEX = {
    "ranked": lambda: areas_of(sample_rows(MEANS)),
    "hostile": hostile_table,
    "longer_than_a_page": lambda: single(("Value",), LONG, LONG),
    "wider_than_a_page": lambda: single(WIDE, Block("", (Row("A label", (*map(Entry, WIDE),)),))),
    "spanned": lambda: single(
        tuple("wxyz"),
        Block("", (Row("A label", (*map(Entry, "1234"),)),)),
        spanners=(("One", 1), ("Three of them all", 3)),
    ),
}


@pytest.mark.parametrize("name", LATEX)
def test_latex_equals_its_golden_file(name, tmp_path):
    text = written(LATEX[name](), tmp_path)[1].read_text(encoding="utf-8")
    goldens.compare(text, goldens.file("latex", name))


@needs_latex
def test_wide_tables_span_both_columns(tmp_path):
    for width, environment in ((5, "table"), (16, "table*")):
        row = Row("A label", (Entry("0.123"),) * width)
        _, tex, _ = written(single(tuple(map(str, range(width))), Block("", (row,))), tmp_path)
        tex.write_text(tex.read_text() + r"\typeout{<\pisoftfloat>}")
        assert f"<{environment}>" in typeset(tex)


def test_html_escapes_labels_and_has_no_button_without_methods(tmp_path):
    text = html_of(hostile_table(), tmp_path)
    closed = re.sub(r"<(!doctype|meta|link|br)[^>]*>", "", text)  # the others must be bold
    page = ElementTree.fromstring(closed)
    assert not {"script", "button"} & {element.tag for element in page.iter()}
    assert "".join(page.itertext()).count(HOSTILE) >= 6


def test_html_is_self_contained_and_does_not_rely_on_colour(tmp_path):
    text = html_of(areas_of(sample_rows(MEANS)), tmp_path)
    assert not re.findall(r"<[^>]*\b(?:src|href)=", text)
    assert text.count("<b>") == 6  # the best of each column
    assert text.count(" ≈<") == 8  # all others are tied on 3 samples per dataset


def test_a_button_groups_families_and_restores_the_ranking(tmp_path):
    _, _, path = written(areas_of(sample_rows(MEANS)), tmp_path)
    with chromium() as browser:
        opened = visit(browser, path)
        button = opened.page.get_by_role("button", name="Families together")

        def shown():
            rows = opened.page.locator("tbody").first.get_by_role("rowheader")
            return [text.split("\n")[0] for text in rows.all_inner_texts()]

        title = "AUC π-Soft-NS\N{NO-BREAK SPACE}↑"
        ranked = [title, "Mine", "Attention", "Random"]
        assert shown() == ranked
        by_family = [title, "Attention", "Random", "Mine"]  # attention, baseline, …
        for pressed, order in (("true", by_family), ("false", ranked)):
            button.click()
            assert button.get_attribute("aria-pressed") == pressed
            assert shown() == order
        opened.assert_silent_and_offline()
        check_accessible(browser, path)


def test_a_warning_appears_above_the_page_and_in_latex_notes(tmp_path):
    table = areas_of(sample_rows(MEANS))
    csv, tex, html = (tmp_path / f"t.{end}" for end in ("csv", "tex", "html"))
    write(table, csv, tex, html, warning="Not <real> & not big.")
    above, _ = html.read_text(encoding="utf-8").split("<table")
    assert '<p class="warning">Not &lt;real&gt; &amp; not big.</p>' in above
    assert r"Not \textless{}real\textgreater{} \& not big.\par" in tex.read_text(encoding="utf-8")
    write(table, csv, tex, html)
    assert 'class="warning"' not in html.read_text(encoding="utf-8")
