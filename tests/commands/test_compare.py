import numpy as np
import pytest

typer = pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("matplotlib", reason="the page needs the extra cli")

from typer.testing import CliRunner  # noqa: E402

from unsaddle.commands.compare import compare  # noqa: E402
from unsaddle.commands.report import report  # noqa: E402
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


def test_an_empty_folder_of_data_is_told(tmp_path):
    ended = run(compare, "--data", tmp_path, "--out", tmp_path / "out")
    assert ended.exit_code == 2
    assert "has no data set" in ended.output
    assert not (tmp_path / "out").exists()


def test_a_corrupt_file_is_told_once_before_anything_runs(tmp_path):
    """Packed rows with a bit turned over unpack with zlib's own error, in whichever process comes first."""
    path = tmp_path / "data.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).standard_normal((50, 4)), y=np.arange(50) % 2)
    content = bytearray(path.read_bytes())
    content[100:140] = bytes(40)
    path.write_bytes(content)
    ended = run(compare, "--data", tmp_path, "--processes", 2, "--out", tmp_path / "out")
    assert ended.exit_code == 2
    assert "not a whole .npz file" in ended.output
    assert "Traceback" not in ended.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("line", ["5", "[]", "null", '{"a": 1}', '{"experiment": "compare"}', "[" * 10000])
def test_a_line_that_is_no_row_is_named(tmp_path, line):
    """In the middle of the file: the last line may be what a machine without power has left."""
    (tmp_path / "rows.jsonl").write_text(line + '\n{"experiment": "x", "settings": {}}\n')
    for command, arguments in (compare, ("-p", "chain", "--out", tmp_path)), (report, (tmp_path,)):
        ended = run(command, *arguments)
        assert ended.exit_code == 2
        assert "line 1: expected a row" in ended.output


def test_rows_that_lack_something_are_told(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"experiment": "compare", "settings": {"problem": "chain"}}\n')
    ended = run(report, tmp_path)
    assert ended.exit_code == 2
    assert "has a row that lacks something" in ended.output
