"""The vector space: inner products, blocks, and noise."""

import math

import pytest
import torch

from unsaddle import vectors
from unsaddle.ranks import Ranks, together
from unsaddle.vectors import blocks, dots, norm, random_direction, random_in_ball, total

DTYPES = [torch.float32, torch.float64]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(d: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(d, generator=rng(seed), dtype=dtype)


def kolmogorov_smirnov(uniforms: torch.Tensor) -> float:
    """Largest distance between the empirical distribution and that of a uniform number."""
    ordered, n = uniforms.double().sort().values, uniforms.numel()
    ranks = torch.arange(n, dtype=torch.float64)
    return float(torch.maximum((ranks + 1) / n - ordered, ordered - ranks / n).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 2, 7, 1000])
def test_dots_are_the_plain_inner_products_in_the_order_of_the_pairs(d, dtype):
    a, b, c = (normal(d, dtype, seed) for seed in range(3))
    expected = [float((p.double() * q.double()).sum()) for p, q in [(a, b), (c, c), (b, c)]]
    scale = float(torch.finfo(dtype).eps) * 10 * d
    assert dots((a, b), (c, c), (b, c)) == pytest.approx(expected, abs=scale, rel=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 8, 9, 16, 1003])
def test_dots_and_norm_do_not_depend_on_the_number_of_blocks(monkeypatch, d, dtype):
    a, b = normal(d, dtype, 1), normal(d, dtype, 2)
    whole, length = dots((a, b), (b, b)), norm(a)
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 8 * a.element_size())
    assert len(list(blocks(a, b))) == math.ceil(d / 8)
    tolerance = 100 * float(torch.finfo(dtype).eps)
    assert dots((a, b), (b, b)) == pytest.approx(whole, rel=tolerance, abs=tolerance * d)
    assert norm(a) == pytest.approx(length, rel=tolerance)


def test_dots_accept_operands_that_are_not_contiguous():
    a = torch.arange(12.0).reshape(4, 3)[:, 1]  # 1, 4, 7, 10
    ones = torch.tensor(1.0).expand(4)  # What autograd returns for the gradient of x.sum().
    assert dots((a, ones), (ones, ones)) == [22.0, 4.0]


def test_norm_of_ten_million_float32_entries_keeps_six_digits():
    # One float32 inner product of this length is off by 1e-4; blocks added in float64 are not.
    u = normal(10_000_000, torch.float32)
    assert norm(u) == pytest.approx(float(u.double().norm()), rel=5e-6)


@pytest.mark.parametrize(("entry", "expected"), [(math.nan, math.nan), (math.inf, math.inf), (0.0, 0.0)])
def test_norm_of_what_is_not_finite_says_so(entry, expected):
    assert norm(torch.tensor([entry, 0.0])) == pytest.approx(expected, nan_ok=True)


def test_a_vector_that_fits_is_one_block_and_is_not_copied():
    a, b = normal(10), normal(10)
    ((first, second),) = blocks(a, b)
    assert first is a
    assert second is b


def test_blocks_are_aligned_views_that_cover_every_entry_once(monkeypatch):
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 32)
    a, b = torch.arange(10, dtype=torch.float64), torch.arange(10, dtype=torch.float64)
    lengths = []
    for first, second in blocks(a, b):
        lengths.append(first.numel())
        assert torch.equal(first, second)
        first += 100.0
    assert lengths == [4, 4, 2]
    assert torch.equal(a, b + 100.0)


def test_blocks_of_vectors_of_different_length_are_refused(monkeypatch):
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 32)
    with pytest.raises(ValueError, match=r"shorter|longer"):
        list(blocks(normal(9), normal(4)))


def test_total_over_blocks_is_the_inner_product(monkeypatch):
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 40)
    a, b = normal(23, seed=1), normal(23, seed=2)
    sums = total([[torch.dot(p, q), torch.dot(p, p)] for p, q in blocks(a, b)])
    assert sums == pytest.approx([float(a @ b), float(a @ a)], rel=1e-13)


def test_total_of_float32_blocks_is_added_in_float64():
    big, one = torch.tensor(2.0**24), torch.tensor(1.0)  # In float32, 2^24 + 1 = 2^24.
    assert total([[big], [one], [one], [one]]) == [2.0**24 + 3]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 2, 5, 10_000])
def test_a_random_direction_has_unit_norm_and_the_dtype_of_its_model(d, dtype):
    for seed in range(5):
        u = random_direction(torch.zeros(d, dtype=dtype), rng(seed))
        assert u.dtype == dtype
        assert u.shape == (d,)
        assert float(u.double().norm()) == pytest.approx(1.0, abs=(4 + math.sqrt(d)) * torch.finfo(dtype).eps)


def test_in_one_dimension_both_directions_come_up_equally_often():
    g, like = rng(), torch.zeros(1, dtype=torch.float64)
    draws = torch.stack([random_direction(like, g) for _ in range(400)])
    assert torch.equal(draws.abs(), torch.ones_like(draws))
    # Binomial(400, ½) has standard deviation 10: five of them.
    assert abs(int((draws > 0).sum()) - 200) <= 50


