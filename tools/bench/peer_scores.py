"""Scores of the authors' code: `python peer_scores.py PEER MODEL_FOLDER PROMPTS SCORES`.

Runs in the environment of the peers (`peers.txt`), without this benchmark, one peer per process:
lxt and GIM patch transformers for the whole process. Reads prompts as JSON, a list of
{input_ids, target, content, space}, and writes one list of scores per prompt. Models are Llamas in
float64. `content` lists the positions that masks may zero: absent tokens have an embedding of
zeros, all other tokens are always present. `space` is the token of GIM's baseline.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import distribution
from itertools import product
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.llama import modeling_llama

Prompt = dict[str, Any]


class Peer:
    """A model with the functions that peers need.

    Args:
        folder: of the model.
        attention: name of the attention in transformers.
    """

    def __init__(self, folder: Path, attention: str = "eager") -> None:
        config = AutoConfig.from_pretrained(folder)
        if rope := getattr(config, "rope_parameters", None):  # format of transformers 5
            config.rope_theta, config.rope_scaling = rope["rope_theta"], rope
        self.network = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=torch.float64, attn_implementation=attention
        ).eval()
        self.network.requires_grad_(False)

    def embeddings(self, prompt: Prompt) -> torch.Tensor:
        """Return the embeddings of a prompt, (1, tokens, width)."""
        return self.network.get_input_embeddings()(torch.tensor([prompt["input_ids"]])).detach()

    def relevance(self, prompt: Prompt) -> list[float]:
        """Return embedding · gradient of the target's logit."""
        embeddings = self.embeddings(prompt).requires_grad_()
        logits = self.network(inputs_embeds=embeddings, use_cache=False).logits
        (gradient,) = torch.autograd.grad(logits[0, -1, prompt["target"]], embeddings)
        return (embeddings * gradient).sum(-1)[0].tolist()

    @torch.no_grad()
    def log_odds(self, prompt: Prompt, masks: np.ndarray) -> np.ndarray:
        """Return the target's log-odds under masks (N, content tokens), (N,)."""
        present = torch.ones(len(masks), len(prompt["input_ids"]), 1, dtype=torch.float64)
        present[:, prompt["content"], 0] = torch.as_tensor(np.asarray(masks, dtype=float))
        masked = self.embeddings(prompt) * present
        logits = self.network(inputs_embeds=masked, use_cache=False).logits[:, -1]
        others = logits.index_fill(1, torch.tensor([prompt["target"]]), -torch.inf)
        return (logits[:, prompt["target"]] - others.logsumexp(-1)).numpy()

    def probabilities(self, prompt: Prompt, masks: np.ndarray) -> np.ndarray:
        """Return the target's probability under masks (N, content tokens), (N,)."""
        return 1 / (1 + np.exp(-self.log_odds(prompt, masks)))


def lxt_scores(rules: str, folder: Path, prompts: list[Prompt]) -> list[list[float]]:
    """Return the relevance under lxt's patches."""
    from lxt.efficient import monkey_patch
    from lxt.efficient.models import llama

    monkey_patch(modeling_llama, getattr(llama, rules))
    peer = Peer(folder)
    return [peer.relevance(prompt) for prompt in prompts]


def explained(peer: Peer, prompt: Prompt) -> list[float]:
    """Return the scores of `gim.explain`."""
    import gim

    target, space = prompt["target"], prompt["space"]
    ids = torch.tensor(prompt["input_ids"])
    return gim.explain(peer.network, ids, target_token_id=target, baseline_token_id=space).tolist()


def gim_scores(folder: Path, prompts: list[Prompt]) -> list[list[float]]:
    """Return the scores of unmodified GIM."""
    peer = Peer(folder, "sdpa")
    return [explained(peer, prompt) for prompt in prompts]


def gim_parts_scores(folder: Path, prompts: list[Prompt]) -> list[list[float]]:
    """Return the scores of GIM on modules that its patches apply to.

    These are PyTorch's norms and a softmax without `dtype`; transformers' Llama has neither. The
    paper's scaling at the product of gate and up branch is added.
    """
    from gim.context.attention import scale_grad

    def attention(
        module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **_: Any
    ) -> tuple[torch.Tensor, None]:
        query, key, value = scale_grad(query, 0.25), scale_grad(key, 0.25), scale_grad(value, 0.5)
        key, value = (
            modeling_llama.repeat_kv(part, module.num_key_value_groups) for part in (key, value)
        )
        scores = query @ key.transpose(2, 3) * scaling + mask[..., : key.shape[2]]
        return (torch.nn.functional.softmax(scores, dim=-1) @ value).transpose(1, 2), None

    modeling_llama.eager_attention_forward = attention
    peer = Peer(folder)
    for parent in list(peer.network.modules()):
        for name, norm in list(parent.named_children()):
            if isinstance(norm, modeling_llama.LlamaRMSNorm):
                same = torch.nn.RMSNorm(norm.weight.shape, norm.variance_epsilon)
                same.weight = norm.weight
                setattr(parent, name, same)
        if isinstance(parent, modeling_llama.LlamaMLP):
            parent.down_proj.register_forward_pre_hook(lambda _, x: scale_grad(x[0], 0.5))
    return [explained(peer, prompt) for prompt in prompts]


