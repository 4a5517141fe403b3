"""How far two runs order the methods alike, such as with a setting that needs new forwards."""

from __future__ import annotations

import pandas as pd

from pisoft.statistics.metrics import AUC_METRICS, AVERAGE, METRICS
from pisoft.statistics.orders import CELL, best_methods, kendall_taus, ranks


def compare_runs(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Compare the orders of methods by AUC in the cells that the `statistics` of two runs share.

    Averages are compared where both runs have them of the same datasets.

    Returns:
        The columns of a cell; over the `n_methods` methods with a value in both, `kendall_tau`,
        and of each run the `best`, of the highest mean, equal ones joined, the fewest samples in a
        mean, `n`, and the most that failed, `n_failed`. Those of the second end in `_other`.
    """
    runs = [
        rows[rows["metric"].isin(AUC_METRICS)].dropna(subset="value").set_index([*CELL, "method"])
        for rows in (one, other)
    ]
    cells = runs[0].index.droplevel("method").unique()
    cells = cells[cells.isin(runs[1].index.droplevel("method"))]
    averaged = [run.reset_index().groupby(CELL[:-1])["dataset"].agg(frozenset) for run in runs]
    cells = cells[
        [name != AVERAGE or len({of[tuple(cell)] for of in averaged}) == 1 for *cell, name in cells]
    ]
    common = runs[0].index.intersection(runs[1].index, sort=False)
    wide = [
        {
            name: run.loc[common, name].unstack("method", sort=False).reindex(cells)
            for name in ("value", "n", "n_failed")
        }
        for run in runs
    ]
    compared = pd.DataFrame({"n_methods": wide[0]["value"].count(axis=1)}, cells)
    compared["kendall_tau"] = kendall_taus(*(run["value"] for run in wide))
    for suffix, run in zip(("", "_other"), wide, strict=True):
        order = pd.DataFrame(ranks(run["value"].to_numpy(), "highest"), cells, run["value"].columns)
        compared[f"best{suffix}"] = [", ".join(best_methods(row)) for _, row in order.iterrows()]
        compared[f"n{suffix}"] = run["n"].min(axis=1)
        compared[f"n_failed{suffix}"] = run["n_failed"].max(axis=1)
    return compared.reset_index()


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
    """Return the number of samples; of no method in both, there is none."""
    if pd.isna(n):
        return "none"
    return f"{n:.0f} ({n_failed:.0f} failed)" if n_failed else f"{n:.0f}"
