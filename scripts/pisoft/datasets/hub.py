"""The Hugging Face hub: commits of revisions, downloads, and advice on errors."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pisoft.config.models import ADAPTER
from pisoft.errors import BenchmarkError, did_you_mean

COMMIT = re.compile(r"[0-9a-f]{40}")
# Files that a model is loaded from, without pickled weights. Some repositories hold copies of the
# weights: in folders, for other programs, or as consolidated.safetensors.
SMALL_FILES = ("*.json", "*.jinja", "*.txt", "*.model")
WEIGHTS = "*.safetensors"
COPIES = ("*/*", "consolidated*")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
NETWORK_ERRORS = (  # class names, because any of three HTTP libraries may raise them
    "LocalEntryNotFoundError",
    "RevisionResolutionError",
    "IncompleteSnapshotError",
    "OfflineModeIsEnabled",
    "ConnectionError",
    "ConnectError",
    "TimeoutException",
    "ProxyError",
)
BROKEN_OFF = ("RemoteProtocolError", "ReadError")


def resolve_commit(repository: str, revision: str, kind: str) -> str:
    """Return the current commit of a revision of `models` or `datasets`.

    A commit hash is returned unchanged; with `HF_HUB_OFFLINE=1`, the local cache is used.

    Raises:
        BenchmarkError: the repository or revision does not exist or is closed to the user, the hub
            cannot be reached, or a model has no safetensors.
    """
    if COMMIT.fullmatch(revision):
        return revision
    from huggingface_hub import HfApi
    from huggingface_hub.constants import is_offline_mode
    from huggingface_hub.errors import RevisionNotFoundError

    hub, repo_type = HfApi(), kind.removesuffix("s")
    try:
        commit = hub.resolve_revision(repository, repo_type=repo_type, revision=revision).resolved
        if is_offline_mode():
            return commit
        info = hub.repo_info(repository, repo_type=repo_type, revision=commit)
        if info.gated:  # its description is public, its files are not
            hub.auth_check(repository, repo_type=repo_type)
        files = hub.list_repo_files(repository, repo_type=repo_type, revision=commit)
    except RevisionNotFoundError as error:
        refs = hub.list_repo_refs(repository, repo_type=repo_type)
        names = [ref.name for ref in (*refs.branches, *refs.tags)]
        raise BenchmarkError(
            f"'{repository}' has no revision '{revision}'{did_you_mean(revision, names)}"
        ) from error
    except Exception as error:  # the libraries below raise dozens of classes, some undocumented
        raise BenchmarkError(hub_advice(error, repository, revision, kind)) from error
    if kind == "models":
        check_weights(files, f"'{repository}'")
    return commit


def read_commit(path: Path, repository: str, revision: str) -> str:
    """Return the commit that `resolve_commit` recorded in a file.

    Raises:
        BenchmarkError: the file cannot be read, or is of another repository or revision.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        origin, commit = (record["repository"], record["revision"]), record["commit"]
        if origin == (repository, revision) and COMMIT.fullmatch(commit):
            return str(commit)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise BenchmarkError(f"{path}: is not a record of a commit: {error}") from error
    raise BenchmarkError(
        f"{path}: states no commit of '{repository}' at revision '{revision}'; delete the file and "
        "run the workflow again"
    )


def download(repository: str, revision: str, weights: bool) -> Path:
    """Download the files that a model is loaded from; return their folder in the local cache.

    The folder is named after the commit; cached files are not downloaded again.

    Raises:
        Exception: any error of the hub's client library, for :func:`hub_advice`.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    if not sys.stderr.isatty():  # a log file is no place for them
        disable_progress_bars()
    patterns = [*SMALL_FILES, WEIGHTS] if weights else [*SMALL_FILES]
    folder = snapshot_download(
        repository, revision=revision, allow_patterns=patterns, ignore_patterns=[*COPIES]
    )
    return Path(folder)


def files_of_model(repository: str, folder: Path) -> list[str]:
    """Return the files of a model's repository at the commit of its folder in the local cache."""
    from huggingface_hub import get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    try:
        return [file.path for file in get_cached_repo_tree(repository, revision=folder.name)]
    except CachedRepoTreeNotFoundError:  # downloaded file by file
        return [path.name for path in folder.iterdir()]


