"""Seals: hashes of provenance and content, stored beside every result.

Snakemake keeps records by path in `.snakemake`, treats a file without a record as up to date, and
never compares an output with what its job wrote. A seal, `.NAME.seal` beside `NAME`, holds

* the *recipe* of the job: a hash of its outputs, wildcards, settings, code, command and inputs. An
  input of the workflow enters by its path and the recipe of its job; an external file by its name
  and content, in any folder. A parameter with the name of an input replaces it: the records of a
  shard replace the external files that contain them. Recipes depend only on configuration, code
  and external files; no result is read for them;
* the path of the file, the SHA-256 of its content, its size and its modification time.

At every start, a job with a result that does not match its seal counts as incomplete: Snakemake
lists it in a dry run, and recomputes it with everything that depends on it. When a job ends, its
inputs are compared with their seals before its results are sealed.
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

LARGE = 64_000_000  # bytes; larger external files are compared by size only
UNSEALED = "has no seal: nothing proves what made it"
STALE = "was made with other settings, code or inputs than the run has now"
CHANGED = "is not what its job wrote"
MISSING = "is missing, but its seal is there"
PROBLEMS = (UNSEALED, STALE, CHANGED, MISSING)
LISTING = "PISOFT_LIST_PROBLEMS"  # environment variable: a dry run lists all problems
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
    """The recipe of a file, and the content that its job wrote."""

    recipe: str
    file: str = ""  # the outputs of a job share its recipe
    content: str = ""
    size: int = -1
    modified: int = -1  # nanoseconds


_runs: dict[Path, None] = {}  # result folders of this process; several if runs are modules
VOID = Seal("")  # of a file that is known to be wrong; equals no other seal


class SealedPersistence(FilePersistence):
    """Snakemake's records, and the seals of this workflow's results."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._recipes: dict[Any, str] = {}
        self._rejected: set[Any] = set()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the run's files.

        Raises:
            WorkflowError: jobs of an earlier run are alive, or an option would pass wrong results.
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
            WorkflowError: results have no seals; or they do not match them and would be vouched
                for (`--touch`) or shown (`--report`).
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
            return  # a job of a killed driver stays incomplete: nothing sealed its results
        if job in self._rejected:  # second call, before the outputs are deleted
            self._rejected.remove(job)
        elif has_seals(job):
            self._check_inputs(job)
            for file in filter(os.path.exists, job.output):
                write_seal(file, Seal(self._recipe(job), file, *facts(file)))
        await super().finished(job)

    def params_changed(self, job: Any, file: str | None = None) -> Any:
        """Return Snakemake's changes of a job's parameters; for sealed jobs, recipes decide."""
        return NO_PARAMS_CHANGE if has_seals(job) else super().params_changed(job, file)

    def _input_changed(self, job: Any, file: str | None = None) -> bool:
        """Return whether a job's input paths have changed; for sealed jobs, recipes decide."""
        return not has_seals(job) and super()._input_changed(job, file)

    def _read_record(self, key: str) -> Any:
        """Return Snakemake's record of a file, or None if it is missing or unreadable."""
        try:
            return super()._read_record(key)
        except (OSError, ValueError):
            return None

    def _problems(self, job: Any) -> dict[str, str]:
        """Return the problems of a job's results by file; missing seals only if no other problem.

        Raises:
            WorkflowError: a folder or a broken link is in the place of a result.
        """
        problems = {}
        for file in job.output:
            if os.path.lexists(file) and not os.path.isfile(file):
                kind = "folder" if os.path.isdir(file) else "broken link"
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
            WorkflowError: an input does not match; its void seal makes the next run recompute both.
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
        """Return the recipe of a job; see the module."""
        if job not in self._recipes:
            makers = self._makers(job)
            external = [file for file in job.input if file not in makers]
            inputs = [(file, self._recipe(maker)) for file, maker in makers.items()]
            # A parameter with the name of an input replaces its external files.
            replaced = [files for name, files in job.input.items() if job.params.get(name)]
            compared = [file for file in external if not any(file in files for files in replaced)]
            # Without the rule's name, which differs if this workflow is a module.
            parts = [
                sorted(job.output),
                sorted(job.wildcards.items()),
                [_without_paths(text, external) for text in self._params(job)],
                job.rule.shellcmd,
                sorted(inputs),
                [(Path(file).name, content(file, LARGE)) for file in compared],  # in this order
            ]
            self._recipes[job] = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return self._recipes[job]

    def _makers(self, job: Any) -> Mapping[str, Any]:
        """Return the inputs of a job that this workflow makes, each with its job."""
        return {
            file: maker
            for maker, files in self.dag.dependencies[job].items()
            for file in files
            if has_seals(maker)
        }


def seal_results(workflow: Any, results: Path) -> None:
    """Make Snakemake seal the results of a run, and pass the run's folder to its jobs.

    If Snakemake lacks a private name used here, results are not sealed, and one line is logged.

    Raises:
        WorkflowError: Snakemake is to keep its records in a database, which cannot hold seals.
    """
    import snakemake.workflow  # imports everything else, so not before Snakemake does

    if workflow.is_main_process:
        _runs[results.resolve()] = None
        os.environ[RUNS] = os.pathsep.join(map(str, _runs))
    if workflow.workflow_settings.persistence_backend != PersistenceBackend.FILE:
        raise WorkflowError("--persistence-backend: its records know no seals; allowed is 'file'")
    missing = [name for name in PRIVATE if not hasattr(FilePersistence, name)]
    if hasattr(snakemake.workflow, "FilePersistence") and not missing:
        snakemake.workflow.FilePersistence = SealedPersistence
    else:
        logger.warning("Results are not sealed: this version of Snakemake keeps its records apart")


def has_seals(job: Any) -> bool:
    """Return whether a job belongs to this workflow and its results are sealed."""
    return {"settings", "code"} <= {*job.params.keys()} and job.params.get("sealed", True)


def _without_paths(settings: str, files: Iterable[str]) -> str:
    """Replace the paths of files and of their folders in JSON settings by a placeholder."""
    for path in {path for file in files for path in (file, str(Path(file).parent))}:
        settings = settings.replace(json.dumps(path), "path")  # unquoted, unlike any string
    return settings


def seal_path(file: str) -> Path:
    """Return the path of a file's seal."""
    path = Path(file)
    return path.with_name(f".{path.name}.seal")


def read_seal(file: str) -> Seal | None:
    """Return the seal of a file; None if it has none, `VOID` if the seal is damaged."""
    try:
        return Seal(**json.loads(seal_path(file).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return VOID


def write_seal(file: str, seal: Seal) -> None:
    """Write the seal of a file atomically."""
    path = seal_path(file)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(seal._asdict()), encoding="utf-8")
    os.replace(temporary, path)


def matches(file: str, seal: Seal) -> bool:
    """Return whether a file matches its seal.

    Large files, and Parquet files, whose readers verify checksums of pages, are not read if their
    size and modification time match.
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
    """Return whether all external files are small enough to be compared by content."""
    return all(os.path.getsize(file) <= LARGE for file in files)


def content(file: str, limit: int | None = None) -> str:
    """Return the SHA-256 of a file, or its size if it exceeds the limit in bytes."""
    size = os.path.getsize(file)
    return f"{size} bytes" if limit is not None and size > limit else facts(file)[0]


@cache
def _hash(file: str, size: int, modified: int) -> str:
    """Return the SHA-256 of a file, cached by size and modification time."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
