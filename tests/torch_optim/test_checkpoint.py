"""A run that was saved and loaded, in any phase of the policy, goes on bit for bit as if it had not been."""

import copy
import io
import pickle

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.utils.data import TensorDataset

from tests.torch_optim.training import closure_over
from unsaddle import ModelObjective, Neon
from unsaddle.torch_optim.state import COLLECT, IDLE, TRIAL

BASES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
}


def network(scale=0.0):
    """A linear autoencoder, with dropout, so that the state of random numbers matters; at its saddle if all is zero."""
    model = nn.Sequential(nn.Dropout(0.1), nn.Linear(4, 3, bias=False), nn.Linear(3, 4, bias=False))
    for parameter in model.parameters():
        nn.init.constant_(parameter, scale)
    return model


def steps(neon, model, first, count, until=None):
    for step in range(first, first + count):
        x = torch.randn(64, 4, generator=torch.Generator().manual_seed(step)) * torch.tensor([2.0, 1.0, 1.0, 0.5])
        neon.step(closure_over(neon, lambda x=x: (model(x) - x).square().mean()))
        if until is not None and until():
            return step + 1
    return first + count


@pytest.mark.slow
@pytest.mark.parametrize("make", BASES.values(), ids=BASES.keys())
@pytest.mark.parametrize("phase", [IDLE, COLLECT, TRIAL])
def test_a_run_that_was_saved_and_loaded_goes_on_bit_for_bit(phase, make):
    torch.manual_seed(0)
    model = network()
    neon = Neon(make(model.parameters()), every=20, max_overhead=1.0)
    step = steps(neon, model, 0, 12)
    if phase != IDLE:
        step = steps(neon, model, step, 400, until=lambda: neon.phase == phase)
    assert neon.phase == phase
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "neon": neon.state_dict(), "rng": torch.get_rng_state()}, file)
    steps(neon, model, step, 60)

    other = network(1.0)
    resumed = Neon(make(other.parameters()), every=20, max_overhead=1.0)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["neon"])
    torch.set_rng_state(saved["rng"])
    assert resumed.phase == phase
    steps(resumed, other, step, 60)

    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    assert repr(neon.events) == repr(resumed.events)  # By their words: nan is not equal to itself.
    assert any(event.escaped for event in neon.events)
    assert neon.overhead == resumed.overhead


def test_loading_puts_the_direction_where_the_parameters_are():
    model = network()
    neon = Neon(torch.optim.SGD(model.parameters(), lr=0.05), every=20, max_overhead=1.0)
    steps(neon, model, 0, 400, until=lambda: neon.phase == COLLECT)
    double = network().double()
    resumed = Neon(torch.optim.SGD(double.parameters(), lr=0.05))
    resumed.load_state_dict(neon.state_dict())
    assert resumed._prober.state.direction.dtype == torch.float64


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (None, TypeError),
        ([], TypeError),
        ({"phase": "dancing"}, ValueError),
        ({"phase": None}, ValueError),
        ({"steps": "a"}, ValueError),
        ({"losses": None}, ValueError),
        ({"direction": "north"}, ValueError),
        ({"radius": None}, ValueError),
        ({"losses": ["a"]}, ValueError),
        ({"events": [5]}, ValueError),
        ({"phase": COLLECT, "direction": None}, ValueError),
        ({"direction": torch.ones(7)}, ValueError),
    ],
    ids=str,
)
def test_a_state_that_neon_did_not_write_is_refused_before_anything_changes(entry, error):
    layer = torch.nn.Linear(2, 1)
    neon = Neon(torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9))
    saved = neon.state_dict()
    saved["param_groups"][0]["lr"] = 0.5
    entry = saved["neon"] | entry if isinstance(entry, dict) else entry
    with pytest.raises(error, match="Neon's entry of a state_dict must be what state_dict"):
        neon.load_state_dict(saved | {"neon": entry})
    assert neon.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize(
    "saved", [None, 5, {}, {"param_groups": 5}, {"param_groups": [5]}, {"param_groups": [{"neon": "{"}], "state": {}}]
)
def test_what_is_no_state_dict_is_refused_in_our_words(saved):
    neon = Neon(torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1))
    with pytest.raises((TypeError, ValueError), match=r"must be what (Neon.)?state_dict\(\) made"):
        neon.load_state_dict(saved)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_what_torch_s_get_state_dict_keeps_has_all_but_the_candidate():
    """It keeps states and groups only."""
    model = network()
    neon = Neon(torch.optim.Adam(model.parameters(), lr=0.01), every=20, max_overhead=1.0)
    step = steps(neon, model, 0, 400, until=lambda: neon.events)
    steps(neon, model, step, 400, until=lambda: neon.phase == COLLECT)
    weights, state = get_state_dict(model, neon)

    other = network(1.0)
    resumed = Neon(torch.optim.Adam(other.parameters(), lr=0.01), every=20, max_overhead=1.0)
    set_state_dict(other, resumed, model_state_dict=weights, optim_state_dict=state)
    assert repr(resumed.events) == repr(neon.events)
    assert resumed.overhead == neon.overhead
    assert (neon.phase, resumed.phase) == (COLLECT, IDLE)
    assert "neon" not in resumed.base.param_groups[0]
    assert torch.equal(
        resumed.base.state[other[1].weight]["exp_avg_sq"], neon.base.state[model[1].weight]["exp_avg_sq"]
    )


@pytest.fixture
def group():
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.new_group([0])
    dist.destroy_process_group()


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda neon: pickle.loads(pickle.dumps(neon))], ids=["copy", "pickle"]
)
def test_copies_keep_the_process_group(group, again):
    neon = Neon(torch.optim.SGD(network().parameters(), lr=0.1), process_group=group)
    assert again(neon)._process_group is group
    assert again(Neon(torch.optim.SGD(network().parameters(), lr=0.1)))._process_group is None


def test_a_pickle_whose_group_is_not_here_says_what_to_do(group):
    pickled = pickle.dumps(Neon(torch.optim.SGD(network().parameters(), lr=0.1), process_group=dist.new_group([0])))
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    with pytest.raises(ValueError, match="pickled with the process group"):
        pickle.loads(pickled)


def test_a_direction_is_one_of_the_objective_s_parameters():
    """The optimizer trains one more, which the objective does not have."""
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([2.0, 1.0, 1.0, 0.5])

    def made():
        model = network().eval()
        F = ModelObjective(model, lambda model, batch: (model(batch[0]) - batch[0]).square().mean(), TensorDataset(x))
        extra = nn.Parameter(torch.zeros(5))
        return Neon(torch.optim.SGD([*model.parameters(), extra], lr=0.05), F, every=5, max_overhead=1.0)

    neon, other = made(), made()
    for _ in range(100):
        neon.zero_grad()
        neon.step()
        if neon.phase == COLLECT:
            break
    assert neon.phase == COLLECT
    other.load_state_dict(neon.state_dict())
    assert other.phase == COLLECT
