# Results say which settings they were made with. Snakemake keeps that in .snakemake, which may be
# lost, or left behind when results are copied; what it then has no record of and what was made with
# other settings than the run has now is made again.
from pisoft.files import MARKED, made_with, recorded, settings_hash


def stale_files(known):
    """Yield the run's files that were made with other settings, but for those that are known."""
    endings = (".parquet", *MARKED)
    found = [path for path in RESULTS.rglob("*.*") if path.suffix in endings]
    unknown = [path for path in found if str(path) not in known]
    rules_with_settings = [rule for rule in workflow.rules if "settings" in rule.params.keys()]
    for path in unknown:
        for rule in rules_with_settings:
            matches = (output.match(str(path)) for output in rule.output)
            match = next(filter(None, matches), None)
            if match:
                own = rule.params.settings(match.groupdict())
                if made_with(path) != settings_hash(own):
                    yield str(path)


if workflow.is_main_process:
    touched = {"--touch", "-t"} & set(sys.argv)
    stale = sorted(stale_files(set() if touched else recorded()))
    if stale and touched:
        raise WorkflowError(
            f"--touch: {stale[0]} was made with other settings than the run has now "
            f"({len(stale)} such files); run the workflow without --touch, or delete it"
        )
    if stale:
        logger.info(
            f"{len(stale)} results of other settings, of which Snakemake has no record, are made "
            f"again; the first is {stale[0]}"
        )
        workflow.dag_settings.forcerun = {*workflow.dag_settings.forcerun, *stale}
