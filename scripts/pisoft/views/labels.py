"""Labels shared by tables and figures."""

from __future__ import annotations

from typing import Any

import pandas as pd

CONTROL_PAIRS = {
    "oracle_over_noisy": "Oracle > noisy",
    "noisy_over_random": "Noisy > random",
    "random_over_anti-oracle": "Random > anti-oracle",
    "oracle_over_random": "Oracle > random",
}
"""Pairs of controls that a valid metric orders so, by the part of the results."""
RECOVERY = {"recall_at_10_percent": "Recall@10 % ↑", "evidence_auprc": "AUPRC ↑"}
"""Metrics of how far the evidence that was used is recovered."""
PLANTED_TASKS = {"needle": "One statement", "conflict": "Two that disagree"}
"""Generators of planted statements."""
OTHER_CHECKS = {"labels": "Shuffled labels", "input": "Another input"}


def sanity_checks(rows: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the keys of every sanity check in the results, by label."""
    ordered = rows.sort_values("position", kind="stable")
    kinds = ordered[["part", "position", "variant"]].drop_duplicates()
    return {
        OTHER_CHECKS.get(part) or (f"Last {layers:g} layers" if layers > 1 else "Last layer"): {
            "part": part,
            "variant": variant,
            **({"position": layers} if layers > 0 else {}),
        }
        for part, layers, variant in kinds.itertuples(index=False)
    }
