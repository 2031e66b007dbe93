"""Every zone gets the same mix of resources, in whole pods."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.scheduling.optimization.subproblems.zone_balance import balanced_shares, whole_pods


def test_free_pods_make_up_for_what_held_pods_want() -> None:
    """Machines that run out of memory first were bought in one zone, and such that run out of CPU in the other."""
    # Two groups are held, one of much memory in the first zone and one of much CPU in the second; two such groups are free.
    requests = np.array([[1, 3], [3, 1], [1, 3], [3, 1]])
    counts = np.array([10, 10, 20, 20])
    sizes = requests / (counts @ requests)
    may = np.array([[True, False], [False, True], [True, True], [True, True]])
    even = np.array([[1, 0], [0, 1], [0.5, 0.5], [0.5, 0.5]])
    shares = balanced_shares(even, sizes=sizes, counts=counts, may=may, weights=np.array([0.5, 0.5]), rounds=4)
    assert np.allclose(shares, [[1, 0], [0, 1], [0.25, 0.75], [0.75, 0.25]])
    pods = whole_pods(shares, sizes=sizes, counts=counts, slack=1e-9)
    assert (pods.T @ requests).tolist() == [[60, 60], [60, 60]]


@given(st.data())
def test_no_pod_is_lost_or_goes_where_it_may_not(data: st.DataObject) -> None:
    groups, zones = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    rows = st.lists(st.integers(0, 5), min_size=2, max_size=2)
    requests = np.array(data.draw(st.lists(rows, min_size=groups, max_size=groups)), dtype=np.int64)
    counts = np.array(data.draw(st.lists(st.integers(1, 9), min_size=groups, max_size=groups)), dtype=np.int64)
    held = st.sampled_from([row for row in np.ndindex(*[2] * zones) if any(row)])
    may = np.array(data.draw(st.lists(held, min_size=groups, max_size=groups)), dtype=np.bool_)
    sizes = requests / np.maximum(counts @ requests, 1)
    even = may / may.sum(axis=1, keepdims=True)
    weights = np.full(zones, 1 / zones)
    shares = balanced_shares(even, sizes=sizes, counts=counts, may=may, weights=weights, rounds=4)
    pods = whole_pods(shares, sizes=sizes, counts=counts, slack=1e-9)
    assert (pods.sum(axis=1) == counts).all()
    assert (pods >= 0).all()
    assert not pods[~may].any()
