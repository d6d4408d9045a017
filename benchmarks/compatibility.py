"""Packages of others, at the oldest versions that pyproject.toml allows and at the newest: do the tests pass with them?

Four environments: the one that this runs in, all packages at their newest, all but JAX at their oldest, JAX at its
oldest (with a newer NumPy). Each has this Python and torch from constraints.txt. The tests of each package run there,
on these sources. Environments that are made share torch and pytest, and are thrown away. Warnings are no errors: they
are those of other times.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.environment import ROOT, Report, options, table

TESTS = {
    "numpy": ("tests/objectives/test_numpy_function.py", "tests/test_checks.py"),
    "scipy": ("tests/interop/scipy/test_promotion.py", "tests/interop/scipy/test_linear_operator.py"),
    "ase": ("tests/interop/ase/test_minimum.py", "tests/interop/ase/test_optimizer.py"),
    "jax": ("tests/interop/test_jax.py",),
    "lightning": ("tests/interop/test_trainers.py::lightning",),
    "transformers": ("tests/interop/test_trainers.py::hugging", "tests/interop/test_trainers.py::accelerate"),
    "typer": ("tests/commands/test_check.py", "tests/commands/test_compare.py"),
    "matplotlib": ("tests/measure/test_where.py",),
}
"""The tests of each package: files, and behind :: a word in the test's name."""

BESIDE = ("accelerate", "tensorboard", "rich", "scikit-learn")
"""What these tests need, too."""

HERE = "this one"
"""The environment that is there."""

SHARED = ("torch", "pytest", "hypothesis")


def bounds() -> dict[str, str]:
    """The oldest version of each package that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    found = (re.match(r"([a-z-]+)>=([0-9.]+)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def environments() -> dict[str, list[str]]:
    """What pip is asked for."""
    oldest = {name: f"{name}=={version}" for name, version in bounds().items()}
    return {
        HERE: list(TESTS),
        "oldest": [oldest[name] for name in (*TESTS, *BESIDE) if name != "jax"],
        "oldest JAX": [oldest["jax"]],
        "newest": [*TESTS, *BESIDE],
    }


def make(folder: Path, packages: list[str], below: Path | None = None) -> Path:
    """Make an environment with these packages, which sees those of the one below, too; its interpreter."""
    venv.create(folder, with_pip=True)
    if below is not None:
        (_site(folder) / "below.pth").write_text(f"{_site(below)}\n")
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-qqq", "--no-compile", "-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, *packages], cwd=folder, check=True, env=_settings())
    return python


def _site(folder: Path) -> Path:
    return next((folder / "lib").glob("python*/site-packages"))


def _settings(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more


def versions(python: Path) -> dict[str, str]:
    """What pip has chosen, by name."""
    asked = "import importlib.metadata as m; print(*(f'{d.name.lower()}=={d.version}' for d in m.distributions()))"
    told = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True, env=_settings()).stdout
    return dict(word.split("==") for word in told.split())


def tested(python: Path, names: list[str], folder: Path) -> dict[str, Counter[str]]:
    """Runs the tests of these packages; how many of each passed, failed, or were skipped."""
    files = sorted({test.partition("::")[0] for name in names for test in TESTS[name]})
    words = ["-q", "-p", "no:cacheprovider", "-m", "not study", "-o", "filterwarnings=default"]
    words += ["-o", "addopts=--import-mode=importlib", f"--junit-xml={folder / 'told.xml'}", *files]
    done = subprocess.run(
        [python, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True, env=_settings(PYTHONPATH="src")
    )
    counts = {name: Counter[str]() for name in names}
    if not (folder / "told.xml").exists():
        print(done.stdout[-2000:], done.stderr[-2000:])
        return counts
    for case in ElementTree.parse(folder / "told.xml").iter("testcase"):
        ended = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        title = f"{case.get('classname')}.{case.get('name')}"
        if ended in ("failure", "error"):
            print(f"  {title}: {ended}", flush=True)
        for name in names:
            for test in TESTS[name]:
                file, _, word = test.partition("::")
                if title.startswith(file.removesuffix(".py").replace("/", ".")) and word in title:
                    counts[name][ended] += 1
    return counts


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--only", nargs="+", choices=environments(), default=list(environments()))
    args = parser.parse_args()
    report, lines, bad = Report.begin("compatibility", args), [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.only != [HERE]:
            make(folder / "shared", list(SHARED))
        for title in args.only:
            packages = environments()[title]
            python = Path(sys.executable)
            if title != HERE:
                python = make(folder / title.replace(" ", "_"), packages, folder / "shared")
            chosen = versions(python)
            names = [n for n in TESTS if n in {re.split("==", package)[0] for package in packages}]
            for package, counts in tested(python, names, folder).items():
                bad += not counts["passed"] or bool(counts["failure"] + counts["error"])
                told = ", ".join(f"{count} {ended}" for ended, count in sorted(counts.items())) or "none ran"
                lines.append([title, package, chosen[package], chosen["numpy"], told])
                print("  " + "  ".join(lines[-1]), flush=True)
                report.row(settings={"environment": title, "package": package}, status=told, versions=chosen)
    here = ".".join(map(str, sys.version_info[:3]))
    heads = ["", "package", "version", "with NumPy", "tests"]
    table(f"Python {here}, {(ROOT / 'constraints.txt').read_text().split()[-1]}", heads, lines)
    report.want("packages with a test that failed, or with none that ran", bad, 0)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
