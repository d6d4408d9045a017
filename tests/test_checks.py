"""What callers pass in: accepted, or refused with a reason."""

import math
import re

import numpy as np
import pytest
import torch

from unsaddle import checks

X = torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_contiguous_float_tensor_is_a_point_and_is_not_copied(dtype):
    x = torch.ones(3, dtype=dtype)
    assert checks.point(x).data_ptr() == x.data_ptr()


def test_a_point_is_cut_off_from_autograd_and_contiguous():
    x = torch.arange(6.0).reshape(3, 2)[:, 0].requires_grad_()
    point = checks.point(x)
    assert not point.requires_grad
    assert point.is_contiguous()
    assert point.tolist() == [0.0, 2.0, 4.0]


def test_a_parameter_becomes_a_plain_tensor():
    assert type(checks.point(torch.nn.Parameter(torch.ones(2)))) is torch.Tensor


def test_points_that_are_not_finite_pass():
    assert checks.point(torch.tensor([math.nan, math.inf])).isfinite().sum() == 0


@pytest.mark.parametrize(
    "array", [np.arange(3.0), np.arange(6.0)[::2] / 2, np.arange(3.0)[::-1][::-1], np.float32([0, 1, 2])]
)
def test_a_numpy_array_is_a_point_whatever_its_strides(array):
    assert checks.point(array).tolist() == [0.0, 1.0, 2.0]
    assert checks.point(array[::-1]).tolist() == [2.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "x", [[0, 1, 2], [0.0, 1, 2.0], (0, 1, 2), np.arange(3), np.arange(3.0).astype(">f8")], ids=str
)
def test_lists_and_integers_are_points_in_double_precision(x):
    point = checks.point(x)
    assert point.tolist() == [0.0, 1.0, 2.0]
    assert point.dtype == torch.float64


def test_a_read_only_array_is_a_point_without_a_warning():
    array = np.arange(3.0)
    array.flags.writeable = False
    assert checks.point(array).tolist() == [0.0, 1.0, 2.0]


def test_a_point_from_numpy_does_not_share_the_memory_of_the_caller():
    array = np.zeros(3)
    checks.point(array).fill_(1.0)
    assert array.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ({"a": 1.0}, TypeError, "x must be a 1-D float tensor or array, or a list of numbers, got dict"),
        ([1.0, "a"], TypeError, "x must be float32 or float64, got <U32"),
        ([[1.0], [1.0, 2.0]], TypeError, "got a list that is no array of numbers"),
        ([], ValueError, "x is empty"),
        ([[1.0, 2.0]], ValueError, "got shape (1, 2)"),
        ([1j], TypeError, "got complex128; pass the real and imaginary parts as one vector, x.view(float)"),
        (np.ones(3, dtype=np.float16), TypeError, "got float16; convert it, e.g. np.asarray(x, dtype=float)"),
        (None, TypeError, "got NoneType"),
        (1.0, TypeError, "got float"),
        (torch.arange(3), TypeError, "x must be float32 or float64, got int64; convert it, e.g. x.double()"),
        (torch.ones(3, dtype=torch.bool), TypeError, "got bool"),
        (torch.ones(3, dtype=torch.bfloat16), TypeError, "got bfloat16"),
        (torch.ones(3, dtype=torch.float16), TypeError, "got float16"),
        (torch.ones(3, dtype=torch.complex128), TypeError, "got complex128; use torch.view_as_real(x).flatten()"),
        (
            torch.ones(3).to_sparse(),
            TypeError,
            "x must be a dense tensor, got layout torch.sparse_coo; use x.to_dense()",
        ),
        (torch.ones(2, 2), ValueError, "x must have one dimension, got shape (2, 2); use x.flatten()"),
        (torch.ones(3, 1), ValueError, "got shape (3, 1)"),
        (torch.tensor(1.0), ValueError, "got shape ()"),
        (np.array(1.0), ValueError, "got shape ()"),
        (np.ones((2, 2)), ValueError, "got shape (2, 2)"),
        (torch.empty(0), ValueError, "x is empty; a point needs at least one coordinate"),
        (np.empty(0), ValueError, "x is empty"),
        (torch.ones(3, device="meta"), ValueError, "x must hold numbers, got a tensor on the meta device"),
    ],
)
def test_what_is_not_a_point_is_refused_with_what_came(x, error, message):
    with pytest.raises(error, match=re.escape(message)):
        checks.point(x)


