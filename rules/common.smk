# What the other files share. The validated configuration, paths, slices of settings.
import re
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

sys.path.insert(0, str(Path(workflow.basedir) / "scripts"))

from pisoft.config import display_slices as display_settings
from pisoft.config import plan_slices as plan_settings
from pisoft.config import slices as slices
from pisoft.config.captions import settings_in_words
from pisoft.config.loading import load_run
from pisoft.data.sources import check_columns
from pisoft.errors import BenchmarkError

try:
    CONFIG = load_run(config, workflow.overwrite_configfiles, Path("config"))
    for name in CONFIG.datasets:
        check_columns(slices.fetch_slice(CONFIG, name))
except BenchmarkError as error:
    raise WorkflowError(str(error)) from None

# Captions see nothing but the configuration; by now it is checked and no longer read.
config["settings"] = settings_in_words(CONFIG)

RUN = CONFIG.run_file.run
MASKED_MODEL_FILES = [
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
]
MODEL_FILES = [*MASKED_MODEL_FILES, "generation_config.json", "chat_template.jinja"]

# Without conda or containers, `python` in a job is the interpreter that runs Snakemake, also
# when its environment is not activated.
if not workflow.deployment_settings.deployment_method:
    shell.prefix(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")


def one_of(names):
    """Return the constraint of a wildcard that has only these values."""
    return "|".join(re.escape(name) for name in names)


def settings(name):
    """Return a params function: the job's slice of the configuration as JSON."""
    modules = (slices, display_settings, plan_settings)
    (make,) = {getattr(module, f"{name}_slice", None) for module in modules} - {None}
    keys = [key for key in make.__annotations__ if key not in ("config", "return")]
    return lambda wildcards: make(CONFIG, *(wildcards[key] for key in keys)).to_json()


def code(*modules):
    """Return the project's modules whose numerics a job depends on, as input files.

    Inputs are compared by checksum, so an edit re-runs exactly the jobs that it may change.
    """
    return [f"scripts/pisoft/{module}.py" for module in modules]


def templates(*names):
    """Return templates of tables and pages, as input files."""
    return [f"scripts/pisoft/analysis/templates/{name}.jinja" for name in names]


def record_file(wildcards):
    """Return the local file of a dataset, so that a change of it is noticed."""
    source = CONFIG.datasets[wildcards.dataset].source
    return [source.path] if source.kind == "file" else []


def method_file(wildcards):
    """Return the file of a method: an edit re-runs this method's jobs and no others."""
    name = slices.method_name(wildcards.method, CONFIG.evaluated_methods[wildcards.method])
    return f"scripts/pisoft/attribution/{name}.py"


def model_resource(name):
    """Return a function: one resource of the catalogue entry of a job's model."""
    return lambda wildcards: getattr(CONFIG.models[wildcards.model].resources, name)


def model_folder(wildcards):
    """Return the folder with a model's weights; None if they come from the hub."""
    trained = Path("results", wildcards.run, "models", wildcards.model)
    return weights_folder(CONFIG.models[wildcards.model].source, trained)


def model_files(wildcards):
    """Return the files of a local or trained model, so that a change of weights is noticed."""
    source = CONFIG.models[wildcards.model].source
    return weight_files(source, model_folder(wildcards), MODEL_FILES)


def model_folder_option(wildcards):
    """Return the command-line option that names a model's folder, if it has one."""
    return folder_option("--model-folder", model_folder(wildcards))


def masked_model_folder(wildcards):
    """Return the folder with the masked model's weights; None if a job has none to read."""
    if not slices.needs_masked_model(CONFIG, wildcards.method):
        return None
    name = CONFIG.run_file.masked_model
    trained = Path("results", wildcards.run, "masked_models", name)
    return weights_folder(CONFIG.masked_models[name].source, trained)


def masked_model_files(wildcards):
    """Return the files of the masked model, for methods that need it and no others."""
    source = CONFIG.masked_models[CONFIG.run_file.masked_model].source
    return weight_files(source, masked_model_folder(wildcards), MASKED_MODEL_FILES)


def masked_folder_option(wildcards):
    """Return the command-line option that names the masked model's folder, if there is one."""
    return folder_option("--masked-folder", masked_model_folder(wildcards))


def weights_folder(source, trained):
    """Return the folder with weights, `trained` if a rule makes them; None if on the hub."""
    if source.kind == "trained":
        return trained
    return Path(source.path) if source.kind == "local" else None


def weight_files(source, folder, trained):
    """Return the files of a folder with weights, those named `trained` if a rule makes them."""
    if folder is None:
        return []
    if source.kind == "trained":
        return [str(folder / name) for name in trained]
    kinds = ("*.json", "*.jinja", "*.safetensors", "*.model")
    return sorted(str(path) for kind in kinds for path in folder.glob(kind))


def folder_option(option, folder):
    """Return a command-line option with a folder, or nothing."""
    return "" if folder is None else f"{option} {shlex.quote(str(folder))}"


def cells(pattern):
    """Return a pattern's files for every selected combination, in order of selection."""
    return files_of(CONFIG.cells, pattern)


def first_protocol_cells(pattern):
    """Return a pattern's files for every combination, once for all of a model's protocols."""
    first = {cell[1:]: cell for cell in reversed(CONFIG.cells)}
    return files_of(reversed(first.values()), pattern)


def ranking_cells(pattern):
    """Return a pattern's files for every combination that insertion and deletion are run on."""
    datasets = slices.ranked_datasets(CONFIG)
    return files_of((cell for cell in CONFIG.cells if cell[-1] in datasets), pattern)


def study_cells(pattern):
    """Return a pattern's files for every combination of the layer study; none without a study."""
    return files_of(CONFIG.study_cells, pattern)


def fitting_cells(pattern, **fixed):
    """Return an input function: a pattern's files for every combination that fits the wildcards."""

    def fits(cell, known):
        keys = ("protocol", "model", "method", "dataset")
        return all(known.get(key, name) == name for key, name in zip(keys, cell))

    def files(wildcards):
        known = {**dict(wildcards.items()), **fixed}
        return files_of((cell for cell in CONFIG.cells if fits(cell, known)), pattern)

    return files


def qualitative_cells(pattern):
    """Return a pattern's files for every model and dataset; none if such figures are not wanted."""
    return [] if CONFIG.run_file.qualitative is None else cells(pattern)


def files_of(chosen, pattern):
    """Return a pattern's files for cells, each file once."""
    keys = ("protocol", "model", "method", "dataset")
    files = (pattern.format(run=RUN, **dict(zip(keys, cell))) for cell in chosen)
    return list(dict.fromkeys(files))