def flashtrace_layers(peer: Peer, prompt: Prompt) -> tuple[torch.Tensor, torch.Tensor]:
    """Return FlashTrace's shares of keys (layers, tokens, tokens) and residual (layers, tokens)."""
    from flashtrace import core

    metadata = core.extract_model_metadata(peer.network)
    tokens = len(prompt["input_ids"])
    parameters = core.IFRParameters(
        **{name: getattr(metadata, name) for name in ("n_layers", "n_heads_q", "n_kv_heads")},
        **{name: getattr(metadata, name) for name in ("head_dim", "group_size", "d_model")},
        sequence_length=tokens,
        model_dtype=torch.float64,
        chunk_tokens=tokens,
        sink_chunk_tokens=tokens,
    )
    cache, hooks = core.attach_hooks(metadata.layers, torch.float64)
    with torch.no_grad():
        ids = torch.tensor([prompt["input_ids"]])
        attentions = peer.network(ids, use_cache=False, output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    result = core.compute_ifr_for_all_positions(
        cache=cache,
        attentions=attentions,
        weight_pack=core.build_weight_pack(metadata, torch.float64),
        params=parameters,
        sink_range=(0, tokens - 1),
        return_layerwise=True,
    ).per_layer_results
    keys = torch.stack([torch.stack([layer.e_attn_tokens for layer in row]) for row in result], 1)
    residual = torch.tensor([[layer.e_resid_attn for layer in row] for row in result]).T
    return keys.double(), residual.double()


def flashtrace_scores(folder: Path, prompts: list[Prompt]) -> list[list[float]]:
    """Return shares at the predicting position, summed over layers."""
    peer = Peer(folder)
    return [flashtrace_layers(peer, prompt)[0][:, -1].sum(0).tolist() for prompt in prompts]


def ifr_scores(folder: Path, prompts: list[Prompt]) -> list[list[float]]:
    """Return the row of the predicting position of the product of shares through the layers."""
    peer, scores = Peer(folder), []
    for prompt in prompts:
        keys, residual = flashtrace_layers(peer, prompt)
        layers = keys + torch.diag_embed(residual)
        scores.append(torch.linalg.multi_dot([*layers.flip(0)])[-1].tolist())
    return scores


def context_cite_scores(folder: Path, prompts: list[Prompt]) -> list[list[float]]:
    """Return the weights of ContextCite's solver, fitted to all masks of the content."""
    # Only the file: importing the package downloads data.
    file = distribution("context_cite").locate_file("context_cite/solver.py")
    solver = run_path(str(file))["LassoRegression"]()
    peer, scores = Peer(folder), []
    for prompt in prompts:
        masks = np.array(list(product((False, True), repeat=len(prompt["content"]))))
        weights, _ = solver.fit(masks, peer.log_odds(prompt, masks), 1)
        scores.append(on_content(prompt, weights))
    return scores


def shap_scores(folder: Path, prompts: list[Prompt]) -> list[list[float]]:
    """Return the exact Shapley values of the target's probability."""
    import shap

    peer, scores = Peer(folder), []
    for prompt in prompts:
        none, full = (np.full((1, len(prompt["content"])), value) for value in (0.0, 1.0))
        masker = shap.maskers.Independent(none)
        explainer = shap.explainers.Exact(partial(peer.probabilities, prompt), masker)
        scores.append(on_content(prompt, explainer(full).values[0]))
    return scores


def on_content(prompt: Prompt, values: np.ndarray) -> list[float]:
    """Return scores of all tokens: the values on the content, 0 elsewhere."""
    scores = np.zeros(len(prompt["input_ids"]))
    scores[prompt["content"]] = values
    return scores.tolist()


PEERS: dict[str, Callable[[Path, list[Prompt]], list[list[float]]]] = {
    "lxt, AttnLRP": partial(lxt_scores, "attnLRP"),
    "lxt, CP-LRP": partial(lxt_scores, "cp_LRP"),
    "gim.explain": gim_scores,
    "gim.explain, parts in reach": gim_parts_scores,
    "flashtrace, one layer after another": ifr_scores,
    "flashtrace": flashtrace_scores,
    "context-cite, all masks": context_cite_scores,
    "shap, exact": shap_scores,
}


if __name__ == "__main__":
    name, model, prompts, scores = sys.argv[1:]
    prompt_scores = PEERS[name](Path(model), json.loads(Path(prompts).read_text(encoding="utf-8")))
    Path(scores).write_text(json.dumps(prompt_scores), encoding="utf-8")
