"""Documents name what is there: files, functions, tests, benchmarks."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import unsaddle
from benchmarks import figures
from tests.source import PACKAGE, ROOT, TESTS

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("*/*.md"), *ROOT.glob("docs/*/*.md")])
FOLDERS = (ROOT, PACKAGE, TESTS, ROOT / "docs", ROOT / "benchmarks")
"""What a path in a document may be relative to."""

PATH = re.compile(r"`([\w./-]+(?:\.(?:py|md|txt|toml)|/))(?:::(\w+))?`")
"""A file, a folder, or a test of a file, in backquotes."""
PAIR = re.compile(r"`([\w./-]+\.py)`((?:,? `[\w.*]+(?<!\.py)`)+)")
"""A file and, right after it, what it holds."""


def named(document: Path) -> str:
    """The document without what stands for a name that is yet to be chosen."""
    return re.sub(r"`[^`\n]*NAME[^`\n]*`", "", document.read_text())


def find(path: str) -> list[Path]:
    """Where it may be. A name without a folder may be in any, which the text around it tells."""
    there = [folder / path for folder in FOLDERS if (folder / path).exists()]
    return there or ([] if "/" in path else [*PACKAGE.rglob(path)])


def names(path: Path) -> set[str]:
    """What a file holds: functions, classes, constants, and `Class.member`."""

    def held(body: list[ast.stmt], prefix: str = "") -> set[str]:
        found = set()
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                found |= held(node.body, f"{prefix}{node.name}.")
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {prefix + target.id for target in targets if isinstance(target, ast.Name)}
        return found

    return held(ast.parse(path.read_text()).body)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_what_a_document_names_is_there(document: Path) -> None:
    text = named(document)
    gone = [path for path, _ in PATH.findall(text) if not find(path)]
    for path, name in [(path, name) for path, name in PATH.findall(text) if name] + [
        (path, name) for path, listed in PAIR.findall(text) for name in re.findall(r"[\w.*]+", listed)
    ]:
        if not any(fnmatchcase(held, name) for file in find(path) for held in names(file)):
            gone.append(f"{path} {name}")
    gone += [m for m in re.findall(r"python -m benchmarks\.(\w+)", text) if not find(f"benchmarks/{m}.py")]
    gone += [link for link in re.findall(r"\]\(([\w./-]+)\)", text) if not (document.parent / link).exists()]
    assert not gone, "correct these names, or take them out"


HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_link_to_a_heading_has_its_heading(document: Path) -> None:
    for path, anchor in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", document.read_text()):
        there = (document.parent / path).resolve() if path else document
        headings = HEADING.findall(there.read_text())
        anchors = [re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings]
        assert anchor in anchors, f"{document.name}: {path}#{anchor}"


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    listed = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text()))
    docs = ROOT / "docs"
    assert listed == {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}


def test_the_reference_has_every_public_name() -> None:
    shown = re.findall(r"^::: ([\w.]+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    assert set(unsaddle.__all__) <= {name.rpartition(".")[2] for name in shown}
    assert len(shown) == len(set(shown))


def test_every_figure_is_shown_and_has_a_command_that_draws_it() -> None:
    shown = figures.used()
    assert {path.name for path in figures.FIGURES.iterdir()} == set(shown)
    for name, pages in shown.items():
        known = figures.command(name) or set(pages) & set(figures.PAGES)
        assert known, f"{name}: add its command to benchmarks/figures.py"


def test_versions_agree() -> None:
    assert f"version: {unsaddle.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## \[{re.escape(unsaddle.__version__)}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_map_of_the_paper_names_what_holds_each_result() -> None:
    """Otherwise the test above would have nothing to look at there."""
    assert len(PAIR.findall((ROOT / "docs" / "paper_map.md").read_text())) > 25


MOST_WORDS = 10_000


def words_of_prose(text: str) -> int:
    """Words outside of code and tables.

    >>> words_of_prose("Two words\\n| a | table |\\n    code\\n```\\nmore code\\n```\\nand three more.\\n")
    5
    """
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in prose.splitlines() if not line.startswith(("    ", "|"))]
    return sum(bool(re.search(r"\w", word)) for line in lines for word in line.split())


def test_the_pages_are_short():
    pages = {path: words_of_prose(path.read_text()) for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")}
    assert len(pages) > 20
    assert sum(pages.values()) <= MOST_WORDS, sorted(pages.items(), key=lambda page: -page[1])[:5]
