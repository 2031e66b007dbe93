"""What keeps nodes from changing hands, and patches of objects that others write to."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from adapters.ports import ConflictError
from cli.takeover.environment import SETTLED_AFTER, TRIES, TakeoverEnvironment
from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, LabAdapters

PARAMETER = "/fleetwright/test/mode"


class FakeSsm:
    """The kill switch's parameter."""

    def __init__(self, value: str, since: Any) -> None:
        self.answer = {"Parameter": {"Name": PARAMETER, "Value": value, "LastModifiedDate": since}}

    def call(self, operation: str, *, Name: str) -> Any:  # noqa: N803 - SSM's own spelling
        assert (operation, Name) == ("GetParameter", PARAMETER)
        return self.answer


def a_site(lab: Lab, value: str = "stop", age: timedelta = timedelta(hours=1)) -> TakeoverEnvironment:
    service: Any = FakeSsm(value, lab.clock.now() - age)
    return TakeoverEnvironment(LabAdapters(lab), service, service)


def test_nothing_is_in_the_way_once_everybody_stands_still() -> None:
    lab = Lab(kill_switch_parameter=PARAMETER)
    assert a_site(lab, age=SETTLED_AFTER).hindrances() == []
    assert a_site(lab, value=" STOP\n").hindrances() == []


@pytest.mark.parametrize("value", ["run", "pause-disruption", "halt"])
def test_functions_that_act_are_stopped_first(value: str) -> None:
    (told,) = a_site(Lab(kill_switch_parameter=PARAMETER), value).hindrances()
    assert "`fleetwright pause --cluster test --everything`" in told


def test_what_had_begun_is_waited_for() -> None:
    """Functions read the switch every 15 seconds, and a call of theirs takes 45 at most."""
    assert timedelta(seconds=60) == SETTLED_AFTER
    (told,) = a_site(Lab(kill_switch_parameter=PARAMETER), age=timedelta(seconds=20)).hindrances()
    assert "run this again in 41 seconds" in told


def test_without_a_kill_switch_nobody_can_stand_still() -> None:
    (told,) = a_site(Lab()).hindrances()
    assert "deploy the stack again" in told


@pytest.mark.parametrize("renewed", ["2026-11-19T23:59:30Z", None])
def test_karpenters_lease_is_found_in_any_namespace(renewed: str | None) -> None:
    lab = Lab(kill_switch_parameter=PARAMETER)
    spec = {"holderIdentity": "karpenter-1", "renewTime": renewed}
    metadata = {"name": "karpenter-leader-election", "namespace": "infra"}
    lab.kubernetes.put({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    (told,) = a_site(lab).hindrances()
    assert "kubectl -n infra scale deployment karpenter --replicas=0" in told


def test_a_lease_that_was_given_up_or_has_run_out_is_nobodys() -> None:
    for spec in ({"holderIdentity": ""}, {"holderIdentity": "k", "renewTime": "2026-11-19T23:58:00Z"}):
        lab = Lab(kill_switch_parameter=PARAMETER)
        metadata = {"name": "karpenter-leader-election", "namespace": "kube-system"}
        lab.kubernetes.put(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        )
        assert a_site(lab).hindrances() == []


def a_node(lab: Lab) -> None:
    lab.kubernetes.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}, "status": {}})


def test_a_patch_is_made_again_from_what_somebody_wrote_meanwhile() -> None:
    """A kubelet's write between our read and our patch is not lost."""
    lab = Lab()
    a_node(lab)
    writes = [1]

    def patch_of(node: Any) -> Any:
        if writes:
            writes.pop()
            lab.kubernetes.amend(kinds.NODES, "n", {"metadata": {"finalizers": ["of-another"]}})
        return {"metadata": {"finalizers": [*node.metadata.finalizers, "ours"]}}

    a_site(lab).patch(kinds.NODES, "n", patch_of)
    assert lab.kubernetes.raw(kinds.NODES, "n")["metadata"]["finalizers"] == ["of-another", "ours"]


def test_a_patch_is_given_up_after_some_attempts() -> None:
    lab = Lab()
    a_node(lab)
    tries = []

    def patch_of(_: Any) -> Any:
        tries.append(1)
        lab.kubernetes.amend(kinds.NODES, "n", {"metadata": {"labels": {"a": str(len(tries))}}})
        return {"metadata": {}}

    with pytest.raises(ConflictError):
        a_site(lab).patch(kinds.NODES, "n", patch_of)
    assert len(tries) == TRIES
