# A job on a cluster parses the configuration again when it starts, which may be days after its run
# did. What has been edited by then would be computed, and recorded as what the run had asked for, so
# such a job is refused. The environment carries the hash of the run's configuration to its jobs; a
# workflow that uses this one as a module may do so with several.
import os

from pisoft.config.resolved import config_hash

current, seen = config_hash(CONFIG), os.environ.get("PISOFT_CONFIGURATION", "").split()
if workflow.is_main_process:
    os.environ["PISOFT_CONFIGURATION"] = " ".join({*seen, current})
elif current not in seen:
    raise WorkflowError(
        f"{RESULTS}: the run file or a catalogue has changed since this job's run began, so that "
        "the job would compute something else: take the change back, or end the run and begin anew"
    )


envvars:
    "PISOFT_CONFIGURATION",
