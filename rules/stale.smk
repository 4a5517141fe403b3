# Results say which settings they were made with. Snakemake keeps that in .snakemake, which may be
# lost, or left behind when results are copied. What it then has no record of and what was made with
# other settings than the run has now would pass for up to date, so it is refused.
from pisoft.files import recorded, stale_files

if workflow.is_main_process:
    # A touch would record that they are right.
    on_record = set() if {"--touch", "-t"} & set(sys.argv) else recorded()
    stale = stale_files(RESULTS, workflow.rules, on_record)
    if DELETE_STALE:
        if not workflow.output_settings.dryrun:
            for path in stale:
                path.unlink()
    elif stale:
        others = f" and {len(stale) - 1} other results were" if len(stale) > 1 else " was"
        raise WorkflowError(
            f"{stale[0]}{others} made with other settings than the run has now, and Snakemake has "
            "no record of that: take the settings back, choose another name for the run, or add "
            "`--config delete_stale=true` to have them deleted and recomputed"
        )
