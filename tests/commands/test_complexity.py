import pytest

typer = pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("matplotlib", reason="the page needs the extra cli")

from typer.testing import CliRunner  # noqa: E402

from unsaddle.commands.complexity import complexity  # noqa: E402
from unsaddle.experiments import complexity as experiment  # noqa: E402


@pytest.mark.slow
def test_complexity_prints_its_statements_and_ends_with_a_page(tmp_path, monkeypatch):
    few = [j for j in experiment.jobs(seeds=1, quick=True) if j["sweep"] == "dimension" and j["dimension"] <= 100]
    few = [j for j in few if j["method"] in ("neon-scsg", "noisy-sgd")]
    monkeypatch.setattr(experiment, "jobs", lambda **_: few)
    app = typer.Typer()
    app.command()(complexity)
    ended = CliRunner().invoke(app, ["--quick", "--processes", "1", "--out", str(tmp_path)])
    assert ended.exit_code == 0, ended.output
    assert (
        "true   NEON-SCSG needs fewer component gradients than noisy SGD at every d: 2 of 2 dimensions" in ended.output
    )
    assert "Table 1, measured" in (tmp_path / "index.html").read_text()
