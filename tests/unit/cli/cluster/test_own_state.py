"""The functions' view is read once, of one moment, with all that holds their decisions back, and nothing is written."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import Listing, NotFoundError, TransientError
from adapters.runtime.clock import SystemClock
from adapters.store import SweepState
from cli.cluster import own_state
from cli.cluster.installation import Installation
from cli.cluster.own_state import GivenObjects, OwnState, read_own_state
from cli.errors import InputError
from cli.manifests.document import Document
from cli.manifests.inventory import Inventory
from core.approval.proposal import EXPIRES_AFTER, Proposal
from core.brakes.brake import Brake, BrakeKind, EngagedBrakes
from core.disruption.move_history import MoveHistory
from core.disruption.rollouts import Rollout, target_of
from core.disruption.target.move_price import settings_digest
from core.manifests.wire import api_resources as kinds
from core.model.plan import Command
from tests.builders import NOW, a_stored_target
from tests.fakes.lab import Lab, LabAdapters, a_node_pool, a_pending_pod


def test_objects_that_were_read_before_are_listed_and_not_selected() -> None:
    found = GivenObjects({kinds.PODS: ["p", "q"]})
    assert found.list(kinds.PODS) == Listing(("p", "q"))
    assert found.list(kinds.NODES) == Listing(())
    for words in ({"fields": "spec.nodeName=n"}, {"labels": "a=b"}):
        with pytest.raises(NotFoundError):
            found.list(kinds.PODS, **words)


class Site:
    """Somebody who may read the cluster `prod`: NodePools `default`, with a node for a pod, `other` and `third`, with none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = Lab()
        self.lab.kubernetes.put(a_pending_pod("web"))
        self.lab.settle()
        self.lab.bind("web")
        self.lab.kubernetes.put(a_node_pool("other"), a_node_pool("third"))
        self.node = self.lab.claim.node_name
        self.clock: Any = None
        self.fault: Exception | None = None
        monkeypatch.setattr(own_state, "ReadOnlyAdapters", self._adapters)
        monkeypatch.setattr(own_state, "kubernetes_of", lambda _, cluster, __: {"prod": self.lab.kubernetes}[cluster])

    def _adapters(self, settings: Any, session: Any, clock: Any) -> LabAdapters:
        self.clock = clock
        return LabAdapters(self.lab)

    def read(self, given: Inventory | None = None, **moment: Any) -> OwnState:
        """What is read of the installation, at the lab's moment; whoever writes meanwhile fails the test."""
        session: Any = None
        installation = Installation(cluster="prod", stack="s", settings=self.lab.settings, session=session)
        self.lab.rows.before_call = self._call
        try:
            return read_own_state(installation, given, **{"now": self.lab.clock.now(), **moment})
        finally:
            self.lab.rows.before_call = lambda _: None

    def _call(self, kind: str) -> None:
        assert kind.startswith("read")
        if self.fault is not None:
            raise self.fault

    def proposes(self, name: str, *, at: datetime) -> Proposal:
        """The row of a command that removes the node."""
        command = Command(reason="Empty", method="emptiness", nodes=(self.node,), claims=(self.lab.claim.name,))
        row = Proposal(id=name, command=command, why="it is empty", text="", proposed_at=at)
        self.lab.rows.proposals[name] = row
        return row


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def test_the_present_is_read_of_the_cluster_itself(site: Site) -> None:
    found = site.read(now=None)
    assert abs(found.snapshot.now - SystemClock().now()) < timedelta(minutes=1)
    assert [(pod.name, pod.node_name) for pod in found.snapshot.pods] == [("web", site.node)]
    assert [claim.name for claim in found.snapshot.node_claims] == list(found.view.claims) == [site.lab.claim.name]
    assert (found.snapshot.rollouts, found.snapshot.paused_pools, found.snapshot.stored_target) == ({}, {}, None)
    assert (found.brakes, found.sweeps, found.proposals) == (EngagedBrakes(), {}, None)