def check_weights(files: Iterable[str], where: str) -> None:
    """Check that a model has weights as safetensors, which cannot run code when read.

    Raises:
        BenchmarkError: the model has no weights, pickled ones only, or an adapter.
    """
    names = sorted(files)
    if ADAPTER in names:
        raise BenchmarkError(f"{where} holds {ADAPTER}; merge the adapter into its model")
    pickled = [name for name in names if name.endswith(PICKLED)]
    if any(name.endswith(".safetensors") for name in names):
        return
    if pickled:
        raise BenchmarkError(
            f"{where} has no weights as safetensors, only pickled ones ({pickled[0]}), which may "
            "run code when they are read and are never loaded; choose a repository or a revision "
            "with safetensors"
        )
    listing = ", ".join(names) or "nothing"
    raise BenchmarkError(f"{where} has no weights as safetensors; it holds {listing}")


def hub_advice(error: BaseException, repository: str, revision: str, kind: str) -> str:
    """Explain in one sentence why a hub repository cannot be read and how to fix it.

    `kind` is `models` or `datasets`; the causes of `error` are also searched.
    """
    chain = list(_causes(error))
    names = {base.__name__ for cause in chain for base in type(cause).__mro__}
    statuses = {status for cause in chain if (status := _http_status(cause)) is not None}
    messages = " ".join(map(str, chain))
    site = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    page = f"{site}/{'datasets/' if kind == 'datasets' else ''}{repository}"
    if "GatedRepoError" in names or 403 in statuses or "gated dataset" in messages:
        closed = "gated or closed to the account of your token" if _has_token() else "gated"
        return (
            f"'{repository}' is {closed}: ask for access at {page}, "
            "then run `hf auth login` or set HF_TOKEN"
        )
    if "RevisionNotFoundError" in names:
        return f"'{repository}' has no revision '{revision}': check `revision`"
    if statuses & {401, 404} or names & {"RepositoryNotFoundError", "DatasetNotFoundError"}:
        if 401 in statuses and _has_token():
            return (
                f"the hub refuses your token, or '{repository}' does not exist: run "
                f"`hf auth login` or set HF_TOKEN again, and check the name at {page}"
            )
        return (
            f"'{repository}' does not exist on the hub or is private: check the name at {page}; "
            "for a private repository run `hf auth login`"
        )
    if statuses:
        return f"the hub answered '{repository}' with HTTP {max(statuses)}: try again later"
    if names & set(BROKEN_OFF) or "Consistency check failed" in messages:
        return (
            f"the download of '{repository}' broke off: call the same command again, which keeps "
            "the files that have arrived whole"
        )
    if names & set(NETWORK_ERRORS):
        return (
            f"'{repository}' is not in the local cache, or not all of it, and the hub cannot be "
            "reached: run `make fetch` where there is a network, or set HF_HOME to a cache that "
            "holds it"
        )
    if "Dataset scripts are no longer supported" in messages:
        return (
            f"'{repository}' is made by a program of its own, which is never run: choose a "
            "repository or a revision of data files, such as `refs/convert/parquet`"
        )
    return f"'{repository}' cannot be loaded: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """Return the first informative line of an error's message, or its class if there is none.

    A line that ends with a colon is joined with the next; a missing key is described.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, KeyError):
        return f"no entry {error}"
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1]}"
    return lines[0] if lines else type(error).__name__


def _has_token() -> bool:
    from huggingface_hub import get_token

    return get_token() is not None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _http_status(error: BaseException) -> int | None:
    """Return the HTTP status of an error's response, if it has one that signals failure."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) and status >= 400 else None
