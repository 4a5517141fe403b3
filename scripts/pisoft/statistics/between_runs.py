"""How far two runs order the methods alike, such as with a setting that needs new forwards."""

from __future__ import annotations

import pandas as pd

from pisoft.statistics.metrics import AUC_METRICS, METRICS
from pisoft.statistics.orders import CELL, best_methods, kendall_taus, ranks


def compare_runs(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Compare the orders of methods by AUC in the cells that the `statistics` of two runs share.

    Returns:
        The columns of a cell; over the `n_methods` methods with a value in both, `kendall_tau`,
        and of each run the `best`, of the highest mean, equal ones joined, the fewest samples in a
        mean, `n`, and the most that failed, `n_failed`. Those of the second end in `_other`.
    """
    numbers = ["value", "n", "n_failed"]
    runs = [
        rows[rows["metric"].isin(AUC_METRICS)].dropna(subset="value").set_index([*CELL, "method"])
        for rows in (one, other)
    ]
    both = pd.concat([run[numbers] for run in runs], axis="columns", keys=["", "_other"])
    compared = []
    for cell, rows in both.groupby(level=CELL, sort=False):
        if rows.notna().any().all():  # both runs have the cell
            common = rows.dropna().droplevel(CELL)
            row = dict(zip(CELL, cell, strict=True)) | {"n_methods": len(common)}
            row["kendall_tau"] = kendall_taus(common["", "value"], common["_other", "value"])
            for run in ("", "_other"):
                order = pd.Series(ranks(common[run, "value"].to_numpy(), "highest"), common.index)
                row[f"best{run}"] = ", ".join(best_methods(order))
                row[f"n{run}"] = common[run, "n"].min()
                row[f"n_failed{run}"] = common[run, "n_failed"].max()
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
    "order all methods alike, −1 that one is the other reversed. Best and samples: of the first "
    "run, of the second. τ has no interval; that of each run's own order is in its table of ranks."
)


def _tau_text(tau: float) -> str:
    return "no τ" if pd.isna(tau) else f"τ = {tau:.2f}".replace("-", "\N{MINUS SIGN}")


def _count(n: float, n_failed: float) -> str:
    """Return the number of samples; of no method in both, there is none."""
    if pd.isna(n):
        return "none"
    return f"{n:.0f} ({n_failed:.0f} failed)" if n_failed else f"{n:.0f}"
