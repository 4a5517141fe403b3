"""The Python interface gives the same numbers as the workflow's functions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM

import pisoft
from helpers.fresh_python import run_code
from helpers.limited_memory import Memory
from helpers.random_masked_models import roberta
from helpers.random_models import save_random_llama
from helpers.tiny_tokenizers import gpt2_tokenizer, llama_tokenizer
from pisoft.errors import BenchmarkError

CHAT = [
    {"role": "system", "content": "Answer {briefly."},
    {"role": "user", "content": 'Text: {"film": "wonderful"}'},
]


def save(folder, tokenizer):
    save_random_llama(folder, tokenizer, num_hidden_layers=3, max_position_embeddings=64)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("chat"), llama_tokenizer())


@pytest.fixture(scope="module")
def model(folder):
    return pisoft.load(folder, device="cpu")


@pytest.fixture(scope="module")
def prompt(model):
    return pisoft.prompt(model, CHAT)


def blocks_of_python(root, name="docs/how-to/use-from-python.md"):
    page = (root / name).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", page, flags=re.S)


def test_the_code_in_the_docs_runs(root, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # where the examples save a figure
    names: dict = {}
    for lines in blocks_of_python(root):
        exec(lines.replace("results/demo/data/models/demo-llama", str(folder)), names)
    assert list(names["answer"]["n"].unique()) == [3]
    assert (tmp_path / "curves.svg").stat().st_size > 10_000
    assert names["kept"].mean() == pytest.approx(0.3, abs=1e-9)
    assert "Target Saliency Heatmap" in capsys.readouterr().out


def test_the_code_in_the_readme_runs(root, folder, capsys):
    (lines,) = blocks_of_python(root, "README.md")
    exec(lines.replace("results/demo/data/models/demo-llama", str(folder)), {})
    assert "AUC π-Soft-NS ↑" in capsys.readouterr().out


def test_the_code_in_the_docs_runs_with_the_installed_package(root, folder, tmp_path):
    copy = tmp_path / "copy"  # setuptools writes beside the sources
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if name.startswith("scripts/pisoft/") or "/" not in name:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, copy / name)
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv/bin/python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install"]
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    # Installed dependencies replace those that pip would fetch; the package itself is built.
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([*pip, *options, str(copy)], env=environment, check=True)
    lines = blocks_of_python(root)[0].replace("results/demo/data/models/demo-llama", str(folder))
    program = (
        f"{lines}\nimport sys, pisoft.api\n"
        "print(pisoft.api.__file__, *answer['value'].tolist(), sep='\\n', file=sys.stderr)"
    )
    outside = {"cwd": tmp_path, "env": environment, "text": True}
    ended = subprocess.run([python, "-c", program], **outside, capture_output=True, check=True)
    file, *numbers = ended.stderr.split("pisoft")[-1].splitlines()
    assert file == "/api/__init__.py"
    names: dict = {}
    exec(lines, names)
    assert [*map(float, numbers)] == names["answer"]["value"].tolist()
    templates = {path.name for path in (root / "scripts/pisoft").glob("*/templates/*")}
    assert templates == {path.name for path in (site / "pisoft").glob("*/templates/*")}


def test_imports_are_lazy_and_misspelt_names_have_a_nearest_match():
    code = (
        "import sys, pisoft\n"
        "print({'torch', 'pandas', 'numpy', 'pydantic'} & set(sys.modules), dir(pisoft))\n"
        "pisoft.evaluates"
    )
    ended = run_code(code)
    assert ended.stdout.startswith("set() ")
    assert "Did you mean: 'evaluate'?" in ended.stderr


def test_a_prompt_has_the_templates_ids_and_the_user_text_as_content(model, prompt):
    expected = model.tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, tokenize=False)
    assert prompt["prompt_text"] == expected
    content = np.array(prompt["input_ids"])[prompt["content_mask"]]
    assert model.tokenizer.decode(content) == CHAT[1]["content"]


def test_plain_text_needs_no_template(tmp_path):
    model = pisoft.load(save(tmp_path, gpt2_tokenizer()), device="cpu")
    prompt = pisoft.prompt(model, "the film was wonderful")
    assert prompt["prompt_text"] == "<|endoftext|>the film was wonderful"
    assert prompt["content_mask"] == [False] + [True] * (len(prompt["input_ids"]) - 1)
    with pytest.raises(BenchmarkError, match="no chat template"):
        pisoft.prompt(model, CHAT)


def test_attribution_explains_the_preferred_or_the_given_token(model, prompt):
    def logits(ids):
        with torch.no_grad():
            return model.network(torch.tensor([ids])).logits[0, -1]

    preferred = int(logits(prompt["input_ids"]).argmax())
    scores = pisoft.attribute(model, prompt, "saliency")
    assert np.array_equal(scores, pisoft.attribute(model, prompt, "saliency", target=preferred))
    for changes in ({"target": (preferred + 1) % 300}, {"foil": (preferred + 2) % 300}):
        assert not np.allclose(scores, pisoft.attribute(model, prompt, "saliency", **changes))
    generated = [preferred, 7]
    second = int(logits([*prompt["input_ids"], *generated]).argmax())
    later = pisoft.attribute(model, prompt, "saliency", generated=generated)
    given = pisoft.attribute(model, prompt, "saliency", generated=generated, target=second)
    assert np.array_equal(later, given)
    assert len(later) == len(prompt["input_ids"])


def test_attribution_perturbs_the_tokens_in_scope(model, prompt):
    assert pisoft.attribute(model, prompt, "occlusion").values[0] == 0, "outside the content"
    assert pisoft.attribute(model, prompt, "occlusion", scope="all").values[0] != 0
    with pytest.raises(BenchmarkError, match=r"^attribute: scope: 'contents'.*'content'"):
        pisoft.attribute(model, prompt, "occlusion", scope="contents")


def test_options_may_share_names_with_arguments(model, prompt):
    scores = pisoft.attribute(model, prompt, "inseq", method="saliency").values
    expected = pisoft.attribute(model, prompt, "saliency").values
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5 * expected.max())


QUICK = {"pi_grid": (0.3, 0.7), "draws": 2}
TALKS = [[CHAT[0], CHAT[1] | {"content": text}] for text in ("a dull film", "the best cast", "why")]


def values(answer):
    return answer["value"].tolist()


def test_methods_scores_and_functions_give_equal_results(model):
    by_name = pisoft.evaluate(model, TALKS, "saliency", **QUICK)
    scores = [pisoft.attribute(model, talk, "saliency") for talk in TALKS]
    assert values(pisoft.evaluate(model, TALKS, scores, **QUICK)) == values(by_name)
    with pytest.raises(BenchmarkError, match=r"^method_or_scores: item 0 is of another prompt"):
        pisoft.evaluate(model, TALKS, scores[::-1], **QUICK)
    by_ids = {tuple(one.prompt["input_ids"]): torch.tensor(one.values) for one in scores}

    def looked_up(ids, target):
        assert target in {one.answer["target_ids"][0] for one in scores}
        return by_ids[tuple(ids)]

    by_function = pisoft.evaluate(model, TALKS, looked_up, **QUICK)
    assert values(by_function) == values(by_name)
    assert set(by_function["method"]) == {"looked_up"}


def test_every_generated_step_is_explained_by_its_context(model):
    lengths = []

    def noted(ids, target):
        lengths.append(len(ids))
        return range(len(ids))

    long = pisoft.evaluate(model, TALKS[:1], noted, max_new_tokens=5, step_interval=2, **QUICK)
    prompt = pisoft.prompt(model, TALKS[0])
    assert lengths == [len(prompt["input_ids"]) + step for step in (0, 2, 4)]
    rows = [[*range(len(prompt["input_ids"]))]] * 3
    given = pisoft.evaluate(model, [prompt], [rows], max_new_tokens=5, step_interval=2, **QUICK)
    assert values(given) == values(long)
    assert values(given) != values(pisoft.evaluate(model, [prompt], rows[:1], **QUICK))


def test_label_words_are_the_explained_answers(model):
    prompt = pisoft.prompt(model, TALKS[0], label_words=["film", "cast"])
    (target,) = pisoft.attribute(model, prompt, "saliency").answer["target_ids"]
    assert target in prompt["label_token_ids"]


def test_prompts_that_fail_are_counted_and_named(model):
    failing = [[CHAT[1] | {"content": text}] for text in ("x <|eot_id|>", "film " * 80)]
    prompts = [*TALKS, *failing]
    answer = pisoft.evaluate(model, prompts, "saliency", **QUICK)
    assert values(answer) == values(pisoft.evaluate(model, TALKS, "saliency", **QUICK))
    assert set(answer["n"]) == {3}
    assert set(answer["n_failed"]) == {2}
    assert set(answer["failures"]) == {"1 control_token, 1 prompt_too_long"}
    alone = pisoft.evaluate(model, failing, "saliency", **QUICK)
    assert alone["value"].isna().all()


def test_a_model_loaded_by_transformers_gives_the_same_numbers(model, folder):
    network = AutoModelForCausalLM.from_pretrained(folder)
    options = {"layers": 1}
    given = {"options": options, **QUICK}
    answer = pisoft.evaluate(network, TALKS, "attention", tokenizer=model.tokenizer, **given)
    assert values(answer) == values(pisoft.evaluate(folder, TALKS, "attention", **given))


def test_a_line_of_progress_is_overwritten(model, monkeypatch, capsys):
    monkeypatch.setattr("pisoft.progress.OVERWRITE_INTERVAL", 0)
    pisoft.evaluate(model, TALKS, "saliency", block_size=1, **QUICK)
    shown = capsys.readouterr().err
    assert shown.count("\n") == 3
    assert "\revaluating: 2 of 3 steps" in shown


def test_curves_have_a_panel_per_method_and_a_line_per_metric(model):
    answers = [pisoft.evaluate(model, TALKS, name, **QUICK) for name in ("saliency", "random")]
    figure = pisoft.plot(pd.concat(answers))
    for panel, answer in zip(figure.axes, answers, strict=False):
        drawn = [[*line.get_ydata()] for line in panel.lines]
        for metric in ("pi_soft_ns", "pi_soft_nc"):
            assert values(answer[answer["metric"] == metric]) in drawn
    assert figure._repr_svg_().rstrip().endswith("</svg>")
    with pytest.raises(BenchmarkError, match=r"^answer: has no curves"):
        pisoft.plot(answers[0].head(4))
    with pytest.raises(BenchmarkError, match="must be of one model and protocol"):
        pisoft.plot(pd.concat([answers[0], answers[0].assign(protocol="fixed")]))
    with pytest.raises(BenchmarkError, match=r"^answer: has two curves of method 'saliency'"):
        pisoft.plot(pd.concat([answers[0], *answers]))
    with pytest.raises(BenchmarkError, match=r"^answer: .*several by `pandas.concat`"):
        pisoft.plot(answers)


def test_a_heatmap_colours_content_by_score_and_escapes_tokens(prompt):
    texts = ["<script>alert(1)</script>"] * len(prompt["input_ids"])
    raw = np.arange(len(texts), dtype=np.float32)
    answer = {"target_ids": [1]}
    html = pisoft.Scores(prompt | {"token_texts": texts}, answer, raw)._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == len(texts)
    shades = np.array([float(shade) for shade in re.findall(r"0, (\d\.\d\d)\)", html)])
    content = np.array(prompt["content_mask"])
    assert not shades[~content].any()
    np.testing.assert_allclose(shades[content], np.linspace(0, 1, content.sum()), atol=0.006)
    with_gap = np.where(content, np.nan, raw)
    assert "nan" in pisoft.Scores(prompt, answer, with_gap)._repr_html_()


def test_random_scores_and_masks_differ_between_prompts(model, prompt):
    words = CHAT[1]["content"]
    others = ([CHAT[0] | {"content": "Answer [briefly]."}, CHAT[1]], CHAT[1:], words)
    ids = {pisoft.prompt(model, other)["sample_id"] for other in others}
    assert len(ids | {prompt["sample_id"]}) == 4


class TestErrors:
    @pytest.mark.parametrize(
        ("method", "options", "message"),
        [
            ("salience", {}, "unknown attribution method 'salience'; did you mean 'saliency'"),
            ("grad_ellm", {"layer": 2}, "'grad_ellm': options: layer: .* did you mean 'layers'"),
            ("grad_ellm", {"layers": 9}, "method 'grad_ellm': option layers: 9 is more than the 3"),
            ("grad_ellm", {"heads": "all"}, "'grad_ellm': options: heads: 'all' is not allowed"),
            ("inseq", {"method": "saliancy"}, "options: method: 'saliancy' .*mean 'saliency'"),
            *(
                ("reagent", given, "method 'reagent': option masked")
                for given in ({}, {"masked": "a"})
            ),
            (None, {}, "method: expected a method's name, or a function .*, got NoneType"),
            (len, {"layers": 2}, "method: expected .* without options, got .* {'layers': 2}"),
            ("saliency", {"generated": 5}, "option generated: expected a list of token ids, got 5"),
            ("saliency", {"target": 5, "foil": 5}, "'saliency': option foil: 5 is the target itse"),
            ("saliency", {"generated": [5] * 64}, "method 'saliency': option generated: .* the 64"),
            ("saliency", {"generated": [10**9]}, "option generated: token id 1000000000 is outs"),
            ("saliency", {"generated": [5, "a"]}, "option generated: token id 'a' is outside"),
            ("saliency", {"target": "good"}, "option target: token id 'good' is outside"),
            ("saliency", {"foil": -1}, "option foil: token id -1 is outside the vocabulary"),
            ("saliency", {"target": True}, "option target: token id True is outside"),
            ("saliency", {"seed": -1}, r"^attribute: seed: must be .* equal to 0 \(got -1\)"),
            ("value_zeroing", {"threshold": 2}, r"threshold: must be less than 2 \(got 2\)"),
        ],
    )
    def test_unknown_methods_and_options_are_named(self, model, prompt, method, options, message):
        with pytest.raises(BenchmarkError, match=message):
            pisoft.attribute(model, prompt, method, **options)

    @pytest.mark.parametrize(
        ("scores", "pi", "message"),
        [
            *(([0, 1, 2], pi, r"pi: .*must be .*in \(0, 1\)") for pi in (0, 1, np.nan, "0.3")),
            ([1, np.nan], 0.5, "^scores: must be finite"),
            ([[1, 2]], 0.5, r"^scores: must be .* in one dimension; got shape \(1, 2\)"),
            (["a"], 0.5, "^scores: must be numbers"),
        ],
    )
    def test_uncalibratable_scores_are_refused(self, scores, pi, message):
        with pytest.raises(BenchmarkError, match=message):
            pisoft.calibrate(np.array(scores), pi)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"prompts": "text"}, "prompts: expected a list of prompts, got str"),
            ({"prompts": TALKS[0]}, "prompts: item 0: expected a text or .*, got dict"),
            ({"prompts": [TALKS[0]] * 2}, "prompts: item 1 is the same as item 0"),
            ({"prompts": []}, "prompts: the list is empty"),
            ({"prompts": pd.DataFrame({"text": ["a"]})}, "prompts: expected a .*, got DataFrame"),
            ({"prompts": [["a"]]}, "prompts: item 0: message 0: expected a message .*, got str"),
            ({"prompts": [{"input_ids": [1]}]}, "prompts: item 0: lacks sample_id, .* `pisoft.pro"),
            ({"method_or_scores": "salience"}, "method: unknown .*; did you mean 'saliency'"),
            ({"method_or_scores": 3}, "method_or_scores: expected a method's name, .*, got int"),
            ({"method_or_scores": [[1.0]]}, "method_or_scores: 1 items do not fit 3 prompts"),
            ({"method_or_scores": [[1.0]] * 3}, r"scores of prompt 0: shape \(1,\) is"),
            ({"method_or_scores": lambda ids, _: ids[1:]}, "scores of prompt 0: shape .*"),
            ({"method_or_scores": [["a"]] * 3}, "scores of prompt 0: must be numbers"),
            ({"method_or_scores": len, "options": {"a": 1}}, "options: only a method given by"),
            ({"options": "layers"}, "method 'saliency': options: must be .*got 'layers'"),
            ({"options": {"layers": 2}}, "method 'saliency': options: layers: unknown key"),
            ({"protocol": "fixed", "operator": "hide"}, "evaluate: protocol: 'fixed' is not allow"),
            ({"protocol": "dynamik"}, "evaluate: protocol: 'dynamik' .* did you mean 'dyn"),
            ({"scop": "content"}, "evaluate: scop: unknown key; did you mean 'scope'"),
            ({"scope": "contents"}, "evaluate: scope: 'contents' .*did you mean 'content'"),
            ({"seed": -1}, r"evaluate: seed: must be .* 0 \(got -1\)"),
            ({"model": 3}, "model: expected a folder, a name on the hub or a model .*, got int"),
            ({"tokenizer": "gpt2"}, "tokenizer: only a model of transformers takes one; .*got str"),
            ({"model": roberta().network}, "tokenizer: a model of transformers needs .* NoneType"),
        ],
    )
    def test_invalid_arguments_give_one_line_without_a_cause(self, model, given, message):
        arguments = {"model": model, "prompts": TALKS, "method_or_scores": "saliency", **given}
        with pytest.raises(BenchmarkError, match=f"^{message}") as raised:
            pisoft.evaluate(**arguments)
        assert "\n" not in str(raised.value)
        assert len(raised.traceback) == 2, "the caller's line and the function"
        assert raised.value.__context__ is None

    @pytest.mark.parametrize(
        ("messages", "message"),
        [
            ([{"role": "assistant", "content": "x"}], "prompt: message 0: role: 'assistant'"),
            ([{"role": "system", "content": "x"}], "no user message with text"),
            (" ", "no user message with text"),
            ([CHAT[1] | {"content": "<|eot_id|>"}], "prompt: cannot be built: control_token"),
            ([CHAT[1] | {"content": "film " * 80}], r"^prompt: \d+ tokens are more than the 64"),
        ],
    )
    def test_invalid_prompts_are_refused(self, model, messages, message):
        with pytest.raises(BenchmarkError, match=message):
            pisoft.prompt(model, messages)

    @pytest.mark.parametrize("words", ["yes", None, [1, 2], ["", "yes"]])
    def test_invalid_label_words_are_named(self, model, prompt, words):
        with pytest.raises(BenchmarkError, match=r"^label_words: expected a list of words, got "):
            pisoft.prompt(model, CHAT, label_words=words)
        with pytest.raises(BenchmarkError, match=r"^label_words: a prompt that has been built"):
            pisoft.prompt(model, prompt, label_words=["yes"])

    def test_invalid_models_are_named(self, model, folder):
        with pytest.raises(BenchmarkError, match=r"dtype: 'bf16' is not allowed.*bfloat16"):
            pisoft.load(folder, dtype="bf16")
        for name in ("/nope/x", "no/such/folder"):
            with pytest.raises(BenchmarkError, match=f"^model '{name}': no such folder, and no na"):
                pisoft.load(name, device="cpu")
        for misspelt in (f"{folder}s", f"{folder}s/weights"):
            with pytest.raises(BenchmarkError, match=f"; did you mean '{folder}'\\?"):
                pisoft.load(misspelt)
        with pytest.raises(BenchmarkError, match=r"^dtype: not allowed for a model that is loaded"):
            pisoft.load(model, dtype=torch.float32)
        with pytest.raises(BenchmarkError, match="revision: unknown key"):
            pisoft.load(folder, revision="main")
        with pytest.raises(BenchmarkError, match=r"^model: expected a folder, .*, got NoneType"):
            pisoft.load_masked(None)
        with pytest.raises(BenchmarkError, match="no mask token"):
            pisoft.load_masked(folder)


def test_reagent_accepts_a_masked_model_from_a_folder(model, prompt, tmp_path):
    saved = roberta()
    saved.network.save_pretrained(tmp_path)
    saved.tokenizer.save_pretrained(tmp_path)
    masked = pisoft.load_masked(tmp_path)
    scores = pisoft.attribute(model, prompt, "reagent", masked=masked, num_probes=1)
    assert scores.content.sum() > 0


def test_lack_of_memory_is_reported_without_invented_scores(model, prompt):
    def attribute(**options):
        return pisoft.attribute(model, prompt, "saliency", **options)

    with Memory(limit=1), pytest.raises(BenchmarkError, match="no answer: the sample does not fit"):
        attribute()
    with Memory(limit=1), pytest.raises(BenchmarkError, match="no scores: the sample does not fit"):
        attribute(target=5)
