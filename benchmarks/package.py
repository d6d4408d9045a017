"""Installs each file of a folder, sdist or wheel, into an empty environment, and asks for a verdict there.

    python -m benchmarks.package dist

torch comes from constraints.txt. The environment is thrown away.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]

SMOKE = """
import torch, unsaddle
f = unsaddle.Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
verdict = unsaddle.is_minimum(f, torch.zeros(2, dtype=torch.float64))
assert verdict.kind == "saddle", verdict
print(unsaddle.__version__, repr(verdict))
"""

CHECKED = """
import torch, unsaddle
objective = unsaddle.Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
x = torch.zeros(2, dtype=torch.float64)
"""


def attempt(package: Path, extra: str, folder: Path) -> None:
    """Install `package` with an extra, or none, into an environment of its own, and use it away from the sources."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", f"{package}{extra}"]
    subprocess.run(install, check=True, cwd=folder)
    subprocess.run([python, "-W", "error", "-c", SMOKE], check=True, cwd=folder)
    if extra:
        (folder / "mine.py").write_text(CHECKED)
        done = subprocess.run([python.parent / "unsaddle", "check", "mine.py"], cwd=folder)
        if done.returncode != 1 or not (folder / "results" / "check" / "index.html").exists():
            sys.exit(f"unsaddle check ended with {done.returncode}, expected 1 and a page")
    else:
        done = subprocess.run([python.parent / "unsaddle"], cwd=folder, capture_output=True, text=True)
        if "pip install 'unsaddle[cli]'" not in done.stderr:
            sys.exit(f"without typer, unsaddle must say what to install, got {done.stderr!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    packages = sorted(parser.parse_args().folder.resolve().glob("unsaddle-*"))
    if len(packages) != 2:
        sys.exit(f"expected one sdist and one wheel, got {[p.name for p in packages]}")
    for package, extra in zip(packages, ("[cli]", ""), strict=True):
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            attempt(package, extra, Path(folder))
        print(f"{package.name}{extra}: installs and answers ({time.perf_counter() - begun:.0f} s)")


if __name__ == "__main__":
    main()
