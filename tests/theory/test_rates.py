from fractions import Fraction

import pytest

from unsaddle.theory import rates
from unsaddle.theory.rates import power

HALF, QUARTER, FOUR_NINTHS = Fraction(1, 2), Fraction(1, 4), Fraction(4, 9)


def test_sums_keep_what_no_other_term_exceeds():
    total = power(2) + power(1, n=1) + power(Fraction(3, 2)) + power(1)
    assert total == power(2) + power(1, n=1)
    assert total.exponent == 2
    assert len((power(1) + power(2, n=Fraction(-1, 3))).terms) == 2  # Which is larger depends on n.
    assert power(2) * (power(1, n=1) + power(3)) == power(3, n=1) + power(5)
    assert str(power(Fraction(7, 2)) + power(n=1)) == "n^1 + ε^-7/2"


def test_an_extraction_takes_the_papers_powers_of_gamma():
    assert rates.extraction_in_gamma("neon") == 3
    assert rates.extraction_in_gamma("neon+") == Fraction(5, 2)


# --- Table 1 as printed -----------------------------------------------------------------------------------------------


def test_neon_sgd_and_neon_sm():
    assert rates.neon_sgd(q=HALF, extractor="neon+") == power(4)


@pytest.mark.parametrize(
    ("q", "batch", "printed"), [(HALF, HALF, Fraction(7, 2)), (FOUR_NINTHS, Fraction(0), Fraction(10, 3))]
)
def test_neon_scsg(q, batch, printed):
    assert rates.neon_scsg(q=q, extractor="neon+", batch=batch) == power(printed)


def test_neon_svrg():
    printed = power(2, n=Fraction(2, 3)) + power(Fraction(3, 2), n=1) + power(Fraction(11, 4))
    assert rates.neon_svrg(q=HALF, extractor="neon+") == printed


@pytest.mark.parametrize(("q", "printed"), [(HALF, Fraction(7, 2)), (QUARTER, Fraction(13, 4))])
def test_neon_natasha(q, printed):
    assert rates.neon_natasha(q=q, extractor="neon+") == power(printed)


@pytest.mark.parametrize(
    ("q", "ifo", "iso"), [(HALF, Fraction(7, 2), Fraction(5, 2)), (QUARTER, Fraction(13, 4), Fraction(7, 4))]
)
def test_natasha2(q, ifo, iso):
    assert rates.natasha2(q=q) == (power(ifo), power(iso))


def test_svrg_hessian():
    gradients, products = rates.svrg_hessian(q=HALF)
    assert gradients == power(2, n=Fraction(2, 3)) + power(Fraction(3, 2), n=1)
    assert products == power(Fraction(3, 2), n=1) + power(Fraction(7, 4), n=Fraction(3, 4))


# --- What the printed rows hide ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [Fraction(1, 5), QUARTER, Fraction(1, 3), Fraction(2, 5), HALF])
def test_natasha2_has_the_bound_of_its_theorem(q):
    """Õ(δ⁻⁵ + δ⁻¹ε⁻³ + ε^{−3.25}) (Allen-Zhu); the first is Hessian products or, with NEON⁺, δ^{−5.5}."""
    gradients, products = rates.natasha2(q=q)
    assert gradients.exponent <= max(3 + q, Fraction(13, 4))
    assert products.exponent <= max(5 * q, 3 + q, Fraction(13, 4))
    assert rates.neon_natasha(q=q, extractor="neon+").exponent <= max(Fraction(11, 2) * q, 3 + q, Fraction(13, 4))


def test_the_product_of_theorem_3_counts_more_for_svrg_than_table_1_prints():
    """max(1/ε_𝒜, γ⁻³)(T_n + T_a + T_c) has n^{−1/3}ε^{−3.25} too, which counts where n < ε^{−1.25}."""
    outer, extraction = power(2, n=Fraction(-1, 3)) + power(Fraction(3, 2)), power(Fraction(5, 4))
    as_printed = outer * (power(n=1) + extraction)
    assert as_printed == rates.neon_svrg(q=HALF, extractor="neon+") + power(Fraction(13, 4), n=Fraction(-1, 3))
    for q, batch in ((HALF, HALF), (FOUR_NINTHS, Fraction(0))):
        anchor, descents = 2, 2 - (2 - batch) / 3
        product = (power(descents) + power(3 * q)) * (power(anchor) + power(Fraction(5, 2) * q))
        assert product == rates.neon_scsg(q=q, extractor="neon+", batch=batch)


def test_algorithm_1_inside_changes_the_row_of_svrg_only():
    assert rates.neon_svrg(q=HALF, extractor="neon").exponent == 3
    for row in (rates.neon_sgd, rates.neon_natasha):
        assert row(q=HALF, extractor="neon") == row(q=HALF, extractor="neon+")
    assert rates.neon_scsg(q=HALF, extractor="neon", batch=HALF) == power(Fraction(7, 2))


def test_neon_a_around_natasha15_has_another_rate_than_neon_natasha():
    def ours(q):
        return rates.neon_a_around_natasha15(q=q, extractor="neon+")

    assert ours(HALF) == power(Fraction(15, 4))
    assert ours(QUARTER) == ours(FOUR_NINTHS) == power(Fraction(10, 3))
