"""A minimum is proven of a snapshot every quarter of an hour: a proof takes as long as a plan for all pods."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from cli.ledger import shadow_report
from tests.builders import NOW, a_snapshot


def test_a_minimum_is_proven_of_the_first_snapshot_and_of_those_that_come_late_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shadow_report, "as_acting", lambda snapshot: ("acting", snapshot.now))
    monkeypatch.setattr(shadow_report, "fleet_minimum", lambda found: found)
    bounds, world = shadow_report._Bounds(), a_snapshot()
    minutes = (0, 1, 14.99, 15, 16, 29.99, 30.5, 45, 46)
    found = []
    for number in minutes:
        moment = NOW + timedelta(minutes=number)
        bound = bounds.of(msgspec.structs.replace(world, now=moment))
        assert bound in (None, ("acting", moment))
        found += [number] if bound else []
    assert found == [0, 15, 30.5, 46]
