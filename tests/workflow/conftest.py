"""A copy of the project with a configuration so small that the whole workflow runs in a minute."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from transformers import LlamaConfig, LlamaForCausalLM

from helpers.preloaded_python import interpreter, plain_environment
from helpers.shared_runs import FINISHED, STUDIED
from pisoft.datasets.embedded import make_records
from pisoft.demo.tokenizers import Dialogue, train_tokenizer

ROOT = Path(__file__).parents[2]
PROGRAM = str(Path(sys.executable).parent / "snakemake")
# The profile accepts a wait at the end of a call to reduce the driver's load.
NO_WAIT = ("--max-jobs-per-timespan", "100/1s")
DRIVER = "import sys; sys.executable = sys.argv.pop(1); from snakemake.cli import main; main()"
SOURCES = ("Snakefile", "rules", "scripts", "config", "docs", "envs", "profiles")
METHODS = """\
random: {}
attention: {}
saliency: {}
"""


@dataclass(frozen=True)
class Project:
    """A copy of the project in its own folder."""

    folder: Path

    def snakemake(
        self, *arguments: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run Snakemake in the copy with its run file, in an environment that is not activated."""
        file = ("--configfile", "config/tiny.yaml")
        return self.bare(*file, *arguments, check=check, **environment)

    def bare(
        self, *arguments: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run Snakemake in the copy without a run file argument."""
        result = self.python(PROGRAM, *NO_WAIT, *arguments, **environment)
        if check and result.returncode:
            pytest.fail(f"snakemake {' '.join(arguments)} failed:\n{result.stdout}")
        return result

    def python(self, *line: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a Python script in the copy, with preloaded libraries."""
        return subprocess.run(
            [interpreter(with_hub=not environment), *line],
            cwd=self.folder, env=self.environment() | environment,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip

    def job(self, target: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the job of a file like Snakemake would, with further arguments."""
        listed = self.snakemake("--dry-run", "--forceall", "--printshellcmds", target).stdout
        (line,) = [line for line in listed.splitlines() if f"--output {target} " in line]
        command = line[line.index(interpreter()) :].split(" > ")[0]
        return subprocess.run(
            f"{command} {' '.join(arguments)}", cwd=self.folder, env=self.environment(), shell=True,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip

    def command(self, *arguments: str) -> list[str]:
        """Return a command line that runs Snakemake in its own process, with preloaded jobs."""
        return [sys.executable, "-Pc", DRIVER, interpreter(), *arguments]

    def environment(self) -> dict[str, str]:
        """Return an environment that is not activated."""
        return plain_environment()

    def run(self) -> None:
        """Run the whole workflow."""
        self.snakemake("--cores", "2")

    def pending(self, *arguments: str) -> set[str]:
        """Return the outputs that a dry run would make, except pages of figures.

        Paths are relative to the run's results.
        """
        listed = self.snakemake("--dry-run", "--printshellcmds", *arguments).stdout
        plain = re.findall(r"--(?:output(?:-folder)?|html|svg) (\S+)", listed)
        shown = r"(?:tabulate|plot)_results\.py .* --folder (\S+) --show ([^>]+) >"
        for folder, paths in re.findall(shown, listed):
            ending = "html" if folder.endswith("tables") else "svg"
            plain += [f"{folder}/{path}.{ending}" for path in paths.split()]
        by_kind = re.findall(r"--outputs ((?:\w+=\S+ ?)+)", listed)
        named = [name.partition("=")[2] for names in by_kind for name in names.split()]
        named = [name for name in named if name.endswith((".parquet", ".html"))]
        return {name.removeprefix("results/tiny/") for name in (*plain, *named)}

    def write(self, name: str, text: str) -> None:
        """Write a file of the copy."""
        (self.folder / name).write_text(text, encoding="utf-8")

    def copied_to(self, folder: Path) -> Project:
        """Copy everything, including results, time stamps and Snakemake's records."""
        subprocess.run(["cp", "-a", self.folder, folder], check=True)
        return Project(folder)

    def copy_sources_to(self, folder: Path) -> None:
        """Copy code and configuration, not results, with new time stamps, like a clone."""
        for name in SOURCES:
            source = self.folder / name
            if source.is_dir():
                shutil.copytree(
                    source,
                    folder / name,
                    copy_function=shutil.copyfile,
                    ignore=shutil.ignore_patterns("__pycache__"),
                )
            else:
                shutil.copyfile(source, folder / name)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a fresh copy of the project without results."""
    return copy_project(tmp_path / "project")


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Project:
    """Return a copy with a finished run; test processes share it, so tests must not change it."""
    return run_once(tmp_path_factory, worker_id, "finished", copy_project)


@pytest.fixture(scope="session")
def studied_once(
    finished_once: Project, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Project:
    """Return a copy extended by a second dataset, a layer study and a label that is a script."""

    def studied(folder: Path) -> Project:
        copy = finished_once.copied_to(folder)
        copy.write("config/tiny.yaml", STUDIED)
        return copy

    return run_once(tmp_path_factory, worker_id, "studied", studied)


def run_once(
    tmp_path_factory: pytest.TempPathFactory,
    worker_id: str,
    name: str,
    create: Callable[[Path], Project],
) -> Project:
    """Run the workflow of a copy unless another test process already has."""
    folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":  # the folder that all processes share
        folder = folder.parent
    with FileLock(folder / f"{name}.lock"):
        if not (folder / name).exists():
            create(folder / name).run()
    return Project(folder / name)


@pytest.fixture
def finished(finished_once: Project, tmp_path: Path) -> Project:
    """Return a private copy of the finished run, in which nothing is left to do."""
    return finished_once.copied_to(tmp_path / "project")


@pytest.fixture(scope="module")
def module_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a copy of the project that the tests of a module share."""
    return copy_project(tmp_path_factory.mktemp("module") / "project")


def copy_project(folder: Path) -> Project:
    """Copy the project into a new folder, with its own run file, methods and model."""
    folder.mkdir()
    Project(ROOT).copy_sources_to(folder)
    copy = Project(folder)
    copy.write("config/tiny.yaml", FINISHED)
    copy.write("config/catalogue/methods.yaml", METHODS)
    save_toy_model(folder / "toy-model")
    return copy


def save_toy_model(folder: Path) -> None:
    """Save a random Llama with the tokenizer and chat template of the tiny models."""
    dialogues = [
        Dialogue([{"role": "user", "content": f"Text: {record['fields']['text']}"}], word)
        for record in make_records("sentiment", 50, 9)
        for word in ("Positive", "Negative")
    ]
    tokenizer = train_tokenizer(dialogues, "llama", 400)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.3,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    # An input of every job that is too large for Snakemake to compare by itself.
    (folder / "padding.json").write_text(json.dumps("x" * 2_000_000), encoding="utf-8")
    tokenizer.save_pretrained(folder)
