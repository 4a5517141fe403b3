"""What results call methods that are no entry of the catalogue, and the paper's own.

Everything else is called by the label of its entry.
"""

from __future__ import annotations

from pisoft.config.base import TokenWeights


def grad_ellm(weights: TokenWeights, depth: str | None = None) -> str:
    """Return the label of Grad-ELLM: `Grad-ELLM`, `Grad-ELLM (original, depth selected)`.

    Args:
        weights: its token weighting.
        depth: in words, how many layers are summed; None: all, as in the catalogue.
    """
    variant = {"loosened": None, "original": "original"}[weights]
    said = ", ".join(filter(None, (variant, depth)))
    return f"Grad-ELLM ({said})" if said else "Grad-ELLM"
