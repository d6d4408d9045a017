"""Neon inside the real trainers. Each test is skipped where its package is not installed (extra `trainers`)."""

import csv
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from unsaddle import ModelObjective, Neon
from unsaddle.interop.tensorboard import to_tensorboard

ROWS = torch.randn(256, 8, generator=torch.Generator().manual_seed(0)) * torch.tensor([2.0, 1.5] + 6 * [0.3])
STUCK = float(ROWS.square().sum(dim=1).mean())
"""The loss at zero."""


def at_zero():
    model = nn.Sequential(nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


def reconstruction(model, rows):
    return (model(rows) - rows).square().sum(dim=1).mean()


@pytest.fixture(autouse=True)
def quiet():
    """What trainers warn of (few workers, no logger, deprecations of their own) is not ours to mend."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(before)


def test_accelerate_prepares_it_and_its_wrapped_step_probes():
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    model = at_zero()
    neon = Neon(torch.optim.AdamW(model.parameters(), lr=1e-2), every=20)
    loader = DataLoader(TensorDataset(ROWS), batch_size=64)
    model, optimizer, loader = accelerator.prepare(model, neon, loader)
    for _ in range(15):
        for (rows,) in loader:

            def closure(rows=rows):
                optimizer.zero_grad()
                loss = reconstruction(model, rows)
                accelerator.backward(loss)
                return loss

            optimizer.step(closure)
    assert neon.events[0].verdict == "saddle"
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    assert neon.events[0].verdict == "saddle"


def test_lightning_probes_by_itself_logs_verdicts_and_checkpoints_them(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    from unsaddle.interop.lightning import NeonLogger

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = at_zero()

        def training_step(self, batch, index):
            return reconstruction(self.model, batch[0])

        def configure_optimizers(self):
            neon = Neon(torch.optim.AdamW(self.parameters(), lr=1e-2), every=20)
            return [neon], [torch.optim.lr_scheduler.StepLR(neon, 100)]

    class Sink(lightning.loggers.logger.DummyLogger):
        def __init__(self):
            super().__init__()
            self.seen = []

        def log_metrics(self, metrics, step=None):
            self.seen.append(metrics)

    sink, table = Sink(), lightning.loggers.CSVLogger(tmp_path, name="", version="")
    trainer = lightning.Trainer(
        max_epochs=30,
        accelerator="cpu",
        logger=[sink, table],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[NeonLogger()],
    )
    module = Module()
    trainer.fit(module, DataLoader(TensorDataset(ROWS), batch_size=64))
    assert float(reconstruction(module.model, ROWS).detach()) < 0.7 * STUCK
    logged = [metrics for metrics in sink.seen if "neon/curvature" in metrics]
    assert logged[0]["neon/escaped"] == 1.0
    assert logged[0]["neon/error"] > 0.0
    assert logged[0]["neon/decrease_error"] > 0.0
    table.save()
    with (tmp_path / "metrics.csv").open() as file:
        assert next(row["neon/verdict"] for row in csv.DictReader(file)) == "saddle"
    trainer.save_checkpoint(tmp_path / "checkpoint")
    saved = torch.load(tmp_path / "checkpoint", weights_only=True)
    assert saved["optimizer_states"][0]["neon"]["events"][0]["verdict"] == "saddle"


@pytest.mark.slow
def test_in_hugging_face_s_trainer_neon_probes_its_objective_and_the_logs_show_it(tmp_path, capsys):
    transformers = pytest.importorskip("transformers")
    from unsaddle.interop.transformers import NeonCallback

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = at_zero()

        def forward(self, rows, labels=None):
            return {"loss": reconstruction(self.layers, rows)}

    model = Model()
    data = [{"rows": row, "labels": row} for row in ROWS]
    objective = ModelObjective(model, lambda model, batch: model(batch[0])["loss"], TensorDataset(ROWS))
    neon = Neon(torch.optim.AdamW(model.parameters(), lr=1e-2), objective, every=20, samples=64)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=64,
        num_train_epochs=30,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=20,
    )
    trainer = transformers.Trainer(
        model, arguments, train_dataset=data, optimizers=(neon, None), callbacks=[NeonCallback()]
    )
    trainer.train()
    assert neon.events[0].verdict == "saddle"
    assert any(row.get("neon/verdict") == "saddle" for row in trainer.state.log_history)
    assert ": saddle. Curvature -" in capsys.readouterr().out
    assert float(reconstruction(model.layers, ROWS).detach()) < 0.7 * STUCK
    for optimizer, message in (
        (torch.optim.SGD(model.parameters(), lr=0.1), "NeonCallback needs a Neon as the trainer's optimizer"),
        (Neon(torch.optim.SGD(model.parameters(), lr=0.1)), "Neon needs an objective, got none"),
    ):
        wrong = transformers.Trainer(
            model, arguments, train_dataset=data, optimizers=(optimizer, None), callbacks=[NeonCallback()]
        )
        with pytest.raises(ValueError, match=message):
            wrong.train()


def test_tensorboard_gets_the_numbers_and_the_sentence():
    class Writer:
        def __init__(self):
            self.scalars, self.texts = [], []

        def add_scalar(self, name, number, step):
            self.scalars.append((name, step))

        def add_text(self, name, text, step):
            self.texts.append(text)

    with pytest.raises(TypeError, match="writer must be like a SummaryWriter, got str without add_scalar"):
        to_tensorboard("runs")
    writer = Writer()
    model = at_zero()
    neon = Neon(torch.optim.SGD(model.parameters(), lr=0.01), callback=to_tensorboard(writer))
    data = TensorDataset(ROWS)
    neon.probe(ModelObjective(model, lambda model, batch: reconstruction(model, batch[0]), data))
    assert ("neon/curvature", 0) in writer.scalars
    assert ("neon/decrease", 0) in writer.scalars
    assert "saddle" in writer.texts[0]


def test_the_monitor_in_lightning_logs_rows_and_is_in_checkpoints(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    from unsaddle.interop.lightning import CurvatureLogger

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = nn.Sequential(nn.Linear(8, 2), nn.Linear(2, 8))

        def training_step(self, batch, index):
            return reconstruction(self.model, batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    class Sink(lightning.loggers.logger.DummyLogger):
        def __init__(self):
            super().__init__()
            self.seen = []

        def log_metrics(self, metrics, step=None):
            self.seen.append(metrics)

    sink, watching = Sink(), CurvatureLogger(every=20, max_overhead=8.0)
    trainer = lightning.Trainer(
        max_epochs=20,
        accelerator="cpu",
        logger=sink,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[watching],
    )
    trainer.fit(Module(), DataLoader(TensorDataset(ROWS), batch_size=64))
    logged = [metrics for metrics in sink.seen if "curvature/sharpness" in metrics]
    assert len(logged) == len(watching.monitor.rows) >= 2
    assert logged[-1]["curvature/limit"] == 2000.0
    trainer.save_checkpoint(tmp_path / "checkpoint")
    saved = torch.load(tmp_path / "checkpoint", weights_only=True)
    assert saved["callbacks"]["CurvatureLogger"]["steps"] == 80


@pytest.mark.slow
@pytest.mark.parametrize("early", [False, True])
def test_the_monitor_in_hugging_face_s_trainer(tmp_path, early):
    """As a callback, or made of the trainer before it has an optimizer."""
    transformers = pytest.importorskip("transformers")
    from unsaddle import CurvatureMonitor
    from unsaddle.interop.transformers import CurvatureCallback

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, 2), nn.Linear(2, 8))

        def forward(self, rows, labels=None):
            return {"loss": reconstruction(self.layers, rows)}

    model = Model()
    objective = ModelObjective(model, lambda model, batch: model(batch[0])["loss"], TensorDataset(ROWS))
    watching = CurvatureCallback(objective, every=20, samples=64, max_overhead=4.0)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=64,
        num_train_epochs=28,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=20,
    )
    data = [{"rows": row, "labels": row} for row in ROWS]
    callbacks = [] if early else [watching]
    trainer = transformers.Trainer(model, arguments, train_dataset=data, callbacks=callbacks)
    monitor = CurvatureMonitor(trainer, objective, every=20, samples=64, max_overhead=4.0) if early else None
    trainer.train()
    monitor = monitor or watching.monitor
    assert [row.measured_at for row in monitor.rows if not row.warning] == [11, 60]
    assert any("curvature/sharpness" in row for row in trainer.state.log_history) is not early


def test_rows_of_the_monitor_in_tensorboard():
    from unsaddle import CurvatureRow

    class Writer:
        def __init__(self):
            self.scalars, self.texts = {}, {}

        def add_scalar(self, name, number, step):
            self.scalars[name, step] = number

        def add_text(self, name, text, step):
            self.texts[name, step] = text

    writer = Writer()
    to_tensorboard(writer)(CurvatureRow(step=3, sharpness=4.0, limit=2.0, warning="Too long."))
    assert writer.scalars["curvature/ratio", 3] == 2.0
    assert "Too long." in writer.texts["curvature/warning", 3]
