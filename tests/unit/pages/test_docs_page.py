"""The docs in a run: one page whose links stay on it."""

from __future__ import annotations

import re

import pytest

from helpers.browser import check_accessible, chromium
from pisoft.pages.docs import docs_page, section


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("(metrics.md)", '<a href="#metrics">text</a>'),
        ("(../explanation/pitfalls.md#ties)", '<a href="#pitfalls-ties">text</a>'),
        ("(#scores)", '<a href="#metrics-scores">text</a>'),
        ("(configuration.md#run)", "text (<code>docs/reference/configuration.md</code>)"),
        ("(https://a.b/c#d)", '<a href="https://a.b/c#d">text</a>'),
    ],
)
def test_links_lead_to_anchors_on_the_page_or_name_another_file(link, shown):
    html, _ = section("reference/metrics.md", f"## Scores\n\n[text]{link}")
    assert html.splitlines() == ['<h3 id="metrics-scores">Scores</h3>', f"<p>{shown}</p>"]


def test_the_page_is_complete_and_readable_by_all(tmp_path):
    path = tmp_path / "docs.html"
    text = docs_page({"Docs": ""})
    path.write_text(text, encoding="utf-8")
    places = re.findall(r' id="([^"]*)"', text)
    assert len(places) == len(set(places))
    assert {*re.findall(r'href="([^"]*)"', text)} <= {f"#{place}" for place in places}
    assert text.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"') > 10
    assert r"\(" not in text
    assert {source[:19] for source in re.findall(r'src="([^"]*)"', text)} == {"data:image/svg+xml;"}
    with chromium() as browser:
        check_accessible(browser, path)
