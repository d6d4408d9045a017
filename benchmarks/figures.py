"""Every figure of the documents, and the command that draws it.

    python -m benchmarks.figures                 # list them
    python -m benchmarks.figures --pages         # draw those that pages draw themselves: README, index, tutorials
    python -m benchmarks.figures --pages jax     # only pages with this in their name
    python -m benchmarks.figures --run stuck     # run the commands of figures with this in their name

A page draws a figure where its code says `figure = ...` before the picture. The other commands take minutes to hours.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import io
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"

PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md")))
"""Pages whose own code draws their pictures."""

COPY = "cp {folder}/figures/{{name}} docs/figures/"
HERE, MNIST = (COPY.format(folder=f"results/{name}") for name in ("reproduce", "mnist"))
COMMANDS = {
    "compare-*": f"unsaddle compare --out results/reproduce && {HERE}",
    "complexity-*": f"unsaddle complexity --out results/reproduce && {HERE}",
    "edge-of-stability.svg": "python -m benchmarks.monitor --threads 1 --figure docs/figures/edge-of-stability.svg",
    "methods.png": "python -m benchmarks.methods --seeds 2 --threads 1 --extractors neon+ "
    '--only chain --only "noisy chain" --only "noisy phases" --methods "neon-scsg, neon+ inside" '
    '--methods "neon-svrg, neon+ inside" --methods "neon-sgd, neon+ inside" --methods "noisy-sgd tuned" '
    '--methods "sgld tuned" --methods svrg-hessian --methods scsg --figure docs/figures/methods.png',
    "molecules-modes.png": "python -m benchmarks.ase_figure",
    "molecules-*": "python -m benchmarks.ase_saddles --only molecules --out out/ase.jsonl && "
    "python -m benchmarks.ase_figure --rows out/ase.jsonl",
    "reproduce-gisette-*": f"unsaddle reproduce --data mnist.npz --as gisette --out results/mnist && {MNIST}",
    "reproduce-*": f"unsaddle reproduce --out results/reproduce && {HERE}",
    "spectrum-layers.svg": "python -m benchmarks.spectrum --figure docs/figures/spectrum-layers.svg",
    "stuck.svg": "python -m benchmarks.stuck --figure docs/figures/stuck.svg",
}
"""Commands by the names of the figures that they draw. The first pattern that fits counts."""

PICTURE = re.compile(r"!\[[^\]]*\]\((?P<path>[^)]*figures/(?P<name>[\w.-]+))\)")


def used() -> dict[str, list[Path]]:
    """Figures that documents show, and which of them."""
    shown: dict[str, list[Path]] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for match in PICTURE.finditer(page.read_text()):
            shown.setdefault(match["name"], []).append(page)
    return shown


def drawn_by_page(page: Path) -> Iterator[tuple[str, Any]]:
    """Run the page's examples in order; yield each picture's name with what `figure` is at that place."""
    text, names = page.read_text(), dict[str, Any]()
    doctest.register_optionflag("NUMBER")  # pytest's own.
    parser, position = doctest.DocTestParser(), 0
    for match in PICTURE.finditer(text):
        for example in parser.get_examples(text[position : match.start()]):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(example.source, str(page), "single"), names)
        position = match.end()
        if "figure" not in names:
            raise ValueError(f"{page}: no code before {match['name']} says figure = ...")
        yield match["name"], names["figure"]


def draw(page: Path) -> None:
    """Draw all figures of a page into docs/figures."""
    from unsaddle.pictures import journal

    for name, figure in drawn_by_page(page):
        with journal():
            figure.savefig(FIGURES / name, metadata={"Date": None} if name.endswith("svg") else None)
        print(f"docs/figures/{name}  {page.relative_to(ROOT)}", flush=True)


def command(name: str) -> str | None:
    """The command that draws a figure; None if a page does."""
    from fnmatch import fnmatchcase

    return next((c.format(name=name) for pattern, c in COMMANDS.items() if fnmatchcase(name, pattern)), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", nargs="?", const="", help="draw the figures of pages with this in their name")
    parser.add_argument("--run", nargs="?", const="", help="run the commands of figures with this in their name")
    options = parser.parse_args()
    if options.pages is not None:
        for page in PAGES:
            if options.pages in page.stem and PICTURE.search(page.read_text()):
                draw(page)
    elif options.run is not None:
        for line in dict.fromkeys(c for name in used() if options.run in name and (c := command(name))):
            print(line, flush=True)
            subprocess.run(line, shell=True, check=True, cwd=ROOT)
    else:
        for name, pages in sorted(used().items()):
            print(f"{name:34} {command(name) or f'python -m benchmarks.figures --pages {pages[0].stem}'}")


if __name__ == "__main__":
    main()
