"""The metrics that tables report: their statistics, labels and directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Best = Literal["highest", "lowest"]
AVERAGE = "average"  # dataset of the mean over datasets
CURVE_METRICS = {"pi_soft_ns": "π-Soft-NS ↑", "pi_soft_nc": "π-Soft-NC ↑"}  # labels
AUC_METRICS = ("auc_pi_soft_ns", "auc_pi_soft_nc")
# Under curves of calibrated scores, of which a single sample may be measured at some π only.
AREAS = (*AUC_METRICS, "auc_low_pi_soft_ns", "auc_low_pi_soft_nc")
RANKING_METRICS = ("deletion_auc", "insertion_auc")
TOKENS_CHANGED, NOT_FLIPPED = "tokens_changed", "not_flipped"  # of counterfactuals
ANSWER_METRICS = ("answer_deletion", "rise", "mas")  # of generated answers
EVIDENCE_METRICS = ("top_1_in_evidence", "recovery_at_k", "mass_on_evidence", "evidence_auprc")
# How far the evidence is recovered that an answer is shown to depend on, and where that stands.
RECALL, RECALL_BY_CHANCE = "recall_at_10_percent", "recall_by_chance"
DEPTH, TOKENS = "evidence_depth", "perturbable_tokens"
# The first is undefined wherever any other is.
DATAMODEL_METRICS = ("lds_given_count", "lds", "faithfulness_correlation", "infidelity")
# Means of numbers between 0 and 1, beside :data:`METRICS` also of other summaries.
SHARES = {
    *(*RANKING_METRICS, *EVIDENCE_METRICS, "evidence_by_chance", "auprc_by_chance", "infidelity"),
    *(RECALL, RECALL_BY_CHANCE, TOKENS_CHANGED, NOT_FLIPPED, *ANSWER_METRICS[1:]),
    *("mean_score", "gini", "label_probability", "attention"),
}
DECIMALS = 12  # numbers equal to so many decimals are ties
LEVEL = 0.05  # p-values below it are significant
CONTROL = "random"  # method whose scores depend on nothing
PROPOSED = ("grad_ellm", "grad_ellm_original")  # the paper's own method, in both variants
NO_CONTROL = "Nothing to compare: random scores are not among the methods, or are the only one."


@dataclass(frozen=True)
class Metric:
    """A statistic over the samples of a cell.

    Attributes:
        label: label in tables, with an arrow for its direction.
        numerator: metric of `soft_samples`, `ranking_samples`, `evidence_samples` or
            `datamodel_samples`.
        best: which values are better; None: neither, so it does not rank methods.
        denominator: if set, the statistic is a ratio of means, numerator over denominator.
        median: whether the statistic is the median instead of the mean.
    """

    label: str
    numerator: str
    best: Best | None = "highest"
    denominator: str | None = None
    median: bool = False

    @property
    def name(self) -> str:
        """The label without its arrow and without "AUC"."""
        return self.label.removeprefix("AUC ").rstrip(" ↑↓")

    @property
    def compared(self) -> bool:
        """Whether methods are tested against each other; a difference of medians is not a mean."""
        return self.best is not None and not self.median


METRICS = {
    "auc_pi_soft_ns": Metric("AUC π-Soft-NS ↑", "auc_pi_soft_ns"),
    "auc_pi_soft_nc": Metric("AUC π-Soft-NC ↑", "auc_pi_soft_nc"),
    "ratio_auc_pi_soft_ns": Metric(
        "AUC π-Soft-NS, ratio of means ↑", "auc_numerator_ns", denominator="h0"
    ),
    "ratio_auc_pi_soft_nc": Metric(
        "AUC π-Soft-NC, ratio of means ↑", "auc_numerator_nc", denominator="h0"
    ),
    "median_auc_pi_soft_ns": Metric("AUC π-Soft-NS, median ↑", "auc_pi_soft_ns", median=True),
    "median_auc_pi_soft_nc": Metric("AUC π-Soft-NC, median ↑", "auc_pi_soft_nc", median=True),
    "auc_low_pi_soft_ns": Metric("AUC π-Soft-NS, π ≤ 0.3 ↑", "auc_low_pi_soft_ns"),
    "auc_low_pi_soft_nc": Metric("AUC π-Soft-NC, π ≤ 0.3 ↑", "auc_low_pi_soft_nc"),
    "soft_ns": Metric("Soft-NS ↑", "soft_ns"),
    "soft_nc": Metric("Soft-NC ↑", "soft_nc"),
    "expected_retained": Metric("E[R]", "expected_retained", None),
    "h0": Metric("H₀", "h0", None),
    "lds": Metric("LDS ↑", "lds"),
    "lds_given_count": Metric("LDS given count ↑", "lds_given_count"),
    "faithfulness_correlation": Metric("Faithfulness correlation ↑", "faithfulness_correlation"),
    "infidelity": Metric("Infidelity ↓", "infidelity", "lowest"),
    "deletion_auc": Metric("Deletion ↑", "deletion_auc"),
    "insertion_auc": Metric("Insertion ↓", "insertion_auc", "lowest"),
    "top_1_in_evidence": Metric("Top-1 in evidence ↑", "top_1_in_evidence"),
    "recovery_at_k": Metric("Recovery@k ↑", "recovery_at_k"),
    "mass_on_evidence": Metric("Mass on evidence ↑", "mass_on_evidence"),
    "evidence_auprc": Metric("AUPRC of evidence ↑", "evidence_auprc"),
    "evidence_by_chance": Metric("By chance", "evidence_by_chance", None),
    "auprc_by_chance": Metric("AUPRC by chance", "auprc_by_chance", None),
    TOKENS_CHANGED: Metric("Tokens changed ↓", TOKENS_CHANGED, "lowest"),
    NOT_FLIPPED: Metric("Not flipped", NOT_FLIPPED, None),
    "answer_deletion": Metric("Log-probability lost ↑", "answer_deletion"),
    "rise": Metric("RISE ↓", "rise", "lowest"),
    "mas": Metric("MAS ↓", "mas", "lowest"),
}
