"""Karpenter's lease says whether its controller runs, and where."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from adapters.observation.karpenter_presence import ASKED_EVERY, HELD_FOR, LEASE, KarpenterPresence
from tests.builders import NOW

TICK = timedelta(microseconds=1)


class Leases:
    """The leases of a cluster, and how often they were listed; also the clock."""

    def __init__(self, *leases: dict[str, Any]) -> None:
        self.items = list(leases)
        self.asked: list[str] = []
        self.at = NOW

    def list(self, resource: object, *, fields: str = "", labels: str = "") -> SimpleNamespace:
        self.asked.append(fields)
        return SimpleNamespace(items=list(self.items))

    def now(self) -> datetime:
        return self.at


def lease(namespace: str | None = "kube-system", holder: str = "karpenter-1", renewed: object = NOW) -> dict[str, Any]:
    where = {} if namespace is None else {"namespace": namespace}
    time = renewed.isoformat() if isinstance(renewed, datetime) else renewed
    return {"metadata": {"name": LEASE, **where}, "spec": {"holderIdentity": holder, "renewTime": time}}


def presence(*leases: dict[str, Any]) -> tuple[KarpenterPresence, Leases]:
    fake = Leases(*leases)
    return KarpenterPresence(fake, fake), fake  # type: ignore[arg-type]  # what it uses of both


@pytest.mark.parametrize(
    ("leases", "namespace"),
    [
        ([], ""),
        ([lease()], "kube-system"),
        ([lease(None)], "default"),
        ([lease("b"), lease("a")], "a"),
        ([lease("a", holder=""), lease("b")], "b"),
        ([lease(renewed=NOW - HELD_FOR + TICK)], "kube-system"),
        ([lease(renewed=NOW - HELD_FOR)], ""),
        ([lease(renewed="2026-11-01T00:00:00")], "kube-system"),
        ([lease(renewed="soon")], "kube-system"),
        ([lease(renewed=None)], "kube-system"),
        ([{"metadata": {"name": LEASE}, "spec": None}], ""),
    ],
)
def test_a_held_lease_says_where_karpenter_runs(leases: list[dict[str, Any]], namespace: str) -> None:
    """In doubt it is there: two controllers that launch for one NodeClaim are worse than none."""
    found, fake = presence(*leases)
    assert (found.namespace(), found.is_there()) == (namespace, bool(namespace))
    assert fake.asked == [f"metadata.name={LEASE}"]


def test_leases_are_listed_once_in_half_a_minute() -> None:
    found, fake = presence(lease())
    assert found.is_there()
    fake.items = []
    fake.at = NOW + ASKED_EVERY - TICK
    assert found.is_there()
    fake.at = NOW + ASKED_EVERY
    assert not found.is_there()
    fake.items = [lease(renewed=fake.at)]
    fake.at += ASKED_EVERY - TICK
    assert not found.is_there()
    assert len(fake.asked) == 2
