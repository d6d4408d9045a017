"""Where batches come from, and that taking them disturbs nobody."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

import unsaddle
from tests.objectives.traces import Everything
from unsaddle import ModelObjective
from unsaddle.cost import Cost
from unsaddle.objectives.model import data
from unsaddle.objectives.model.data import source

LABELS = torch.arange(10.0).view(10, 1)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Recorder:
    """A loss that keeps the rows of every batch; its value is their mean."""

    def __init__(self):
        self.batches = []

    def __call__(self, model, batch):
        (rows,) = batch if isinstance(batch, (list, tuple)) else (batch,)
        self.batches.append(rows.flatten().tolist())
        return model(rows).mean()

    @property
    def rows(self):
        return [row for batch in self.batches for row in batch]


def objective(data, **options):
    model, loss = nn.Linear(1, 1, bias=False), Recorder()
    nn.init.ones_(model.weight)
    return ModelObjective(model, loss, data, **options), loss, Everything(model)


class Augmented(Dataset):
    """Rows with noise from all three of the world's random numbers."""

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return torch.tensor([i + torch.rand(()).item() + random.random() + np.random.rand()])


def test_everything_is_taken_in_the_order_of_the_data():
    F, loss, _ = objective(TensorDataset(LABELS), micro_batch=4)
    F.sample().value(F.point)
    assert loss.batches == [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]


def test_small_tensors_are_read_once_and_large_ones_at_each_evaluation(monkeypatch):
    def read_twice():
        drawn = source(TensorDataset(LABELS), 4, 0).everything()
        first, second = ([rows for (rows,), _ in drawn.weighted()] for _ in range(2))
        assert torch.equal(torch.cat(first), LABELS)
        assert not any(rows.data_ptr() == LABELS.data_ptr() for rows in first)  # A loss may write to its batch.
        return [one is other for one, other in zip(first, second, strict=True)]

    assert read_twice() == [True, True, True]
    monkeypatch.setattr(data, "KEPT_BYTES", LABELS.nbytes - 1)
    assert read_twice() == [False, False, False]


@pytest.mark.parametrize(
    ("rows", "micro_batch", "sizes"), [(9, 4, [3, 3, 3]), (9, 8, [5, 4]), (8, 4, [4, 4]), (1, 4, [1])]
)
def test_no_row_is_left_over_for_a_batch_of_its_own(rows, micro_batch, sizes):
    F, loss, _ = objective(TensorDataset(LABELS[:rows]), micro_batch=micro_batch)
    f = F.sample()
    f.value(F.point)
    assert [len(batch) for batch in loss.batches] == sizes
    assert f._oracle.value(F.point) == pytest.approx(float(LABELS[:rows].mean()))


def test_a_list_whose_last_batch_is_short_is_warned_of():
    with pytest.warns(RuntimeWarning, match="last batch of the list has 1 rows and weighs as much as the others of 3"):
        objective(list(DataLoader(TensorDataset(LABELS), batch_size=3)))


def test_batch_norm_takes_any_number_of_rows():
    model = nn.Sequential(nn.Linear(1, 3), nn.BatchNorm1d(3))
    F = ModelObjective(model, lambda m, batch: m(batch[0]).square().mean(), TensorDataset(LABELS[:9]), micro_batch=8)
    assert torch.isfinite(F.sample().value(F.point))


