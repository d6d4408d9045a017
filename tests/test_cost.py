"""Counting oracle calls."""

from dataclasses import FrozenInstanceError, asdict, fields

import pytest

from unsaddle.cost import Cost, Ledger

A = Cost(gradients=1, values=2, hessian_products=3, samples=40, value_samples=50, hessian_samples=60)
B = Cost(gradients=10, values=20, hessian_products=30, samples=4, value_samples=5, hessian_samples=6)


def test_costs_add_field_by_field():
    both = A + B
    assert (both.gradients, both.values, both.hessian_products) == (11, 22, 33)
    assert (both.samples, both.value_samples, both.hessian_samples) == (44, 55, 66)


def test_subtraction_undoes_addition():
    assert (A + B) - B == A
    assert Cost() == A - A


def test_nothing_is_the_neutral_cost():
    assert A + Cost() == A
    assert set(asdict(Cost()).values()) == {0}


def test_costs_are_frozen_and_take_keywords_only():
    with pytest.raises(FrozenInstanceError, match="gradients"):
        A.gradients = 5
    with pytest.raises(TypeError, match="positional"):
        Cost(1)


def test_a_new_ledger_is_empty():
    assert Ledger().cost == Cost()


def test_a_gradient_is_one_call_and_size_ifo_calls_and_nothing_else():
    ledger = Ledger()
    ledger.add_gradient(7)
    ledger.add_gradient(5)
    assert ledger.cost == Cost(gradients=2, samples=12)


def test_values_are_counted_apart_from_gradients():
    ledger = Ledger()
    ledger.add_values(7)
    ledger.add_values(5, count=3)
    assert ledger.cost == Cost(values=4, value_samples=22)


def test_a_hessian_product_is_one_call_and_size_iso_calls_and_nothing_else():
    ledger = Ledger()
    ledger.add_hessian_product(7)
    assert ledger.cost == Cost(hessian_products=1, hessian_samples=7)


def test_a_cost_read_earlier_does_not_change_when_the_ledger_goes_on():
    ledger = Ledger()
    ledger.add_gradient(1)
    before = ledger.cost
    ledger.add_gradient(1)
    assert before == Cost(gradients=1, samples=1)
    assert ledger.cost - before == Cost(gradients=1, samples=1)


def test_the_ledger_has_exactly_the_fields_of_a_cost():
    assert set(Ledger.__slots__) == {f.name for f in fields(Cost)}
    with pytest.raises(AttributeError, match="gradient"):
        Ledger().gradient = 1  # A slip of the pen is an error, not a new column.
