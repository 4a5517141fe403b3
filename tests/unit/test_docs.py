"""The site builds without warnings, loads nothing from the network, and its examples work."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
import yaml
from mkdocs.exceptions import PluginError
from snakemake.utils import update_config

import pisoft
from helpers.browser import chromium, visit
from pisoft.attribution import available_methods, load_method
from pisoft.config.jobs.training import TrainJob
from pisoft.config.loading import load_run
from pisoft.config.validation import read_yaml

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
OTHERS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "config/README.md", "results/README.md")
READ = [*PAGES, *(ROOT / name for name in OTHERS)]
REMOTE = re.compile(r"\s*(?:\w+:)?//", re.I)
LOADED_BY_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s]+)""")
# Tags that load resources; links in `a` are followed by the reader.
LOADING = {"src", "srcset", "data", "poster", "background", "href", "xlink:href", "action"}
NOT_LOADED = {"a", "form"}
LINKS_NOT_LOADED = {"canonical", "prev", "next", "alternate"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a project's folder."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    finished = build(ROOT, folder)
    assert finished.returncode == 0, finished.stderr
    return folder


class Loaded(HTMLParser):
    """Collects the addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.addresses += LOADED_BY_STYLE.findall(given.get("style", ""))
        if tag in NOT_LOADED or given.get("rel") in LINKS_NOT_LOADED:
            return
        self.addresses += [value for key, value in given.items() if key in LOADING]


def loaded(path: Path) -> list[str]:
    """Return the addresses that a page or a style sheet loads."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return LOADED_BY_STYLE.findall(text)
    page = Loaded()
    page.feed(text)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", text, flags=re.S)
    return page.addresses + LOADED_BY_STYLE.findall("".join(styles))


def test_broken_links_and_unlisted_pages_stop_the_build(tmp_path: Path) -> None:
    links = ["gone.md", "tutorial/first-run.md#nowhere", "/tutorial/first-run.md"]
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for folder in ("scripts", "tools"):  # by formulas and the leaderboard
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "docs/left-out.md").write_text("# Not in the contents\n", encoding="utf-8")
    with (tmp_path / "docs/index.md").open("a", encoding="utf-8") as index:
        index.writelines(f"\n[planted]({link})\n" for link in links)
    finished = build(tmp_path, tmp_path / "site")
    assert finished.returncode == 1
    assert finished.stderr.count("WARNING") == 1 + len(links), finished.stderr
    assert all(name in finished.stderr for name in ["left-out.md", *links]), finished.stderr


def test_notebooks_show_output_and_results_and_stop_at_errors() -> None:
    hook = runpy.run_path(str(ROOT / "docs/notebooks.py"))["on_page_markdown"]
    page = SimpleNamespace(meta={"notebook": True}, file=SimpleNamespace(src_uri="page.md"))
    blocks = "```python\nx = 2\nprint('two')\n```\n\ntext\n\n```python\nx + 1\n```\n"
    ran = hook(blocks, page)
    assert re.findall(r"```text\n(.*?)```", ran, flags=re.S) == ["two\n", "3\n"]
    with pytest.raises(PluginError, match=r"page\.md: .*ZeroDivisionError"):
        hook("```python\n1 / 0\n```\n", page)
    page.meta = {}
    assert hook(blocks, page) == blocks


def test_the_notebook_page_shows_its_output(site: Path) -> None:
    text = (site / "tutorial/metrics-by-hand.html").read_text(encoding="utf-8")
    assert re.search(r"NS = 0\.\d{4}, NC = 0\.\d{4}", text)
    assert text.count("<svg xmlns:xlink") == 1


def test_pages_load_only_files_of_the_site_and_formulas_are_mathml(site: Path) -> None:
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(files) > len(PAGES)
    files.remove(site / "404.html")  # shown by servers at any address
    for path in files:
        assert 'class="arithmatex"' not in path.read_text(encoding="utf-8"), path
        for address in loaded(path):
            assert not REMOTE.match(address), f"{path}: {address}"
            file = path.parent / unquote(re.split("[?#]", address)[0])
            assert address.startswith("data:") or file.exists(), f"{path}: {address}"


@pytest.mark.parametrize("tag", ["<script src=//a.b/c>", "<img src='https://a.b/c'>"])
def test_loaded_addresses_are_found(tmp_path: Path, tag: str) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<a href='https://a.b'>x</a>{tag}<style>@import 'http://a.b/c'</style>")
    assert len([address for address in loaded(page) if REMOTE.match(address)]) == 2


