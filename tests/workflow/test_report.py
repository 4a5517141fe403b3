"""The report of a run, opened from disk in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from helpers.browser import check_accessible, chromium, visit
from helpers.shared_runs import GRID

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

# Titles in the menu, by category and subcategory; the first category has no subcategories.
MENU = {
    "1 Overview": {"": ["Answer", "Explorer"]},
    "2 Tables": {
        "1 Answer": [
            "After how many records was each comparison decided?", "AUC of π-Soft-NS and π-Soft-NC",
            "Do methods find the evidence?", "How certain is the ranking?",
        ],
        "2 Robustness": [
            "Do scores predict the effect of random masks?",
            "Does the ranking depend on the metric's settings?",
            "How far does deletion lower the probability of the answer?",
            "How many layers should Grad-ELLM sum?", "How many tokens flip the answer?",
            "Insertion and deletion", "Original Soft-NS and Soft-NC",
            "Where the variance comes from",
        ],
        "3 Diagnostics": [
            "Advantage over random scores by π", "Do the metrics reward dense scores?",
        ],
        "4 Provenance": ["Accuracy of the models", "Time and memory of attribution"],
    },
    "3 Figures": {
        "1 Answer": [
            "Every method over the retaining probability π", "How certain is the ranking?",
            "The best methods over the retaining probability π",
        ],
        "2 Robustness": [
            "Do metrics agree on methods?", "Does the ranking depend on the metric's settings?",
            "How many layers should Grad-ELLM sum?",
        ],
        "3 Diagnostics": [
            "Advantage over random scores by π", "Distribution of the scores",
            "Do methods agree on tokens?", "Do the metrics reward dense scores?",
            "Most important tokens in example texts", "Why scores are calibrated",
        ],
    },
}  # fmt: skip
PAGE_OF_FIGURE = "figures/pi_curves/dynamic/toy/toy-sentiment"  # all figures share one template
FIGURE = "#app > div > div img"
OTHER_FIGURE = f"""(seen) => {{
  const image = document.querySelector('{FIGURE}');
  return image && image.naturalWidth > 100 && !seen.includes(image.src) && image.src;
}}"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def report(browser, studied_once, tmp_path_factory):
    """Make the report of a run with every kind of table and figure."""
    project = studied_once.copied_to(tmp_path_factory.mktemp("reported") / "project")
    project.snakemake("--report", "results/tiny/report.html")
    return project.folder / "results/tiny/report.html"


@pytest.fixture(scope="module")
def visited(browser, report):
    """Visit every page, but only one of a figure; return each page's links: files and fragments."""
    links = {}
    for path in (
        *report.parent.glob("*.html"),
        *report.parent.glob("tables/**/*.html"),
        report.parent / f"{PAGE_OF_FIGURE}.html",
    ):
        opened = visit(browser, path)
        hrefs = opened.page.locator("a[href]").evaluate_all("all => all.map((one) => one.href)")
        assert opened.page.evaluate("window.hacked") is None, f"{path}: labels must be escaped"
        opened.assert_sound_and_offline()
        opened.page.close()
        parts = [part for part in map(urlsplit, hrefs) if part.scheme == "file"]
        links[path] = {(Path(unquote(part.path)), part.fragment) for part in parts}
    return links


@pytest.fixture
def page(browser, report):
    """Open the report; in every test, it must meet no error and stay offline."""
    opened = visit(browser, report)
    yield opened.page
    opened.assert_sound_and_offline()
    opened.page.close()


def menu(page):
    """Return the entries of the visible menu."""
    return page.locator("nav ul").first.get_by_role("link").all_inner_texts()


def rows(page):
    """Return the rows of the visible list."""
    return page.locator("nav tbody tr")


def titles(page):
    """Return the distinct titles of the visible list."""
    shown = rows(page).locator("td:first-child").all_inner_texts()
    return list(dict.fromkeys(title.strip() for title in shown))


def show(page, category, subcategory):
    """Show the list of a subcategory."""
    page.get_by_role("link", name=category, exact=True).click()
    if subcategory:
        page.get_by_role("link", name=subcategory, exact=True).click()


def open_first(page, title):
    """Open the first result with a title in the visible list, and return its row."""
    row = rows(page).filter(has=page.get_by_role("cell", name=title, exact=True)).first
    row.get_by_role("link").first.click()  # the eye icon
    return row


