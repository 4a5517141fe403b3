"""Seals: beside every result lies a hash of its provenance and of its content.

Snakemake keeps records by path in `.snakemake`, takes a file without a record for up to date, and
never compares an output with what its job wrote. A seal, `.NAME.seal` beside `NAME`, holds

* the *recipe* of the job: a hash of its outputs, wildcards, settings, code and command, and for
  each input of its path with the recipe of the job that makes it, or of its name with its content
  if it comes from outside, wherever it lies. A parameter with the name of an input stands for it:
  the records of a shard, as files from outside have them. Recipes follow from configuration, code
  and such files alone; no result is read for them;
* the path of the file, its content as SHA-256, its size and its modification time.

At the start of every call, a job with a result that does not match its seal counts as incomplete:
Snakemake lists it in a dry run, and computes it and everything that depends on it again. When a job
ends, its inputs are compared with their seals before its results are sealed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.settings.types import PersistenceBackend

from pisoft.errors import BenchmarkError
from pisoft.workflow.running import RUNS, check_idle

try:
    from snakemake.persistence import NO_PARAMS_CHANGE
    from snakemake.persistence.file import FilePersistence
except ImportError:  # in a version that keeps its records elsewhere, which `seal_results` reports
    NO_PARAMS_CHANGE, FilePersistence = None, object

LARGE = 64_000_000  # bytes; larger files from outside are compared by size alone
UNSEALED = "has no seal: nothing proves what made it"
STALE = "was made with other settings, code or inputs than the run has now"
CHANGED = "is not what its job wrote"
MISSING = "is missing, but its seal is there"
PROBLEMS = (UNSEALED, STALE, CHANGED, MISSING)
LISTING = "PISOFT_LIST_PROBLEMS"  # variable of the environment: a dry run lists all of them
PRIVATE = (
    "incomplete",
    "finished",
    "lock",
    "params_changed",
    "_input_changed",
    "_params",
    "_read_record",
)  # of FilePersistence, overridden or used


class Seal(NamedTuple):
    """What made a file, and what its job wrote."""

    recipe: str
    file: str = ""  # a job's outputs have one recipe
    content: str = ""
    size: int = -1
    modified: int = -1  # nanoseconds


_runs: dict[Path, None] = {}  # folders of the results of this process; several, as modules
VOID = Seal("")  # of a file that is known to be wrong; equal to no other


class SealedPersistence(FilePersistence):
    """Snakemake's records, and seals of the results of this workflow."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._recipes: dict[Any, str] = {}
        self._rejected: set[Any] = set()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the run's files.

        Raises:
            WorkflowError: jobs of an earlier run are alive, or an option lets wrong results pass.
        """
        if self.dag.ignore_incomplete:
            raise WorkflowError("--ignore-incomplete: would show results that no seal proves")
        if self.dag.workflow.execution_settings.keep_incomplete:
            raise WorkflowError("--keep-incomplete: would seal the results of failed jobs")
        try:
            check_idle(Path(), _runs)
        except BenchmarkError as error:
            raise WorkflowError(str(error)) from None
        with super().lock():
            yield

    async def incomplete(self, job: Any) -> list[Any]:
        """Return incomplete outputs; a job whose results do not match their seals is forced.

        Raises:
            WorkflowError: results without seals; or results that do not match theirs, where they
                would be vouched for (`--touch`) or shown (`--report`).
        """
        workflow = self.dag.workflow
        files: list[Any] = await super().incomplete(job)
        if files or not (workflow.is_main_process and has_seals(job)):
            return files
        problems = self._problems(job)
        if not problems:
            return files
        file, problem = next(iter(problems.items()))
        unsealed, listing = problem == UNSEALED, LISTING in os.environ
        if unsealed and not (workflow.touch or listing):
            raise WorkflowError(
                f"{file} {problem}: `snakemake --touch --cores 1` vouches for all such files "
                f"(`-- {file}`: for it alone); deleting it recomputes it"
            )
        computes = workflow._executor_plugin is not None
        if not unsealed and (workflow.touch or not computes):
            raise WorkflowError(f"{file} {problem}: run the workflow, which recomputes it")
        for name, file_problem in problems.items() if listing else [(file, problem)]:
            if file_problem != STALE or workflow.dryrun:
                logger.info(f"{name} {file_problem}")
        self.dag.forcefiles.update(job.output)
        return files

    async def finished(self, job: Any) -> None:
        """Record and seal what a job wrote, if its inputs match their seals.

        Raises:
            WorkflowError: they do not; Snakemake then deletes the job's outputs.
        """
        if not self.dag.workflow.is_main_process:
            return  # a job of a driver that was killed stays incomplete: nothing sealed its results
        if job in self._rejected:  # called once more, before the outputs are deleted
            self._rejected.remove(job)
        elif has_seals(job):
            self._check_inputs(job)
            for file in filter(os.path.exists, job.output):
                write_seal(file, Seal(self._recipe(job), file, *facts(file)))
        await super().finished(job)

    def params_changed(self, job: Any, file: str | None = None) -> Any:
        """Return what Snakemake sees changed in a job's settings; recipes replace it."""
        return NO_PARAMS_CHANGE if has_seals(job) else super().params_changed(job, file)

    def _input_changed(self, job: Any, file: str | None = None) -> bool:
        """Tell whether a job's inputs have other paths; recipes replace it."""
        return not has_seals(job) and super()._input_changed(job, file)

    def _read_record(self, key: str) -> Any:
        """Return Snakemake's record of a file; None: it has none, or one that nobody can read."""
        try:
            return super()._read_record(key)
        except (OSError, ValueError):
            return None

    def _problems(self, job: Any) -> dict[str, str]:
        """Return what is wrong with a job's results, by file; those without seals only if alone.

        Raises:
            WorkflowError: a folder, or a link to nothing, lies where a result is to be.
        """
        problems = {}
        for file in job.output:
            if os.path.lexists(file) and not os.path.isfile(file):
                kind = "folder" if os.path.isdir(file) else "link to nothing"
                raise WorkflowError(
                    f"{file}: is a {kind}, but the workflow writes a file there; remove it"
                )
            seal, exists = read_seal(file), os.path.exists(file)
            if seal is None:
                problem = UNSEALED if exists else None
            elif not exists:
                problem = MISSING
            elif seal[:2] != (self._recipe(job), file):
                problem = STALE
            else:
                problem = None if matches(file, seal) else CHANGED
            if problem is not None:
                problems[file] = problem
        sealed = {file: problem for file, problem in problems.items() if problem != UNSEALED}
        return sealed or problems

    def _check_inputs(self, job: Any) -> None:
        """Compare the inputs of a job with their seals.

        Raises:
            WorkflowError: one does not match; its void seal lets the next call redo it and the job.
        """
        for file, maker in self._makers(job).items():
            seal = read_seal(file)
            if not (seal and seal[:3] == (self._recipe(maker), file, content(file))):
                self._rejected.add(job)
                write_seal(file, VOID)
                raise WorkflowError(
                    f"{file} changed before {job.output[0]} was made from it: run the workflow "
                    "again, which recomputes both"
                )

    def _recipe(self, job: Any) -> str:
        """Return the hash of what makes a job's outputs; see the module."""
        if job not in self._recipes:
            makers = self._makers(job)
            outside = [file for file in job.input if file not in makers]
            inputs = [(file, self._recipe(maker)) for file, maker in makers.items()]
            # A parameter with the name of an input says what the job reads of files from outside.
            represented = [files for name, files in job.input.items() if job.params.get(name)]
            compared = [file for file in outside if not any(file in files for files in represented)]
            # Not the rule's name, which is another one where this workflow is a module.
            parts = [
                sorted(job.output),
                sorted(job.wildcards.items()),
                [_without_paths(text, outside) for text in self._params(job)],
                job.rule.shellcmd,
                sorted(inputs),
                [(Path(file).name, content(file, LARGE)) for file in compared],  # in this order
            ]
            self._recipes[job] = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return self._recipes[job]

    def _makers(self, job: Any) -> Mapping[str, Any]:
        """Return the job of this workflow that makes each input of a job."""
        return {
            file: maker
            for maker, files in self.dag.dependencies[job].items()
            for file in files
            if has_seals(maker)
        }


