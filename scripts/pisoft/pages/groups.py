"""Groups and order of results on the front page and in the report."""

from __future__ import annotations

# Tables, figures and pages, by name; others come last.
GROUPS = {
    "Answer": (
        "pi_soft_auc", "ranks", "decisions", "evidence_recovery", "context_use", "pi_curves",
        "pi_curves_all", "explorer", "published",
    ),
    "Robustness": (
        "metric_validation", "normalised_scores", "permutation_baseline", "sanity_checks",
        "off_distribution", "sensitivity", "variance_components", "original_soft",
        "insertion_deletion", "counterfactuals", "answer_deletion", "datamodel_scores",
        "metric_agreement", "layer_study",
    ),
    "Diagnostics": ("advantage", "density", "method_agreement", "scores", "tokens", "protocol"),
    "Provenance": ("accuracy", "timings"),
}  # fmt: skip
MORE = "More"
ORDER = (*GROUPS, MORE)
# Pages of `docs/` that a run holds, in order.
DOCS = (
    "how-to/read-the-results.md",
    "reference/metrics.md",
    "explanation/what-the-numbers-are.md",
    "explanation/which-test.md",
    "explanation/pitfalls.md",
)


def group_of(name: str) -> str:
    """Return the group of a table, figure or page by name."""
    return next((group for group, members in GROUPS.items() if name in members), MORE)


def reading_index(name: str) -> int:
    """Return the index of a table, figure or page in reading order."""
    names = [member for members in GROUPS.values() for member in members]
    return names.index(name) if name in names else len(names)
