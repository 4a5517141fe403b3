"""The token figure: choice of samples, top tokens and key sentence, and how they are drawn."""

import warnings

import hypothesis
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers import explained_rows
from pisoft.config.evaluation import ScoreSettings
from pisoft.figures.style import save_figure
from pisoft.figures.tokens import (
    MOST_LINES,
    NO_GLYPH,
    Example,
    chosen_answers,
    examples,
    key_sentence,
    plot_tokens,
    printable,
    top_tokens,
)
from pisoft.statistics.scores import read_scores

METHODS = {"random": "Random", "saliency": "Saliency", "mine": "$ Mine_{ <b>"}
TEXTS = ("It", " was", " fine", ".", " Then", " came", " the", " awful", " end", "!")
# Hebrew, Arabic with a mark, an emoji, Chinese, stray bytes, controls, a direction override.
STRANGE = (
    "שלום", " العربيّة", " \N{SAUROPOD}", "中文", "<0xF0>", "\\x9f", "\n\n", "\t", "\x00",
    "\u202eabc", " ", "$x_{", "\N{ZERO WIDTH JOINER}", "\ufffd",
)  # fmt: skip


def example(texts=TEXTS, top=None, evidence=None, missing=None, positions=None):
    return Example(
        sample_id="s/1",
        heading="label: Positive",
        texts=tuple(texts),
        positions=np.arange(len(texts)) if positions is None else np.array(positions),
        evidence=None if evidence is None else np.isin(np.arange(len(texts)), evidence),
        top={m: np.isin(np.arange(len(texts)), places) for m, places in (top or {}).items()},
        missing=missing or {},
    )


def draw(*shown, methods=METHODS):
    figure = plot_tokens(shown, methods, "Llama · SST-2")
    figure.draw_without_rendering()
    return figure


def heights(figure):
    return {text.get_text(): text.get_position()[1] for text in figure.axes[0].texts}


def test_the_first_correct_sample_of_each_predicted_label_is_chosen():
    rows = [
        explained_rows.answer("a", status="prompt_too_long"),
        explained_rows.answer("b", label="Negative", predicted="Positive"),
        explained_rows.answer("c", label="Negative", predicted="Negative"),
        explained_rows.answer("d", label="Negative", predicted="Negative"),
        explained_rows.answer("e", label="Positive", predicted="Positive"),
    ]
    assert [row["sample_id"] for row in chosen_answers(rows)] == ["c", "e"]
    assert [row["sample_id"] for row in chosen_answers(rows[:2])] == ["b"], "none is correct"
    assert chosen_answers(rows[:1]) == []
    open_text = [explained_rows.answer("a", status="empty_generation"), explained_rows.answer("b")]
    assert chosen_answers(open_text) == open_text[1:], "of open generation the first answered one"


