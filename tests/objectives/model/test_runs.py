"""Real models: the curvature that is found is that of the loss in float64, and the model is left as it was."""

import copy
import shutil
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from tests.objectives.traces import Everything
from unsaddle import ModelObjective, is_minimum, negative_curvature


@dataclass(frozen=True)
class Case:
    model: nn.Module
    loss: Any
    batch: Any
    twice: bool = True
    """Whether autograd can differentiate the float64 model twice; else the reference is a difference of gradients."""
    options: Any = None
    """Keyword arguments of the objective."""


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def classify(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1])


def regress(model, batch):
    return (model(batch[0]) - batch[1]).square().mean()


def mlp(*extra: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 10), *extra, nn.Tanh(), nn.Linear(10, 3))


def classification(model: nn.Module, **fields: Any) -> Case:
    return Case(model, classify, (normal(24, 6), torch.randint(3, (24,))), **fields)


def conv_net() -> Case:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GELU(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 3), nn.GELU(), nn.Flatten(), nn.Linear(24, 5)
    )
    return Case(model, classify, (normal(16, 1, 10, 10), torch.randint(5, (16,))))


def channels_last() -> Case:
    case = conv_net()
    return replace(case, model=case.model.to(memory_format=torch.channels_last))


def batch_norm() -> Case:
    return classification(mlp(nn.BatchNorm1d(10)))


def spectral_norm() -> Case:
    model = mlp()
    nn.utils.parametrizations.spectral_norm(model[0])
    # Its singular vectors follow the weight outside autograd, which a second differentiation would not see.
    return classification(model, twice=False)


def dropout() -> Case:
    return classification(mlp(nn.Dropout(0.4)))


