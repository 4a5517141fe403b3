# The run itself: what it says on the terminal, and what it takes while thousands of jobs are done.
# A workflow that uses this one as a module has its own terminal. Snakemake's plugins for that
# (`--logger`) are packages, which every environment of a caller would have to have.
from snakemake.logging import logger

from pisoft.workflow.terminal import conclusion, one_line_per_job
from pisoft.workflow.internals import one_timer, patient_with_slurm


def ending():
    """Return what came out and where to look; nothing of a page that the targets leave out."""
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