def test_objects_that_are_given_are_the_cluster_at_the_given_moment(site: Site) -> None:
    given = Inventory()
    for resource in (kinds.NODE_POOLS, kinds.EC2_NODE_CLASSES, kinds.NODES):
        for listed in site.lab.kubernetes.list(resource).items:
            given.add(resource, listed, Document("given", 0, {}))
    found = site.read(given)
    assert (found.snapshot.now, found.snapshot.pods) == (site.lab.clock.now(), ())
    assert [node.name for node in found.snapshot.nodes] == [site.node]
    assert (site.clock.now(), site.clock.worked()) == (found.snapshot.now, timedelta(0))


def test_brakes_hold_the_snapshot_and_its_target_back_as_disrupt_does(site: Site) -> None:
    """An observed pool is not paused: what it would do is what is asked."""
    lab = site.lab
    target = a_stored_target(site.node, settings=settings_digest(site.read().snapshot))
    LabAdapters(lab).targets.write(target)
    lab.brakes.hold(Brake(BrakeKind.OBSERVED, "observed", node_pool="other"), NOW)
    lab.brakes.hold(Brake(BrakeKind.POOL_BREAKER, "too many failed", node_pool="third"), NOW)
    lab.brakes.failed("third", "never joined", NOW)
    lab.rows.sweeps = {"drift": SweepState(clean_at=NOW, failures=2)}
    found = site.read()
    assert [brake.kind for brake in found.brakes.brakes] == [BrakeKind.POOL_BREAKER, BrakeKind.OBSERVED]
    assert {breaker.node_pool: breaker.failures for breaker in found.breakers} == {"default": 0, "third": 1}
    assert found.sweeps == lab.rows.sweeps
    assert (found.snapshot.paused_pools, found.snapshot.stored_target) == ({"third": "too many failed"}, target)
    lab.brakes.hold(Brake(BrakeKind.POOL_BREAKER, "its node stays", node_pool="default"), NOW)
    found = site.read()
    assert found.snapshot.paused_pools == {"default": "its node stays", "third": "too many failed"}
    assert found.snapshot.stored_target == msgspec.structs.replace(target, drains=())


def test_a_rollout_bounds_drift_until_it_is_proven(site: Site) -> None:
    lab = site.lab
    changed = {"template": {"metadata": {"labels": {"team": "web"}}}}
    lab.kubernetes.amend(kinds.NODE_POOLS, "default", {"spec": changed})
    found = site.read().snapshot
    assert {pool: gate.allowed for pool, gate in found.rollouts.items()} == {"default": 1}
    (pool,) = (one for one in found.node_pools if one.name == "default")
    proven = Rollout(node_pool="default", target=target_of(pool, found), started_at=NOW, is_proven=True)
    lab.rows.moves = MoveHistory(rollouts={"default": proven})
    assert site.read().snapshot.rollouts == {}


def test_nodes_of_proposals_that_wait_are_kept_where_commands_need_approval(site: Site) -> None:
    now = site.lab.clock.now()
    waits, _ = site.proposes("waits", at=now), site.proposes("expired", at=now - EXPIRES_AFTER)
    found = site.read()
    assert (found.proposals, found.snapshot.node_claims[0].hold) == (None, None)
    site.lab.settings = msgspec.structs.replace(site.lab.settings, mode="approve")
    found = site.read()
    hold = found.snapshot.node_claims[0].hold
    assert found.proposals == (waits,)
    assert hold is not None
    assert hold.message.startswith("proposal waits waits until")


def test_a_market_that_was_read_long_ago_is_told(site: Site) -> None:
    assert (site.read().prices_read_at, site.read().stale_market) == (NOW, ())
    site.lab.clock.advance(days=30)
    assert [part.name for part in site.read().stale_market] == ["Prices", "InstanceTypes"]


def test_a_cluster_that_cannot_be_read_is_named(site: Site) -> None:
    site.fault = TransientError("dynamodb:Query", "503")
    with pytest.raises(InputError, match="cluster prod cannot be read: dynamodb:Query") as refused:
        site.read()
    assert "--profile and --region say whose permissions count" in (refused.value.hint or "")
