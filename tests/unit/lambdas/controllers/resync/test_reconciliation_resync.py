"""When claims and instances are in order, so that `reconcile` may skip observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from adapters.ports import Instance
from core import labels
from core.lifecycle.records import ClaimRecord
from lambdas.controllers.resync.reconciliation_resync import is_in_order
from tests.fakes.lab import Lab, a_pending_pod

World = tuple[tuple[ClaimRecord, ...], tuple[Instance, ...]]


@pytest.fixture(scope="module")
def world() -> World:
    """A claim whose node works, and its instance."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    return lab.claims, lab.cloud.instances()


def with_claim(**changes: Any) -> Callable[[World], World]:
    return lambda world: (tuple(msgspec.structs.replace(one, **changes) for one in world[0]), world[1])


def with_instance(**changes: Any) -> Callable[[World], World]:
    return lambda world: (world[0], tuple(msgspec.structs.replace(one, **changes) for one in world[1]))


def beside(**changes: Any) -> Callable[[World], World]:
    """A second instance, like the first but for these."""
    return lambda world: (world[0], (*world[1], msgspec.structs.replace(world[1][0], **changes)))


@pytest.mark.parametrize(
    ("change", "is_ordered"),
    [
        (lambda world: world, True),
        (beside(instance_id="i-other", tags={"Name": "of somebody else"}), True),
        (beside(instance_id="i-other"), False),
        (beside(instance_id="i-other", state="terminated"), False),
        (with_instance(state="terminated"), False),
        (with_instance(tags={}), False),
        (lambda world: (world[0], ()), False),
        (lambda world: ((), world[1]), False),
        (with_claim(is_disrupting=True), False),
        (with_claim(reserved={}), False),
    ],
)
def test_each_claim_has_its_instance_and_each_instance_its_claim(
    world: World, change: Callable[[World], World], is_ordered: bool
) -> None:
    """Only then may a round pass over the sweeps that look for the others."""
    claims, instances = change(world)
    assert labels.CLAIM in world[1][0].tags
    assert is_in_order(claims, instances) is is_ordered
