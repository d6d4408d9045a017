"""What a user's file may hold, and which weights a checkpoint may."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.commands.test_check import MODEL, PLAIN
from unsaddle.commands.user_file import find


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "held.py"


def test_an_objective_by_its_name_or_as_the_only_one(path: Path) -> None:
    path.write_text(PLAIN.format(x="[0.0, 0.0]").replace("objective =", "mine ="))
    for target in (str(path), f"{path}:mine"):
        found = find(target)
        assert found.name == "mine"
        assert found.x is not None
        assert found.x.tolist() == [0.0, 0.0]


def test_a_function_may_return_an_objective_or_it_and_x_or_model_loss_and_data(path: Path) -> None:
    path.write_text(
        MODEL
        + PLAIN.format(x="[0.0, 0.0]").replace("objective =", "plain =")
        + "def one():\n    return unsaddle.ModelObjective(model, loss, data)\n"
        + "def two():\n    return plain, x + 1\n"
        + "def three():\n    return model, loss, data\n"
    )
    assert find(f"{path}:one").objective.point.shape == (24,)
    assert find(f"{path}:two").x.tolist() == [1.0, 1.0]  # type: ignore[union-attr]
    assert find(f"{path}:three").objective.point.shape == (24,)


def test_what_is_beside_the_file_can_be_imported_and_main_is_not_run(path: Path, tmp_path: Path) -> None:
    (tmp_path / "beside_the_file.py").write_text(MODEL)
    path.write_text("from beside_the_file import model, loss, data\nif __name__ == '__main__':\n    raise RuntimeError")
    assert find(str(path)).name == "model"


@pytest.mark.parametrize(
    ("text", "name", "complaint"),
    [
        (PLAIN.format(x="[0.0]"), ":nothing", "has no name 'nothing'; it has "),
        ("import unsaddle\nobjective = unsaddle.Function(lambda x: x.sum())", "", "has no point of its own; write x ="),
        (
            "import unsaddle\na = b = unsaddle.Function(lambda x: x.sum())",
            "",
            "a, b: write held.py:a",
        ),
        ("objective = 3", "", "objective must be an objective, .* got int"),
        ("def objective(n):\n    pass", "", "must take no arguments, it takes n"),
    ],
)
def test_what_cannot_be_used_is_said(path: Path, text: str, name: str, complaint: str) -> None:
    path.write_text(text)
    with pytest.raises(ValueError, match=complaint):
        find(f"{path}{name}")


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"model": s, "epoch": 3}, lambda s: {"state_dict": s}])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod."])
def test_weights_of_a_checkpoint_are_those_that_are_looked_at(path: Path, tmp_path: Path, wrap, prefix: str) -> None:
    path.write_text(MODEL)
    state = {f"{prefix}0.weight": torch.ones(3, 4), f"{prefix}1.weight": torch.ones(4, 3)}
    torch.save(wrap(state), tmp_path / "weights.pt")
    assert find(str(path), tmp_path / "weights.pt").objective.point.tolist() == [1.0] * 24


def test_a_flat_tensor_is_x(path: Path, tmp_path: Path) -> None:
    path.write_text(PLAIN.format(x="[0.0, 0.0]"))
    torch.save(torch.ones(2, dtype=torch.float64), tmp_path / "x.pt")
    assert find(str(path), tmp_path / "x.pt").x.tolist() == [1.0, 1.0]  # type: ignore[union-attr]


class Executed:
    """An object whose unpickling runs a function."""

    def __reduce__(self):
        return (Path.touch, (Path(self.touched),))

    touched = ""


def test_nothing_in_a_checkpoint_is_executed(path: Path, tmp_path: Path) -> None:
    path.write_text(MODEL)
    Executed.touched = str(tmp_path / "executed")
    torch.save({"model": Executed()}, tmp_path / "bad.pt")
    with pytest.raises(ValueError, match="weights_only=True"):
        find(str(path), tmp_path / "bad.pt")
    assert not (tmp_path / "executed").exists()


def test_weights_of_another_model_are_refused(path: Path, tmp_path: Path) -> None:
    path.write_text(MODEL)
    torch.save({"0.weight": torch.ones(3, 5)}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"Error\(s\) in loading state_dict"):
        find(str(path), tmp_path / "other.pt")
