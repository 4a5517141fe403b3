# The run itself: its terminal output, and workarounds for runs of thousands of jobs. A workflow
# that uses this one as a module has its own output. Snakemake's logger plugins (`--logger`) are
# packages, which the environment of every caller would need.
from snakemake.logging import logger

from pisoft.workflow.terminal import conclusion, one_line_per_job
from pisoft.workflow.internals import one_timer, patient_with_slurm


def ending():
    """Return the verdicts and the page to open, or nothing if the targets exclude that page."""
    front, verdicts = RESULTS / "index.html", RESULTS / "verdicts.txt"
    targeted = any(job.rule.name == "build_index" for job in workflow.dag.jobs)
    if not (targeted and verdicts.is_file()):
        return ""
    return conclusion(verdicts.read_text(encoding="utf-8"), front)


if workflow.modifier.is_main_snakefile() and workflow.is_main_process:
    if not (workflow.output_settings.dryrun or workflow.output_settings.verbose):
        one_line_per_job(logger, ending, lambda: JOBS.planned(workflow.dag))


onstart:
    one_timer(workflow.scheduler)
    patient_with_slurm()


onsuccess:
    logger.info(ending())
