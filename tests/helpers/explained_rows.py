"""Hand-made rows of prompts, answers, scores and evaluations, in the format of a run."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from pisoft.store.parquet import write_rows
from pisoft.store.schemas import SCHEMAS

MODEL, DATASET = "llama", "sst2"
BEFORE = ["<s>", "Text:"]  # template tokens, which have scores but are not perturbed
AFTER = ["</s>"]
FLOOR = 1e-6
DRAWN = ("distances", "total_variations", "log_probability_changes")


def record(sample_id, status="ok", cluster=None):
    """Return a row of `datasets`; only its status and cluster are read."""
    unread = {"fields": {}, **dict.fromkeys(("label", "answer", "evidence", "counterfactuals"))}
    return {**unread, "sample_id": sample_id, "cluster": cluster, "status": status}


def prompt(sample_id, texts, evidence=None, status="ok"):
    """Return a row of `prompts` whose content tokens have these texts."""
    every = [*BEFORE, *texts, *AFTER]
    content = [False] * len(BEFORE) + [True] * len(texts) + [False] * len(AFTER)
    inside = None if evidence is None else [index in evidence for index in range(len(texts))]
    return {
        "sample_id": sample_id, "status": status, "truncated": False,
        "prompt_text": "".join(every), "token_texts": every, "input_ids": list(range(len(every))),
        "content_mask": content, "user_mask": content,
        "bos_mask": [index == 0 for index in range(len(every))],
        "evidence_mask": inside and [False] * len(BEFORE) + inside + [False] * len(AFTER),
        "counterfactuals": None, "label": None, "label_token_ids": [], "label_words": [],
    }  # fmt: skip


def prompt_of_ids(sample_id, ids, content, **changes):
    """Return a row of `prompts` with these tokens; `content` holds the content's positions."""
    positions = range(len(ids))
    inside = [index in content for index in positions]
    masks = {"content_mask": inside, "user_mask": inside, "bos_mask": [p == 0 for p in positions]}
    tokens = {"input_ids": list(ids), "token_texts": ["x"] * len(ids)}
    return prompt(sample_id, []) | tokens | masks | changes


def answer(sample_id, label=None, predicted=None, steps=(0,), status="ok"):
    """Return a row of `generations`."""
    count = max(steps, default=-1) + 1
    return {
        "sample_id": sample_id, "status": status, "output_text": "so it is",
        "output_ids": [1] * count, "output_token_texts": [f" t{index}" for index in range(count)],
        "steps": list(steps), "target_ids": [1] * len(steps), "runner_up_ids": [], "margins": [],
        "predicted_label": predicted, "counterfactual_labels": None, "label": label,
        "correct": None if predicted is None else predicted == label,
        "greedy_token_id": 1, "greedy_token_text": None, "greedy_is_label": None,
    }  # fmt: skip


def explained_samples(samples):
    """Return a row of `prompts` and one of `generations` per sample; all tokens are content."""
    pairs = []
    for sample in samples:
        ids = sample.prompt_ids
        words = {"label_words": ["Yes", "No"], "label_token_ids": [50, 60]}
        texts = ["x"] * len(sample.output_ids)
        answered = {"output_ids": sample.output_ids, "output_token_texts": texts}
        answered["target_ids"] = sample.target_ids
        pairs.append(
            (
                prompt_of_ids(sample.sample_id, ids, range(len(ids)), **words),
                answer(sample.sample_id, predicted="Yes", steps=sample.steps) | answered,
            )
        )
    return pairs


def attribution(sample_id, raw, step=0, status="ok"):
    """Return a row of `attributions`; `raw` are the scores of the content tokens."""
    whole = None if raw is None else [9.0] * len(BEFORE) + list(raw) + [-9.0] * len(AFTER)
    keys = {"sample_id": sample_id, "step": step, "status": status}
    return {**keys, "raw_scores": whole, "converged": None}


def soft(sample_id, scores, grid, step=0, status="ok"):
    """Return the rows of `soft` for one step, with α from SciPy's bracketing solver."""
    scores = np.clip(scores, FLOOR, 1 - FLOOR)
    keys = {"sample_id": sample_id, "step": step, "perturbable": len(scores), "status": status}
    keys |= dict.fromkeys(name for name in SCHEMAS["soft"].names if name not in keys)
    rows = []
    for pi in (None, *grid):
        row = {**keys, "pi": pi}
        if status == "ok":
            alpha = 1.0
            if pi is not None:
                alpha = brentq(lambda a, pi=pi: (scores**a).mean() - pi, 1e-9, 1e9, xtol=1e-14)
            row |= {"alpha": alpha, "achieved": pi or float(scores.mean()), "feasible": True}
            row |= {"floored": 0, "ceiled": 0, "h0": 0.5, "identity": 0.5}
            row |= {f"{m}_{measure}": [0.25] for m in ("ns", "nc") for measure in DRAWN}
        rows.append(row)
    return rows


def write(folder, kind, rows, *parts, dataset=DATASET):
    """Write rows to `{folder}/{kind}/…/{dataset}.parquet` and return the path."""
    path = folder.joinpath(kind, *parts, f"{dataset}.parquet")
    write_rows(path, kind, rows, {})
    return path


def write_scores(folder, raw, n_tokens, variant=None):
    """Write prompts with `n_tokens` content tokens, and their scores; return the files by kind.

    `raw` is {method: {sample: scores of each step}}, None for failed steps. `n_tokens` is one
    number for all samples, or given by sample.
    """
    samples = next(iter(raw.values()))
    counts = n_tokens if isinstance(n_tokens, dict) else dict.fromkeys(samples, n_tokens)
    prompts = [prompt(name, ["t"] * counts[name]) for name in samples]
    attributions = {
        method: [
            attribution(name, scores, step, "nonfinite_attribution" if scores is None else "ok")
            for name, steps in by_sample.items()
            for step, scores in enumerate(steps)
        ]
        for method, by_sample in raw.items()
    }
    model = f"{MODEL}@{variant}" if variant else MODEL
    return {
        "prompts": [write(folder, "prompts", prompts, MODEL)],
        "attributions": [
            write(folder, "attributions", rows, model, method)
            for method, rows in attributions.items()
        ],
    }
