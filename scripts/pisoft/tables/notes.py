"""The notes below tables: what the numbers mean, how many samples they are of, what is tested."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from pisoft.config.base import Clamp
from pisoft.config.evaluation import CLAMPS
from pisoft.config.studies import SELECTED_METHODS
from pisoft.formatting import NOTHING
from pisoft.statistics.layer_study import DEVELOPMENT, REST, SMALLEST_PART
from pisoft.statistics.metrics import AVERAGE, LEVEL, METRICS, SHARES
from pisoft.store.parquet import OK, meanings
from pisoft.views.view import Keys, Results

FAMILIES = "corrected by step-down over all pairs of methods, those with random scores apart"
FEW, SKEWED = 50, 2.0  # of samples: fewer, and more skewed ones have poor intervals
SELECTED = (
    "Depth selected: the number of layers with the highest mean on the development samples of the "
    "layer study, by dataset; the numbers are of its other samples."
)

# What is computed -------------------------------------------------------------------------------


def marks(results: Results, margin: float | None) -> list[str]:
    """Explain brackets, bold and signs, and what the tests can find.

    Args:
        results: methods with their tests against the best.
        margin: of equivalence; None: that was not tested.
    """
    of_shares = f" {OF_SHARES}" if results.rows["metric"].isin(SHARES).any() else ""
    explained = [
        f"{INTERVAL}{of_shares} Bold: the best of its column. ≈: its mean is not significantly "
        "different (paired bootstrap-t test of a mean difference of 0 on the common samples, "
        f"p ≥ {LEVEL}, {FAMILIES}). ?: not tested, as there are no common samples."
    ]
    rows = results.rows[results.rows["p_adjusted"].notna()]
    if len(rows):
        smallest = _span(rows["p_smallest"], 1)
        by = ", by number of samples" if " to " in smallest else ""
        detectable = rows.loc[rows["p_adjusted"] >= LEVEL, "detectable"].dropna()
        power = (
            f" ≈ does not say that methods are equal: a difference is found with 80 % power from "
            f"{_span(detectable, 2)} on, by entry (`detectable` in the CSV)."
        )
        reach = f"The smallest attainable p-value is {smallest}{by}."
        explained.append(reach + (power if len(detectable) else ""))
    if margin is not None:
        explained.append(
            f"≡: equivalent to the best, within ±{margin:g} (two one-sided tests of the mean "
            f"difference, p < {LEVEL}, corrected by Holm over the same pairs)."
        )
    return [*explained, poor_intervals(results), clusters(results.rows, results.datasets)]


def poor_intervals(results: Results) -> str:
    """Say how many intervals are of few and skewed samples, and where most; nothing if none is."""
    rows = results.rows[(results.rows["dataset"] != AVERAGE) & results.rows["skewness"].notna()]
    rows = rows[~rows["metric"].isin(SHARES)]
    of_samples = rows["skewness"].abs() * np.sqrt(rows["n"])
    poor = rows[(rows["n"] < FEW) & (of_samples > SKEWED)]
    if poor.empty:
        return ""
    metric, dataset = poor.groupby(["metric", "dataset"]).size().idxmax()
    return (
        f"{len(poor)} of the {len(rows)} intervals of single datasets are of few and skewed "
        f"samples (n < {FEW}, skewness above {SKEWED:g}; most of {METRICS[metric].name} on "
        f"{results.datasets[dataset]}): in simulations, such intervals cover the mean in 91 to "
        "95 % of cases."
    )


def _span(numbers: pd.Series, digits: int) -> str:
    """Return the smallest and the largest number, such as `0.03 to 0.1`, or the only one."""
    return " to ".join(dict.fromkeys(f"{end:.{digits}g}" for end in (numbers.min(), numbers.max())))


def clamp(where: Clamp) -> str:
    """Say where Soft-NS is clamped at 0."""
    unbounded = (
        " It may be negative, and a sample whose zero baseline hardly changes the prediction "
        "(small H₀) can then dominate a mean: see the other statistics."
    )
    return f"Soft-NS is {CLAMPS[where]}." + (unbounded if where == "none" else "")


# Samples ----------------------------------------------------------------------------------------


def samples(rows: pd.DataFrame, datasets: Mapping[str, str]) -> str:
    """Say how many samples are in each dataset's numbers, and how many failed."""
    counts = rows.groupby("dataset").agg({"n": ["min", "max"], "n_failed": "max"})
    listed = []
    for name in (name for name in datasets if name in counts.index):
        fewest, most, failed = counts.loc[name]
        n = f"{most}" if fewest == most else f"{fewest} to {most}, by method"
        listed.append(f"{datasets[name]} {n}" + (f" (at most {failed} failed)" if failed else ""))
    return f"Samples per dataset: {'; '.join(listed)}. {clusters(rows, datasets)}".rstrip()


