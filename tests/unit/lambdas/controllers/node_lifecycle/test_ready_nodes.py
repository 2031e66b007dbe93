"""How long a sandbox has known that a node is ready."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.lifecycle.records import ClaimPhase, ClaimRecord, Moments
from lambdas.controllers.node_lifecycle import ready_nodes
from lambdas.controllers.node_lifecycle.ready_nodes import ReadyNodes
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_record

SECOND = timedelta(seconds=1)


def usable(name: str = "default-x-0", *, is_bound: bool = False) -> ClaimRecord:
    """A claim whose row says that its node was usable a minute ago."""
    moments = Moments(usable_at=NOW - 60 * SECOND)
    record = a_record(ClaimPhase.REGISTERED, moments=moments, is_bound=is_bound)
    return msgspec.structs.replace(record, name=name)


def test_it_counts_from_the_first_look_of_its_own_and_not_from_the_row() -> None:
    nodes = ReadyNodes()
    assert nodes.known_for(usable(), NOW) == timedelta(0)
    assert nodes.known_for(usable(), NOW + SECOND) == SECOND


@pytest.mark.parametrize(
    "record",
    [
        a_record(ClaimPhase.REGISTERED),
        usable(is_bound=True),
        a_record(ClaimPhase.INITIALIZED, moments=Moments(usable_at=NOW)),
    ],
)
def test_nothing_is_known_of_a_node_that_is_not_waiting_for_its_pods(record: ClaimRecord) -> None:
    nodes = ReadyNodes()
    assert [nodes.known_for(record, NOW + after) for after in (timedelta(0), SECOND)] == [timedelta(0)] * 2


def test_it_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_nodes, "REMEMBERED", 2)
    nodes = ReadyNodes()
    for name in ("one", "two", "three"):
        nodes.known_for(usable(name), NOW)
    assert [nodes.known_for(usable(name), NOW + SECOND) for name in ("three", "one")] == [SECOND, timedelta(0)]
