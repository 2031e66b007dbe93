"""A function may die at any call; the schedules alone repair what it leaves half-done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest

from adapters.messages import deleted_node_claim, made_node_claim
from core import labels
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import resources
from tests.fakes.lab import Lab, a_pending_pod
from tests.fakes.world import CrashError

BY_HAND: Final[dict[str, Any]] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "mine"},
    "spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}],
    },
}


class CrashingCall:
    """Crashes the function before the n-th call to the table, EC2 or Kubernetes, or after the n-th write; zero: never."""

    def __init__(self, lab: Lab, *, at: int, after: bool) -> None:
        self.calls = 0
        self.died_in = ""
        self._at = at
        for name, place in (("EC2", lab.cloud), ("table", lab.rows), ("Kubernetes", lab.kubernetes)):
            count = partial(self._count, name)
            if after:
                place.after_call = count
            else:
                place.before_call = count

    def during(self, lab: Lab, act: Callable[[Lab], None]) -> bool:
        """Call `act`; if the function crashes, lose all messages and start a new sandbox. Return whether it did."""
        try:
            act(lab)
        except CrashError:
            lab.work.take()
            lab.wake_ups.take()
            lab.restart()
            return True
        finally:
            self._at = 0
        return False

    def _count(self, place: str, _: str) -> None:
        self.calls += 1
        if self.calls == self._at:
            self.died_in = place
            raise CrashError


def schedules_alone(lab: Lab, rounds: int) -> None:
    """A world in which only schedules, kubelets and the scheduler work; two minutes a round."""
    for _ in range(rounds):
        for _ in range(2):
            lab.clock.advance(seconds=60)
            lab.provision()
            lab.boot()
            lab.disrupt()
        lab.reconcile()
        for _ in range(6):
            lab.clock.advance(seconds=5)
            lab.execute()
        bind_where_possible(lab)


def bind_where_possible(lab: Lab) -> None:
    free = [
        n for n in lab.kubernetes.names(resources.NODES) if not lab.kubernetes.raw(resources.NODES, n)["spec"]["taints"]
    ]
    for pod in lab.kubernetes.names(resources.PODS):
        if free and not lab.kubernetes.raw(resources.PODS, pod, "default")["spec"].get("nodeName"):
            body = {"spec": {"nodeName": free[0]}, "status": {"phase": "Running", "conditions": []}}
            lab.kubernetes.amend(resources.PODS, pod, body, namespace="default")


def launch(lab: Lab) -> None:
    """Two pods get a node."""
    lab.provision()
    lab.boot()
    lab.tick(4)


def empty(lab: Lab) -> None:
    """An empty node is removed, with all steps that follow."""
    for _ in range(2):
        lab.clock.advance(seconds=60)
        lab.disrupt()
        lab.tick(5, seconds=8)


def crashes_at_every_call(act: Callable[[Lab], None], *, after: bool) -> Iterator[Lab]:
    """One lab for each call of `act`, after a crash at it; the first lab counts the calls and does not crash."""
    number = total = 0
    died_in = set()
    while number <= total:
        lab = Lab()
        lab.kubernetes.put(a_pending_pod("p0"), a_pending_pod("p1"))
        if act is empty:
            lab.settle()
            lab.kubernetes.drop(resources.PODS, "p0", "default")
            lab.kubernetes.drop(resources.PODS, "p1", "default")
        crash = CrashingCall(lab, at=number, after=after)
        crashed = crash.during(lab, act)
        total = max(total, crash.calls)
        assert crashed == bool(number), f"no crash at call {number}"
        died_in.add(crash.died_in)
        yield lab
        number += 1
    assert total > (8 if after else 15)
    assert died_in == {"", "EC2", "table", "Kubernetes"}


@pytest.mark.ci
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_while_launching_loses_no_instance_and_no_pod(*, after: bool) -> None:
    """Otherwise, every crash leaves an instance without a claim, or pods that wait forever."""
    for lab in crashes_at_every_call(launch, after=after):
        schedules_alone(lab, rounds=3)
        assert [claim.phase for claim in lab.claims] == [ClaimPhase.INITIALIZED]
        assert [instance.tags[labels.CLAIM] for instance in lab.cloud.instances()] == [lab.claim.name]
        assert lab.claim.provider_id == lab.kubernetes.raw(resources.NODES, lab.claim.node_name)["spec"]["providerID"]


@pytest.mark.ci
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_while_removing_leaves_neither_instance_nor_node_nor_claim(*, after: bool) -> None:
    """Otherwise, a crash during a drain leaves a tainted node that is paid for and takes no pods."""
    for lab in crashes_at_every_call(empty, after=after):
        schedules_alone(lab, rounds=4)
        assert lab.claims == ()
        assert lab.cloud.instances() == ()
        assert lab.kubernetes.names(resources.NODES) == []
        assert lab.app.adapters.stores.commands.all() == ()


def with_an_order() -> Lab:
    """A NodeClaim that somebody made, and a class that is ready."""
    lab = Lab()
    lab.reconcile()
    lab.work.take()
    lab.kubernetes.put(BY_HAND)
    return lab


def order_by_hand(lab: Lab) -> None:
    """Somebody made a NodeClaim: as the audit log tells at once, and `reconcile` until it is taken on."""
    lab.work.send([made_node_claim("mine", lab.clock.now())])
    lab.tick(1)


def test_a_crash_while_a_node_claim_made_by_hand_is_taken_on_launches_it_once() -> None:
    """Otherwise, it is launched twice, or a claim has no object that could be deleted, or the object no claim."""
    number, total = 0, 0
    while number <= total:
        lab = with_an_order()
        crash = CrashingCall(lab, at=number, after=True)
        assert crash.during(lab, order_by_hand) == bool(number)
        total = max(total, crash.calls)
        for _ in range(3):
            lab.clock.advance(seconds=30)
            order_by_hand(lab)
        assert [(claim.name, claim.phase) for claim in lab.claims] == [("mine", ClaimPhase.LAUNCHED)], number
        assert [instance.tags[labels.MADE_BY_HAND] for instance in lab.cloud.instances()] == ["uid-mine"]
        metadata = lab.kubernetes.raw(resources.NODE_CLAIMS, "mine")["metadata"]
        assert (metadata["finalizers"], metadata["annotations"][labels.CLAIM]) == (
            [labels.TERMINATION_FINALIZER],
            "mine",
        )
        number += 1
    assert total > 4


def test_one_that_is_deleted_while_it_is_taken_on_leaves_nothing() -> None:
    """Our finalizer is on it before anything is stored, so every step must know how to let it go again."""
    number, total = 0, 0
    while number <= total:
        lab = with_an_order()
        crash = CrashingCall(lab, at=number, after=True)
        assert crash.during(lab, order_by_hand) == bool(number)
        total = max(total, crash.calls)
        _delete(lab, "mine")
        for _ in range(4):
            lab.clock.advance(seconds=30)
            lab.work.send([deleted_node_claim("mine", lab.clock.now())])
            lab.tick(2)
        lab.clock.advance(minutes=7)
        lab.reconcile()
        names = lab.kubernetes.names(resources.NODE_CLAIMS)
        assert (lab.claims, lab.cloud.instances(), names) == ((), (), []), number
        number += 1
    assert total > 4


def _delete(lab: Lab, name: str) -> None:
    """As a user would: what nobody holds vanishes."""
    obj = lab.kubernetes.raw(resources.NODE_CLAIMS, name)
    if not obj["metadata"].get("finalizers"):
        lab.kubernetes.drop(resources.NODE_CLAIMS, name)
    else:
        lab.kubernetes.amend(resources.NODE_CLAIMS, name, {"metadata": {"deletionTimestamp": "2026-11-23T00:00:00Z"}})
