import pytest

typer = pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("matplotlib", reason="the page needs the extra cli")

from typer.testing import CliRunner  # noqa: E402

from unsaddle.commands.compare import compare  # noqa: E402
from unsaddle.experiments import rows  # noqa: E402


def run(command, *arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.slow
def test_a_comparison_ends_with_a_page(tmp_path):
    arguments = ("-m", "neon-scsg,scsg", "-p", "chain", "--seeds", 1, "--processes", 1, "--out", tmp_path)
    ended = run(compare, *arguments)
    assert ended.exit_code == 0, ended.output
    assert len(rows.read(tmp_path)) == 2
    page = (tmp_path / "index.html").read_text()
    assert "NEON-SCSG needs fewer samples than SCSG" in page
    assert "never" in page


def test_what_there_is_can_be_listed(tmp_path):
    ended = run(compare, "--list", "--out", tmp_path / "nothing")
    assert ended.exit_code == 0
    assert "neon-scsg" in ended.output
    assert "noisy chain" in ended.output
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("-m", "neon-adam"), "'neon-adam' is not a method; known are: neon-sgd"),
        (("-p", "chains"), "'chains' is not a problem; known are: chain"),
        (("--data", "nowhere"), "must be a folder"),
    ],
)
def test_mistakes_are_told_in_a_line(tmp_path, arguments, answer):
    ended = run(compare, *arguments, "--out", tmp_path)
    assert ended.exit_code == 2
    assert answer in ended.output
    assert "Traceback" not in ended.output
