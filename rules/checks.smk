# What ends a run, or a job of it, before anything is computed: results of other settings that would
# pass for up to date, as Snakemake has no record of them; a configuration edited while jobs wait.
from pisoft.workflow.checks import check_unchanged
from pisoft.workflow.stale import recorded, refuse_stale, stale_files

REPORT = str(RESULTS / "report.html")  # Snakemake's own says nothing of settings
if workflow.is_main_process:
    STALE = stale_files(RESULTS, workflow.rules, recorded() | {REPORT})
    if not DELETE_STALE:
        refuse_stale(STALE)
    elif not workflow.output_settings.dryrun:
        for path in STALE:
            path.unlink()

check_unchanged(CONFIG, os.environ, workflow.is_main_process)


envvars:
    "PISOFT_CONFIGURATION",
