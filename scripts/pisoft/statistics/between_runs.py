"""How far two runs order the methods alike, such as with a setting that needs new forwards."""

from __future__ import annotations

import pandas as pd

from pisoft.statistics.estimates import ranks
from pisoft.statistics.metrics import AUC_METRICS, METRICS
from pisoft.statistics.orders import CELL, best_methods, kendall_taus, oriented_values


def compare_runs(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Compare the orders of methods in the cells that two runs share.

    Args:
        one: rows of kind `statistics` of a run.
        other: the same of another run.

    Returns:
        The columns of a cell; over the `n_methods` methods with a value in both, `kendall_tau`,
        and `best` and `best_other`, of the highest mean, equal ones joined; and of both runs the
        fewest samples in a mean and the most that failed: `n`, `n_other`, `n_failed`,
        `n_failed_other`.
    """
    runs = [rows[rows["metric"].isin(AUC_METRICS)] for rows in (one, other)]
    values = [oriented_values(rows) for rows in runs]
    cells = values[0].index.intersection(values[1].index, sort=False)
    methods = values[0].columns.union(values[1].columns, sort=False)
    values = [numbers.reindex(index=cells, columns=methods) for numbers in values]
    compared = values[0].notna() & values[1].notna()
    numbers = {"kendall_tau": kendall_taus(*values), "n_methods": compared.sum(axis=1)}
    table = pd.DataFrame(numbers, cells)
    for suffix, rows, means in zip(("", "_other"), runs, values, strict=True):
        places = pd.DataFrame(ranks(means.where(compared), "highest"), cells, methods)
        table[f"best{suffix}"] = [", ".join(best_methods(row)) for _, row in places.iterrows()]
        by_method = rows.set_index([*CELL, "method"])
        sizes, failures = (
            by_method[name].unstack("method").reindex(index=cells, columns=methods).where(compared)
            for name in ("n", "n_failed")
        )
        table[f"n{suffix}"] = sizes.min(axis=1)
        table[f"n_failed{suffix}"] = failures.max(axis=1)
    return table.reset_index()


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


def _tau_text(tau: float) -> str:
    return "no τ" if pd.isna(tau) else f"τ = {tau:.2f}".replace("-", "\N{MINUS SIGN}")


def _count(n: float, n_failed: float) -> str:
    """Return the number of samples; of no method in both, there is none."""
    if pd.isna(n):
        return "none"
    return f"{n:.0f} ({n_failed:.0f} failed)" if n_failed else f"{n:.0f}"
