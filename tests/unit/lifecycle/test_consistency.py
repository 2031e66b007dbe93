"""Whether a node has the resources of its type."""

from __future__ import annotations

import msgspec
import pytest

from core.lifecycle.consistency import shortfall
from tests.unit.lifecycle.records_for_tests import a_node, a_plan, a_record


@pytest.mark.parametrize(
    ("expected", "has", "told"),
    [
        (2000, 1800, ""),
        (2000, 1799, "node n has 1799m of cpu where 2 was expected"),
        (0, 0, ""),
    ],
)
def test_nine_tenths_of_a_requested_resource_are_enough(expected: int, has: int, told: str) -> None:
    record = a_record()
    assert record.machine is not None
    machine = msgspec.structs.replace(record.machine, capacity={"cpu": expected, "memory": 2**30})
    record = msgspec.structs.replace(record, machine=machine, plan=a_plan(resources={"cpu": 1000}))
    assert shortfall(record, a_node(capacity={"cpu": has})) == told


def test_what_was_not_requested_may_be_short() -> None:
    record = a_record()
    assert record.machine is not None
    machine = msgspec.structs.replace(record.machine, capacity={"cpu": 4000, "memory": 2**30, "pods": 9})
    record = msgspec.structs.replace(record, machine=machine, plan=a_plan(resources={"cpu": 0, "memory": 1}))
    assert shortfall(record, a_node(capacity={"memory": 2**20})) == "node n has 1Mi of memory where 1Gi was expected"


def test_a_claim_whose_instance_is_not_known_misses_nothing() -> None:
    record = a_record(machine=None)
    assert shortfall(record, a_node(capacity={"cpu": 1})) == ""
