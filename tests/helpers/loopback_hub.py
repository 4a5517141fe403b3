"""A minimal Hugging Face hub on loopback: only the endpoints that the client libraries call."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

GOOD_TOKEN, STRANGER = "hf_good", "hf_stranger"  # tokens of accounts with and without access
API = re.compile(r"/api/(models|datasets)/(\w+/[\w-]+)(?:/(refs|auth-check|[\w-]+/.*))?")
FILE = re.compile(r"/(datasets/)?(\w+/[\w-]+)/resolve/([^/]+)/(.+)")


@dataclass
class Repository:
    """A repository of the hub; `main` is its latest commit."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    cut: int | None = None  # bytes of weights or data after which a download breaks off
    status: int | None = None  # HTTP status of every response

    def commit(self, files: Mapping[str, bytes]) -> str:
        """Add a commit, move `main` to it, and return its hash."""
        digest = hashlib.sha1(repr((sorted(files.items()), len(self.commits))).encode()).hexdigest()
        self.commits[digest] = dict(files)
        self.refs["main"] = digest
        return digest


@dataclass
class Hub:
    """The hub's address, its repositories by kind and name, and the requests it received."""

    address: str
    repositories: dict[tuple[str, str], Repository] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # method and path

    def add(
        self, name: str, files: Mapping[str, bytes], kind: str = "models", **facts: Any
    ) -> Repository:
        """Add a repository of one commit."""
        repository = self.repositories[kind, name] = Repository(**facts)
        repository.commit(files)
        return repository


@contextmanager
def loopback_hub() -> Iterator[Hub]:
    """Serve a hub, empty at first, within a `with` block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.hub = hub = Hub(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length).decode()
        hub: Hub = self.server.hub  # type: ignore[attr-defined]
        hub.asked.append(f"{self.command} {self.path}")
        path = unquote(self.path.partition("?")[0])
        if match := API.fullmatch(path):
            kind, name, rest = match[1], match[2], match[3] or "revision/main"
            repository = self._repository(hub, kind, name, closed=rest == "auth-check")
            if repository is not None:
                self._answer_api(repository, name, rest, body)
        elif match := FILE.fullmatch(path):
            kind = "datasets" if match[1] else "models"
            repository = self._repository(hub, kind, match[2], closed=True)
            if repository is not None:
                self._answer_file(repository, match[3], match[4])
        else:
            self._refuse(404, "RepoNotFound")

    do_HEAD = do_POST = do_GET

    def _repository(self, hub: Hub, kind: str, name: str, closed: bool) -> Repository | None:
        """Return a repository; send an error if it is missing or the token has no access."""
        repository = hub.repositories.get((kind, name))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in ("", GOOD_TOKEN, STRANGER):
            self._refuse(401, None, "Invalid credentials in Authorization header")
        elif repository is None:
            self._refuse(404 if token else 401, "RepoNotFound")
        elif repository.status is not None:
            self._refuse(repository.status, None)
        elif repository.gated and closed and token != GOOD_TOKEN:
            self._refuse(403 if token else 401, "GatedRepo")
        else:
            return repository
        return None

    def _answer_api(self, repository: Repository, name: str, rest: str, body: str) -> None:
        action, _, place = rest.partition("/")
        if action == "auth-check":
            return self._send({})
        if action == "refs":
            branches = [
                {"name": ref, "ref": f"refs/heads/{ref}", "targetCommit": commit}
                for ref, commit in repository.refs.items()
            ]
            return self._send({"branches": branches, "tags": [], "converts": []})
        revision, _, folder = place.partition("/")
        commit = repository.refs.get(revision, revision)
        if commit not in repository.commits:
            return self._refuse(404, "RevisionNotFound")
        files = repository.commits[commit]
        listed = [
            {"type": "file", "path": path, "size": len(held), "oid": _etag(held)}
            for path, held in files.items()
        ]
        if action == "tree":
            inside = [file for file in listed if not folder or file["path"].startswith(folder)]
            return self._send(inside) if inside else self._refuse(404, "EntryNotFound")
        if action == "paths-info":
            return self._send([file for file in listed if str(file["path"]) in unquote(body)])
        siblings = [{"rfilename": path} for path in files]
        gated = "manual" if repository.gated else False
        return self._send({"id": name, "sha": commit, "siblings": siblings, "gated": gated})

    def _answer_file(self, repository: Repository, revision: str, path: str) -> None:
        commit = repository.refs.get(revision, revision)
        if commit not in repository.commits:
            return self._refuse(404, "RevisionNotFound")
        held = repository.commits[commit].get(path)
        if held is None:
            return self._refuse(404, "EntryNotFound", commit=commit)
        begin = int(re.sub(r"bytes=(\d+)-.*", r"\1", self.headers.get("Range", "bytes=0-")))
        self.send_response(206 if begin else 200)
        self.send_header("ETag", f'"{_etag(held)}"')
        self.send_header("X-Repo-Commit", commit)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(held) - begin))
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(held) - 1}/{len(held)}")
        self.end_headers()
        if self.command == "HEAD":
            return None
        if repository.cut is not None and path.endswith((".safetensors", ".csv")):
            self.wfile.write(held[begin : repository.cut])
            self.close_connection = True
            return None
        self.wfile.write(held[begin:])
        return None

    def _send(self, answer: Any) -> None:
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def _refuse(self, status: int, code: str | None, message: str = "", commit: str = "") -> None:
        self.send_response(status)
        for name, value in (
            ("X-Error-Code", code),
            ("X-Error-Message", message),
            ("X-Repo-Commit", commit),
        ):
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Keep the tests' output quiet."""


def _etag(held: bytes) -> str:
    return hashlib.sha1(held).hexdigest()
