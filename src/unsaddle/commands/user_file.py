"""Finds the objective in a user's Python file. The file is run, as `python FILE` would run it."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from textwrap import shorten
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unsaddle.objective import BaseObjective
from unsaddle.objectives import ModelObjective

NESTED = ("model_state_dict", "state_dict", "model")
"""Where training scripts keep a model's weights inside of a checkpoint."""

PREFIXES = ("module.", "_orig_mod.")
"""What DDP and torch.compile write before the names of weights."""

WANTED = "an objective, a function that makes one, or model, loss and data"


class Found(NamedTuple):
    """The objective of a file, and the point to look at; None if the objective has one of its own."""

    objective: Any
    x: Tensor | None
    name: str
    """What it is called in the file."""


def find(target: str, checkpoint: Path | None = None) -> Found:
    """The objective that `FILE.py` or `FILE.py:name` holds, with the weights of the checkpoint if there is one."""
    path, name = _split(target)
    module = _run(path)
    found = _named(module, name, path) if name else _unnamed(module, path)
    if checkpoint is not None:
        found = _restored(found, module, checkpoint)
    if found.x is None and getattr(found.objective, "point", None) is None:
        raise ValueError(
            f"{path.name}: {found.name} has no point of its own; write x = torch.tensor([...]) in the file, the point "
            "to look at, or pass it as --checkpoint"
        )
    return found


def _split(target: str) -> tuple[Path, str]:
    path, mark, name = target.rpartition(":")
    if not mark or not path.endswith(".py"):
        path, name = target, ""
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: there is no such file")
    return file, name


def _run(path: Path) -> ModuleType:
    """The module of a file, with its folder on the path of imports. `__name__` is the file's, not "__main__"."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path}: the file must end in .py")
    sys.path.insert(0, str(path.parent.resolve()))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _named(module: ModuleType, name: str, path: Path) -> Found:
    if not hasattr(module, name):
        raise ValueError(f"{path.name} has no name {name!r}; it has {_listed(module)}")
    return _as_found(getattr(module, name), name, module)


def _unnamed(module: ModuleType, path: Path) -> Found:
    """`objective`; or `model`, `loss` and `data`; or the only objective that there is."""
    if hasattr(module, "objective"):
        return _as_found(module.objective, "objective", module)
    if all(hasattr(module, name) for name in ("model", "loss", "data")):
        return Found(ModelObjective(module.model, module.loss, module.data), None, "model")
    ours = [name for name, held in vars(module).items() if isinstance(held, BaseObjective)]
    if len(ours) == 1:
        return _as_found(getattr(module, ours[0]), ours[0], module)
    which = f"several objectives, {', '.join(ours)}: write {path.name}:{ours[0]}" if ours else _listed(module)
    raise ValueError(f"{path.name} must have {WANTED}; it has {which}")


def _as_found(held: Any, name: str, module: ModuleType) -> Found:
    """An objective, or what a function makes: one, an (objective, x), or a (model, loss, data)."""
    if inspect.isfunction(held):
        required = [p.name for p in inspect.signature(held).parameters.values() if p.default is p.empty]
        if required:
            raise ValueError(f"{name} must take no arguments, it takes {', '.join(required)}; wrap it in a function")
        held = held()
    x = getattr(module, "x", None)
    if isinstance(held, tuple) and len(held) == 2:
        held, x = held
    if isinstance(held, tuple) and len(held) == 3 and isinstance(held[0], nn.Module):
        held = ModelObjective(*held)
    if not hasattr(held, "sample"):
        raise ValueError(f"{name} must be {WANTED}; got {type(held).__name__}")
    return Found(held, None if getattr(held, "point", None) is not None and x is None else x, name)


def _listed(module: ModuleType) -> str:
    names = [name for name, held in vars(module).items() if not name.startswith("_") and not inspect.ismodule(held)]
    return ", ".join(names[:12]) or "no names"


def _restored(found: Found, module: ModuleType, checkpoint: Path) -> Found:
    """The objective with weights from a file, which is read with weights_only=True: nothing in it is executed."""
    if not checkpoint.is_file():
        raise FileNotFoundError(f"{checkpoint}: there is no such file")
    try:
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(
            f"{checkpoint}: not a file of weights that torch.load(weights_only=True) reads; save model.state_dict()"
        ) from error
    if isinstance(state, Tensor):
        return found._replace(x=state)
    for key in NESTED:
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
            break
    model = getattr(found.objective, "_model", None) or getattr(module, "model", None)
    if not isinstance(model, nn.Module):
        raise ValueError(f"{checkpoint}: {found.name} has no model to load it into; save a flat tensor x instead")
    try:
        model.load_state_dict({_plain(name): value for name, value in state.items()})
    except RuntimeError as error:
        told = shorten(str(error), width=500, placeholder=" …")  # In one line.
        raise ValueError(f"{checkpoint}: {told}") from error
    return found


def _plain(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name