def test_categories_and_lists_are_in_reading_order(page):
    assert [name.strip() for name in menu(page)[-len(MENU) :]] == list(MENU)
    for category, lists in MENU.items():
        if "" not in lists:
            page.get_by_role("link", name=category, exact=True).click()
            assert [name.strip() for name in menu(page)] == list(lists)
            page.get_by_role("link", name="Results").click()
        for subcategory, expected in lists.items():
            show(page, category, subcategory)
            assert titles(page) == expected
            page.get_by_role("link", name="Results").click()


def test_the_report_opens_with_the_answer_above_the_workflow(page, report):
    answer = page.locator(".verdicts")
    verdicts = (report.parent / "verdicts.txt").read_text(encoding="utf-8")
    assert answer.inner_text().strip() == verdicts.strip()
    assert "leads." in verdicts or "lead." in verdicts
    box = answer.bounding_box()
    assert box["y"] + box["height"] < page.viewport_size["height"]
    graph = page.locator("#app #rulegraph").bounding_box()
    assert graph["y"] >= page.locator(".prose").bounding_box()["height"]
    heading = {name: page.get_by_text(name, exact=True) for name in ("Results", "General")}
    tops = {name: locator.bounding_box()["y"] for name, locator in heading.items()}
    assert tops["Results"] < tops["General"]


@pytest.mark.parametrize("word", ["ranks", "agreement", "toy", "explorer"])
def test_search_finds_results_by_file_and_labels_them(page, word):
    field = page.get_by_placeholder("Search...")
    field.fill(word)
    field.press("Enter")
    rows(page).first.wait_for()
    columns = [name.lower() for name in page.locator("nav thead th").all_inner_texts()][:-1]
    shown = [row.locator("td").all_inner_texts()[:-1] for row in rows(page).all()]
    labels = page.evaluate("Object.entries(results).map(([path, { labels }]) => [path, labels])")
    expected = [
        [result_labels.get(name, "") for name in columns]
        for path, result_labels in labels
        if word in path
    ]
    assert sorted(shown) == sorted(expected), "one row with all labels per result"
    assert all(expected.count(row) == 1 for row in expected), "no two rows are alike"


def test_on_a_phone_the_menu_is_above_the_answer(browser, report):
    opened = visit(browser, report, width=390)
    nav = opened.page.locator("#app nav").first.bounding_box()
    answer = opened.page.locator(".verdicts").bounding_box()
    assert answer["y"] >= nav["y"] + nav["height"]
    assert answer["x"] + answer["width"] <= 390
    opened.page.close()


def test_the_start_page_opens_at_its_top_and_links_to_results(page):
    first = page.get_by_text("how faithful attribution methods are")
    assert first.bounding_box()["y"] >= 0
    for text, description in {
        "Answer": "The front page of the run",
        "Explorer": "choose model, dataset, sample and generation step",
    }.items():
        page.locator(".prose").get_by_role("link", name=text).click()
        page.locator("nav").get_by_text(description).wait_for()
    page.locator(".prose").get_by_role("link", name="tables").click()
    page.locator("nav").get_by_text("2 Robustness").wait_for()


def test_a_table_in_the_report_equals_its_file(page, report):
    file = report.parent / "tables/pi_soft_auc/dynamic/toy.html"
    show(page, "2 Tables", "1 Answer")
    row = open_first(page, "AUC of π-Soft-NS and π-Soft-NC")
    frame = page.frame_locator("iframe")
    title = "AUC of π-Soft-NS and π-Soft-NC · Toy · dynamic routing"
    assert frame.locator("h1").inner_text() == title
    assert "The numbers show that the benchmark works" in frame.locator(".warning").inner_text()
    shown = (
        frame.locator("table")
        .locator("td")
        .evaluate_all("cells => cells.map((cell) => cell.innerHTML)")
    )
    assert shown == re.findall(r"<td[^>]*>(.*?)</td>", file.read_text(encoding="utf-8"))
    row.get_by_role("link").last.click()  # the info icon
    details = page.locator("nav").first.inner_text()
    for text in (
        "Higher is better",
        "n_failed",
        "\n  ".join(f"- {pi}" for pi in GRID),
        "draws: 2",
        "resamples: 10000",
    ):
        assert text in details


def test_pages_are_accessible_also_on_a_phone(browser, report):
    for name in ("index", "explorer", "docs", "tables/pi_soft_auc/dynamic/toy", PAGE_OF_FIGURE):
        check_accessible(browser, report.parent / f"{name}.html")


