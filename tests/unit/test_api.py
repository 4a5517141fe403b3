"""The benchmark from Python alone gives what the workflow's own functions give."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv

import numpy as np
import pytest
import torch

from helpers.evaluations import evaluated
from helpers.limited_memory import Memory
from helpers.random_masked_models import roberta
from helpers.random_models import save_random_llama
from helpers.tiny_tokenizers import gpt2_tokenizer, llama_tokenizer
from pisoft import api as pisoft
from pisoft.config.evaluation import EvaluationSettings
from pisoft.errors import BenchmarkError
from pisoft.faithfulness.perturbation import PerturbationTarget
from pisoft.faithfulness.scope import perturbable_positions
from pisoft.statistics.soft import summarise
from pisoft.store.parquet import provenance, write_rows

CHAT = [
    {"role": "system", "content": "Answer {briefly}."},
    {"role": "user", "content": "Text: a {wonderful} film"},
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


def test_the_lines_of_the_docs_run(root, folder):
    (lines,) = (block for block in blocks_of_python(root) if "pisoft.soft_scores" in block)
    names: dict = {}
    exec(lines.replace("results/demo/data/models/demo-llama", str(folder)), names)
    assert names["scores"].shape == (len(names["prompt"]["input_ids"]),)
    assert names["kept"].mean() == pytest.approx(0.3, abs=1e-9)
    assert 0 <= names["ns"] <= 1
    assert names["nc"] > 0


def test_the_lines_of_the_readme_run(root, folder):
    (lines,) = blocks_of_python(root, "README.md")
    names: dict = {}
    exec(lines.replace("results/demo/data/models/demo-llama", str(folder)), names)
    assert 0 <= names["ns"] <= 1
    assert names["nc"] > 0


def test_the_lines_of_the_docs_run_where_the_package_is_installed(root, folder, tmp_path):
    copy = tmp_path / "copy"  # setuptools writes beside what it builds
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
    # What is installed here stands in for what pip would fetch, the package itself does not.
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([*pip, *options, str(copy)], env=environment, check=True)
    (lines,) = (block for block in blocks_of_python(root) if "pisoft.soft_scores" in block)
    lines = lines.replace("results/demo/data/models/demo-llama", str(folder))
    program = f"{lines}\nprint(pisoft.__file__, ns, nc)"
    told = subprocess.run(
        [python, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    file, ns, nc = told.stdout.split()
    assert file == str(site / "pisoft/api.py")
    names: dict = {}
    exec(lines, names)
    assert (float(ns), float(nc)) == (names["ns"], names["nc"])
    templates = {path.name for path in (root / "scripts/pisoft").glob("*/templates/*")}
    assert templates == {path.name for path in (site / "pisoft").glob("*/templates/*")}


def test_the_lines_of_the_docs_for_inseq_run(root, folder, capsys):
    (lines,) = (block for block in blocks_of_python(root) if "inseq_bridge" in block)
    exec(lines.replace("results/demo/data/models/demo-llama", str(folder)), {})
    assert "Target Saliency Heatmap" in capsys.readouterr().out


def test_a_prompt_has_the_templates_ids_and_the_users_words_as_content(model, prompt):
    expected = model.tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, tokenize=False)
    assert prompt["prompt_text"] == expected
    content = [
        i for i, kept in zip(prompt["input_ids"], prompt["content_mask"], strict=True) if kept
    ]
    assert model.tokenizer.decode(content) == CHAT[1]["content"]


def test_a_user_who_spells_a_control_token_is_told(model):
    with pytest.raises(BenchmarkError, match="prompt: cannot be built: control_token"):
        pisoft.prompt(model, [{"role": "user", "content": "a film <|eot_id|>"}])


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
    other = pisoft.attribute(model, prompt, "saliency", target=(preferred + 1) % 300)
    assert not np.allclose(scores, other)
    generated = [preferred, 7]
    second = int(logits([*prompt["input_ids"], *generated]).argmax())
    later = pisoft.attribute(model, prompt, "saliency", generated=generated)
    given = pisoft.attribute(model, prompt, "saliency", generated=generated, target=second)
    assert np.array_equal(later, given)
    assert len(later) == len(prompt["input_ids"])


def test_options_may_be_called_like_our_own_arguments(model, prompt):
    found = pisoft.attribute(model, prompt, "inseq", method="saliency")
    expected = pisoft.attribute(model, prompt, "saliency")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.max())


def test_soft_scores_are_those_of_the_workflow(model, prompt, tmp_path):
    """The whole way: rows of a grid, written to a file, summarised."""
    scores = pisoft.attribute(model, prompt, "input_x_gradient")
    ns, nc = pisoft.soft_scores(model, prompt, scores, pi=0.4, draws=4, seed=3)
    chosen = EvaluationSettings(pi_grid=(0.4, 0.8), draws=4)
    positions = perturbable_positions(prompt, "content")
    row = {"sample_id": prompt["sample_id"], "step": 0, "raw_scores": scores, "status": "ok"}
    target = PerturbationTarget(prompt["input_ids"], positions, target_id=0)
    (rows,) = evaluated(model, [(target, row)], chosen, 3)
    path = tmp_path / "soft/dynamic/m/a/d.parquet"
    path.parent.mkdir(parents=True)
    write_rows(path, "soft", rows, provenance({}))
    _, curves, _ = summarise([path], 1e-4, clamp="draw")
    means = {
        point["metric"]: point["value"]
        for point in curves.to_pylist()
        if point["position"] == pytest.approx(0.4)
    }
    assert (ns, nc) == pytest.approx((means["pi_soft_ns"], means["pi_soft_nc"]), rel=1e-6)


def test_random_scores_and_masks_differ_between_prompts(model, prompt):
    other = pisoft.prompt(model, [CHAT[0] | {"content": "Answer [briefly]."}, CHAT[1]])
    assert other["sample_id"] != prompt["sample_id"]


class TestErrors:
    def test_a_prompt_longer_than_the_context_is_refused(self, model):
        words = [{"role": "user", "content": "film " * 80}]
        with pytest.raises(BenchmarkError, match=r"^prompt: \d+ tokens are more than the 64 that"):
            pisoft.prompt(model, words)

    def test_tokens_generated_past_the_context_name_the_method_and_the_option(self, model, prompt):
        with pytest.raises(BenchmarkError, match=r"method 'saliency': option generated: .* the 64"):
            pisoft.attribute(model, prompt, "saliency", generated=[5] * 64)

    @pytest.mark.parametrize(
        ("method", "options", "message"),
        [
            ("salience", {}, "unknown attribution method 'salience'; did you mean 'saliency'"),
            ("grad_ellm", {"layer": 2}, "'grad_ellm': options: layer: .* did you mean 'layers'"),
            ("grad_ellm", {"layers": 9}, "method 'grad_ellm': option layers: 9 is more than the 3"),
            ("grad_ellm", {"heads": "all"}, "'grad_ellm': options: heads: 'all' is not allowed"),
            ("inseq", {"method": "saliancy"}, "option method: 'saliancy' .*mean 'saliency'"),
        ],
    )
    def test_methods_and_options_are_named(self, model, prompt, method, options, message):
        with pytest.raises(BenchmarkError, match=message):
            pisoft.attribute(model, prompt, method, **options)

    @pytest.mark.parametrize("pi", [0, 1, -0.2, float("nan")])
    def test_pi_must_lie_between_0_and_1(self, pi):
        with pytest.raises(BenchmarkError, match=r"pi: .* must be in \(0, 1\)"):
            pisoft.calibrate(np.arange(3.0), pi)

    def test_scores_must_fit_and_be_finite(self, model, prompt):
        with pytest.raises(BenchmarkError, match="2 scores do not fit"):
            pisoft.soft_scores(model, prompt, np.ones(2), 0.5)
        with pytest.raises(BenchmarkError, match="calibrate: scores must be finite"):
            pisoft.calibrate(np.array([1, np.nan]), 0.5)

    def test_wrong_settings_name_what_is_allowed(self, model, prompt):
        with pytest.raises(BenchmarkError, match=r"scope: 'contents' .*did you mean 'content'"):
            pisoft.soft_scores(model, prompt, np.ones(4), 0.5, scope="contents")

    @pytest.mark.parametrize(
        ("messages", "message"),
        [
            ([{"role": "assistant", "content": "x"}], "prompt: message 0: role: 'assistant'"),
            ([{"role": "system", "content": "x"}], "no user message with text"),
            (" ", "no user message with text"),
        ],
    )
    def test_wrong_messages_are_named(self, model, messages, message):
        with pytest.raises(BenchmarkError, match=message):
            pisoft.prompt(model, messages)

    def test_wrong_models_are_named(self, folder):
        with pytest.raises(BenchmarkError, match=r"dtype: 'bf16' is not allowed.*bfloat16"):
            pisoft.load(folder, dtype="bf16")
        with pytest.raises(BenchmarkError, match=r"^model 'no/such/folder': "):
            pisoft.load("no/such/folder", device="cpu")


def test_reagent_takes_a_masked_model_from_a_folder(model, prompt, tmp_path):
    saved = roberta()
    saved.network.save_pretrained(tmp_path)
    saved.tokenizer.save_pretrained(tmp_path)
    masked = pisoft.load_masked(tmp_path)
    scores = pisoft.attribute(model, prompt, "reagent", masked=masked, num_probes=1)
    assert scores[prompt["content_mask"]].sum() > 0
    with pytest.raises(BenchmarkError, match="method 'reagent': option masked"):
        pisoft.attribute(model, prompt, "reagent")


def test_a_folder_without_a_masked_model_is_named(folder):
    with pytest.raises(BenchmarkError, match="no mask token"):
        pisoft.load_masked(folder)


def test_want_of_memory_is_said_and_no_score_is_made_up(model, prompt):
    def attribute(**options):
        return pisoft.attribute(model, prompt, "saliency", **options)

    with Memory(limit=1), pytest.raises(BenchmarkError, match="no answer: the sample does not fit"):
        attribute()
    with Memory(limit=1), pytest.raises(BenchmarkError, match="no scores: the sample does not fit"):
        attribute(target=5)
