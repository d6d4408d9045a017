"""Processes take long to start, so that those that nothing happens to are started once for all tests.

One worker takes all of these (`TOGETHER` in the root's conftest.py): another would start them again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.distributed import probing, training
from tests.distributed.launch import on_ranks

PROBING = ("extractors", "noise", "value_only", "sampler", "metric")
ALL = ",".join(PROBING)

Seen = list[dict[str, Any]]
"""By rank: what it saw, by kind of wrapping and scenario."""


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same in this process, which is the only one."""
    folder = tmp_path_factory.mktemp("alone")
    names = (*PROBING, "finite_sum", "mixed_precision", "reductions", "infinite_rows")
    answers = {name: getattr(probing, name)("alone", folder) for name in names}
    return answers | {name: getattr(training, name)("alone", folder) for name in ("train", "monitored")}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two ranks leave a checkpoint for four, and for one."""
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="session")
def two(folder: Path) -> Seen:
    """Two ranks."""
    plan = {
        "ddp": "finite_sum,train,monitored,joined,reductions,rounding,own_mistakes,batch_norm,infinite_rows,"
        "foreign_shards",
        "ddp-views": ALL,
        "fsdp": f"{ALL},rounding,train,monitored,train_and_save,small_head,infinite_rows,other_parameters,go_on",
        "fsdp-root": "extractors,value_only",
        "fsdp-bf16": "mixed_precision",
    }
    return on_ranks(2, plan, folder)


@pytest.fixture(scope="session")
def four(folder: Path, two: Seen) -> Seen:
    """Four ranks, on which two of them go on."""
    return on_ranks(4, {"hsdp": ALL, "ddp": "finite_sum", "fsdp": "go_on"}, folder)


@pytest.fixture(scope="session", params=["ddp-views", "fsdp", "hsdp"])
def seen(request: pytest.FixtureRequest) -> Seen:
    """What each rank of a kind saw, by scenario."""
    return [answer[request.param] for answer in request.getfixturevalue("four" if request.param == "hsdp" else "two")]
