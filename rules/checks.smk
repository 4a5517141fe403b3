# Protection against wrong results: seals record the provenance of every result, and a job is
# refused if its run's configuration was edited while it waited.
from pisoft.workflow.checks import check_unchanged
from pisoft.workflow.seals import seal_results

seal_results(workflow, RESULTS)
check_unchanged(CONFIG, os.environ, workflow.is_main_process)


envvars:
    "PISOFT_CONFIGURATION",
    "PISOFT_RUNS",
