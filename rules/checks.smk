# What keeps wrong results from being shown: seals beside results, which say what made them, and no job
# of a run whose configuration was edited while the job waited.
from pisoft.workflow.checks import check_unchanged
from pisoft.workflow.seals import seal_results

seal_results(workflow, RESULTS)
check_unchanged(CONFIG, os.environ, workflow.is_main_process)


envvars:
    "PISOFT_CONFIGURATION",
    "PISOFT_RUNS",
