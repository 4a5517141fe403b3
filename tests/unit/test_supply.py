"""Supply chain: `make env` by hash, torch builds, `make audit`, `make licences`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import list_licences
from pisoft.errors import BenchmarkError

ROOT = Path(__file__).parents[2]
NOT_PIP = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}


def add_wheel(index: Path, name: str, version: str) -> str:
    """Write an empty package into an index and return its line of a lock."""
    path = index / name / f"{name}-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
        }.items():
            wheel.writestr(f"{about}/{file}", text)
    (path.parent / "index.html").write_text(f'<a href="{path.name}">{path.name}</a>', "utf-8")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{name}=={version} \\\n    --hash=sha256:{digest}\n"


class Clone:
    """A folder with the Makefile and empty packages on local indexes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines = [
            add_wheel(folder / "pypi", *pin) for pin in (("torch", "2.13.0"), ("small", "1.0"))
        ]
        add_wheel(folder / "builds/cu128", "torch", "2.13.0+cu128")
        (folder / "requirements.lock").write_text("".join(self.lines), encoding="utf-8")
        for name in ("Makefile", "pyproject.toml"):
            shutil.copyfile(ROOT / name, folder / name)

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `make env` there, without access to any other index."""
        places = {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": (self.folder / "pypi").as_uri(),
            "TORCH_INDEX": (self.folder / "builds").as_uri(),
            "GPU": "0",  # a name also used elsewhere
            "MAKEFLAGS": "",  # `make test-all` passes its variables on
        }
        return subprocess.run(
            ["make", "env", f"PYTHON={sys.executable}", *arguments],
            cwd=self.folder, env={**NOT_PIP, **places}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def installed(self) -> set[str]:
        """Return names and versions of the environment's packages."""
        folder = self.folder / ".venv/lib"
        names = {path.name.removesuffix(".dist-info") for path in folder.rglob("*.dist-info")}
        return {name for name in names if not name.startswith(("pip-", "setuptools-"))}


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


@pytest.mark.slow
def test_an_environment_keeps_its_torch_build_until_another_is_chosen(clone: Clone) -> None:
    for arguments, torch in (
        (["GPU=cu128"], "torch-2.13.0+cu128"),
        ([], "torch-2.13.0+cu128"),
        (["GPU=pypi"], "torch-2.13.0"),
    ):
        finished = clone.make(*arguments)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        assert clone.installed() == {torch, "small-1.0"}
        assert ("Installing into .venv" in finished.stdout) == bool(arguments)
        assert "Successfully installed" not in finished.stdout, "pip writes to a log"
    (importable,) = (clone.folder / ".venv/lib").rglob("pisoft.pth")
    assert importable.read_text(encoding="utf-8") == f"{clone.folder}/scripts\n"


@pytest.mark.slow
@pytest.mark.parametrize(("changed", "options"), [(1, []), (0, ["GPU=pypi"])])
def test_a_file_with_another_hash_is_refused(
    clone: Clone, changed: int, options: list[str]
) -> None:
    name = ("torch", "small")[changed]
    path = next((clone.folder / "pypi" / name).glob("*.whl"))
    with zipfile.ZipFile(path, "a") as wheel:
        wheel.writestr(f"{name}.py", "import os")
    finished = clone.make(*options)
    assert finished.returncode != 0
    assert "DO NOT MATCH THE HASHES" in finished.stderr
    assert not clone.installed() & {"small-1.0", "torch-2.13.0"}
    assert not list((clone.folder / ".venv").glob(".installed*"))


@pytest.mark.slow
def test_an_audit_without_access_to_the_service_fails_with_a_message(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/bin").symlink_to(Path(sys.executable).parent)
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / ".venv/.installed").touch()
    finished = subprocess.run(
        ["make", "audit"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**NOT_PIP, "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "", "MAKEFLAGS": ""},
    )  # fmt: skip
    assert finished.returncode != 0
    assert "Connection refused" in finished.stderr
    assert "error: not audited; the line above says why" in finished.stderr
    assert "No known vulnerabilities" not in finished.stdout + finished.stderr


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("Apache-2.0 WITH LLVM-exception AND BSL-1.0", True),
        ("GPL-3.0-only OR MIT", True),
        ("BSD-3-Clause-Clear", False),
        ("MIT AND (BSD-3-Clause OR LGPL-2.1-only)", True),
        ("MIT AND LGPL-2.1-only", False),
        ("GNU Affero General Public License v3", False),
        ("LicenseRef-NVIDIA-Proprietary", False),
        ("Python Software Foundation License", True),
        ("MITRE", False),
        ("", False),
    ],
)
def test_a_combined_licence_is_allowed_if_all_its_parts_are(text: str, allowed: bool) -> None:
    assert list_licences.is_allowed(text) == allowed


def test_packages_with_refused_or_unknown_licences_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(
        "# made by hand\nfree==1.0 \\\n    --hash=sha256:0\nbound==2.0 \\\n    --hash=sha256:0\n"
        "silent==3.0 \\\n    --hash=sha256:0\nabsent==4.0 \\\n    --hash=sha256:0\n"
        "windows==5.0 ; sys_platform == 'win32' \\\n    --hash=sha256:0\n"
        "nvidia-x==6.0 ; sys_platform == 'linux' \\\n    --hash=sha256:0\n",
        encoding="utf-8",
    )
    osi = "License :: OSI Approved :: "
    packages = {
        "free": {"Classifier": f"{osi}MIT License", "License": "the whole text"},
        "bound": {"License-Expression": "AGPL-3.0-only", "Classifier": f"{osi}MIT License"},
        "silent": {"License": "UNKNOWN", "Classifier": "Operating System :: POSIX"},
        "nvidia-x": {"License-Expression": "LicenseRef-NVIDIA-Proprietary"},
    }

    def metadata_of(name: str) -> Message:
        if name not in packages:
            raise PackageNotFoundError(name)
        message = Message()
        for key, value in packages[name].items():
            message[key] = value
        return message

    monkeypatch.setattr(list_licences, "metadata", metadata_of)
    with pytest.raises(BenchmarkError) as refused:
        list_licences.main(list_licences.parser().parse_args(["--lock", str(lock)]))
    assert str(refused.value).endswith(
        "does not allow: bound (AGPL-3.0-only), silent (no licence is named), "
        "absent (no licence is named)"
    )
    table = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert table == [
        ["free", "1.0", "MIT License"],
        ["bound", "2.0", "AGPL-3.0-only"],
        ["silent", "3.0", "none"],
        ["absent", "4.0", "none"],
        ["windows", "5.0", "not installed here"],
        ["nvidia-x", "6.0", "LicenseRef-NVIDIA-Proprietary"],
    ]


def test_every_locked_package_has_an_allowed_licence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    list_licences.main(
        list_licences.parser().parse_args(["--lock", str(ROOT / "requirements.lock")])
    )
    table = capsys.readouterr().out
    assert "torch " in table
    assert "codespell " in table
