# What the other files share: the validated configuration, code, paths, slices of settings.
import os
import re
import shlex
import sys
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

if not workflow.current_basedir.is_local:
    raise WorkflowError("the workflow must lie in a local folder: clone it and name its Snakefile")

# Code is found beside this file, whichever folder the results go to and whichever workflow uses it.
# It is no input of the jobs, whose paths would differ between clones, but a hash in their params.
ROOT = Path(str(workflow.current_basedir)).parent
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

from pisoft.attribution import load_method
from pisoft.config.cells import MARK, SHUFFLED_LABELS, unmarked
from pisoft.config.captions import Sections, demonstration_warning, settings_as_yaml
from pisoft.config.loading import load_run
from pisoft.config.references import check_scores_files
from pisoft.config.parts import dataset_of, parts
from pisoft.config.slices import (
    SLICES,
    FetchSlice,
    commit_file,
    evidence_datasets,
    hub_datasets,
    hub_models,
    ranked_datasets,
)
from pisoft.data.files import input_files
from pisoft.data.sources import check_columns
from pisoft.embedded.source import made_source
from pisoft.errors import BenchmarkError
from pisoft.fingerprint import code_hash
from pisoft.planning.limits import RunLimits
from pisoft.planning.report import flops_per_second
from pisoft.shards import shortened
from pisoft.statistics.metrics import CONTROL

# A workflow that uses this one as a module may parse it twice with the same configuration.
if isinstance(config.get("settings"), Sections):
    del config["settings"]

delete_stale = str(config.pop("delete_stale", False)).lower()
if delete_stale not in ("true", "false"):
    raise WorkflowError(f"--config delete_stale: is {delete_stale!r}, neither true nor false")
DELETE_STALE = delete_stale == "true"  # see stale.smk


def stated_throughput():
    """Return the FLOP/s of a GPU that the profile's default-resources state; None without."""
    stated = workflow.resource_settings._parsed_default_resources.get("throughput").raw
    return None if stated is None else flops_per_second(str(stated))


try:
    CONFIG = load_run(config, workflow.configfiles, ROOT / "config", load_method)
    for name in CONFIG.datasets:
        check_columns(FetchSlice.of(CONFIG, dataset=name), made_source)
        for model in CONFIG.models:
            parts(CONFIG, model, name)
    LIMITS = RunLimits(CONFIG, Path("results", CONFIG.run_file.run), stated_throughput())
    if workflow.is_main_process:
        LIMITS.check()
        # Whoever asks what there is to score has no scores yet.
        if not any(argument.endswith("export_prompts") for argument in sys.argv):
            check_scores_files(CONFIG)
except BenchmarkError as error:
    raise WorkflowError(str(error)) from None

# Captions see nothing but the configuration; by now it is checked and no longer read.
config["settings"] = settings_as_yaml(CONFIG)
# Stands on every table and page. Without one, the option has no value: an empty text is not quoted.
WARNING = demonstration_warning(CONFIG)

RESULTS = Path("results", CONFIG.run_file.run)
DATA = RESULTS / "data"
MASKED_MODEL_FILES = [
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
]
MODEL_FILES = [*MASKED_MODEL_FILES, "generation_config.json"]
MADE = ("trained", "unigram", "gguf")  # kinds of sources whose folder a rule makes

# With --software-deployment-method apptainer, jobs run in it; its path counts from where results go,
# so that clones in different places record the same.
IMAGE = "pisoft.sif"
if DeploymentMethod.APPTAINER in workflow.deployment_settings.deployment_method:
    if not Path(IMAGE).is_file():
        raise WorkflowError(f"{IMAGE} is missing: docs/how-to/environments.md says how it is built")


container: IMAGE


# Without conda or containers, jobs are run by the interpreter that runs Snakemake, also when its
# environment is not activated.
PYTHON = "python" if workflow.deployment_settings.deployment_method else sys.executable


def one_of(names):
    """Return the constraint of a wildcard that has only these values; of none, it has no value."""
    return "|".join(map(re.escape, names)) or "(?!)"


def models_of(kind):
    """Return the constraint of a wildcard that is a model with a source of this kind."""
    return one_of(name for name, entry in CONFIG.models.items() if entry.source.kind == kind)


GIVEN = (*CONFIG.imported_methods, *CONFIG.constructed_methods)
COMPUTED = [name for name in CONFIG.evaluated_methods if name not in GIVEN]
# A job's part is its dataset, or a shard of it: sst2, or sst2/0-128.
SHARDED = [name for name, entry in CONFIG.datasets.items() if entry.shard_size is not None]
PART = "|".join(
    rf"{re.escape(name)}/\d+-\d+" if name in SHARDED else re.escape(name)
    for name in CONFIG.datasets
)


def job(script, slice_name, *others, module=None):
    """Return the parameters that every job has.

    * ``command``: interpreter and script. As it depends on `resources`, Snakemake does not compare
      it, so that a clone in another place computes nothing again.
    * ``settings``: the job's slice of the configuration as JSON.
    * ``code``: hash of the script, of all that it imports, of further modules and files, and of a
      module that a function of the wildcards names.
    """
    command = f"{shlex.quote(PYTHON)} {shlex.quote(str(SCRIPTS / script))}.py"
    code = code_hash(script, *others)
    return {
        "command": lambda wildcards, resources: command,
        "settings": settings(slice_name),
        "code": code if module is None else lambda wildcards: code_hash(script, module(wildcards)),
    }