def test_no_link_is_broken(visited, report):
    for page, links in visited.items():
        assert report.parent / "index.html" in {file for file, _ in links} | {page}, "no home link"
        for file, part in links:
            assert file.is_file() or file.is_dir(), f"{page}: {file}"
            if part and file.name in ("index.html", "docs.html"):
                assert f'id="{part}"' in file.read_text(encoding="utf-8"), f"{page}: {part}"


def test_the_front_page_links_to_every_table_and_figure(visited, report):
    run = report.parent
    files = {file for file, _ in visited[run / "index.html"]}
    pages = {page for room in ("tables", "figures") for page in (run / room).rglob("*.html")}
    others = {run / f"{name}.html" for name in ("index", "explorer", "docs")}
    assert files == pages | others | {report}


def test_a_figure_has_a_page_with_caption_and_data(browser, report):
    opened = visit(browser, report.parent / f"{PAGE_OF_FIGURE}.html")
    assert opened.page.locator("img").evaluate("image => image.naturalWidth") > 100
    caption = "Below each panel, methods in colour are listed from the highest area"
    assert caption in opened.page.inner_text("main")
    names = opened.page.locator("main a").all_inner_texts()
    assert names == ["PDF", "PNG", "SVG", "curves, Parquet", "statistics, Parquet"]
    opened.page.close()


def test_every_figure_opens_uncut(page):
    seen = []
    for subcategory, names in MENU["3 Figures"].items():
        show(page, "3 Figures", subcategory)
        for name in names:
            open_first(page, name)
            seen.append(page.wait_for_function(OTHER_FIGURE, arg=seen).json_value())
            box = page.locator(FIGURE).bounding_box()
            assert box["y"] >= 0
            assert box["x"] + box["width"] <= page.viewport_size["width"]
        page.get_by_role("link", name="Results").click()


def test_answer_and_explorer_open(page):
    show(page, "1 Overview", "")
    open_first(page, "Answer")
    frame = page.frame_locator("iframe")
    assert frame.get_by_role("heading", level=1).inner_text() == "π-Soft Bench · tiny"
    assert frame.get_by_text("significantly").count() > 0
    open_first(page, "Explorer")
    frame.get_by_role("combobox", name="Model").wait_for()


def test_every_caption_states_failures_and_settings(page):
    captions = page.evaluate("Object.values(results).map((result) => result.caption)")
    assert len(captions) >= sum(len(names) for lists in MENU.values() for names in lists.values())
    for caption in [*captions, page.evaluate("workflow_desc")]:
        assert "n_failed" in caption
        assert "system-message" not in caption
        assert "{{" not in caption
    for caption in captions:
        (settings,) = re.findall(
            r"<strong>Settings</strong>.*?<pre.*?>(.*?)</pre>", caption, re.DOTALL
        )
        assert {"seed", "max_samples"} <= yaml.safe_load(dedent(settings)).keys()


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("tables/pi_soft_auc/dynamic/toy", "thead"),
        ("tables/ranks/dynamic/toy", ".notes"),
        ("tables/accuracy", "tbody"),
    ],
)
def test_datasets_in_tables_link_to_the_explorer(browser, report, name, place):
    opened = visit(browser, report.parent / f"{name}.html")
    opened.page.locator(place).get_by_role("link").first.click()
    opened.page.wait_for_url((report.parent / "explorer.html").as_uri() + "#model=toy&*")
    opened.page.locator("#record dl").wait_for()
    assert opened.page.locator("#model").input_value() == "toy"
    assert opened.page.locator("#dataset").input_value() == "toy-sentiment"
    measured = opened.page.locator(".card").first.locator(".measured").all_inner_texts()
    kinds = ["AUC, dynamic routing", f"At π = {GRID[1]}, dynamic routing"]
    kinds += ["LDS given count, dynamic routing", "Evidence"]
    assert [line.split(":")[0] for line in measured] == kinds
    opened.assert_sound_and_offline()
    opened.page.close()


def test_labels_are_escaped_on_every_page(visited, report):
    """Regression: a label's script ran in the report, which embeds the settings of every job."""
    assert len(visited) > sum(map(len, MENU["2 Tables"].values()))
    text = (report.parent / "tables/pi_soft_auc/dynamic/toy.html").read_text(encoding="utf-8")
    assert "Toy&lt;/script&gt;" in text