def test_the_error_names_the_argument():
    with pytest.raises(TypeError, match=r"^x0 must be .* np.asarray\(x0, dtype=float\)"):
        checks.point(["a"], "x0")


@pytest.mark.parametrize("seed", [np.int64(3), 0, 2**63, 2**64 - 1, 2**80])
def test_any_seed_fits_torch_and_may_be_counted_up(seed):
    checked = checks.seed(seed)
    assert type(checked) is int
    torch.Generator().manual_seed(checked + 10**6)


def test_small_seeds_stay_and_others_are_refused():
    assert [checks.seed(s) for s in (0, 7, 2**62 - 1)] == [0, 7, 2**62 - 1]
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        checks.seed(-1)
    for wrong in (1.5, "a", None, True):
        with pytest.raises(TypeError, match="seed must be an integer"):
            checks.seed(wrong)


def _formula(denominator=lambda scale: scale**2):
    """As one of ours: the frame that raises has this package's name."""
    code = "def run(*, scale, steps=0, denominator=lambda scale: scale**2):\n    return 1.0 / denominator(scale)"
    namespace = {"__name__": "unsaddle.formula"}
    exec(code, namespace)
    return checks.in_range(namespace["run"])


def test_a_formula_that_leaves_the_range_names_the_extreme_argument():
    run = _formula()
    assert run(scale=2.0) == 0.25
    for scale, shown in (1e-300, "1e-300"), (1e300, r"1e\+300"):
        with pytest.raises(ValueError, match=f"scale={shown} is too far from 1"):
            run(scale=scale)


@pytest.mark.parametrize("scale", [1e-200, 1e-60, 1e60, 1e200])
def test_numbers_are_extreme_on_both_sides(scale):
    with pytest.raises(ValueError, match=r"scale=.* is too far from 1"):
        _formula()(scale=scale, denominator=lambda scale: 0.0)


@pytest.mark.parametrize("scale", [1e-40, 1.0, 1e40])
def test_numbers_between_are_not(scale):
    with pytest.raises(ZeroDivisionError):
        _formula()(scale=scale, denominator=lambda scale: 0.0)


def test_other_arithmetic_errors_stay_as_they_are():
    """Ours at ordinary numbers are defects, and those of the caller's own code are the caller's."""
    with pytest.raises(ZeroDivisionError):
        _formula()(scale=0.0, steps=0)
    with pytest.raises(ZeroDivisionError):
        _formula()(scale=1e-300, denominator=lambda scale: 1 / 0)


def test_a_vector_of_the_same_space_passes_uncopied_and_detached():
    v = torch.ones(3, requires_grad=True)
    passed = checks.vector_like(v, X, "v")
    assert passed.data_ptr() == v.data_ptr()
    assert not passed.requires_grad


@pytest.mark.parametrize(
    ("v", "error", "message"),
    [
        (np.ones(3), TypeError, "v must be a tensor, got ndarray"),
        (None, TypeError, "v must be a tensor, got NoneType"),
        (torch.ones(4), ValueError, "v must have the shape of x, (3,), got (4,)"),
        (torch.ones(3, 1), ValueError, "got (3, 1)"),
        (torch.tensor(1.0), ValueError, "got ()"),
        (torch.ones(3, dtype=torch.float64), TypeError, "v must have the dtype of x, float32, got float64"),
        (torch.ones(3, dtype=torch.int64), TypeError, "got int64"),
        (torch.ones(3).to_sparse(), TypeError, "v must be a dense tensor, got layout torch.sparse_coo"),
        (torch.ones(3, device="meta"), ValueError, "v must be on the device of x, cpu, got meta"),
    ],
)
def test_a_vector_of_another_space_is_refused(v, error, message):
    with pytest.raises(error, match=re.escape(message)):
        checks.vector_like(v, X, "v")


@pytest.mark.parametrize(
    "value", [2.0, 2, np.float32(2), np.int64(2), torch.tensor(2.0), torch.tensor([2.0]), torch.tensor([[2]])]
)
def test_a_single_number_in_any_shape_is_a_scalar(value):
    scalar = checks.scalar(value, "f")
    assert scalar.shape == ()
    assert float(scalar) == 2.0


