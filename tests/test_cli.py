"""The command line as others call it: in a pipe, in a process of its own, where that makes a difference."""

import signal
import subprocess
import sys

import pytest

from unsaddle.experiments import rows as stored

pytest.importorskip("typer")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

pytestmark = pytest.mark.slow

SMALL = ("--features", "120", "--iterations", "20", "--processes", "1")


def call(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "unsaddle", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def invoke(*arguments):
    """In this process: another would import torch again."""
    import typer.testing

    from unsaddle import cli

    return typer.testing.CliRunner().invoke(cli.app(), list(map(str, arguments)))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def reproduced(out):
    return call("reproduce", "--out", out, "--targets", "1", "--seed", "4", *SMALL)


def test_reproduce_in_a_pipe_tells_line_by_line_judges_and_says_where_the_page_is(reproduced, out):
    assert reproduced.returncode == 0, reproduced.stderr
    lines = reproduced.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:9]] == [f"reproduce {i}/9" for i in range(1, 10)]
    assert lines[0].startswith("reproduce 1/9: target 4, lanczos (")
    verdicts = [line for line in lines if line.startswith("  open ")]
    assert {word for word in ("(i)", "(ii)", "(iv)") if any(word in line for line in verdicts)} == {
        "(i)",
        "(ii)",
        "(iv)",
    }
    assert not any(line.startswith(("  true ", "  FALSE ")) for line in lines)
    assert lines[-2] == "  What is open cannot be judged by one target: it takes 5."
    assert lines[-1].startswith(f"The page: {out / 'index.html'} (")
    assert "\x1b" not in reproduced.stdout + reproduced.stderr


def test_the_page_can_be_written_again_from_its_rows(reproduced, out):
    before = (out / "index.html").read_text()
    (out / "index.html").unlink()
    again = invoke("report", out)
    assert again.exit_code == 0
    assert (out / "index.html").read_text() == before
    assert "unsaddle reproduce" in before


def test_mistakes_are_told_in_a_line_without_a_traceback(tmp_path):
    for arguments, complaint in (
        (("reproduce", "--data", tmp_path / "nowhere", "--out", tmp_path), "nowhere: there is no such file"),
        (("report", tmp_path), "has no rows; run unsaddle reproduce"),
    ):
        answer = invoke(*arguments)
        assert answer.exit_code == 2
        assert isinstance(answer.exception, SystemExit)
        assert complaint in answer.stderr
        assert answer.stderr.startswith("unsaddle: ")
        assert len(answer.stderr.splitlines()) == 1
        assert answer.stdout == ""


def test_control_c_ends_with_the_rows_so_far_and_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "unsaddle.cli", "reproduce", "--out", str(tmp_path), *SMALL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline().startswith("reproduce 1/45")
        run.send_signal(signal.SIGINT)
        _, told = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "the same command goes on from them" in told
    assert "Traceback" not in told
    assert 1 <= len(stored.read(tmp_path)) < 45


@pytest.mark.parametrize("command", ["check", "reproduce", "compare", "complexity", "report"])
def test_every_command_has_help(command):
    answer = invoke(command, "--help")
    assert answer.exit_code == 0
    for option in ("--seed", "--out") if command != "report" else ("directory",):
        assert option in answer.output