def test_rows_of_any_data_set_are_collated_as_a_loader_would():
    class Pairs(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return {"x": torch.tensor([float(i)]), "y": i}

    batches = []
    F = ModelObjective(nn.Linear(1, 1), lambda m, b: batches.append(b) or m(b["x"]).mean(), Pairs())
    F.sample().value(F.point)
    expected = next(iter(DataLoader(Pairs(), batch_size=3)))
    assert torch.equal(batches[0]["x"], expected["x"])
    assert torch.equal(batches[0]["y"], expected["y"])


def test_rows_of_tensors_are_the_same_without_collating_them_one_by_one():
    batches = []
    F = ModelObjective(nn.Linear(1, 1), lambda m, b: batches.append(b) or m(b[0]).mean(), TensorDataset(LABELS, LABELS))
    F.sample().value(F.point)
    expected = next(iter(DataLoader(TensorDataset(LABELS, LABELS), batch_size=10)))
    assert type(batches[0]) is type(expected)
    assert all(torch.equal(a, b) for a, b in zip(batches[0], expected, strict=True))


def test_a_data_set_is_asked_for_many_rows_at_once_if_it_can():
    class Many(Dataset):
        def __len__(self):
            return 10

        def __getitem__(self, i):
            raise AssertionError

        def __getitems__(self, index):
            return [LABELS[i] for i in index]

    F, loss, _ = objective(Many(), micro_batch=5)
    F.sample().value(F.point)
    assert loss.batches == [[0.0, 1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0]]


def test_a_sample_of_rows_is_uniform_and_distinct_or_independent():
    F, loss, _ = objective(TensorDataset(LABELS))
    F.sample(10, rng()).value(F.point)
    assert sorted(loss.batches[0]) == LABELS.flatten().tolist()
    loss.batches.clear()
    F.sample(200, rng(), replacement=True).value(F.point)
    assert len(loss.rows) == 200
    assert set(loss.rows) == set(LABELS.flatten().tolist())
    with pytest.raises(ValueError, match="size must be at most n=10"):
        F.sample(11, rng())


@pytest.mark.parametrize("size", [None, 6])
def test_augmentation_is_frozen_and_disturbs_nobody(size):
    F, loss, before = objective(Augmented(), micro_batch=4)
    f = F.sample(size, rng())
    first = f.grad(F.point)
    assert torch.equal(f.grad(F.point), first)
    before.check()
    assert any(row % 1.0 != 0.0 for row in loss.batches[0])


def test_a_sample_is_read_once_and_everything_at_each_evaluation():
    reads = []

    class Counted(Augmented):
        def __getitem__(self, i):
            reads.append(i)
            return super().__getitem__(i)

    F, _, _ = objective(Counted(), micro_batch=4)
    f = F.sample(5, rng())
    f.grad(F.point)
    f.grad(F.point)
    assert len(reads) == 5
    f = F.sample()
    assert len(reads) == 5
    f.grad(F.point)
    f.grad(F.point)
    assert len(reads) == 25


def test_of_a_loader_the_rows_the_collating_and_the_batch_size_are_taken():
    loader = DataLoader(
        TensorDataset(LABELS),
        batch_size=4,
        shuffle=True,
        collate_fn=lambda rows: torch.stack([r[0] for r in rows]) + 100,
    )
    F, loss, before = objective(loader)
    assert F.num_samples == 10
    F.sample().value(F.point)
    assert loss.batches[0] == [100.0, 101.0, 102.0, 103.0]
    assert [len(b) for b in loss.batches] == [4, 3, 3]
    before.check()
    F, loss, _ = objective(loader, micro_batch=5)
    F.sample().value(F.point)
    assert [len(b) for b in loss.batches] == [5, 5]


def test_of_a_list_a_sample_is_a_batch_and_all_weigh_the_same():
    F, _, _ = objective([torch.tensor([[1.0]]), torch.tensor([[2.0], [4.0]])])
    assert F.num_samples == 2
    f = F.sample()
    assert float(f.value(F.point)) == 2.0  # (1 + 3)/2
    f.grad(F.point)
    assert f.cost == Cost(gradients=1, samples=2, values=1, value_samples=2)
    assert F.sample(1, rng()).size == 1


class Endless(IterableDataset):
    """Counts from zero each time it is started."""

    def __init__(self, end=10**6):
        self.end = end

    def __iter__(self):
        return (torch.tensor([float(i)]) for i in range(self.end))


def test_draws_from_an_iterable_go_on_where_the_last_one_ended():
    F, loss, before = objective(DataLoader(Endless(), batch_size=4))
    assert F.num_samples is None
    g = rng()
    f = F.sample(6, g)
    assert f.size == 8  # Whole batches, and all of them counted.
    f.value(F.point)
    f.value(F.point)
    F.sample(4, g).value(F.point)
    assert loss.rows == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0] * 2 + [8.0, 9.0, 10.0, 11.0]
    before.check()


def test_an_iterable_that_ends_is_started_again_and_its_short_batch_weighs_less():
    F, loss, _ = objective(Endless(5), micro_batch=4)
    f = F.sample(9, rng())
    assert f.size == 9
    assert float(f.value(F.point)) == pytest.approx((0 + 1 + 2 + 3 + 4 + 0 + 1 + 2 + 3) / 9)
    assert [len(b) for b in loss.batches] == [4, 1, 4]


def test_a_loader_that_weighs_its_rows_is_asked_itself_and_not_disturbed():
    def epoch(probed):
        """An epoch of training, with a probe in its middle."""
        generator = rng(5)
        sampler = WeightedRandomSampler([0.0] * 5 + [1.0] * 5, num_samples=10, generator=generator)
        loader = DataLoader(TensorDataset(LABELS), batch_size=4, sampler=sampler, generator=generator)
        F, loss, before = objective(loader)
        seen = []
        for (rows,) in loader:
            seen.append(rows.flatten().tolist())
            if probed:
                F.sample(30, rng()).value(F.point)
        before.check()
        return seen, loss.rows, F.num_samples, generator.get_state().tolist()

    seen, drawn, num_samples, state = epoch(probed=True)
    assert num_samples is None
    assert min(drawn) >= 5.0
    assert len(drawn) >= 90
    assert (seen, [], None, state) == epoch(probed=False)


def test_the_iterator_and_the_workers_of_a_loader_are_not_used():
    loader = DataLoader(Endless(12), batch_size=4, num_workers=1, persistent_workers=True)
    assert loader._iterator is None
    F, loss, _ = objective(loader)
    F.sample(4, rng()).value(F.point)
    assert loader._iterator is None
    assert loss.batches == [[0.0, 1.0, 2.0, 3.0]]


def test_an_endless_loader_has_no_everything():
    F, _, _ = objective(Endless())
    with pytest.raises(ValueError, match="'everything' does not exist; say how many samples to draw"):
        F.sample()