class Attention(nn.Module):
    """Self-attention through torch's default kernel, whose second derivative is not implemented."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.qkv, self.head = nn.Linear(8, 24), nn.Linear(8, 11)

    def forward(self, tokens):
        q, k, v = self.qkv(self.embed(tokens)).view(*tokens.shape, 3, 2, 4).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(mixed.transpose(1, 2).flatten(2))


def next_token(model, batch):
    return functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def attention() -> Case:
    return Case(Attention(), next_token, torch.randint(11, (6, 9)))


def tied() -> Case:
    model = Attention()
    model.head.weight = model.embed.weight
    return Case(model, next_token, torch.randint(11, (6, 9)))


def frozen() -> Case:
    model = mlp()
    model[0].weight.requires_grad_(False)
    return classification(model)


def unused() -> Case:
    model = mlp()
    model.register_parameter("unused", nn.Parameter(torch.ones(4)))
    return classification(model)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, activation="gelu", batch_first=True)

    def forward(self, tokens):
        return self.head(self.layer(self.embed(tokens)))


def encoder() -> Case:
    return Case(Encoder(), next_token, torch.randint(11, (6, 9)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


def lstm() -> Case:
    return Case(
        Recurrent(),
        lambda model, b: classify(lambda x: model(x)[:, -1], b),
        (normal(12, 5, 6), torch.randint(3, (12,))),
    )


def ctc() -> Case:
    lengths = torch.full((4,), 7), torch.full((4,), 2)

    def loss(model, batch):
        return functional.ctc_loss(model(batch[0]).log_softmax(-1).transpose(0, 1), batch[1], *lengths)

    return Case(Recurrent(), loss, (normal(4, 7, 6), torch.randint(1, 3, (4, 2))), twice=False)


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(20, 6, mode="sum", sparse=True), nn.Linear(6, 3)

    def forward(self, tokens):
        return self.head(self.bag(tokens).tanh())


def embedding_bag() -> Case:
    return Case(Bag(), classify, (torch.randint(20, (16, 4)), torch.randint(3, (16,))), twice=False)


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.rest, self.reentrant = nn.Linear(6, 10), mlp_tail(), reentrant

    def forward(self, x):
        return checkpoint(self.rest, self.first(x), use_reentrant=self.reentrant)


def mlp_tail() -> nn.Sequential:
    return nn.Sequential(nn.Dropout(0.2), nn.Tanh(), nn.Linear(10, 3))


def reentrant_checkpoint() -> Case:
    return classification(Checkpointed(reentrant=True), twice=False)


def checkpoint_without_reentry() -> Case:
    return classification(Checkpointed(reentrant=False))


def grad_scaler() -> Case:
    return classification(mlp(), options={"scaler": torch.amp.GradScaler("cpu")})


def compiled_eagerly() -> Case:
    case = classification(mlp(nn.Dropout(0.2)))
    return replace(case, model=torch.compile(case.model, backend="aot_eager"))


def autocast(case: Case, dtype: torch.dtype) -> Case:
    """Under autocast, which leaves float64 alone, and so the reference."""

    def loss(model, batch):
        with torch.autocast("cpu", dtype=dtype):
            return case.loss(model, batch)

    return replace(case, loss=loss)


def autoencoder() -> Case:
    """Two linear layers at zero: a saddle that half precision does not hide, since it rounds relative to zero."""
    model = nn.Sequential(nn.Linear(6, 4, bias=False), nn.Linear(4, 6, bias=False))
    for p in model.parameters():
        nn.init.zeros_(p)
    x = normal(32, 6) * torch.tensor([2.0, 1.0, 0.7, 0.5, 0.3, 0.1])
    return Case(model, regress, (x, x))


def bf16_autocast() -> Case:
    return autocast(autoencoder(), torch.bfloat16)


def float16_autocast_with_a_scaler() -> Case:
    return replace(autocast(autoencoder(), torch.float16), options={"scaler": torch.amp.GradScaler("cpu")})


CASES = [
    conv_net, channels_last, batch_norm, spectral_norm, dropout, attention, tied, frozen, unused, encoder, lstm, ctc,
    embedding_bag, reentrant_checkpoint, checkpoint_without_reentry, grad_scaler, compiled_eagerly,
    autoencoder, bf16_autocast, float16_autocast_with_a_scaler,
]  # fmt: skip


def made(make, seed: int = 0) -> Case:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()


def doubled(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    return type(value)(doubled(part) for part in value)


def reference(case: Case, v: torch.Tensor) -> float:
    """vᵀ∇²f v in float64, with the masks of an objective whose seed is 0."""
    model = copy.deepcopy(getattr(case.model, "_orig_mod", case.model)).double()
    batch = doubled(case.batch)
    parameters = [p for p in model.parameters() if p.requires_grad]
    home = [p.detach().clone() for p in parameters]
    parts = [
        part.view(p.shape)
        for p, part in zip(parameters, v.double().split([p.numel() for p in parameters]), strict=True)
    ]

    def loss():
        twin = copy.deepcopy(model) if not case.twice else model  # For the buffers.
        with torch.random.fork_rng(), sdpa_kernel(SDPBackend.MATH):
            torch.manual_seed(1)
            return twin, case.loss(twin, batch)

    if case.twice:
        grads = torch.autograd.grad(loss()[1], parameters, create_graph=True, materialize_grads=True)
        slope = sum((g * part).sum() for g, part in zip(grads, parts, strict=True))
        products = torch.autograd.grad(slope, parameters, materialize_grads=True)
        return float(sum((h * part).sum() for h, part in zip(products, parts, strict=True)))

    def slope_at(t: float) -> float:
        with torch.no_grad():
            for p, h, part in zip(parameters, home, parts, strict=True):
                p.copy_(h + t * part)
        twin, value = loss()
        value.backward()
        grads = [p.grad for p in twin.parameters() if p.requires_grad]
        return float(sum((g.to_dense() * part).sum() for g, part in zip(grads, parts, strict=True) if g is not None))

    t = 1e-4
    return (slope_at(t) - slope_at(-t)) / (2 * t)


def check(case: Case) -> None:
    """The claim of this file."""
    options = case.options or {}
    before = Everything(case.model, **options)
    F = ModelObjective(case.model, case.loss, [case.batch], **options)
    found = negative_curvature(F, F.point, gamma=1e-3)
    before.check()
    assert found.status.name == "FOUND"
    (measured,) = found.measurements
    assert measured.error < 0.5 * abs(measured.curvature)
    assert abs(measured.curvature - reference(case, found.direction)) <= measured.error


@pytest.mark.slow
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_the_curvature_found_is_that_of_float64_and_the_model_is_as_before(make):
    check(made(make))


@pytest.mark.study  # The compiler takes 20 s.
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile's inductor needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")  # Of the compiler's own imports.
def test_the_same_holds_for_a_model_that_inductor_compiled():
    from torch._inductor import config

    case = made(lambda: classification(mlp()))
    with config.patch(compile_threads=1):
        check(replace(case, model=torch.compile(case.model)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_the_curvature_is_seen_from_farther_out(dtype):
    case = made(lambda: autocast(classification(mlp()), dtype))
    before = Everything(case.model)
    F = ModelObjective(case.model, case.loss, [case.batch])
    found = negative_curvature(F, F.point, gamma=1e-3)
    assert found.status.name == "FOUND"
    assert abs(found.curvature - reference(case, found.direction)) <= found.measurements[-1].error
    assert is_minimum(F).kind == "not stationary"  # A gradient is seen all the same.
    before.check()


def test_compiling_again_is_not_needed_at_another_point():
    case = made(compiled_eagerly)
    F = ModelObjective(case.model, case.loss, [case.batch])
    f = F.sample()
    f.grad(F.point)
    with torch._dynamo.config.patch(error_on_recompile=True):
        assert not torch.equal(f.grad(F.point), f.grad(F.point + 0.1))
