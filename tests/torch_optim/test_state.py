"""What Neon remembers, and what a checkpoint holds of it."""

import pytest
import torch

from unsaddle.torch_optim.state import State


def test_the_state_survives_a_checkpoint_as_plain_numbers_words_and_one_tensor():
    state = State(phase="collect", losses=[torch.tensor(1.5), 2.0], direction=torch.ones(3), events=[{"step": 1}])
    saved = state.to_dict()
    assert saved["losses"] == [1.5, 2.0]
    again = State.from_dict(saved)
    assert torch.equal(again.direction, torch.ones(3))
    assert (again.phase, again.events) == ("collect", [{"step": 1}])
    saved["direction"].zero_()
    assert torch.equal(state.direction, torch.ones(3))


def test_a_checkpoint_of_another_version_is_refused_by_name():
    with pytest.raises(ValueError, match="has later, which this version does not know"):
        State.from_dict({"later": 1})
