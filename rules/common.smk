# Shared by the other files: the validated configuration, paths, and common parameters of jobs.
# Functions that need only the configuration are in scripts/pisoft/workflow/.
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

if not workflow.current_basedir.is_local:
    raise WorkflowError("the workflow must lie in a local folder: clone it and name its Snakefile")

# Code is located by this file, independent of the results' folder and the calling workflow. It is
# a hash in the params of jobs and not an input, whose path would differ between clones.
ROOT = Path(str(workflow.current_basedir)).parent
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

from pisoft.store.schemas import FILES
from pisoft.config.captions import Sections, demonstration_warning, settings_as_yaml
from pisoft.config.cells import MARK, SHUFFLED_LABELS
from pisoft.config.shards import parts_of_files
from pisoft.config.jobs.cells import ranked_datasets
from pisoft.config.jobs.hub import commit_file, hub_datasets, hub_models
from pisoft.config.methods import ScoresFile
from pisoft.config.studies import Control, Permuted
from pisoft.errors import BenchmarkError
from pisoft.cost.limits import RunLimits
from pisoft.statistics.metrics import CONTROL
from pisoft.workflow.checks import checked_run, warn_of_idle_gpu
from pisoft.workflow.inputs import MASKED_MODEL_FILES, MODEL_FILES, Inputs
from pisoft.workflow.jobs import Jobs, one_of, part_constraint, stated_throughput

# A workflow that uses this one as a module may parse it twice with the same configuration.
if isinstance(config.get("settings"), Sections):
    del config["settings"]

CONFIG = checked_run(config, workflow.configfiles, ROOT / "config")
RESULTS = Path("results", CONFIG.run_file.run)
DATA = RESULTS / "data"

try:
    LIMITS = RunLimits(CONFIG, RESULTS, stated_throughput(workflow.resource_settings))
    if workflow.is_main_process:
        LIMITS.check()
        warn_of_idle_gpu(CONFIG)
except BenchmarkError as error:
    raise WorkflowError(str(error)) from None

# Captions see only the raw configuration, which is validated by now and no longer read.
config["settings"] = settings_as_yaml(CONFIG)
# On every table and page. If it is empty, the option has no value: empty texts are not quoted.
WARNING = demonstration_warning(CONFIG)

# With --software-deployment-method apptainer, jobs run in this image; its path is relative to the
# working folder, so that clones in different places record the same path.
IMAGE = "pisoft.sif"
if DeploymentMethod.APPTAINER in workflow.deployment_settings.deployment_method:
    if not Path(IMAGE).is_file():
        raise WorkflowError(f"{IMAGE} is missing: docs/how-to/environments.md says how it is built")


container: IMAGE


# Without conda or containers, the interpreter of Snakemake runs the jobs, even if its environment
# is not activated.
PYTHON = "python" if workflow.deployment_settings.deployment_method else sys.executable

COMPUTED = [name for name, method in CONFIG.evaluated_methods.items() if method.file is not None]

JOBS = Jobs(CONFIG, LIMITS, SCRIPTS, PYTHON)
job, named_files, named_outputs = JOBS.parameters, JOBS.named_files, JOBS.named_outputs
SOURCES = Inputs(CONFIG, DATA)
model_threads, model_resources = JOBS.resource("threads"), JOBS.resources


include: "cells.smk"
