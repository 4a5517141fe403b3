"""The attribution explorer in a browser: from disk, by keyboard, and with hostile records."""

import re
from urllib.parse import parse_qs, quote

import numpy as np
import pytest

from helpers import goldens
from helpers.browser import chromium, visit
from helpers.finished_run import (
    DATASETS,
    FLOOR,
    GRID,
    HEBREW,
    HOSTILE,
    METHODS,
    settings,
    steps_of,
    write_run,
)
from pisoft.faithfulness.calibration import calibrate, clip_scores
from pisoft.faithfulness.scores import normalise
from pisoft.pages.explorer import explorer_data, explorer_page

pytestmark = pytest.mark.slow

# Points at every token and reads the text that the page then shows everywhere.
READ = """() => [...document.querySelectorAll('.card')].map((card) => ({
  method: card.dataset.method,
  label: card.querySelector('h2').textContent,
  figures: card.querySelector('.figures').textContent,
  tokens: [...card.querySelectorAll('.tokens > span')].map((span) => {
    span.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
    const style = getComputedStyle(span);
    return {
      text: span.textContent,
      value: card.querySelector('.readout b').textContent,
      fixed: span.classList.contains('fixed'),
      underlined: style.borderBottomColor !== 'rgba(0, 0, 0, 0)',
      ink: style.color,
      background: style.backgroundColor,
    };
  }),
}))"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def page_file(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "explorer.html"
    path.write_text(explorer_page(explorer_data(run.files, settings())), "utf-8")
    return path


@pytest.fixture
def opened(browser, page_file):
    """Open the page; check after the test that it stayed offline and logged no errors."""
    visits = []

    def open_at(fragment="", **window):
        visits.append(visit(browser, page_file, fragment, **window))
        # Data are unpacked after loading.
        visits[-1].page.locator("#record dl").wait_for(state="attached")
        return visits[-1].page

    yield open_at
    for one in visits:
        one.assert_silent_and_offline()
        assert one.page.evaluate("window.hacked") is None
        one.page.close()


def address(page):
    return {key: value for key, (value,) in parse_qs(page.url.split("#")[1]).items()}


def choose(page, **options):
    for name, value in options.items():
        page.get_by_role("combobox", name=name.replace("_", " ")).select_option(value)


def values_of(raw, view, pi):
    """Return the shown values of the perturbable tokens, recomputed from their raw scores."""
    if view == "raw":
        return raw.astype(float)
    scores = normalise(raw, "minmax")
    if view == "normalised":
        return scores
    (alpha,) = calibrate(scores, np.array([pi]), FLOOR).alpha
    return clip_scores(scores, FLOOR) ** alpha


def check(page, run, record, view, pi=None):
    """Compare all tokens and numbers of all methods with the stored ones."""
    at = address(page)
    count = len(record.content)
    inside = slice(1, 1 + count)
    marked = [1 + place for place in record.evidence or ()]
    cards = page.evaluate(READ)
    assert {card["method"]: card["label"] for card in cards} == METHODS
    for card in cards:
        raw = run.raw.get(
            (at["model"], card["method"], at["dataset"], record.name, int(at["step"]))
        )
        tokens = card["tokens"]
        if raw is None:
            assert tokens == []
            continue
        assert [token["text"] for token in tokens] == record.tokens
        fixed = [place for place, token in enumerate(tokens) if token["fixed"]]
        assert fixed == [0, count + 1, count + 2]
        assert [place for place, token in enumerate(tokens) if token["underlined"]] == marked
        values = [token["value"] for token in tokens[inside]]
        if view == "calibrated" and record.name == "degenerate":
            assert card["figures"] == "Not calibrated: degenerate_baseline"
            assert set(values) == {"–"}
            continue
        exact = values_of(raw[inside], view, pi)
        tolerance = {"rtol": 5e-5} if view == "raw" else {"rtol": 0, "atol": 1e-4}
        np.testing.assert_allclose(np.array(values, float), exact, **tolerance)
        mean = float(re.match(r"mean (\S+)", card["figures"])[1])
        assert mean == pytest.approx(exact.mean(), rel=1e-3, abs=1e-4)
        if view != "raw":
            retained = re.search(rf"E\[R\] (\S+) of {count} tokens", card["figures"])
            assert float(retained[1]) == pytest.approx(exact.sum(), abs=0.01)


def test_every_control_shows_the_stored_tokens_and_numbers(opened, run):
    page = opened()
    slider = page.get_by_label("Retaining probability π")
    every = [
        (name, one, step) for name in DATASETS for one in DATASETS[name] for step in steps_of(one)
    ]
    # Other models differ only in scores, long texts only in size.
    for model, cases in (("llama", every), ("mistral", every[:1])):
        for dataset, record, step in cases:
            choose(page, Model=model, Dataset=dataset, Sample=record.name)
            if record.output:
                choose(page, Explained_token=str(step))
            assert address(page)["step"] == str(step)
            for view in ("raw", "normalised") if record.name != "long" else ("raw",):
                page.get_by_label(view).check()
                check(page, run, record, view)
            slider.press("Home")
            for pi in GRID if record.name != "long" else GRID[:1]:
                assert slider.get_attribute("aria-valuetext") == f"π = {pi}"
                assert address(page)["pi"] == str(pi)
                check(page, run, record, "calibrated", pi)
                slider.press("ArrowRight")


def test_tokens_outside_the_scope_are_shown_on_request_and_do_not_count(opened, run):
    page = opened("sample=plain&view=raw")
    raw = run.raw["llama", "random", "words", "plain", 0]
    (card,) = [card for card in page.evaluate(READ) if card["method"] == "random"]
    value, note = card["tokens"][0]["value"].split(" ", 1)
    assert float(value) == pytest.approx(raw[0], rel=5e-5)
    assert note == "(not perturbable)"
    page.get_by_label("normalised").check()
    (card, *_) = page.evaluate(READ)
    assert card["tokens"][0]["value"] == "not perturbable"
    page.get_by_label("whole prompt").check()
    assert page.locator(".card .fixed").first.is_visible()
    page.get_by_label("whole prompt").uncheck()
    assert not page.locator(".card .fixed").first.is_visible()
    assert page.locator(".card .tokens").first.inner_text() == "".join(DATASETS["words"][0].content)


def test_a_darker_token_has_a_higher_score_and_its_text_stands_out(opened):
    page = opened("sample=plain&view=normalised")
    for view in ("raw", "normalised"):
        page.get_by_label(view).check()
        for card in page.evaluate(READ):
            tokens = [token for token in card["tokens"] if not token["fixed"]]
            order = sorted(tokens, key=lambda token: float(token["value"]))
            shades = [luminance(token["background"]) for token in order]
            assert shades == sorted(shades, reverse=True)
            assert shades[0] > 0.8
            assert shades[-1] < 0.05
            for token in tokens:
                low, high = sorted(luminance(token[part]) for part in ("ink", "background"))
                assert (high + 0.05) / (low + 0.05) >= 4.5, "contrast"


def luminance(colour):
    """Relative luminance as defined by WCAG 2."""
    levels = np.array(re.findall(r"\d+", colour)[:3], float) / 255
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_records_cannot_inject_markup_or_scripts(opened):
    page = opened(f"sample={quote(DATASETS['words'][1].name)}&view=raw")
    for card in page.evaluate(READ):
        assert [token["text"] for token in card["tokens"]][1:-2] == list(HOSTILE)
    assert page.locator("script").count() == 2
    assert page.locator("img, iframe, link[rel=stylesheet], main a, main b b").count() == 0
    assert "<i>x</i>" in page.locator("#record").inner_text()
    assert page.locator("#record .generated").inner_text() == "<b></script>"
    assert page.locator(".card h2").get_by_text(METHODS["mine"], exact=True).is_visible()


@pytest.mark.parametrize(
    "fragment",
    [
        "model=%3Cimg%20src=x%20onerror=window.hacked=1%3E&sample=__proto__&view=constructor",
        "pi=NaN&step=1e999&hide=%00,__proto__&dataset=",
        "%",
        "&&==",
    ],
)
def test_an_unknown_address_shows_the_first_sample(opened, fragment):
    page = opened(fragment)
    first = {"model": "llama", "dataset": "words", "sample": "plain", "step": "0"}
    assert first.items() <= address(page).items()
    assert page.locator(".card").count() == len(METHODS)


def test_a_view_can_be_linked(opened):
    page = opened()
    choose(page, Model="mistral", Dataset="open", Explained_token="5")
    page.get_by_label("Retaining probability π").press("End")
    page.get_by_label("whole prompt").check()
    page.locator("#methods summary").click()
    page.get_by_role("checkbox", name="Two").uncheck()
    other = opened(page.url.split("#")[1])
    assert other.url == page.url
    assert other.evaluate(READ) == page.evaluate(READ)
    assert {card["method"] for card in other.evaluate(READ)} == {"random", "mine"}
    assert other.get_by_label("calibrated to π").is_checked()
    slider = other.get_by_label("Retaining probability π")
    assert slider.get_attribute("aria-valuetext") == "π = 0.95"
    other.evaluate("location.hash = 'sample=hebrew&view=raw'")
    other.wait_for_function("document.getElementById('sample').value === 'hebrew'")
    assert other.get_by_label("raw").is_checked()


def test_everything_is_reachable_by_keyboard(opened):
    page = opened()
    assert page.title() == "Attribution explorer · tést"
    reached, active = [], "document.activeElement"
    while reached.count("tokens") < len(METHODS) and len(reached) < 30:
        page.keyboard.press("Tab")
        reached.append(page.evaluate(f"{active}.id || {active}.className"))
        assert page.evaluate(f"getComputedStyle({active}).outlineStyle") != "none", reached[-1]
    assert reached[:6] == ["model", "dataset", "sample", "previous", "next", "step"]
    assert "pi" in reached
    assert reached.count("tokens") == len(METHODS)


def test_letter_keys_move_between_samples_within_the_list(opened):
    page = opened()
    names = [record.name for record in DATASETS["words"]]
    for key, sample in (("n", names[1]), ("p", names[0]), ("p", names[0])):
        page.keyboard.press(key)
        assert address(page)["sample"] == sample
    page.get_by_role("combobox", name="Dataset").press("n")
    assert address(page)["sample"] == names[0]
    page.get_by_role("combobox", name="Sample").press("ArrowDown")
    assert address(page)["sample"] == names[1]
    page.get_by_role("button", name="Next").press("Enter")
    assert address(page)["sample"] == names[2]
    for _ in names:
        page.keyboard.press("n")
    assert address(page)["sample"] == names[-1]
    assert page.get_by_role("button", name="Next").get_attribute("aria-disabled") == "true"


def test_arrow_keys_read_the_tokens_of_a_text_in_every_method(opened, run):
    page = opened("sample=plain&view=raw")
    text = page.locator(".card[data-method=random] .tokens")
    text.focus()
    readouts = [page.locator(".readout").all_inner_texts()]
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "End", "Home", "ArrowUp"):
        text.press(key)
        readouts.append(page.locator(".readout").all_inner_texts())
    numbers = [[int(re.match(r"Token (\d+)", one)[1]) for one in texts] for texts in readouts]
    assert numbers == [[place] * 3 for place in (2, 3, 4, 3, 8, 1, 1)]
    text.press("ArrowRight")
    active = page.evaluate(
        """() => document.getElementById(
          document.activeElement.getAttribute('aria-activedescendant')).getAttribute('aria-label')"""
    )
    name, value = active.rsplit(": ", 1)
    assert name == "The"
    raw = run.raw["llama", "random", "words", "plain", 0]
    assert float(value) == pytest.approx(raw[1], rel=5e-5)


def test_the_page_equals_its_golden_file(opened):
    """Samples that are complete, failed, failed for one method, cut, or explained at two steps."""
    lines, samples = [], ("sample=plain", "sample=failed", "sample=bytes", "sample=long")
    for fragment in (*samples, "dataset=open"):
        page = opened(f"{fragment}&order=run&pi=0.3&step=5")
        lines += ["", fragment]
        record = page.locator("#record")
        terms, details = (record.locator(tag).all_text_contents() for tag in ("dt", "dd"))
        lines += [f"{term}: {detail}" for term, detail in zip(terms, details, strict=True)]
        lines.append(f"Marked: {page.locator('mark').all_text_contents()}")
        measured = "p.measured, div.measured > div"
        lines += page.locator(f".card :is(h2, .figures, {measured})").all_text_contents()
    goldens.compare("\n".join([*lines, ""]), goldens.file("finished run", "pages", "in_a_browser"))


def test_an_incomplete_explorer_states_how_much_it_shows(opened):
    page = opened("sample=plain")
    page.evaluate("shown.dataset.total = 9; update()")
    assert "8 of 9 samples" in page.locator("#record").inner_text()


def test_methods_are_sorted_by_area_and_limited_on_request(opened):
    for place, order in enumerate(("ns", "nc")):
        page = opened(f"sample=plain&order={order}")
        lines = page.locator(".measured", has_text="AUC, dynamic").all_inner_texts()
        areas = [float(re.findall(r"\d\.\d+", line)[place]) for line in lines]
        assert areas == sorted(areas, reverse=True)
    page.locator("#methods summary").click()
    page.get_by_role("button", name="None").click()
    assert page.locator("#cards").inner_text() == "No method is shown."
    assert page.locator("#methods-shown").inner_text() == "(0 of 3 shown)"
    page.get_by_role("button", name="All", exact=True).click()
    assert page.locator(".card").count() == 3
    assert page.get_by_role("button", name="Show all").count() == 0
    page.evaluate("data.models[0].methods.push({ name: 'none', label: 'None' }); update()")
    assert page.locator(".card").count() == 3
    page.get_by_role("button", name="Show all 4 methods").click()
    assert page.locator(".card").count() == 4
    assert address(page)["methods"] == "all"


def test_the_first_heatmap_is_on_the_first_screen_of_a_phone(opened):
    page = opened("sample=plain", width=390, height=844)
    box = page.locator(".card .tokens").first.bounding_box()
    assert box["y"] + box["height"] <= 844


@pytest.mark.parametrize("sample", ["long", "hostile </script><b>", "hebrew"])
def test_the_page_fits_a_phones_width(opened, sample):
    page = opened(f"sample={quote(sample)}&view=calibrated&tokens=all", width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("#methods summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_run_with_few_pi_per_step_explains_missing_curves(run, browser, tmp_path):
    data = explorer_data(run.files, settings(pi_per_step=1))
    path = tmp_path / "sparse.html"
    path.write_text(explorer_page(data), "utf-8")
    page = visit(browser, path).page
    page.locator(".card").first.wait_for()
    notice = page.locator("header .notice").inner_text()
    assert notice.startswith("Single samples have no curve and no AUC here")
    assert f"measured at 1 of the {len(settings().pi_grid)} retaining probabilities" in notice
    assert page.locator("svg.curves").count() == 0
    assert page.locator(".measured", has_text="AUC").count() == 0
    assert page.locator("#order").is_hidden()


def test_right_to_left_texts_run_from_the_right(opened):
    page = opened("sample=hebrew&tokens=all")
    tokens = page.locator(".card").first.locator(".tokens > span")
    boxes = [tokens.nth(3 + place).bounding_box() for place in range(len(HEBREW))]
    edges = [box["x"] for box in boxes]
    assert edges == sorted(edges, reverse=True)
    text = page.locator(".card .tokens").first.bounding_box()
    assert boxes[0]["x"] + boxes[0]["width"] > text["x"] + text["width"] - 20
    assert tokens.nth(0).bounding_box()["x"] < text["x"] + 20


def test_a_browser_without_decompression_shows_a_message(browser, page_file):
    page = browser.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(page_file.as_uri())
    assert "needs a newer browser" in page.locator("#cards .notice").inner_text()
    page.close()
