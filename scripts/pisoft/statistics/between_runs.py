"""Agreement of two runs, such as with different settings, on the order of the methods."""

from __future__ import annotations

import pandas as pd

from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, METRICS
from pisoft.statistics.orders import CELL, best_methods, kendall_taus, ranks


def compare_runs(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Compare the orders of methods by AUC in the cells that the `statistics` of two runs share.

    Averages are compared if both runs average the same datasets.

    Returns:
        The keys of each cell; `n_methods`, the number of methods with a value in both runs; their
        `kendall_tau`; and, per run, the `best` methods, the smallest `n` and the largest
        `n_failed`. Columns of the second run end in `_other`.
    """
    runs = [rows[rows["metric"].isin(AUC_METRICS)].dropna(subset="value") for rows in (one, other)]
    datasets = [run.groupby(CELL[:-1])["dataset"].agg(frozenset) for run in runs]
    second = dict(iter(runs[1].groupby(CELL)))
    compared = []
    for cell, rows in runs[0].groupby(CELL, sort=False):
        *group, dataset = cell
        if cell not in second or (
            dataset == AVERAGE and len({values[tuple(group)] for values in datasets}) > 1
        ):
            continue
        both = rows.merge(second[cell], on="method", suffixes=("", "_other"))
        tau = float(kendall_taus(both["value"], both["value_other"]))
        row = dict(zip(CELL, cell, strict=True)) | {"n_methods": len(both), "kendall_tau": tau}
        for suffix in ("", "_other"):
            order = pd.Series(ranks(both[f"value{suffix}"].to_numpy(), "highest"), both["method"])
            row[f"best{suffix}"] = ", ".join(best_methods(order))
            row[f"n{suffix}"] = both[f"n{suffix}"].min()
            row[f"n_failed{suffix}"] = both[f"n_failed{suffix}"].max()
        compared.append(row)
    return pd.DataFrame(compared)


def report(rows: pd.DataFrame) -> str:
    """Return a line for each row of :func:`compare_runs`, and how to read them."""
    lines = [
        f"AUC {METRICS[row.metric].name} · {row.model} · {row.protocol} · "
        f"{row.dataset}: {_tau_text(row.kendall_tau)} over {row.n_methods} methods; best: "
        f"{row.best or 'none'}, {row.best_other or 'none'}; samples: "
        f"{_count(row.n, row.n_failed)}, {_count(row.n_other, row.n_failed_other)}"
        for row in rows.itertuples()
    ]
    return "\n".join([*lines, _READING])


_READING = (
    "τ: Kendall's τ-b between the two runs' orders of the methods by their means; 1 says that both "
    "order all methods alike, −1 that one order is the reverse of the other. Best and samples: "
    "first run, then second. τ has no interval; each run's table of ranks shows how certain its "
    "own order is."
)


def _tau_text(tau: float) -> str:
    return "no τ" if pd.isna(tau) else f"τ = {tau:z.2f}".replace("-", "\N{MINUS SIGN}")


def _count(n: float, n_failed: float) -> str:
    """Return the number of samples as text; without a common method, there is none."""
    if pd.isna(n):
        return "none"
    return f"{n:.0f} ({n_failed:.0f} failed)" if n_failed else f"{n:.0f}"
