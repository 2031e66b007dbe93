"""The functions' view is read once, of one moment, with all that holds their decisions back, and nothing is written."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from adapters.ports import Listing, NotFoundError, TransientError
from adapters.runtime.clock import SystemClock
from cli.cluster import own_state
from cli.cluster.own_state import GivenObjects, read_own_state
from cli.errors import InputError
from core.brakes.brake import Brake, BrakeKind, EngagedBrakes
from core.manifests.wire import api_resources as kinds
from tests.builders import NOW, a_pod, a_pool, a_snapshot

SNAPSHOT = a_snapshot(node_pools=(a_pool("a"), a_pool("b")), pods=(a_pod("p"),))


def test_objects_that_were_read_before_are_listed_and_not_selected() -> None:
    found = GivenObjects({kinds.PODS: ["p", "q"]})
    assert found.list(kinds.PODS) == Listing(("p", "q"))
    assert found.list(kinds.NODES) == Listing(())
    for words in ({"fields": "spec.nodeName=n"}, {"labels": "a=b"}):
        with pytest.raises(NotFoundError):
            found.list(kinds.PODS, **words)


def test_brakes_and_rollouts_hold_a_snapshot_back_as_disrupt_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """An observed pool is not paused: what it would do is what is asked."""
    gates = {"a": SimpleNamespace(gate="gate"), "b": SimpleNamespace(gate=None)}
    monkeypatch.setattr(own_state, "rollouts", lambda snapshot, known: gates if (snapshot, known) == asked else {})
    asked = (SNAPSHOT, {"a": "known"})
    brakes = EngagedBrakes(
        (
            Brake(BrakeKind.POOL_BREAKER, "too many failed", node_pool="b"),
            Brake(BrakeKind.OBSERVED, "observed", node_pool="a"),
        )
    )
    known: Any = {"a": "known"}
    held = own_state._held_back(SNAPSHOT, brakes, known)
    assert (held.rollouts, held.paused_pools) == ({"a": "gate"}, {"b": "too many failed"})
    assert held.pods == SNAPSHOT.pods


class Reader:
    """The read-only adapters of an installation."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
        self.rule, self.facts_read, self.fault = changes.pop("rule", None), changes.pop("facts", None), None
        self.clocks: list[Any] = []
        self.observed_with: list[Any] = []
        self.settings = SimpleNamespace(approval_rule=lambda: self.rule)
        self.catalogues = SimpleNamespace(facts=lambda: self.facts_read)
        self.targets, self.proposals = "targets", SimpleNamespace(all=lambda: "every proposal")
        self.sweep_log = SimpleNamespace(read=lambda: {"sweep": "state"})
        self.stores = SimpleNamespace(
            moves=SimpleNamespace(read=lambda now: SimpleNamespace(rollouts={}) if now == NOW else None),
            brakes=SimpleNamespace(engaged=EngagedBrakes),
            breakers=SimpleNamespace(breakers=lambda: ("breaker",)),
        )
        self.installation: Any = SimpleNamespace(settings=self.settings, session="session", cluster="prod")
        self.view = SimpleNamespace(snapshot=SNAPSHOT)
        monkeypatch.setattr(own_state, "ReadOnlyAdapters", self._adapters)
        monkeypatch.setattr(own_state, "Observer", self._observer)
        monkeypatch.setattr(own_state, "kubernetes_of", lambda *given: ("cluster", *given))
        monkeypatch.setattr(own_state, "current_target", lambda *given: ("target", *given))
        monkeypatch.setattr(own_state, "open_proposals", lambda *given: ("open", *given))
        monkeypatch.setattr(own_state, "without_proposed", self._without)

    def _adapters(self, settings: Any, session: str, clock: Any) -> Any:
        assert (settings, session) == (self.settings, "session")
        self.clocks.append(clock)
        return self

    def _observer(self, kubernetes: Any, catalogues: Any, stores: Any, settings: Any, clock: Any) -> Any:
        assert (catalogues, stores, settings) == (self.catalogues, self.stores, self.settings)
        assert clock is self.clocks[-1]
        self.observed_with.append(kubernetes)
        return SimpleNamespace(observe=self._observe)

    def _observe(self) -> Any:
        if self.fault is not None:
            raise self.fault
        return self.view

    def _without(self, snapshot: Any, proposals: Any) -> Any:
        self.waiting = proposals
        return snapshot


def test_the_present_is_read_of_the_cluster_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch)
    found = read_own_state(reader.installation, None)
    assert found.view is reader.view
    (clock,) = reader.clocks
    assert isinstance(clock, SystemClock)
    assert reader.observed_with == [("cluster", "session", "prod", clock)]
    assert found.snapshot.pods == SNAPSHOT.pods
    assert found.snapshot.stored_target == (
        "target",
        "targets",
        own_state._held_back(SNAPSHOT, EngagedBrakes(), {}),
        EngagedBrakes(),
    )
    assert (found.brakes, found.breakers, found.sweeps) == (EngagedBrakes(), ("breaker",), {"sweep": "state"})
    assert (found.prices_read_at, found.proposals, found.stale_market, reader.waiting) == (None, None, (), ())


def test_a_moment_that_is_given_is_the_only_one_and_so_are_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = SimpleNamespace(prices_read_at=NOW, stale_parts=lambda now: ("stale", now))
    reader = Reader(monkeypatch, rule="any", facts=facts)
    given: Any = SimpleNamespace(objects={kinds.PODS: ["p"]})
    found = read_own_state(reader.installation, given, NOW)
    (clock,) = reader.clocks
    assert (clock.now(), clock.worked()) == (NOW, timedelta(0))
    (kubernetes,) = reader.observed_with
    assert kubernetes.list(kinds.PODS) == Listing(("p",))
    assert found.proposals == reader.waiting == ("open", "every proposal", NOW)
    assert (found.prices_read_at, found.stale_market) == (NOW, ("stale", NOW))


def test_a_cluster_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch)
    reader.fault = TransientError("dynamodb:Query", "503")
    with pytest.raises(InputError, match="cluster prod cannot be read: dynamodb:Query") as refused:
        read_own_state(reader.installation, None)
    assert "--profile and --region say whose permissions count" in (refused.value.hint or "")