def test_random_directions_are_uniform_on_the_sphere_by_their_moments():
    g, d, n = rng(), 5, 4000
    u = torch.stack([random_direction(torch.zeros(d, dtype=torch.float64), g) for _ in range(n)])
    # On the sphere: var u_i = 1/d, var u_i u_j = 1/(d(d+2)), var u_i² = 2(d−1)/(d²(d+2)). Five standard errors each.
    five = 5 / math.sqrt(n)
    assert float(u.mean(dim=0).abs().max()) <= five * math.sqrt(1 / d)
    second = u.T @ u / n
    off_diagonal = second - second.diag().diag()
    assert float(off_diagonal.abs().max()) <= five * math.sqrt(1 / (d * (d + 2)))
    assert float((second.diag() - 1 / d).abs().max()) <= five * math.sqrt(2 * (d - 1) / (d**2 * (d + 2)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 2, 10])
def test_noise_in_a_ball_is_uniform_by_its_radius(d, dtype):
    g, n, radius = rng(d), 2000, 0.25
    lengths = torch.stack([random_in_ball(torch.zeros(d, dtype=dtype), radius, g).double().norm() for _ in range(n)])
    assert float(lengths.max()) <= radius * (1 + 4 * torch.finfo(dtype).eps)
    # (‖u‖/r)^d is uniform; Kolmogorov-Smirnov exceeds 1.95/√n with probability 1e-3.
    assert kolmogorov_smirnov((lengths / radius) ** d) <= 1.95 / math.sqrt(n)


def test_noise_in_a_disc_is_uniform_by_its_angle():
    g, n = rng(), 2000
    u = torch.stack([random_in_ball(torch.zeros(2, dtype=torch.float64), 3.0, g) for _ in range(n)])
    angles = torch.atan2(u[:, 1], u[:, 0]) / (2 * math.pi) + 0.5
    assert kolmogorov_smirnov(angles) <= 1.95 / math.sqrt(n)  # Probability 1e-3 of more.


def test_a_ball_of_radius_zero_holds_only_zero():
    assert torch.equal(random_in_ball(torch.zeros(4), 0.0, rng()), torch.zeros(4))


@pytest.mark.parametrize("draw", [random_direction, lambda like, g: random_in_ball(like, 2.0, g)])
def test_noise_depends_on_its_seed_alone_and_not_on_the_global_generator(draw):
    like = torch.full((6,), math.nan)
    state = torch.get_rng_state()
    first, again, other = draw(like, rng(3)), draw(like, rng(3)), draw(like, rng(4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)
    assert bool(like.isnan().all())


def test_consecutive_draws_from_one_generator_differ():
    g, like = rng(), torch.zeros(3)
    assert not torch.equal(random_direction(like, g), random_direction(like, g))


def test_noise_that_rounds_to_zero_is_drawn_again(monkeypatch):
    draws = iter([torch.zeros(1), torch.tensor([-2.0])])
    monkeypatch.setattr(torch, "randn", lambda *args, **kwargs: next(draws))
    assert random_direction(torch.zeros(1), rng()).tolist() == [-1.0]


@pytest.mark.parametrize("at_once", [16, 100, 1000])
def test_shards_of_noise_are_parts_of_one_vector_and_no_rank_draws_much_more_than_its_own(monkeypatch, at_once):
    """Three ranks, two parameters of 301 and 400 entries, a piece of each on each rank, one of them empty."""
    monkeypatch.setattr(vectors, "DRAWN_AT_ONCE", at_once)
    pieces = {0: ((0, 101), (301, 134)), 1: ((101, 200), (435, 134)), 2: ((301, 0), (569, 132))}
    drawn, randn = [], torch.randn
    monkeypatch.setattr(torch, "randn", lambda count, **how: drawn.append(count) or randn(count, **how))
    whole = vectors._drawn(torch.zeros(701), rng(2))
    assert whole.unique().numel() == 701
    for own in pieces.values():
        g = rng(2)
        drawn.clear()
        team = Ranks(group=None, dimension=701, pieces=own, replicas=1)
        with together(team):
            shard = vectors._drawn(torch.zeros(sum(length for _, length in own)), g)
        assert torch.equal(shard, torch.cat([whole[first : first + length] for first, length in own]))
        assert sum(drawn) <= (701 if at_once >= 701 else shard.numel() + 4 * at_once)
        same = rng(2)
        vectors._drawn(torch.zeros(701), same)
        assert torch.equal(g.get_state(), same.get_state())  # All go on from the same state.


@pytest.mark.parametrize("length", [3, 2 * vectors.BLOCK_BYTES // 4 + 5])
def test_in_place_of_a_missing_vector_comes_the_same_room_for_every_block(length):
    u = torch.arange(length, dtype=torch.float32)
    rooms = set()
    for part, room, again in vectors.blocks(u, None, u):
        assert room.shape == part.shape == again.shape
        rooms.add(room.data_ptr())
    assert len(rooms) == 1
