"""The Parquet data files: their paths, columns, types and nullability."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from pisoft.config.cells import Cell


class Column(NamedTuple):
    """A column of a Parquet file."""

    name: str
    kind: pa.DataType
    meaning: str
    nullable: bool = False
    gaps: bool = False  # whether list items may be null


class File(NamedTuple):
    """A kind of Parquet file: its path below `results/{run}/data/`, and its rows."""

    path: str
    row: str  # the unit of a row
    columns: tuple[Column, ...]

    @property
    def pattern(self) -> str:
        """Path of the files that jobs write; files of samples are split by `part`."""
        summary = self.path.startswith("summary/")
        return self.path if summary else self.path.replace("{dataset}", "{part}")

    def cell(self, path: Path) -> Cell:
        """Return the cell of a file of this kind."""
        return Cell.from_path(self.path, path)


_TEXT, _WHOLE, _REAL, _TRUTH = pa.string(), pa.int32(), pa.float64(), pa.bool_()
_TOKENS, _BITS, _FLOATS = pa.list_(_WHOLE), pa.list_(_TRUTH), pa.list_(pa.float32())
_TEXTS = pa.list_(_TEXT)
_SPAN = pa.struct([("field", _TEXT), ("start", _WHOLE), ("end", _WHOLE)])

_COUNTERFACTUAL = [
    ("answer", _TEXT),
    ("evidence", pa.list_(_SPAN)),
    ("fields", pa.map_(_TEXT, _TEXT)),
]
_COUNTERFACTUAL_PROMPT = [("answer", _TEXT), ("evidence_mask", _BITS), ("input_ids", _TOKENS)]


def _optional(name: str, kind: pa.DataType, meaning: str) -> Column:
    return Column(name, kind, meaning, nullable=True)


_SAMPLE = Column("sample_id", _TEXT, "stable id of the sample")
_STATUS = Column("status", _TEXT, "`ok`, or why the row has no result")
_PROTOCOL = Column("protocol", _TEXT, "routing protocol of the evaluation: `dynamic` or `fixed`")
_MODEL = Column("model", _TEXT, "catalogue name of the model")
_DATASET = Column("dataset", _TEXT, "catalogue name of the dataset")
_METHOD = Column("method", _TEXT, "catalogue name of the attribution method")
_METRIC = Column("metric", _TEXT, "name of the metric")
_VALUE = _optional("value", _REAL, "the number; null: undefined")
_N = Column("n", _WHOLE, "samples with a value")
_FAILED = Column("n_failed", _WHOLE, "samples without one")
_LABEL = _optional("label", _TEXT, "label word of the record; null: open generation")
_STEP = Column("step", _WHOLE, "explained step, 0 = first generated token")
_PERTURBABLE = Column("perturbable", _WHOLE, "number of perturbable tokens, m")

_RECORD = (
    _SAMPLE,
    Column("fields", pa.map_(_TEXT, _TEXT), "texts of the record by name"),
    _LABEL,
    _optional("answer", _TEXT, "reference answer; no metric uses it"),
    _optional("evidence", pa.list_(_SPAN), "known evidence: character offsets into a field"),
    _optional(
        "counterfactuals",
        pa.list_(pa.struct(_COUNTERFACTUAL)),
        "by statement: its label word, its evidence, and the texts with another in its place",
    ),
    _optional("cluster", _TEXT, "shared by dependent records; null: independent of all others"),
    _STATUS,
)
_CELL = (_PROTOCOL, _MODEL, _METHOD, _DATASET)

RESULT = (
    Column("question", _TEXT, "name of the result file, such as `ranks`"),
    # Keys that do not apply are empty.
    _PROTOCOL,
    Column("operator", _TEXT, "how tokens are ablated, where several operators are compared"),
    _MODEL,
    Column("variant", _TEXT, "of the model: `reinit-4` (layers), `shuffled-labels`"),
    Column("dataset", _TEXT, "catalogue name, or `average`: the mean over datasets"),
    _METRIC,
    _METHOD,
    Column("other", _TEXT, "partner of a comparison: a method, metric, measure or dataset"),
    Column("part", _TEXT, "part of the result, where it has several"),
    _optional("position", _REAL, "along an axis: π, or a number of layers"),
    _optional("value", _REAL, "the number; null: undefined"),
    _optional("low", _REAL, "lower end of the 95 % interval"),
    _optional("high", _REAL, "upper end"),
    _optional("standard_error", _REAL, "standard error of the value"),
    _optional(
        "skewness", _REAL, "of the value over samples of this size; far from 0: poor interval"
    ),
    _N,
    _optional("n_clusters", _WHOLE, "clusters of these samples; null: samples are independent"),
    _FAILED,
    _optional("rank", _REAL, "1 is best; ties share the mean rank"),
    Column("best", _TEXT, "best method of a metric and dataset, the reference of p-values"),
    _optional("p_value", _REAL, "of a mean (difference) of 0: a two-sided bootstrap-t test"),
    _optional("p_adjusted", _REAL, "the same, corrected by step-down; what tables show"),
    _optional("p_smallest", _REAL, "smallest attainable p_value and p_adjusted"),
    _optional("p_sign_flip", _REAL, "of exchangeable methods: a two-sided sign-flip test"),
    _optional("p_sign_flip_adjusted", _REAL, "the same, corrected by step-down max-T"),
    _optional("detectable", _REAL, "smallest mean (difference) detected with 80 % power at this n"),
    _optional(
        "p_equivalence", _REAL, "of a mean difference beyond the margin: two one-sided tests"
    ),
    Column("text", _TEXT, "a fact as text, such as the reason for a missing number"),
)


def _draws(metric: str, masks: str) -> tuple[Column, ...]:
    """Return the columns of per-draw measurements."""
    return (
        _optional(
            f"{metric}_distances",
            _FLOATS,
            f"Hellinger distance of each draw, {masks}; null: not measured at this π",
        ),
        _optional(f"{metric}_total_variations", _FLOATS, "total variation distance of each draw"),
        _optional(
            f"{metric}_log_probability_changes",
            _FLOATS,
            "change of the target's log-probability at each draw",
        ),
    )


FILES: dict[str, File] = {
    "datasets": File("datasets/{dataset}", "record", _RECORD),
    "samples": File("samples/{dataset}", "sampled record", _RECORD),
    "prompts": File(
        "prompts/{model}/{dataset}",
        "sample",
        (
            _SAMPLE,
            Column("input_ids", _TOKENS, "prompt tokens"),
            Column("token_texts", _TEXTS, "text of each token, for readers"),
            Column("content_mask", _BITS, "tokens that come from the record"),
            Column("user_mask", _BITS, "tokens of the user's turns"),
            Column("bos_mask", _BITS, "the beginning-of-sequence token"),
            _optional("evidence_mask", _BITS, "tokens of the known evidence"),
            _optional(
                "counterfactuals",
                pa.list_(pa.struct(_COUNTERFACTUAL_PROMPT)),
                "counterfactuals of the record, tokenised; masks refer to the prompt",
            ),
            Column("prompt_text", _TEXT, "the prompt as text"),
            _LABEL,
            Column("label_token_ids", _TOKENS, "tokens that answer; none for open generation"),
            Column("label_words", _TEXTS, "the label word of each of these tokens"),
            Column("truncated", _TRUTH, "whether a field was shortened to fit"),
            _STATUS,
        ),
    ),
    "generations": File(
        "generations/{model}/{dataset}",
        "sample",
        (
            _SAMPLE,
            Column("output_ids", _TOKENS, "generated tokens"),
            Column("output_text", _TEXT, "answer of the model as text"),
            Column("output_token_texts", _TEXTS, "text of each token, for readers"),
            Column("steps", _TOKENS, "explained steps, 0 = first generated token"),
            # With `target: generated`, scores explain `greedy_token_id` in place of a label word.
            Column("target_ids", _TOKENS, "generated token of each explained step"),
            # With `target: contrastive`, scores explain the margin. A lone label word has no other.
            Column("runner_up_ids", _TOKENS, "second most probable token, or other label word"),
            Column("margins", _FLOATS, "logit of the target minus the runner-up's"),
            _optional("predicted_label", _TEXT, "label word that the model prefers"),
            _LABEL,
            _optional(
                "counterfactual_labels",
                _TEXTS,
                "label word that the model prefers in each counterfactual",
            )._replace(gaps=True),
            _optional("correct", _TRUTH, "whether the predicted label is the record's"),
            _optional("greedy_token_id", _WHOLE, "first token without the limit to label words"),
            _optional("greedy_token_text", _TEXT, "its text, for readers"),
            _optional("greedy_is_label", _TRUTH, "whether this token begins a label word"),
            _STATUS,
        ),
    ),
    "to_score": File(
        "to_score",
        "model, dataset, sample and explained step: what imported scores explain",
        (
            _MODEL,
            _DATASET,
            _SAMPLE,
            _STEP,
            Column("input_ids", _TOKENS, "prompt tokens, each of which gets a score"),
            Column("token_texts", _TEXTS, "text of each token, for readers"),
            Column("content_mask", _BITS, "tokens that come from the record"),
            Column("output_ids", _TOKENS, "generated tokens before the step, which get none"),
            Column("target_id", _WHOLE, "token that the scores explain, by `target` of the run"),
            _optional("target_text", _TEXT, "its text; null: not known"),
            Column("foil_ids", _TOKENS, "`target: contrastive`: the token it is contrasted with"),
            _optional("scores", _FLOATS, "one per prompt token; null: to be filled in"),
        ),
    ),
    "attributions": File(
        "attributions/{model}{variant}/{method}/{dataset}",
        "sample and step",
        (
            _SAMPLE,
            _STEP,
            _optional("raw_scores", _FLOATS, "one per prompt token"),
            _optional("converged", _TRUTH, "iterative methods: whether their rule stopped them"),
            _STATUS,
        ),
    ),
    "attribution_times": File(
        "attribution_times/{model}{variant}/{method}/{dataset}",
        "sample and step",
        (
            _SAMPLE,
            _STEP,
            _optional("prompt_tokens", _WHOLE, "length of the prompt"),
            # The shares of a batch sum to its time. The first run of the job and attempts that ran
            # out of memory are not timed.
            _optional(
                "seconds",
                _REAL,
                "share of its batch's time, in proportion to the tokens read at the step",
            ),
            # Only for models in half precision, at steps that were repeated in float32.
            _optional(
                "float32_agreement", _REAL, "rank correlation (Spearman) with float32 scores"
            ),
            _STATUS,
        ),
    ),
    "soft": File(
        "soft/{protocol}{operator}/{model}/{method}/{dataset}",
        "sample, step and π",
        (
            _SAMPLE,
            _STEP,
            _optional(
                "pi", _REAL, "requested retaining probability; null: the original metrics (α = 1)"
            ),
            _PERTURBABLE,
            _optional("alpha", _REAL, "power that gives the scores the mean `achieved`"),
            _optional(
                "achieved",
                _REAL,
                "mean of the transformed scores: π, except with `sampler: count`",
            ),
            _optional("feasible", _TRUTH, "whether π is reachable without the score floor"),
            _optional("floored", _WHOLE, "scores at or below the floor"),
            _optional("ceiled", _WHOLE, "scores at or above 1 - floor"),
            _optional("h0", _REAL, "H₀, distance of clean input and zero baseline"),
            _optional("identity", _REAL, "H(clean, clean again): noise of a repetition"),
            # Only for models in half precision, at steps that were repeated in float32.
            _optional("h0_noise", _REAL, "H₀ minus H₀ in float32; null: not evaluated in float32"),
            _optional("ns_noise", _REAL, "first of `ns_distances` minus the same in float32"),
            _optional("nc_noise", _REAL, "first of `nc_distances` minus the same in float32"),
            *_draws("ns", "tokens kept by score; the Bhattacharyya coefficient is 1 - H²"),
            *_draws("nc", "tokens removed by score"),
            _STATUS,
        ),
    ),
    "inputs": File(
        "inputs/{protocol}/{model}/{dataset}",
        "sample, step, operator and retaining probability: means over random masks",
        (
            _SAMPLE,
            _STEP,
            Column("operator", _TEXT, "how tokens are ablated, as in `evaluation.operator`"),
            Column("pi", _REAL, "probability with which each perturbable token is kept"),
            _optional("entropy", _REAL, "of the next token, nats"),
            _optional("label_probability", _REAL, "of all label words; null: open generation"),
            _optional("attention", _REAL, "of the last position on ablated tokens; null: replayed"),
            _optional(
                "hidden_norm", _REAL, "of the last layer's output, divided by the clean input's"
            ),
            _optional("clean_entropy", _REAL, "of the clean input"),
            _optional("clean_label_probability", _REAL, "of the clean input"),
            _optional("clean_attention", _REAL, "of the clean input, on the same tokens"),
            _STATUS,
        ),
    ),
    "ranking": File(
        "ranking/{model}/{method}/{dataset}",
        "sample and curve",
        (
            _SAMPLE,
            Column(
                "curve",
                _TEXT,
                "`deletion`, `insertion` or `counterfactual`; of generated "
                "answers, `answer_deletion`, `rise` or `mas`",
            ),
            _PERTURBABLE,
            _optional("flips", _BITS, "by step: whether another label word is preferred"),
            _optional(
                "log_probabilities",
                pa.list_(_REAL),
                "of a generated answer by step, from the clean prompt's; null: another curve",
            ),
            _optional(
                "auc",
                _REAL,
                "mean of the flips; share of tokens replaced at the first flip; or "
                "area under a curve of log-probabilities",
            ),
            _STATUS,
        ),
    ),
    "soft_samples": File(
        "summary/soft_samples",
        "cell, sample and metric",
        (*_CELL, _SAMPLE, _METRIC, _VALUE, _STATUS),
    ),
    "soft_sample_curves": File(
        "summary/soft_sample_curves",
        "cell, sample and metric of `curves`",
        (
            *_CELL,
            _SAMPLE,
            _METRIC,
            _optional(
                "values", pa.list_(_REAL), "one per π; null: not measured, or failed"
            )._replace(gaps=True),
        ),
    ),
    "ranking_samples": File(
        "summary/ranking_samples",
        "cell, sample and metric of insertion, deletion, counterfactuals and generated answers",
        (
            _MODEL,
            _METHOD,
            _DATASET,
            _optional("sample_id", _TEXT, "null: no sample of this dataset is ranked"),
            _METRIC,
            _VALUE,
            _STATUS,
            _optional("reason", _TEXT, "why a dataset is not ranked"),
        ),
    ),
    "evidence_samples": File(
        "summary/evidence_samples",
        "cell, sample and metric of how far scores find the known evidence",
        (_MODEL, _METHOD, _DATASET, _SAMPLE, _METRIC, _VALUE, _STATUS),
    ),
    "datamodel_samples": File(
        "summary/datamodel_samples",
        "cell, sample and metric of how far scores predict the draws of random scores",
        (*_CELL, _SAMPLE, _METRIC, _VALUE, _STATUS),
    ),
    "layer_study": File(
        "summary/layer_study",
        "cell of the layer study, sample and metric",
        (
            *_CELL,
            Column("token_weights", _TEXT, "token weighting of Grad-ELLM"),
            _optional("depth", _WHOLE, "layers that are summed; null: all of them"),
            Column("candidate", _TRUTH, "a depth that may be selected"),
            Column("fixed", _TRUTH, "the depth to compare the selected depth with"),
            _SAMPLE,
            Column("part", _TEXT, "`development` (selects the depth) or `rest` (is reported)"),
            _METRIC,
            _VALUE,
            _STATUS,
        ),
    ),
}
# The unit of a row in each result, by path below `summary/`.
RESULTS = {
    "curves": "cell, metric and π: mean over samples",
    "statistics": "metric, dataset and method: its number, rank and tests",
    "comparisons": "two methods of a cell: mean of method minus other, tested",
    "decisions": (
        "two methods of a cell: mean of method minus other over the records until it was decided, "
        "with its confidence sequence, and `by_test` of all records; the text is the verdict"
    ),
    "ranks": (
        "method: `rank`, `mean_rank` and `best_share` over resamples, and its mean and rank "
        "`without` a dataset; `kendall_tau` of counterfactuals' order of the methods and another"
    ),
    "variance_components": "cell and metric: variance of a sample's value, by source",
    "coverage": "cell and status: number of samples, by a metric of each kind",
    "noise": "changes due to rounding only: mean size, and the largest as `high`",
    "method_agreement/{model}/{dataset}": (
        "two methods: `kendall_tau` and `top_overlap` of their scores, mean over samples"
    ),
    "advantage": (
        "method and metric: its advantage over random scores `at` each π, in the `lower` and "
        "`upper` half of the π grid, and `upper_minus_lower`"
    ),
    "metric_validation": (
        "metric, and π if it has one: how it ranks the controls, and the `mean` of each; numbers "
        "are signed so that higher is better"
    ),
    "normalised_scores": (
        "method or control, and metric: its mean with random scores at 0 and the oracle at 1; "
        "null: the oracle is not better than random scores"
    ),
    "sanity_checks": (
        "method and part: mean of Spearman's ρ with scores after the last `layers` are "
        "re-initialised (how many: the position), after training on shuffled `labels`, or on "
        "another `input`"
    ),
    "context_use": (
        "generator (`other`), dataset, method and metric of kind `evidence_samples`: its mean over "
        "`all` samples, and by `depth` of the evidence (position: middle of a fifth of the text)"
    ),
    "permutation_baseline": (
        "method and metric: its mean, the mean of its permuted scores, and its gain over them"
    ),
    "density/{model}": (
        "method, dataset and measure of how dense its scores are: `mean_score` or `gini`"
    ),
    "density_correlations/{model}": (
        "metric, dataset and measure of density (`other`): their rank correlation over methods, "
        "over `all` or `without random`"
    ),
    "sensitivity": (
        "metric, dataset and alternative (`part`): τ-b with the run's order of the methods; as "
        "`other`, `n_methods` in both orders, whether the best method changes, and the largest "
        "change of a rank"
    ),
    "off_distribution": (
        "measure of kind `inputs`, dataset, operator and π: its mean, and the `clean` input's"
    ),
    "depths": (
        "token weighting of Grad-ELLM (`method`), depth (`position`; null: all layers) and part "
        "of the layer study's samples"
    ),
    "accuracy": "model, dataset and metric of the model's answers",
    "timings": "cell and metric of the cost of attribution; the device is its text",
}
FILES |= {
    path.partition("/")[0]: File(f"summary/{path}", row, RESULT) for path, row in RESULTS.items()
}
SCHEMAS: dict[str, pa.Schema] = {
    kind: pa.schema([pa.field(c.name, c.kind, nullable=c.nullable) for c in file.columns])
    for kind, file in FILES.items()
}
