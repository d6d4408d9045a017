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
        "true   NEON-SCSG, neon+ inside: steps grow at most as ln d does, 2.00 times from d = 10 to 100" in ended.output
    )
    assert "NEON-SCSG, krylov inside (auto)\n" in ended.output
    assert "Table 1, measured" in (tmp_path / "index.html").read_text()
