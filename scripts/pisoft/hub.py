"""What went wrong between here and the Hugging Face hub, in words that say what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator

NETWORK_ERRORS = (  # class names, because three HTTP libraries may be the one that complains
    "LocalEntryNotFoundError",
    "OfflineModeIsEnabled",
    "ConnectionError",
    "ConnectError",
    "ConnectTimeout",
    "ReadTimeout",
    "ProxyError",
)


def hub_advice(error: BaseException, repository: str, revision: str, kind: str) -> str:
    """Say why a hub repository cannot be read and what to do about it, in one sentence.

    Args:
        error: what the hub's client libraries raised; its causes are searched too.
        repository: hub repository, `owner/name`.
        revision: branch, tag or commit that was asked for.
        kind: "models" or "datasets".
    """
    chain = list(_causes(error))
    names = {base.__name__ for cause in chain for base in type(cause).__mro__}
    statuses = {status for cause in chain if (status := _http_status(cause)) is not None}
    site = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    page = f"{site}/{'datasets/' if kind == 'datasets' else ''}{repository}"
    if "GatedRepoError" in names or 403 in statuses or "gated dataset" in str(error):
        return (
            f"'{repository}' is gated or closed to you: ask for access at {page}, "
            "then run `hf auth login`"
        )
    if "RevisionNotFoundError" in names:
        return f"'{repository}' has no revision '{revision}': check `revision`"
    if statuses & {401, 404} or names & {"RepositoryNotFoundError", "DatasetNotFoundError"}:
        return (
            f"'{repository}' does not exist on the hub or is private: check the name at {page}; "
            "for a private repository run `hf auth login`"
        )
    if statuses:
        return f"the hub answered '{repository}' with HTTP {max(statuses)}: try again later"
    if names & set(NETWORK_ERRORS):
        return (
            f"'{repository}' is not in the local cache and the hub cannot be reached: connect to "
            "the network, or set HF_HOME to a cache that holds it"
        )
    return f"'{repository}' cannot be loaded: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """Return the first non-empty line of an error's message, or its class if it has none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Iterate over an error and everything that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _http_status(error: BaseException) -> int | None:
    """Return the HTTP status of an error that carries a response, if it is a failure."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) and status >= 400 else None