def seal_results(workflow: Any, results: Path) -> None:
    """Have Snakemake seal the results of a run, and have its jobs carry the run's name.

    Without the private names used here, Snakemake keeps its own records, and one line is logged.

    Raises:
        WorkflowError: the records are to be in a database, which knows no seals.
    """
    import snakemake.workflow  # it imports everything else, so not before Snakemake does

    if workflow.is_main_process:
        _runs[results.resolve()] = None
        os.environ[RUNS] = os.pathsep.join(map(str, _runs))
    if workflow.workflow_settings.persistence_backend != PersistenceBackend.FILE:
        raise WorkflowError("--persistence-backend: its records know no seals; allowed is 'file'")
    lacking = [name for name in PRIVATE if not hasattr(FilePersistence, name)]
    if hasattr(snakemake.workflow, "FilePersistence") and not lacking:
        snakemake.workflow.FilePersistence = SealedPersistence
    else:
        logger.warning("Results are not sealed: this version of Snakemake keeps its records apart")


def has_seals(job: Any) -> bool:
    """Tell whether a job is one of this workflow, whose results are sealed."""
    return {"settings", "code"} <= {*job.params.keys()} and job.params.get("sealed", True)


def _without_paths(settings: str, files: Iterable[str]) -> str:
    """Return settings, as JSON, with no paths of files and of the folders that they lie in."""
    for path in {path for file in files for path in (file, str(Path(file).parent))}:
        settings = settings.replace(json.dumps(path), "path")  # unlike any string, without quotes
    return settings