def test_pages_open_from_disk_and_load_only_files(site: Path) -> None:
    """Pages of a folder run the same scripts."""
    pages = {page.parent: page.relative_to(ROOT / "docs").with_suffix(".html") for page in PAGES}
    with chromium() as browser:
        visits = [visit(browser, site / page) for page in pages.values()]
        visits[-1].page.wait_for_load_state("networkidle")
        for opened in visits:  # the first ones have had time to load more
            opened.assert_silent_and_offline()


def test_the_search_works_from_disk(site: Path) -> None:
    with chromium() as browser:
        opened = visit(browser, site / "reference/metrics.html")
        assert opened.page.locator("math").count() > 10
        opened.page.wait_for_load_state("networkidle")
        opened.page.locator(".md-search__input").press_sequentially("padding token", delay=50)
        result_link = '.md-search-result__link[href*="use-from-python"]'
        opened.page.wait_for_selector(result_link, state="attached")
        opened.assert_silent_and_offline()


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Yield page and text of every code block in a language."""
    for path in READ:
        text = path.read_text(encoding="utf-8")
        for block in re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.S | re.M):
            yield name(path), block


RUN_FILES = [(page, block) for page, block in blocks("yaml") if re.search(r"^run:", block, re.M)]


@pytest.mark.parametrize(("page", "block"), RUN_FILES, ids=[page for page, _ in RUN_FILES])
def test_run_files_in_the_docs_are_valid(page: str, block: str, tmp_path: Path) -> None:
    (tmp_path / "headlines.csv").write_text("id,headline,topic\n", encoding="utf-8")
    raw = {"local_root": str(tmp_path), **yaml.safe_load(block)}
    config = load_run(raw, [], ROOT / "config", load_method)
    assert config.cells()


def test_run_files_in_the_docs_are_collected() -> None:
    pages = {Path(page).stem for page, _ in RUN_FILES}
    assert pages >= {"first-run", "add-a-dataset", "add-a-model", "configuration"}


def test_the_inseq_method_in_the_docs_is_a_valid_entry() -> None:
    (entry,) = (block for page, block in blocks("yaml") if page.endswith("add-a-method.md"))
    raw = {
        "run": "docs", "models": ["demo-llama"], "datasets": ["demo-sentiment", "demo-why"],
        "methods": ["seq_ig"], "catalogue": {"methods": yaml.safe_load(entry)},
    }  # fmt: skip
    assert "seq_ig" in load_run(raw, [], ROOT / "config", load_method).methods


def test_imported_scores_in_the_docs_keep_the_demos_models() -> None:
    (entry, *_) = (block for page, block in blocks("yaml") if "bring-your-own" in page)
    raw = read_yaml(ROOT / "config/config.yaml")
    before = load_run(raw, [], ROOT / "config", load_method)
    update_config(raw, yaml.safe_load(entry))
    after = load_run(raw, [], ROOT / "config", load_method)
    assert {*after.methods_of("demo-llama")} - {*before.methods} == {"my_scores"}
    for model in before.models:
        assert TrainJob.from_config(before, model=model) == TrainJob.from_config(after, model=model)


def test_the_table_in_the_docs_equals_its_module() -> None:
    (module,) = (block for page, block in blocks("python") if "add-a-table" in page)
    tables = ROOT / "scripts/pisoft/tables/permutation_baseline.py"
    assert module in tables.read_text(encoding="utf-8")


def test_the_workflow_in_the_docs_that_imports_this_one_is_planned(tmp_path: Path) -> None:
    ((_, outer),) = [pair for pair in blocks("python") if "from-another-folder" in pair[0]]
    (run_file,) = (block for page, block in RUN_FILES if page.endswith("first-run.md"))
    (tmp_path / "Snakefile").write_text(outer.replace("BENCH", str(ROOT)), encoding="utf-8")
    (tmp_path / "my-study.yaml").write_text(run_file, encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--dry-run"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    shown = finished.stdout + finished.stderr
    assert finished.returncode == 0, shown
    assert "pisoft_evaluate_soft" in shown


@pytest.mark.parametrize("path", READ[len(PAGES) :], ids=name)
def test_links_in_files_outside_the_site_lead_to_files(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert REMOTE.match(link) or (path.parent / link).exists(), link


def test_every_method_is_documented() -> None:
    text = (ROOT / "docs/reference/methods.md").read_text(encoding="utf-8")
    described = re.findall(r"^\| `(\w+)` \|", text, flags=re.M)
    assert sorted(described) == sorted(available_methods())


def test_the_changelogs_newest_version_is_the_packages() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", changes, re.M)[0]
    assert newest == pisoft.__version__
    assert f"\nversion: {newest}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
