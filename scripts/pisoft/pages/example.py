"""A worked example of both metrics: eight tokens with scores, calibrated and ablated once."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pisoft.faithfulness.calibration import calibrate, retaining_probabilities
from pisoft.faithfulness.masks import IndependentUniforms
from pisoft.tables.grid import Block, Entry, Row, Table

TOKENS = ("The", "plot", "drags", ",", "but", "I", "loved", "it")
SCORES = np.array([0.05, 0.3, 0.7, 0.02, 0.35, 0.1, 1.0, 0.2])
PI, FLOOR = 0.5, 1e-6
COLUMNS = ("Score s", "Probability of being kept, sᵅ", "π-Soft-NS", "π-Soft-NC")


def example_table() -> Table:
    """Calibrate the scores to one π, and draw one mask, as an evaluation does."""
    solved = calibrate(SCORES, np.array([PI]), FLOOR)
    _, probabilities = retaining_probabilities(SCORES, solved.alpha, FLOOR)
    masks = IndependentUniforms(1, "example", 0, (len(TOKENS), 1))
    kept = masks.kept(pi_index=0, draw=0, scores=probabilities)[:, 0]
    words = np.where([kept, ~kept], "kept", "ablated")
    columns = {"score": SCORES, "probability": probabilities, "ns": words[0], "nc": words[1]}
    numbers = pd.DataFrame(columns, index=list(TOKENS))
    texts = numbers.map(lambda value: value if isinstance(value, str) else f"{value:.2f}")
    rows = [Row(token, tuple(map(Entry, row))) for token, *row in texts.itertuples()]
    return Table(
        title=f"A worked example: eight tokens, π = {PI:g}",
        corner="Token",
        columns=COLUMNS,
        blocks=(Block("", tuple(rows)),),
        notes=(
            f"The power α = {solved.alpha[0]:.2f} gives the scores the mean "
            f"{probabilities.mean():.2f}: every method keeps the same expected share π of tokens. "
            f"This draw keeps {kept.sum()} of {len(kept)} tokens for π-Soft-NS; π-Soft-NC keeps "
            "the complement.",
            "The model reads both ablated texts. π-Soft-NS is high if its next-token distribution "
            "hardly changes, π-Soft-NC if it changes much.",
        ),
        values=numbers,
    )