def seal_path(file: str) -> Path:
    """Return the path of a file's seal."""
    path = Path(file)
    return path.with_name(f".{path.name}.seal")


def read_seal(file: str) -> Seal | None:
    """Return the seal of a file; None: it has none; void: its seal is damaged."""
    try:
        return Seal(**json.loads(seal_path(file).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return VOID


def write_seal(file: str, seal: Seal) -> None:
    """Write the seal of a file, whole or not at all."""
    path = seal_path(file)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(seal._asdict()), encoding="utf-8")
    os.replace(temporary, path)


def matches(file: str, seal: Seal) -> bool:
    """Tell whether a file is what its seal says.

    A large file, or a Parquet file, whose pages have checksums that its readers verify, is not read
    if its size and time are those of the seal.
    """
    _, size, modified = facts(file, read=False)
    if (size, modified) == (seal.size, seal.modified) and (
        size > LARGE or file.endswith(".parquet")
    ):
        return True
    return content(file) == seal.content


def facts(file: str, read: bool = True) -> tuple[str, int, int]:
    """Return content, size in bytes and modification time in nanoseconds of a file."""
    status = os.stat(file)
    size, modified = status.st_size, status.st_mtime_ns
    return _hash(file, size, modified) if read else "", size, modified


def compares_content(files: Iterable[str]) -> bool:
    """Tell whether files from outside are small enough to be compared by content."""
    return all(os.path.getsize(file) <= LARGE for file in files)


def content(file: str, limit: int | None = None) -> str:
    """Return the SHA-256 of a file; of one larger than a limit, its size."""
    size = os.path.getsize(file)
    return f"{size} bytes" if limit is not None and size > limit else facts(file)[0]


@cache
def _hash(file: str, size: int, modified: int) -> str:
    """Return the SHA-256 of a file, read once for each size and time."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