def clusters(rows: pd.DataFrame, datasets: Mapping[str, str]) -> str:
    """Say how many clusters the samples are in, where there are fewer of these."""
    counts = rows.groupby("dataset")["n_clusters"].max().dropna()
    listed = ", ".join(f"{label} {counts[d]:.0f}" for d, label in datasets.items() if d in counts)
    if not listed:
        return ""
    return f"Clusters of samples, which intervals and tests take for independent: {listed}."


def of_average(coverage: Results) -> list[str]:
    """Explain average and rank, which method has none and why, and what a selected depth is."""
    rows, failures = coverage.rows, _failures(coverage.rows)
    evaluated = rows[rows["part"] == OK].set_index(["dataset", "method"]).index
    mean = "Avg: mean over the datasets, each with equal weight. Rank: by Avg;"
    rank = mean if len(coverage.datasets) > 1 else "Rank: 1 is best;"
    notes = [f"{rank} methods that agree before rounding share a rank."]
    for method, label in coverage.methods.items():
        lacking = [
            f"{of_dataset}: {failures.get((dataset, method), 'no samples')}"
            for dataset, of_dataset in coverage.datasets.items()
            if (dataset, method) not in evaluated
        ]
        if lacking:
            notes.append(f"No average for {label}, no sample evaluated ({'; '.join(lacking)}).")
    return [*notes, SELECTED] if set(SELECTED_METHODS.values()) & set(coverage.methods) else notes


def of_coverage(coverage: Results) -> list[str]:
    """Say how many samples there are, by one metric, which of them failed, and why."""
    rows, methods, failures = coverage.rows, coverage.methods, _failures(coverage.rows)
    totals = rows.groupby(["dataset", "method"])["value"].sum().groupby("dataset").max()
    listed = ", ".join(f"{label} {totals[name]:.0f}" for name, label in coverage.datasets.items())
    failed = []
    for dataset, of_dataset in coverage.datasets.items():
        reasons = {name: failures[dataset, name] for name in methods if (dataset, name) in failures}
        for reason in dict.fromkeys(reasons.values()):
            affected = [methods[name] for name in reasons if reasons[name] == reason]
            who = "all methods" if len(affected) == len(methods) else ", ".join(affected)
            failed.append(f"{of_dataset} ({who}): {reason}")
    why = meanings(rows["part"])
    outcome = f"Failed samples, left out of the means: {'; '.join(failed)} ({why})."
    return [f"Samples per dataset: {listed}.", outcome if failed else "No sample failed."]