class NoLength(torch.utils.data.Dataset):
    def __getitem__(self, i):
        return LABELS[i]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ((LABELS, LABELS), TypeError, r"data must be a Dataset, .* got tuple; wrap tensors as torch.utils.data.Tensor"),
        (LABELS, TypeError, "got Tensor"),
        ({"x": LABELS}, TypeError, "got dict"),
        (iter([LABELS]), TypeError, r"got list_iterator, which ends after one pass; pass list\(...\) of it"),
        (NoLength(), TypeError, "got NoLength, a Dataset without a length; give it __len__, or make it an Iterable"),
        (TensorDataset, TypeError, "got the class TensorDataset; pass an instance of it"),
        (None, TypeError, "got NoneType"),
        ([], ValueError, "the list of batches is empty"),
        (TensorDataset(LABELS[:0]), ValueError, "the data set is empty"),
    ],
)
def test_what_is_no_data_is_refused(data, error, message):
    with pytest.raises(error, match=message):
        objective(data)


def test_an_empty_loader_is_refused_when_it_is_drawn_from():
    F, _, _ = objective(Endless(0))
    with pytest.raises(ValueError, match="the loader is empty"):
        F.sample(1, rng())


def test_batches_that_are_made_elsewhere_cannot_be_split():
    with pytest.raises(ValueError, match="got 2 with a list of batches, which are taken as they are"):
        objective([LABELS], micro_batch=2)
    with pytest.raises(ValueError, match="got 2 with a loader that makes its own batches"):
        objective(DataLoader(Endless(), batch_size=4), micro_batch=2)


def batch_norm(eval_mode=False):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2))
    return net.eval() if eval_mode else net


def classify(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def rows(n=300):
    random = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(n, 4, generator=random), torch.randint(2, (n,), generator=random))


@pytest.mark.parametrize(
    ("samples", "micro_batch"), [*((s, None) for s in (2, 3, 8, 15, 16, 33)), (3, 2), (15, 2), (33, 3)]
)
def test_no_fresh_batch_is_of_one_row_where_batch_norm_trains(samples, micro_batch):
    """The checks draw 32 batches, or as many as there are pairs of rows."""
    F = ModelObjective(batch_norm(), classify, rows(), micro_batch=micro_batch)
    assert F.least_samples == 2
    unsaddle.negative_curvature(F, samples=samples)
    unsaddle.is_minimum(F, samples=samples)


def test_in_evaluation_one_row_is_a_sample():
    assert ModelObjective(batch_norm(eval_mode=True), classify, rows()).least_samples == 1


@pytest.mark.parametrize("how", [{"samples": 1}, {"micro_batch": 1}, {"loader": 299}], ids=str)
def test_a_batch_of_one_row_is_told_in_our_words(how):
    data = rows()
    if "loader" in how:
        weighted = WeightedRandomSampler(torch.ones(300), 300)
        data = DataLoader(data, batch_size=how["loader"], sampler=weighted)
    F = ModelObjective(batch_norm(), classify, data, micro_batch=how.get("micro_batch"))
    with pytest.raises(ValueError, match="batch norm in training needs at least two rows"):
        unsaddle.is_minimum(F, samples=how.get("samples", 400 if "loader" in how else 100))


@pytest.mark.parametrize("n", [2, 3, 5, 7, 129, 257])
@pytest.mark.parametrize("micro_batch", [2, 3, 128])
def test_rows_are_split_into_as_many_batches_as_are_announced_and_none_of_one(n, micro_batch):
    drawn = source(rows(n), micro_batch, 0).everything()
    sizes = [len(batch[1]) for batch, _ in drawn.weighted()]
    assert len(sizes) == drawn.batches
    assert sum(sizes) == n
    assert min(sizes) > 1
    assert max(sizes) <= max(micro_batch, 3)


def test_classes_are_no_models_and_no_data():
    with pytest.raises(TypeError, match=r"model must be .* got the class Linear"):
        ModelObjective(nn.Linear, classify, rows())
    with pytest.raises(TypeError, match="got the class TensorDataset"):
        ModelObjective(batch_norm(), classify, TensorDataset)


@pytest.mark.parametrize("data", [(torch.zeros(3, 4), torch.zeros(3)), ((torch.zeros(3, 4), torch.zeros(3)),)])
def test_a_batch_that_is_a_tuple_is_no_data(data):
    with pytest.raises(TypeError, match=r"got tuple; wrap tensors as .* and a single batch as \[batch\]"):
        ModelObjective(batch_norm(), classify, data)


def test_an_array_of_numpy_is_no_data():
    with pytest.raises(TypeError, match=r"got ndarray; wrap tensors as torch\.utils\.data\.TensorDataset"):
        ModelObjective(batch_norm(), classify, torch.zeros(3, 4).numpy())


def test_a_loader_of_single_rows_draws_them_one_by_one():
    assert source(DataLoader(Endless(), batch_size=None), None, 0).batch_size == 1
    assert source(DataLoader(Endless(), batch_size=4), None, 0).batch_size == 4
