# Results say which settings they were made with. Snakemake keeps that in .snakemake, which may be
# lost, or left behind when results are copied. What it then has no record of and what was made with
# other settings than the run has now would pass for up to date, so it is refused.
from pisoft.files import MARKED, made_with, recorded, settings_hash


def stale_files(known):
    """Yield the run's files that were made with other settings, but for those that are known."""
    endings = (".parquet", *MARKED)
    found = [path for path in RESULTS.rglob("*.*") if path.suffix in endings]
    unknown = [path for path in found if str(path) not in known]
    makers = [rule for rule in workflow.rules if "settings" in rule.params.keys()]
    for path in unknown:
        for rule in makers:
            matches = (output.match(str(path)) for output in rule.output)
            match = next(filter(None, matches), None)
            if match and made_with(path) != settings_hash(rule.params.settings(match.groupdict())):
                yield path


if workflow.is_main_process:
    # A touch would record that they are right.
    stale = sorted(stale_files(set() if {"--touch", "-t"} & set(sys.argv) else recorded()))
    if DELETE_STALE:
        for path in stale:
            path.unlink()
    elif stale:
        others = f" and {len(stale) - 1} other results were" if len(stale) > 1 else " was"
        raise WorkflowError(
            f"{stale[0]}{others} made with other settings than the run has now, and Snakemake has "
            "no record of that: take the settings back, choose another name for the run, or add "
            "`--config delete_stale=true` to have them deleted and made again"
        )
