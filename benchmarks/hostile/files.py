"""Files after random damage, and the command line."""

from __future__ import annotations

import math
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from unsaddle.experiments import data, rows


def files(r: random.Random) -> Any:
    """What the commands read, after random damage."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / r.choice(("a.npz", "a.svm", rows.FILE))
        if path.suffix == ".npz":
            (np.savez if r.random() < 0.5 else np.savez_compressed)(path, X=np.eye(4), y=np.array([0, 1, 0, 1]))
        elif path.suffix == ".svm":
            path.write_text("1 1:0.5 3:2\n-1 2:1e3\n1 1:1\n")
        else:
            path.write_bytes(rows.encode({"experiment": "a", "settings": {"n": 1}, "value": math.nan}) * 3)
        content = bytearray(path.read_bytes())
        for _ in range(r.randrange(4)):
            at = r.randrange(len(content) + 1)
            content[at : at + r.randrange(1, 20)] = bytes(r.randrange(256) for _ in range(r.randrange(20)))
        path.write_bytes(content)
        return rows.read(Path(folder)) if path.name == rows.FILE else data.load(path)


def command_line(r: random.Random) -> Any:
    """A command with arguments that may be wrong; its exit code must be 0, or 2 with a line that says why."""
    from typer.testing import CliRunner

    from unsaddle.cli import app

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a file").write_bytes(bytes(r.randrange(256) for _ in range(40)))
        rubbish = r.choice(("a", "", "-1", "0", "nan", "1e9", "\x00", "ü", str(folder / "a file"), "--", "2**63"))
        damaged = folder / "damaged"
        damaged.mkdir()
        row = {"experiment": r.choice(("compare", "reproduce", "complexity", "a")), "settings": {}, "value": 1}
        row |= {"settings": r.choice(({}, {}, {"method": "sgd"}, None, 3, math.nan, [], "a"))}
        (damaged / rows.FILE).write_bytes(rows.encode(row) + r.choice((b"", b"{}\n", b"\xff\n", b'{"a"', b"\n\n")))
        out = ["--out", str(r.choice((folder / "out", folder / "a file", damaged)))]
        commands = (
            ["compare", "--list"],
            ["compare", "--methods", r.choice(("sgd", "a", rubbish)), "--problems", r.choice(("a", rubbish)), *out],
            ["compare", "--seeds", rubbish, *out],
            ["compare", "--data", r.choice((name, str(folder / "none"), rubbish)), "--problems", "a", *out],
            ["reproduce", "--data", r.choice((str(folder / "a file"), name, rubbish)), *out],
            ["reproduce", "--iterations", rubbish, *out],
            ["reproduce", "--as", rubbish, *out],
            ["complexity", "--seeds", rubbish, "--processes", rubbish, *out],
            ["report", r.choice((str(damaged), name, rubbish))],
            [rubbish],
            [],
        )
        done = CliRunner().invoke(app(), r.choice(commands))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        if done.exit_code not in (0, 2) or (done.exit_code == 2 and len(done.output) < 20):
            raise AssertionError(f"exit code {done.exit_code}: {done.output}")
        return done.output
