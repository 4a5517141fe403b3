"""The report of a run, opened from disk in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from browsing import check_accessible, chromium, visit

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

SUBCATEGORIES = {
    "1 Overview": [],  # a list of pages without subcategories
    "2 Tables": [
        "Advantage over random scores by π",
        "Are dense scores what is rewarded?",
        "AUC of π-Soft-NS and π-Soft-NC",
        "AUC, other statistics",
        "Do methods agree on tokens?",
        "Do metrics agree on methods?",
        "Insertion and deletion",
        "Layers that Grad-ELLM sums",
        "Models, time and cost",
        "Original Soft-NS and Soft-NC",
        "Ranks and critical differences",
        "Where the variance comes from",
    ],
    "3 Figures": [
        "Advantage over random scores by π",
        "Are dense scores what is rewarded?",
        "Curves over the retaining probability",
        "Curves over the retaining probability, all methods",
        "Distribution of the scores",
        "Do methods agree on tokens?",
        "Do metrics agree on methods?",
        "Layers that Grad-ELLM sums",
        "Most important tokens of single texts",
        "Ranks and critical differences",
        "Why scores are calibrated",
    ],
    "4 Explorer": [],
}
STUDY = "layer_study: {depths: [1], token_weights: [loosened]}\n"
HOSTILE = "Toy</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
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
def report(browser, module_project):
    """Run the workflow with every kind of table and figure, and make its report."""
    run_file = module_project.folder / "config/tiny.yaml"
    hostile = run_file.read_text().replace("label: Toy sentiment", f'label: "{HOSTILE}"')
    run_file.write_text(hostile + STUDY)
    module_project.run()
    module_project.snakemake("--report", "results/tiny/report.html")
    return module_project.folder / "results/tiny/report.html"


@pytest.fixture
def page(browser, report):
    """Open the report; whatever a test does, it meets no error and stays offline."""
    opened = visit(browser, report)
    yield opened.page
    opened.assert_sound_and_offline()
    opened.page.close()


def menu(page):
    """Return the entries of the menu that is shown."""
    return page.locator("nav ul").first.get_by_role("link").all_inner_texts()


def open_first(page, category, subcategory):
    """Open the first result of a subcategory, and return its row in the list."""
    page.get_by_role("link", name=category, exact=True).click()
    if subcategory:
        page.get_by_role("link", name=subcategory, exact=True).click()
    row = page.locator("nav tbody tr").first
    row.get_by_role("link").first.click()  # the eye
    return row


def test_categories_come_in_the_order_of_reading(page):
    assert [name.strip() for name in menu(page)[-len(SUBCATEGORIES) :]] == list(SUBCATEGORIES)
    for category, names in SUBCATEGORIES.items():
        if names:
            page.get_by_role("link", name=category, exact=True).click()
            assert [name.strip() for name in menu(page)] == names
            page.get_by_role("link", name="Results").click()


def test_the_start_page_begins_at_its_beginning_and_leads_to_the_results(page):
    first = page.get_by_text("how faithful attribution methods are")
    assert first.bounding_box()["y"] >= 0
    for text, said in {
        "A first reading": "The front page of the run",
        "Against the paper": "The numbers that the paper prints",
        "Scores token by token": "choose model, dataset, sample and generation step",
    }.items():
        page.locator(".prose").get_by_role("link", name=text).click()
        page.locator("nav").get_by_text(said).wait_for()
    page.locator(".prose").get_by_role("link", name="tables").click()
    page.locator("nav").get_by_text("Insertion and deletion").wait_for()


def test_a_table_opens_with_what_its_file_holds(page, report):
    file = report.parent / "tables/pi_soft_auc/dynamic/toy.html"
    row = open_first(page, "2 Tables", "AUC of π-Soft-NS and π-Soft-NC")
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
    row.get_by_role("link").last.click()  # the i
    said = page.locator("nav").first.inner_text()
    for text in ("Higher is better", "n_failed", "Grid of π: 0.2, 0.5, 0.8", "2 per π", "10000"):
        assert text in said


def test_every_page_can_be_read_by_all_and_on_a_telephone(browser, report):
    pages = [path for path in report.parent.rglob("*.html") if path != report]
    kinds = {path.relative_to(report.parent).parts[:2]: path for path in pages}
    assert len(kinds) >= len(SUBCATEGORIES["2 Tables"]) + 4
    for path in kinds.values():
        check_accessible(browser, path)


def test_every_link_of_the_front_page_leads_to_a_file(browser, report):
    opened = visit(browser, report.parent / "index.html")
    links = opened.page.locator("a").evaluate_all("all => all.map((one) => one.href)")
    files = {Path(unquote(urlsplit(link).path)) for link in links}
    shown = {
        path
        for room in ("tables", "figures")
        for path in (report.parent / room).rglob("*")
        if path.suffix in (".html", ".svg")
    }
    assert files == shown | {report.parent / "explorer.html"}


def test_every_figure_opens_and_no_edge_of_it_is_cut(page):
    seen = []
    for subcategory in SUBCATEGORIES["3 Figures"]:
        open_first(page, "3 Figures", subcategory)
        seen.append(page.wait_for_function(OTHER_FIGURE, arg=seen).json_value())
        box = page.locator(FIGURE).bounding_box()
        assert box["y"] >= 0
        assert box["x"] + box["width"] <= page.viewport_size["width"]
        page.get_by_role("link", name="Results").click()


def test_the_pages_open(page):
    open_first(page, "1 Overview", None)
    frame = page.frame_locator("iframe")
    assert frame.get_by_role("heading", level=1).inner_text() == "π-Soft Bench · tiny"
    assert frame.get_by_text("not distinguishable").count() > 0
    page.get_by_role("link", name="Results").click()
    open_first(page, "4 Explorer", None)
    assert frame.get_by_role("combobox", name="Model").count() == 1


def test_every_result_says_its_statistic_its_failures_and_its_settings(page):
    captions = page.evaluate("Object.values(results).map((result) => result.caption)")
    assert len(captions) >= sum(map(len, SUBCATEGORIES.values()))
    for caption in [*captions, page.evaluate("workflow_desc")]:
        assert "n_failed" in caption
        assert "system-message" not in caption
        assert "{{" not in caption
    for caption in captions:
        (settings,) = re.findall("<strong>Settings.</strong>(.*?)</p>", caption, re.DOTALL)
        assert "toy-sentiment" in settings


def test_a_label_is_text_on_every_page(browser, report):
    """A label with a script ran in the report, which embeds the settings of every job."""
    pages = [report, *report.parent.glob("*.html"), *report.parent.glob("tables/**/*.html")]
    assert len(pages) > 10
    for path in pages:
        opened = visit(browser, path)
        opened.page.wait_for_load_state()
        assert opened.page.evaluate("window.hacked") is None, path
        opened.assert_sound_and_offline()
        opened.page.close()
    text = (report.parent / "tables/pi_soft_auc/dynamic/toy.html").read_text(encoding="utf-8")
    assert "Toy&lt;/script&gt;" in text