def settings(name):
    """Return a params function: the job's slice of the configuration as JSON."""
    made = SLICES[name]

    @cache
    def text(*names):
        return made.of(CONFIG, **dict(names)).to_json()

    def slice_of(wildcards):
        names = unmarked(dict(wildcards.items()))
        if "part" in names:
            names["dataset"] = dataset_of(names["part"])
        return text(*((key, names[key]) for key in made.wildcards()))

    return slice_of


def records_of(wildcards):
    """Return the records that a part is chosen from."""
    return f"<data>/datasets/{dataset_of(wildcards.part)}.parquet"


def all_parts(pattern):
    """Return an input function: a pattern's files for every part of a job's model and dataset."""

    def files(wildcards):
        names = dict(wildcards.items())
        dataset = names.get("dataset") or dataset_of(names["part"])
        every = parts(CONFIG, wildcards.model, dataset)
        return [pattern.format(**{**names, "part": part}) for part in every]

    return files


def record_files(wildcards):
    """Return the local files of a dataset, or the record of its commit on the hub."""
    source = CONFIG.datasets[wildcards.dataset].source
    if source.kind == "hub":
        return [str(commit_file(DATA, source))]
    return input_files(source) if source.kind == "file" else []


def commit_option(wildcards):
    """Return the command-line option that names the record of a dataset's commit, if it has one."""
    source = CONFIG.datasets[wildcards.dataset].source
    return f"--commit {shlex.quote(str(commit_file(DATA, source)))}" if source.kind == "hub" else ""


def method_module(wildcards):
    """Return the module of a method: an edit re-runs this method's jobs and no others."""
    return f"pisoft.attribution.{CONFIG.evaluated_methods[wildcards.method].file}"


def given_scores(wildcards):
    """Return the file with a method's scores that were made elsewhere."""
    source = CONFIG.methods[wildcards.method].source
    return source.path_of(wildcards.model, dataset_of(wildcards.part))


def scores_to_permute(wildcards):
    """Return the file with the scores that are permuted, if they are."""
    source = CONFIG.evaluated_methods[wildcards.method].source
    if source.kind != "permuted":
        return []
    return f"<data>/attributions/{wildcards.model}/{source.method}/{wildcards.part}.parquet"


def scores_to_permute_option(wildcards, input):
    """Return the command-line option that names them, if there are any."""
    return f"--attributions {shlex.quote(input.attributions)}" if input.attributions else ""


def model_resource(name):
    """Return a function: one resource of the catalogue entry of a job's model."""
    return lambda wildcards: getattr(CONFIG.models[wildcards.model].resources, name)


def growing_resource(rule, name):
    """Return a function: a limit of a rule's job, as many times as the job has been tried."""

    def limit(wildcards, attempt):
        names = wildcards.get
        keys = (  # as in the job's paths
            names("protocol", "") + names("operator", ""),
            names("model") + names("variant", ""),
            names("method"),
            names("part"),
        )
        cell = "/".join(filter(None, keys))
        return attempt * getattr(LIMITS.of(rule, cell), name)

    return limit


def model_files(wildcards):
    """Return the files of a model that it is loaded from, so that a change of them is noticed."""
    source = CONFIG.models[wildcards.model].source
    return weight_files(source, DATA / "models" / trained_model(wildcards), MODEL_FILES)


def model_option(wildcards):
    """Return the command-line option that says where a model is."""
    source = CONFIG.models[wildcards.model].source
    return weights_option("model", source, DATA / "models" / trained_model(wildcards))


def trained_model(wildcards):
    """Return the folder of a trained model in <data>/models, that of its variant if it has one."""
    variant = wildcards.get("variant", "")
    return wildcards.model + (variant if variant == MARK + SHUFFLED_LABELS else "")


def masked_model_files(wildcards):
    """Return the files of the masked model, for methods that need it and no others."""
    if not CONFIG.evaluated_methods[wildcards.method].needs_masked_model:
        return []
    name = CONFIG.run_file.masked_model
    made = DATA / "masked_models" / name
    return weight_files(CONFIG.masked_models[name].source, made, MASKED_MODEL_FILES)


def masked_model_option(wildcards):
    """Return the command-line option that says where the masked model is, if there is one."""
    if not CONFIG.evaluated_methods[wildcards.method].needs_masked_model:
        return ""
    name = CONFIG.run_file.masked_model
    return weights_option(
        "masked", CONFIG.masked_models[name].source, DATA / "masked_models" / name
    )


def weight_files(source, made, names):
    """Return the files of a folder with weights, or the record of their commit on the hub.

    Args:
        source: of the catalogue.
        made: folder of a model that a rule makes.
        names: of the files that it makes there.
    """
    if source.kind == "hub":
        return [str(commit_file(DATA, source))]
    if source.kind in MADE:
        return [str(made / name) for name in names]
    kinds = ("*.json", "*.jinja", "*.safetensors", "*.model")
    return sorted(str(path) for kind in kinds for path in Path(source.path).glob(kind))


def weights_option(model, source, made):
    """Return a command-line option with the folder, or the record of the commit, of a model."""
    if source.kind == "hub":
        return f"--{model}-commit {shlex.quote(str(commit_file(DATA, source)))}"
    folder = made if source.kind in MADE else source.path
    return f"--{model}-folder {shlex.quote(str(folder))}"


include: "cells.smk"
include: "shown.smk"