@given(
    arrays(np.float64, st.integers(1, 60), elements=st.sampled_from([-1.0, 0, 0.5, 2, 3])),
    st.sampled_from([0.01, 0.07, 0.1, 0.3, 1.0]),
)
@hypothesis.example(np.arange(100.0), 0.07)  # 0.07 * 100 is more than 7
def test_top_tokens_match_a_full_sort(raw, share):
    percent = round(share * 100)
    count = -(-percent * len(raw) // 100)  # rounded up, in whole numbers
    order = sorted(range(len(raw)), key=lambda place: (-raw[place], place))
    assert set(np.flatnonzero(top_tokens(raw, share))) == set(order[:count])


def example_of(folder, rows, answer, targets, **how):
    """Return the example of sample a; `rows` are `attributions` by method."""
    asked = [explained_rows.prompt("a", TEXTS, [7])]
    prompts = explained_rows.write(folder, "prompts", asked, "llama")
    paths = [
        explained_rows.write(folder, "attributions", method_rows, "llama", method)
        for method, method_rows in rows.items()
    ]
    steps = read_scores(prompts, paths, ScoreSettings())
    (explained,) = examples([answer], steps, [*METHODS, "absent"], 0.1, targets, **how)
    return explained


def test_top_tokens_are_perturbable_and_of_the_first_explained_step(tmp_path):
    raw = {3: np.eye(10)[7], 6: np.eye(10)[2]}
    rows = {
        "random": [explained_rows.attribution("a", scores, step) for step, scores in raw.items()],
        "saliency": [explained_rows.attribution("a", [0.5] * 10, 3)],
        "mine": [explained_rows.attribution("a", None, 3, "nonfinite_attribution")],
    }
    answer = explained_rows.answer("a", steps=(3, 6))
    explained = example_of(tmp_path, rows, answer, ["label"])
    assert explained.texts == TEXTS
    assert explained.evidence.tolist() == [place == 7 for place in range(10)]
    assert explained.top.keys() == {"random"}
    assert np.flatnonzero(explained.top["random"]).tolist() == [7]
    assert explained.missing == {
        "saliency": "all equal",
        "mine": "nonfinite attribution",
        "absent": "no row",
    }
    assert "explained token 4: “t3”" in explained.heading, "readers count from 1"
    assert "1 of 10 tokens are top" in explained.heading
    explained = example_of(tmp_path, rows, answer, ["label"], aggregated=True)
    assert "mean over 2 explained tokens" in explained.heading
    answer = explained_rows.answer("a", "Yes", "Yes", (3,)) | {"greedy_token_text": " Sure"}
    explained = example_of(tmp_path, rows, answer, ["label", "generated"])
    assert "explained token 4: “t3” or “Sure” · " in explained.heading


def test_the_key_sentence_contains_the_evidence():
    top = {"random": [0, 1, 2], "mine": [0, 9]}
    sentence = key_sentence(example(top=top, evidence=[7]))
    assert sentence.texts == TEXTS[4:]
    assert sentence.evidence.tolist() == [place == 7 for place in range(4, 10)]
    assert np.flatnonzero(sentence.top["mine"]).tolist() == [5]
    assert "tokens 5\N{EN DASH}10 (evidence)" in sentence.heading


def test_without_evidence_the_key_sentence_is_the_densest_long_one():
    texts = (*TEXTS[:3], " so", ".", *TEXTS[4:], " Ha", "!")
    dense = {"random": [0, 1], "mine": [0, 1], "saliency": [11, 12]}
    assert key_sentence(example(texts, dense)).texts == texts[:5]
    short = example(("Ha", "!", " Oh", "!"), {"random": [2, 3]})
    assert key_sentence(short).texts == (" Oh", "!"), "where all are short"
    assert key_sentence(example(texts, {})).texts == texts[:5], "of equal ones the first"


def test_every_row_names_its_method_and_the_first_explains_missing_bars():
    texts = [f" word{k}" for k in range(100)]
    figure = draw(example(texts, missing={"mine": "nonfinite attribution"}))
    drawn = [(text.get_text(), text.get_position()[1]) for text in figure.axes[0].texts]
    rows = {label: [y for text, y in drawn if text == label] for label in METHODS.values()}
    lines = len(rows["Random"])
    assert lines > 2
    assert [len(places) for places in rows.values()] == [lines] * 3
    (why,) = (y for text, y in drawn if text == "none: nonfinite attribution")
    assert why == rows[METHODS["mine"]][0]


def test_very_long_texts_are_truncated_with_a_note():
    drawn = heights(draw(example([f" word{k:04}" for k in range(3000)])))
    shown = [text for text in drawn if text.startswith("word")]
    assert shown == [f"word{k:04}" for k in range(len(shown))]
    assert f" · cut: the first {len(shown)} tokens are shown · s/1" in "".join(drawn)
    assert len({drawn[text] for text in shown}) == MOST_LINES


def test_a_gap_in_the_prompt_starts_a_new_line():
    drawn = heights(draw(example(("a", "b", "c"), positions=[3, 4, 9])))
    assert drawn["a"] == drawn["b"] > drawn["c"]


def test_overlong_tokens_labels_and_headings_are_truncated():
    methods = {"random": "R" * 300, "saliency": "S"}
    figure = draw(example(("x" * 1000, " end")), methods=methods)
    for text in figure.axes[0].texts:
        assert text.get_window_extent().x0 >= 0
        assert text.get_window_extent().x1 <= figure.bbox.x1
    assert "end" in heights(figure)


def test_strange_scripts_bytes_and_controls_are_drawn_without_a_warning(tmp_path):
    figure = plot_tokens(
        [example(STRANGE, {"random": range(len(STRANGE))}, evidence=[0, 8])] * 2,
        METHODS,
        "שלום \N{SAUROPOD}",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(figure, [tmp_path / f"figure.{suffix}" for suffix in ("pdf", "svg", "png")])


def test_missing_glyphs_are_boxes_and_line_ends_are_arrows():
    assert printable("\N{SAUROPOD}a\n\x00\u202e") == f"{NO_GLYPH}a↵{NO_GLYPH}{NO_GLYPH}"
    assert printable("שלום <0xF0> \\x9f $x") == "שלום <0xF0> \\x9f $x"


def test_a_figure_without_an_answered_sample_says_so():
    assert list(heights(draw())) == ["Llama · SST-2 · no sample could be answered"]