def _failures(rows: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return the failures by dataset and method, each such as `2 nonfinite_attribution`."""
    listed: dict[tuple[str, str], list[str]] = {}
    for row in rows[rows["part"] != OK].sort_values("part").itertuples():
        listed.setdefault((row.dataset, row.method), []).append(f"{row.value:.0f} {row.part}")
    return {cell: ", ".join(parts) for cell, parts in listed.items()}


def of_depths(results: Results, lines: Mapping[str, Keys]) -> list[str]:
    """Say how many samples the layer study has, which of them failed why, and what has no value.

    `lines` have the dataset and token weighting (`method`) of each line.
    """
    counts = results.rows.groupby(["dataset", "method", "part"]).first()
    samples, failed, missing = {}, [], []
    for label, keys in lines.items():
        cell = counts.loc[keys["dataset"], keys["method"]]
        sizes = cell["n"] + cell["n_failed"]
        samples[keys["dataset"]] = f"{sizes[DEVELOPMENT]} + {sizes[REST]}"
        if failures := cell.loc[DEVELOPMENT, "text"]:
            failed.append(f"{label}: {failures}")
        development, rest = cell["n"][[DEVELOPMENT, REST]]
        if min(development, rest) < SMALLEST_PART:
            missing.append(
                f"No value for {label}: {development} development samples and {rest} others could "
                f"be evaluated, and each part needs {SMALLEST_PART}."
            )
    listed = ", ".join(f"{label} {samples[name]}" for name, label in results.datasets.items())
    outcome = f"Samples that failed at some depth, left out at every depth: {'; '.join(failed)}."
    return [
        f"Samples, development + rest: {listed}.",
        outcome if failed else "No sample failed.",
        *missing,
    ]


def of_timings(results: Results, baselines: Collection[str]) -> list[str]:
    """Say what times and memory are, and of which device; baselines cannot be the fastest."""
    excepted = ", ".join(label for name, label in results.methods.items() if name in baselines)
    on_device = results.rows.loc[results.rows["metric"] == "peak_device_memory_mb", "value"].notna()
    memory = {
        "memory allocated on the device during attribution, the model included": on_device.any(),
        "resident memory of the whole job, loading the model included": not on_device.all(),
    }
    return [
        TIMES.format(f", {excepted} excepted" if excepted else ""),
        f"MB: peak {' or '.join(text for text, applies in memory.items() if applies)}.",
        f"Measured on: {', '.join(results.rows['text'].unique())}. Times are of this machine and "
        "differ from run to run.",
    ]


def without_row(labels: Sequence[str], why: str) -> str:
    """Say which methods have no row, if there are such."""
    return f"Without a row, as {why}: {', '.join(labels)}." if labels else ""


# Orders of methods ------------------------------------------------------------------------------


def of_orders(results: Results, alternatives: Mapping[str, str]) -> list[str]:
    """Say how many methods are in an order, and which alternatives have no number, and why."""
    rows = results.select(dataset=results.summary).rows
    counts = rows.loc[(rows["other"] == "n_methods") & (rows["value"] > 0), "value"]
    ends = dict.fromkeys(f"{n:.0f}" for n in (counts.min(), counts.max())) if len(counts) else "0"
    about = (
        f"The last two columns are of {results.with_average[results.summary]}. "
        f"Methods in an order: {' to '.join(ends)}."
    )
    lacking = rows[(rows["other"] == "") & (rows["text"] != "")].drop_duplicates(["part", "text"])
    reasons = [
        f"{', '.join(alternatives[name] for name in names)} ({reason})"
        for reason, names in lacking.groupby("text", sort=False)["part"]
    ]
    return [about, f"No number: {'; '.join(reasons)}."] if reasons else [about]


# What the numbers of a table are ----------------------------------------------------------------

BOOTSTRAP = "In brackets: 95 % bootstrap interval over samples."
INTERVAL = "In brackets: 95 % interval over samples, by Student's t adjusted for skewness."
OF_SHARES = "Of numbers between 0 and 1 it is Wilson's, with the variance of the samples."
TEST = "p: two-sided bootstrap-t test of {}, corrected by step-down over all {}"
SEVERAL_STEPS = "An answer of several evaluated tokens counts as their mean."
AREAS = (
    "Mean over samples of the area under the curve (trapezoid) on the grid π = {:g}, …, {:g} ({} "
    "values), so a curve that is 1 everywhere has {:.3g}. Higher is better."
)
NOISE = (
    "Noise floor ({}): the unperturbed input, evaluated like a perturbed one, is at distance "
    "{:.1g} on average and {:.1g} at most; the zero baseline is at {:.2g} on average."
)
NOISE_OF_HALF_PRECISION = (
    "Noise floor ({}): in float32, a draw's distance differs by {:.1g} on average, H₀ by {:.1g}, "
    "at most {:.1g}, the AUC of one draw by {:.1g} (π-Soft-NS) and {:.1g} (π-Soft-NC), in {:.0f} "
    "evaluations that were done in both; the zero baseline is at {:.2g} on average. A sample fails "
    "where H₀ is below the largest such difference in H₀ of its method and dataset."
)
ROBUST = (
    "A mean of ratios is dominated by samples whose zero baseline hardly changes the prediction "
    "(small H₀). Ratio of means: mean area before division by H₀, over mean H₀; never clamped. "
    "Median: of the samples' areas; not tested, with a bootstrap interval. π ≤ 0.3: mean area over "
    "that part of the grid."
)
ORIGINAL = (
    "Rank: by Soft-NS ↑. Means over samples, scores used as they are (no calibration). Higher is "
    "better for Soft-NS and Soft-NC. E[R] is the expected number of retained tokens, the sum of "
    "the scores: methods that retain different numbers of tokens are not comparable here."
)
INSERTION_DELETION = (
    "Mean over samples of the share of steps at which the model's answer differs from that for the "
    "clean prompt (the preferred label word; with `flip_of: first_token` the first token). "
    "Deletion takes the tokens with the highest scores out of the prompt, step by step; higher is "
    "better. Insertion puts them into a prompt without any; lower is better."
)
EVIDENCE_RECOVERY = (
    "Evidence: the words of a record that decide its answer, k of the prompt's m perturbable "
    "tokens. Top-1 in evidence: share of samples whose highest score is of evidence (the pointing "
    "game). Recovery@k: share of the evidence among the k highest scores. Mass on evidence: its "
    "share of the sum of the normalised scores. AUPRC of evidence: area under the precision-recall "
    "curve of the scores (average precision). Higher is better. By chance, the first three are "
    "k / m on average; AUPRC is more, its mean over all orders of the tokens.",
    "Agreement with evidence that people have marked or a generator has planted is plausibility. A "
    "plausible explanation need not be faithful to the model, which may rely on other words.",
    "Ties are ordered at random (the mean over all orders is given) and are one threshold of "
    f"AUPRC. {SEVERAL_STEPS}",
)
DATAMODEL_SCORES = (
    "This table takes no forward pass. Its masks are those of random scores, at every π and at "
    "α = 1, regenerated from their keys. The prediction target is the change of the target's "
    "log-probability that the run stored for each mask.",
    "LDS (linear datamodeling score): Spearman's ρ, over the masks of a step, between the sum of "
    "the kept tokens' scores and the change. Faithfulness correlation: Pearson's r between the sum "
    "of the removed tokens' scores and the drop. Higher is better. Infidelity: the share of the "
    "squared drop that the best multiple of the removed sum leaves unexplained; lower is better.",
    "Over many π, the number of kept tokens explains much of the change by itself: scores that are "
    "all equal have a high LDS and faithfulness correlation and a low infidelity. LDS given count "
    "is the partial rank correlation given that number; uninformative scores are at 0 on average.",
    "Random is no fair control here, as the masks were drawn with its scores: its LDS is below "
    "that of other random scores, and its LDS given count scatters more, though about 0. Compare "
    "LDS given count with 0, and the other numbers between methods.",
    f"{SEVERAL_STEPS} Samples that failed are those without an LDS given count; some may have the "
    "other numbers (n is in the CSV).",
)
VARIANCE_COMPONENTS = (
    "Deviation: standard deviation of the samples' AUC (π-Soft-NS not clamped). The other columns "
    "are shares of the variance. Draws: the mean Monte Carlo variance of a sample, which more "
    "draws reduce; with one draw it is estimated from the roughness of the curve. Rounding: an "
    "upper bound, from the distance of the unperturbed input evaluated again, and in half "
    "precision also from inputs evaluated in float32. Between samples: the rest, which only more "
    "samples average out; a difference of estimates, so it can leave 0 to 1.",
    f"{NOTHING}: fewer than two samples could be evaluated.",
)
SENSITIVITY = (
    "Kendall's τ-b between the run's order of the methods by their mean AUC and their order with "
    "one choice of the metric changed, computed from the same stored draws; other operators ablate "
    "by the same masks. 1: the same order; 0: unrelated orders; −1: reversed. τ does not say how "
    "large the differences between methods are.",
    f"{BOOTSTRAP} Both orders are recomputed on each resample, the same in every row. Resamples "
    "repeat samples, so their orders are less certain than the run's: an interval reaches further "
    "down than up.",
    "Half of the samples, half of the draws and a single draw are parts of what they are compared "
    "with. Half of the samples is a yardstick: the mean over 20 random halves shows how far the "
    "order depends on the choice of samples alone. An alternative with a higher τ matters less.",
    "Total variation is stored for the draws but not for the zero baseline, so its mean is neither "
    "divided by H₀ nor clamped; compare its τ with that of mean H. Ratio of means keeps the run's "
    "clamp; the table of AUCs does not clamp it.",
    "These are the samples of one model: they say nothing of other models, datasets or prompts. "
    f"{NOTHING}: no value.",
)
OFF_DISTRIBUTION = (
    "What the model makes of inputs of which random tokens are ablated, whatever the methods: each "
    "perturbable token is kept with probability π. Means over a few masks, a sample's evaluated "
    f"steps, and samples. {INTERVAL} {OF_SHARES} No column has a better direction: they show how "
    "far such inputs are from the clean one.",
    "Entropy and probability are of the next token. Attention: what the last position pays to the "
    "ablated tokens, mean over heads and layers; before: to the same tokens of the clean input. "
    "Norm: of the last layer's output at the last position, relative to that of the clean input. "
    f"{NOTHING}: no value. Fixed routing fixes attention, so it is not measured; open text has no "
    "label words.",
)
RANKS = (
    "Rank: of the AUC's mean over the datasets, each with equal weight; 1 is best, and equal "
    "methods share the mean of their ranks. 95 % interval: of the ranks over resamples of the "
    "samples. Best in: share of resamples in which the method is best; it is not corrected for the "
    "number of methods and describes these samples only. Quote the tests (≈ in the other tables) "
    "for whether two methods differ.",
    "Without a dataset: rank for the mean over the others. An order that changes with one dataset "
    "is a fact about that dataset.",
)
ADVANTAGE = (
    "Difference to random scores of the same samples, mean over samples, then over the datasets "
    "with equal weight; above 0 is better than random scores. A half's difference is the area "
    "under the curve of differences over that part of the grid, divided by its width. "
    f"{INTERVAL} {TEST.format('a mean difference of 0', 'tests of the metric')}; better means "
    f"above 0 with p < {LEVEL}.",
    "Above 0 at π: between which π of the grid every interval, taken by itself, lies above 0; "
    f"{NOTHING}: nowhere. All curves meet at π = 1. The CSV has every π and every dataset.",
)
PERMUTATION_BASELINE = (
    "Permuted: the method's scores, shuffled over the tokens: the same calibrated scores and as "
    "many tokens kept, without the choice of tokens. The gain is what that choice is worth; higher "
    "is better, and 0 says that the method's value comes from the shape of its scores alone. "
    "Method and Permuted are the means whose difference is the last gain, over the samples that "
    "have both.",
    f"{INTERVAL} {TEST.format('a mean last gain of 0', 'methods of the metric')}; below {LEVEL} it "
    "differs significantly from 0. All methods share the permutations of a sample.",
)
SANITY_CHECKS = {
    "layers": "Last layers: Spearman's ρ between a method's scores and its scores for the same "
    "answer after that many of the model's last decoder layers are reinitialised (normal weights, "
    "with each weight matrix's own mean and deviation; embeddings and output head stay); mean over "
    "samples. A low ρ alone does not make a method faithful.",
    "labels": "Shuffled labels: the same with a model trained on answers that were shuffled over "
    "the same records: of the task it has learnt how often each answer is given.",
    "input": "Another input: Spearman's ρ between the scores of a text and the mean of the other "
    "texts' scores at the same relative position.",
}
SANITY_CHECKS_OF_ALL = (
    "A low ρ is expected: scores that do not change do not explain what these layers do, what "
    f"labels have taught the model, or what a text says. {INTERVAL} Random scores depend on no "
    "model: their ρ is 1 for every model, and about 0 with another input."
)
UNCHANGED = {
    "layers": "with {:g} layers reinitialised, and so do not depend on what these have learnt",
    "labels": "with shuffled labels, and so do not depend on what labels have taught",
    "input": "with another input, and so depend on a token's place alone",
}
DENSITY = (
    "Mean score: mean of the normalised scores of a step's tokens. Gini index of the same: 0 if "
    "all are equal, 1/3 if they are spread evenly over 0 to 1, near 1 if few tokens have nearly "
    "all. Mean over a sample's steps, over samples, and over the datasets with equal weight; "
    "neither has a better direction.",
    "Spearman's ρ: within each sample, between the methods' density and their values, so that "
    "what makes a sample hard for all methods drops out; mean over the samples with at least three "
    "methods. If a metric rewarded dense scores alone, ρ would be near 1 with the mean score and "
    "near −1 with the Gini index. Other values show no cause, as better methods may also have "
    "denser or sparser scores: the permutation baseline keeps a method's density and tests that.",
    f"{INTERVAL} {TEST.format('a mean ρ of 0', 'tests of the metric')} (below {LEVEL}: "
    f"significantly different from 0). {NOTHING}: no value. The CSV has every dataset's densities, "
    "and ρ with the original Soft-NS and Soft-NC.",
)
METRIC_VALIDATION = (
    "The oracle's scores are 1 for the tokens of the evidence and 0 elsewhere, the anti-oracle's "
    "the reverse; noisy is the oracle with the middle of the run's amounts of normal noise. A > B: "
    "share of samples whose value is better for A, ties counting one half; 0.5 is chance. Ladder: "
    "Kendall's τ-a between less noise and a better value over all amounts of noise, mean over "
    "samples; 1 is best. In brackets: 95 % intervals over samples (Wilson's of shares, Student's t "
    "of τ).",
    "Means in order: probability that the means over as many resampled samples have the order "
    "oracle, noisy, random, anti-oracle. Samples needed: the fewest with which it reaches 95 %.",
    "LDS, faithfulness correlation and infidelity read the draws of random scores, which are no "
    "fair control of their own masks: their order with random scores says less.",
    "This validates the metrics by evidence that a reader takes for the reason: on a model that "
    "decides by other tokens, a good metric fails.",
)
NORMALISED_SCORES = (
    "Normalised score: the difference of the method's mean to that of random scores, divided by "
    "that of the oracle, which is the evidence; higher is better for every metric. Random scores "
    f"have 0, the oracle has 1. {BOOTSTRAP} No value: the oracle is not significantly better than "
    "random scores, or the metric was not evaluated. On a model that decides by other tokens than "
    "the evidence, methods can score above 1.",
)
LAYER_STUDY = (
    "Depth d: AUC of Grad-ELLM over the last d decoder layers (at most all of them), mean over the "
    "samples that had no part in selecting a depth. Higher is better.",
    "Selected depth: one for each dataset, with the highest mean of both AUCs over all protocols "
    "on the development samples (of equals, the smaller). Selected and fixed depth: mean ± "
    "standard error on the other samples.",
    "Leaky, for comparison only: the depth is selected on the very samples that are reported (all "
    "of them), as in the paper. The best of several noisy means is too high on average; to see by "
    "how much on equal samples, compare Selected with the best Depth column.",
)
ACCURACY = (
    "Over the n samples that could be evaluated, which are balanced by class (equally many per "
    "label, as far as the source has them). Accuracy: share whose preferred label word is the "
    "right one. Greedy is label: share whose most probable next token, over the whole vocabulary, "
    f"begins a label word. Both are {NOTHING} for open generation. In brackets: Wilson's 95 % "
    "interval. Too long: records of more words than the dataset's `max_words`, which are not "
    "sampled. Truncated: prompts shortened to fit. Prompt and output tokens: means per sample. "
    "n failed: samples left out of all means.",
)
TIMES = (
    "ms: mean milliseconds per sample, all of its explained steps together, of the method alone "
    "(device synchronised before and after, without a first warm-up run). Lower is better; bold "
    "marks the fastest method of a column{}. No interval is given, as the samples of a batch share "
    "its time in proportion to the tokens read."
)
