"""Resource vectors over the resources that anything requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.scheduling.primitives.resource_vector import ResourceAxis, minus, pareto, plus, within

VECTORS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6)


def test_an_axis_has_each_name_once_in_order() -> None:
    """Otherwise, equal snapshots give vectors of another order, and other plans."""
    axis = ResourceAxis(["memory", "cpu", "memory"])
    assert axis.names == ("cpu", "memory")
    assert axis.vector({"cpu": 2, "example.com/gpu": 1}) == (2, 0)
    assert axis.amounts((2, 0)) == {"cpu": 2}
    assert axis.total([]) == axis.zero == (0, 0)
    assert axis.total([(1, 2), (3, 4)]) == (4, 6)


def test_cpu_and_memory_come_first_whatever_else_is_requested() -> None:
    """A pod with scratch space made the search compare CPU with that, on every node, and memory with nothing."""
    axis = ResourceAxis(["ephemeral-storage", "pods", "memory", "amd.com/gpu", "cpu"])
    assert axis.names == ("cpu", "memory", "amd.com/gpu", "ephemeral-storage", "pods")
    assert ResourceAxis(["pods", "memory", "amd.com/gpu"]).names == ("memory", "amd.com/gpu", "pods")


@given(VECTORS)
def test_a_difference_undoes_a_sum(vectors: list[tuple[int, int]]) -> None:
    """A pod that is taken out again leaves the claim as it was."""
    for one in vectors:
        for other in vectors:
            assert minus(plus(one, other), other) == one


@given(VECTORS, st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_what_fits_any_vector_fits_one_of_the_front(vectors: list[tuple[int, int]], requested: tuple[int, int]) -> None:
    """Otherwise, a pod is refused although a type has room for it."""
    assert any(within(requested, one) for one in pareto(vectors)) == any(within(requested, one) for one in vectors)