def test_a_python_number_keeps_float64_precision():
    assert float(checks.scalar(0.1, "f")) == 0.1


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (
            torch.ones(3),
            ValueError,
            "f must return a scalar, got a tensor of shape (3,); reduce it with .mean() or .sum()",
        ),
        (torch.empty(0), ValueError, "got a tensor of shape (0,)"),
        (None, TypeError, "f must return a scalar tensor, got NoneType"),
        ((torch.tensor(1.0), X), TypeError, "got tuple"),
        ("1", TypeError, "got str"),
        (1j, TypeError, "got complex"),
        (np.complex128(1j), TypeError, "got complex128"),
    ],
)
def test_what_is_not_a_scalar_is_refused(value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        checks.scalar(value, "f")


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int8(1)])
def test_positive_numbers_come_back_as_floats(value):
    assert type(checks.positive(value, "a")) is float
    assert checks.positive(value, "a") == checks.not_negative(value, "a") == 1.0


@pytest.mark.parametrize("value", [0, 0.0, -0.0, -1, math.nan, math.inf, -math.inf])
def test_positive_refuses_zero_and_below_and_what_is_not_finite(value):
    with pytest.raises(ValueError, match=re.escape(f"a must be a finite number > 0, got {value!r}; leave it out")):
        checks.positive(value, "a", "leave it out")


@pytest.mark.parametrize("value", [-1e-300, math.nan, math.inf])
def test_not_negative_refuses_what_is_below_zero_or_not_finite(value):
    with pytest.raises(ValueError, match=r"a must be a finite number >= 0, got .*[^;]$"):
        checks.not_negative(value, "a")


def test_not_negative_accepts_zero_and_adds_its_hint():
    assert checks.not_negative(0, "a") == 0.0
    with pytest.raises(ValueError, match="; use zero"):
        checks.not_negative(-1, "a", "use zero")


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1.1, math.nan])
def test_a_probability_lies_strictly_between_zero_and_one(value):
    assert checks.probability(0.05, "delta") == 0.05
    with pytest.raises(ValueError, match=r"delta must be between 0 and 1, got .*probability of a wrong answer"):
        checks.probability(value, "delta")


@pytest.mark.parametrize("check", [checks.positive, checks.not_negative, checks.probability])
@pytest.mark.parametrize("value", [True, "1", None, 0.5j, np.complex128(0.5), [0.5], torch.tensor(0.5)])
def test_what_is_not_a_real_number_is_a_type_error(check, value):
    with pytest.raises(TypeError, match="a must be a number, got"):
        check(value, "a")


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_counts_come_back_as_python_integers(value):
    assert type(checks.count(value, "n")) is int
    assert checks.count(value, "n") == 3


@pytest.mark.parametrize("value", [3.0, True, "3", None, math.nan, np.float64(3), torch.tensor(3)])
def test_a_count_that_is_not_an_integer_is_refused(value):
    with pytest.raises(TypeError, match="n must be an integer, got"):
        checks.count(value, "n")


def test_a_count_below_its_least_is_refused():
    assert checks.count(0, "n", at_least=0) == 0
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        checks.count(0, "n")
    with pytest.raises(ValueError, match="n must be at least 2, got -5"):
        checks.count(-5, "n", at_least=2)


def test_a_choice_outside_the_list_is_refused_with_the_list():
    assert checks.choice("neon", "method", ("neon", "oja")) == "neon"
    for wrong in ("NEON", None, 1, np.ones(2)):
        with pytest.raises(ValueError, match=re.escape(f"method must be one of neon, oja; got {wrong!r}")):
            checks.choice(wrong, "method", ("neon", "oja"))


def test_a_flag_is_true_or_false():
    assert checks.flag(True, "progress") is checks.flag(np.True_, "progress") is checks.flag(1, "progress") is True
    assert checks.flag(False, "progress") is checks.flag(0, "progress") is False
    for wrong in ("no", None, 2, 0.0, np.ones(2), torch.ones(2)):
        with pytest.raises(TypeError, match=re.escape(f"progress must be True or False, got {wrong!r}")):
            checks.flag(wrong, "progress")


def test_a_callback_is_a_function_or_nothing():
    checks.callback(None, "a Snapshot")
    checks.callback(print, "a Snapshot")
    for wrong in (5, list):
        with pytest.raises(TypeError, match=re.escape(f"callback must take a Snapshot, got {wrong!r}; leave it out")):
            checks.callback(wrong, "a Snapshot")


def test_randomness_is_a_torch_generator():
    g = torch.Generator()
    assert checks.generator(g) is g
    with pytest.raises(ValueError, match=r"needs a generator, got None; pass torch.Generator"):
        checks.generator(None)
    for wrong in (0, np.random.default_rng(0)):
        with pytest.raises(TypeError, match=r"needs a generator, got .*; pass torch.Generator\(\).manual_seed"):
            checks.generator(wrong)
