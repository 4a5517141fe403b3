"""After how many records of a finished run was each comparison of methods decided?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from pisoft.attribution import load_method
from pisoft.config.commandline import run_file, run_file_parser
from pisoft.config.loading import load_run
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.statistics.metrics import AUC_METRICS, CONTROL, LEVEL, METRICS
from pisoft.statistics.reading import load_rows
from pisoft.statistics.results import in_both_orders
from pisoft.statistics.samples import sample_matrix
from pisoft.workflow.commandline import run
from sequential import decide

CONFIG_FOLDER = Path(__file__).parents[1] / "config"
CELL = ["protocol", "model", "dataset", "metric"]
LEADER, ALL = "leader", "all"
CLIPS = dict(zip(AUC_METRICS, (1.0, 2.0), strict=True))  # π-Soft-NS is at most 1 apart


def main(arguments: argparse.Namespace) -> None:
    """Print a line for each comparison, and the share of records that stopping saves."""
    raw, paths = run_file(arguments)
    config = load_run(raw, paths, CONFIG_FOLDER, load_method)
    if config.run_file.evaluation.pi_per_step is not None:
        raise BenchmarkError(
            "evaluation.pi_per_step: records that are measured at some π only have values that "
            "depend on each other; allowed is null (preset `paper` or `efficient`)"
        )
    path = Path("results", config.run_file.run, "data/summary/soft_samples.parquet")
    if not path.is_file():
        raise BenchmarkError(f"{path}: no finished run")
    clustered = [name for name in config.datasets if config.datasets[name].cluster_column]
    rows = load_rows(path, "soft_samples")
    rows = rows[~rows["dataset"].isin(clustered)]
    margin = arguments.margin or config.run_file.statistics.equivalence_margin or 0.0
    clips = dict(zip(AUC_METRICS, (arguments.clip_ns, arguments.clip_nc), strict=True))
    table = decisions(rows, arguments.against, clips, arguments.alpha, margin, arguments.pool)
    table["by_test"] = verdicts_by_test(
        table, load_rows(path.with_name("comparisons.parquet"), "comparisons")
    )
    for cell, lines in table.groupby(CELL, sort=False):
        protocol, model, dataset, metric = cell
        print(f"\n{METRICS[metric].name} · {protocol} · {model} · {dataset} · clip {clips[metric]}")
        print(lines.drop(columns=CELL).to_string(index=False, float_format="{:.3f}".format))
        print(_saved(lines))
    if clustered:
        print(f"\nLeft out, as their records are not independent: {', '.join(clustered)}")
    print(
        f"\nEverything together: {_saved(table)}\nIntervals are confidence sequences of the mean "
        "difference, clipped as stated. Family-wise error in each block, at any number of records: "
        f"{arguments.alpha:g} of differences (Holm), and of equalities (Bonferroni).\nIf "
        "comparisons are open, raise max_samples and run again: nothing computed is lost."
    )


def decisions(
    rows: pd.DataFrame,
    against: str,
    clips: dict[str, float],
    alpha: float,
    margin: float,
    pool: int | None,
) -> pd.DataFrame:
    """Return when each comparison was decided, a row each.

    The leader is the method with the best mean over all records. As records choose it, its
    comparisons are corrected over all pairs.

    Args:
        rows: of `soft_samples`, in the order of sampling.
        against: a method, `leader` or `all`: with what methods are compared.
        clips: by metric; differences are cut off there.
        alpha, margin, pool: as in :func:`sequential.decide`.

    Returns:
        :data:`CELL`, `method`, `other`, `verdict` on the method, `records`, `of` (available),
        `low` and `high` of the difference method - other.

    Raises:
        BenchmarkError: an unknown method, nothing to compare, or as `decide`.
    """
    allowed = [*dict.fromkeys(rows["method"]), LEADER, ALL]
    if against not in allowed:
        raise BenchmarkError(f"against: unknown method '{against}'{did_you_mean(against, allowed)}")
    chosen = rows[rows["metric"].isin(list(clips))]
    blocks = [
        block
        for cell, of in chosen.groupby(CELL, sort=False)
        for block in _blocks(of, cell, against, clips[cell[-1]], alpha, margin, pool)
    ]
    if not blocks:
        raise BenchmarkError(f"against: nothing to compare with '{against}'")
    return pd.concat(blocks, ignore_index=True)


def verdicts_by_test(table: pd.DataFrame, comparisons: pd.DataFrame) -> list[str]:
    """Return the verdict of the run's test over all records on each line of :func:`decisions`."""
    both = in_both_orders(comparisons)
    joined = table.merge(both, on=[*CELL, "method", "other"], how="left", validate="one_to_one")
    significant = joined["p_adjusted"] < LEVEL
    return np.select(
        [significant & (joined["value"] > 0), significant], ["higher", "lower"], "open"
    ).tolist()


def _blocks(
    rows: pd.DataFrame,
    cell: tuple[str, ...],
    against: str,
    clip: float,
    alpha: float,
    margin: float,
    pool: int | None,
) -> Iterator[pd.DataFrame]:
    values = sample_matrix(rows, ["method"])
    values.columns = values.columns.get_level_values("method")
    pairs = list(combinations(values.columns, 2))
    fixed = values.mean().idxmax() if against == LEADER else against
    tested = pairs
    if against != ALL:
        tested = [(name, fixed) for name in values.columns if name != fixed]
    if not tested or (against != ALL and fixed not in values.columns):
        return
    family = len(pairs) if against == LEADER else len(tested)
    first, second = (list(names) for names in zip(*tested, strict=True))
    differences = values[first].to_numpy() - values[second].to_numpy()
    got = decide(differences, clip, alpha, family, margin, pool)
    frame = {"method": first, "other": second, "verdict": got.verdict, "records": got.records}
    frame |= {"of": got.available, "low": got.low, "high": got.high}
    yield pd.DataFrame({**dict(zip(CELL, cell, strict=True)), **frame})


def _saved(lines: pd.DataFrame) -> str:
    """Return how many comparisons were decided, the records saved, and the test's differences."""
    decided = (lines["verdict"] != "open").sum()
    share = 1 - lines["records"].sum() / max(lines["of"].sum(), 1)
    last = f" (all after {lines['records'].max()} records)" if decided == len(lines) else ""
    differs = lines["by_test"] != "open"
    alike = (differs & (lines["verdict"] == lines["by_test"])).sum()
    return (
        f"{decided} of {len(lines)} decided{last}; {share:.0%} of their records saved; {alike} of "
        f"the {differs.sum()} differences that the test over all records finds"
    )


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = run_file_parser(__doc__, CONFIG_FOLDER / "config.yaml")
    words = f"a method, '{LEADER}' or '{ALL}': with what methods are compared"
    parser.add_argument("--against", default=CONTROL, help=words)
    ns, nc = CLIPS.values()
    words = "where differences are cut off; choose it before looking"
    parser.add_argument("--clip-ns", type=float, default=ns, help=words)
    parser.add_argument("--clip-nc", type=float, default=nc, help=words)
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.05,
        help="family-wise error of differences, and of equalities",
    )
    words = "within which methods are equal; default: the run's equivalence_margin"
    parser.add_argument("--margin", type=float, help=words)
    words = "records of the dataset that the run's are drawn from; default: infinitely many"
    parser.add_argument("--pool", type=int, help=words)
    return parser


if __name__ == "__main__":
    run(main, parser())
