"""How far two runs order the methods alike, such as with a setting that needs new forwards."""

from __future__ import annotations

import pandas as pd

from pisoft.statistics.metrics import METRICS
from pisoft.statistics.robustness import first, kendall_tau

COMPARED = ("auc_pi_soft_ns", "auc_pi_soft_nc")
CELL = ["protocol", "model", "metric", "dataset"]
NUMBERS = ["method", "value", "n", "n_failed"]


def compare_runs(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Compare the orders of methods in the cells that two runs share.

    Args:
        one: rows of kind `statistics` of a run.
        other: the same of another run.

    Returns:
        `CELL`, `kendall_tau` (τ-b over the methods with a value in both; NaN with fewer than two,
        or where one order is all ties), `n_methods`, `best` and `best_other` (highest mean among
        these methods, equal ones joined), and of both runs the fewest samples in a mean and the
        most that failed: `n`, `n_other`, `n_failed`, `n_failed_other`.
    """
    runs = [_orders(rows) for rows in (one, other)]
    rows = []
    for key in runs[0]:
        if key in runs[1]:
            own, its = (run[key] for run in runs)
            common = own.index.intersection(its.index)
            own, its = own.loc[common], its.loc[common]
            rows.append(
                {
                    **dict(zip(CELL, key, strict=True)),
                    "kendall_tau": kendall_tau(own["value"], its["value"]),
                    "n_methods": len(common),
                    "best": ", ".join(first(-own["value"])),
                    "best_other": ", ".join(first(-its["value"])),
                    "n": own["n"].min(),
                    "n_other": its["n"].min(),
                    "n_failed": own["n_failed"].max(),
                    "n_failed_other": its["n_failed"].max(),
                }
            )
    return pd.DataFrame(rows)


def report(rows: pd.DataFrame) -> str:
    """Return a line for each row of :func:`compare_runs`, and how to read them."""
    lines = [
        f"{METRICS[row.metric].label.split(' ↑')[0]} · {row.model} · {row.protocol} · "
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


def _orders(rows: pd.DataFrame) -> dict[tuple[str, ...], pd.DataFrame]:
    """Return by cell each method's numbers, those without a value left out."""
    chosen = rows[rows["metric"].isin(COMPARED)].dropna(subset="value")
    return {
        tuple(map(str, key)): own[NUMBERS].set_index("method")
        for key, own in chosen.groupby(CELL, sort=False)
        if isinstance(key, tuple)
    }


def _tau_text(tau: float) -> str:
    return "no τ" if pd.isna(tau) else f"τ = {tau:.2f}".replace("-", "\N{MINUS SIGN}")


def _count(n: float, n_failed: float) -> str:
    """Return the number of samples; of no method in both, there is none."""
    if pd.isna(n):
        return "none"
    return f"{n:.0f} ({n_failed:.0f} failed)" if n_failed else f"{n:.0f}"
