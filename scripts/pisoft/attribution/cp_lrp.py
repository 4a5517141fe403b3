"""CP-LRP: layer-wise relevance propagation that conserves relevance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pisoft.attribution.modified_backward import ModifiedBackwardMethod

if TYPE_CHECKING:
    from pisoft.models.modified_backward import BackwardRules


class CpLrp(ModifiedBackwardMethod):
    """Relevance of the target's logit, with attention maps, gates and norms as constants.

    The remaining computation is linear in the embeddings, so in a model without biases and caps,
    the scores of all tokens sum to the logit. In a feed-forward block without a gate, the
    activation passes relevance on unchanged; the paper has no rule for it and would lose some
    relevance. Written from the equations; lxt also has the method, but its licence grants no patent
    rights, and its README calls LRP patented.
    """

    label = "CP-LRP"
    reference = "Ali et al. (2022), XAI for Transformers: better explanations through conservative"

    def rules(self) -> BackwardRules:
        """Return rules under which every layer is linear."""
        from pisoft.models.modified_backward import CONSERVING

        return CONSERVING

    def forwards(self, prompt_tokens: float, steps: float) -> float:
        """One forward, and per step a backward without gates, queries and keys."""
        return 1 + 0.6 * steps
