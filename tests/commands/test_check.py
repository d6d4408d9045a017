"""`unsaddle check`: exit codes, what is printed, and the page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

import typer.testing

from unsaddle import cli

PLAIN = """
import torch, unsaddle
objective = unsaddle.Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
x = torch.tensor({x}, dtype=torch.float64)
"""

MODEL = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 3, bias=False), nn.Linear(3, 4, bias=False))
for p in model.parameters():
    nn.init.zeros_(p)
rows = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
data = torch.utils.data.TensorDataset(rows)
def loss(model, batch):
    return (model(batch[0]) - batch[0]).square().sum(1).mean()
"""


def check(path: Path, *options: Any) -> Any:
    arguments = ["check", str(path), "--out", str(path.parent / "page"), *map(str, options)]
    return typer.testing.CliRunner().invoke(cli.app(), arguments)


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(text: str) -> Path:
        (tmp_path / "mine.py").write_text(text)
        return tmp_path / "mine.py"

    return write


@pytest.mark.parametrize(
    ("x", "code", "head"),
    [
        ("[0.0, 2.0**0.5]", 0, "A minimum: no curvature below"),
        ("[0.0, 0.0]", 1, "A saddle. F falls by 0.75"),
        ("[0.3, 0.3]", 2, "Not stationary."),
        ("[float('nan'), 0.0]", 2, "Undecided."),
    ],
)
def test_the_exit_code_is_the_verdict(file: Any, x: str, code: int, head: str) -> None:
    answer = check(file(PLAIN.format(x=x)))
    assert answer.exit_code == code
    assert answer.stdout.startswith(head)
    assert "What to do:" in answer.stdout


def test_a_model_at_a_saddle_has_a_page_with_its_layers(file: Any, tmp_path: Path) -> None:
    answer = check(file(MODEL))
    assert answer.exit_code == 1
    assert re.search(r"lives in    \d\d% in [01].weight, \d\d% in [01].weight", answer.stdout)
    assert answer.stdout.splitlines()[-1] == f"The page: {tmp_path / 'page' / 'index.html'}"
    page = (tmp_path / "page" / "index.html").read_text()
    for words in ("A saddle.", "Where the direction lives", "0.weight", "1.weight", "What to do", "unsaddle.Neon("):
        assert words in page
    assert page.count("<img ") == 2
    assert (tmp_path / "page" / "figures" / "verdict.svg").exists()


def test_a_deep_network_at_zero_is_no_minimum(file: Any) -> None:
    deep = MODEL.replace("nn.Linear(3, 4, bias=False))", "nn.Linear(3, 3, bias=False), nn.Linear(3, 4))")
    result = check(file(deep.replace("data =", "rows -= rows.mean(0)\ndata =")))
    assert result.exit_code == 2
    assert "So x is no minimum" in re.sub(r"\s+", " ", result.output)
    assert "Nothing has to be left here" not in result.output


def test_where_no_lower_point_was_found_none_is_advised(file: Any) -> None:
    """−x² + |y| beside its kink: the negative curvature ends nowhere lower within reach."""
    kink = PLAIN.replace("x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4", "x[1].abs() - x[0] ** 2")
    output = re.sub(r"\s+", " ", check(file(kink.format(x="[1e-100, -2e-100]"))).output)
    assert "no lower point was found along it" in output
    assert "direction is lower" not in output


def test_it_says_that_it_runs_the_file(file: Any) -> None:
    assert "Running " in check(file(PLAIN.format(x="[0.0, 0.0]"))).stderr
    said = typer.testing.CliRunner().invoke(cli.app(), ["check", "--help"]).output
    assert "check only what you trust" in " ".join(said.replace("│", " ").split())


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        ("", (), "must have an objective, a function that makes one, or model, loss and data; it has no names"),
        ("x = [", (), "was never closed"),
        (PLAIN.format(x="[0.0, 0.0]"), ("--gamma", "-1"), "gamma must be"),
        (PLAIN.format(x="[0.0, 0.0]"), ("--checkpoint", "nowhere.pt"), "nowhere.pt: there is no such file"),
        ("def objective():\n    raise RuntimeError('of my own')", (), "failed: RuntimeError: of my own"),
        ("def objective():\n    raise ValueError('of my own')", (), ", in objective\n    raise ValueError"),
        (PLAIN.format(x="[0.0]"), (), "called with float64 of shape (1,)"),
    ],
)
def test_mistakes_end_with_three(file: Any, text: str, options: Any, complaint: str) -> None:
    answer = check(file(text), *options)
    assert answer.exit_code == 3
    assert complaint in answer.stderr


@pytest.mark.parametrize("ends", ["import sys; sys.exit(0)", "raise SystemExit", "import sys; sys.exit('train first')"])
def test_a_file_that_ends_itself_gives_no_verdict(file: Any, ends: str) -> None:
    answer = check(file(ends))
    assert answer.exit_code == 3
    assert "ended itself" in answer.output


def test_wrong_use_ends_with_three_as_two_is_a_verdict(file: Any) -> None:
    assert check(file(MODEL), "--nope").exit_code == 3
    assert typer.testing.CliRunner().invoke(cli.app(), ["check"]).exit_code == 3


def test_fewer_samples_and_a_gamma_are_passed_on(file: Any) -> None:
    answer = check(file(MODEL), "--samples", 16, "--gamma", 0.5)
    assert "curvature below -0.5" in answer.stdout
    assert "samples)" in answer.stdout


def test_the_page_can_be_made_anywhere(file: Any, tmp_path: Path) -> None:
    path = file(PLAIN.format(x="[0.0, 0.0]"))
    check(path, "--out", tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "index.html").exists()
    shutil.rmtree(tmp_path / "a")


def test_the_shell_can_complete_the_commands() -> None:
    said = typer.testing.CliRunner().invoke(cli.app(), ["--help"]).output
    assert "--install-completion" in said
    assert "check" in said


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error_of_the_file(tmp_path: Path) -> None:
    """As in `unsaddle check file.py | head -1`."""
    file = tmp_path / "file.py"
    file.write_text("import unsaddle\nobjective = unsaddle.Function(lambda x: x @ x)\nx = [1.0, 0.0]\n")
    command = [sys.executable, "-m", "unsaddle", "check", str(file), "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        told = run.stderr.read()
    assert "Running" in told
    assert "Traceback" not in told
    assert "failed" not in told
