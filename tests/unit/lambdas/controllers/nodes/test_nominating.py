"""Pods are nominated for the node that was launched for them, so that kube-scheduler keeps its room for them."""

from __future__ import annotations

import pytest

from adapters.observation.expected_pods import NOMINATIONS_VALID_FOR
from adapters.ports import DeniedError
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import api_resources as kinds
from lambdas.controllers.nodes.nominating import FAILURES
from tests.fakes.lab import Lab, a_pending_pod


@pytest.fixture
def lab() -> Lab:
    """Two pods for which a node was launched that has not joined yet."""
    found = Lab(bind_pods=False)
    found.kubernetes.put(a_pending_pod("a"), a_pending_pod("b"))
    found.provision()
    return found


def join(lab: Lab, **span: float) -> None:
    lab.tick(3)
    lab.boot()
    lab.tick(1, **span)


def nominated(lab: Lab, pod: str) -> str | None:
    named: str | None = lab.kubernetes.raw(kinds.PODS, pod, "default")["status"].get("nominatedNodeName")
    return named


def take_the_node(lab: Lab) -> None:
    """A foreign pod fills it."""
    taker = a_pending_pod("taker", cpu="3900m", nodeName=lab.claim.node_name)
    lab.kubernetes.put({**taker, "status": {"phase": "Running"}})


def test_pods_are_nominated_for_the_node_once_it_is_open(lab: Lab) -> None:
    """The scheduler retries a nominated pod only at times, and removes a nomination for a closed node."""
    patched: list[tuple[str, str | None]] = []

    def note(call: str) -> None:
        if call.startswith("patch"):
            patched.append((call, nominated(lab, "b")))

    lab.kubernetes.before_call = note
    join(lab)
    (node,) = lab.kubernetes.names(kinds.NODES)
    assert patched[:3] == [("patch nodes", None), ("patch pods", None), ("patch pods", None)]
    assert nominated(lab, "b") == node
    assert lab.claim.nominated == ("default/a", "default/b")


def test_only_pending_pods_are_nominated(lab: Lab) -> None:
    """The API server refuses a nomination of a bound pod, and a pod of that name may be another one."""
    lab.kubernetes.amend(kinds.PODS, "a", {"spec": {"nodeName": "elsewhere"}}, "default")
    join(lab)
    assert (nominated(lab, "a"), lab.claim.nominated) == (None, ("default/b",))


def test_a_setting_turns_it_off() -> None:
    lab = Lab(nominate_pods=False, bind_pods=False)
    lab.kubernetes.put(a_pending_pod("a"))
    lab.provision()
    join(lab)
    assert (nominated(lab, "a"), lab.claim.phase) == (None, ClaimPhase.INITIALIZED)


def test_a_cluster_that_refuses_nominations_still_gets_its_nodes() -> None:
    """An older ClusterRole must not keep nodes from joining."""
    lab = Lab(bind_pods=False)
    lab.kubernetes.put(*(a_pending_pod(f"p{number}", cpu="100m") for number in range(9)))
    lab.provision()
    refused: list[str] = []

    def refuse(call: str) -> None:
        if call == "patch pods":
            refused.append(call)
            raise DeniedError("kube:patch pods/status", "403 forbidden")

    lab.kubernetes.before_call = refuse
    join(lab)
    assert lab.claim.is_registered
    assert len(refused) == FAILURES


def test_a_pod_that_was_just_bound_does_not_count_as_a_refusal() -> None:
    """After three refusals, the claim's other pods get no nomination."""
    lab = Lab(bind_pods=False)
    lab.kubernetes.put(*(a_pending_pod(f"p{number}", cpu="100m") for number in range(9)))
    lab.provision()
    answered: list[str] = []

    def refuse(call: str) -> None:
        if call == "patch pods" and len(answered) < FAILURES:
            answered.append(call)
            message = "422 status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
            raise DeniedError("kube:patch pods/status", message)

    lab.kubernetes.before_call = refuse
    join(lab)
    assert len(lab.claim.nominated) == 9 - FAILURES


def test_a_valid_nomination_counts_as_a_binding_for_a_while(lab: Lab) -> None:
    """The scheduler keeps the room: a second place planned for the pod would stay empty."""
    join(lab)
    take_the_node(lab)
    lab.provision()
    assert len(lab.claims) == 1
    lab.clock.advance(seconds=NOMINATIONS_VALID_FOR.total_seconds())
    lab.provision()
    assert len(lab.claims) > 1


def test_a_nomination_that_the_scheduler_removed_does_not_count(lab: Lab) -> None:
    join(lab)
    take_the_node(lab)
    for pod in ("a", "b"):
        lab.kubernetes.amend(kinds.PODS, pod, {"status": {"nominatedNodeName": None}}, "default")
    lab.provision()
    assert len(lab.claims) > 1


def test_a_nomination_by_preemption_counts_as_before(lab: Lab) -> None:
    """Karpenter's rule: the scheduler makes room for the pod, so a node for it would be superfluous."""
    join(lab)
    (node,) = lab.kubernetes.names(kinds.NODES)
    pod = a_pending_pod("urgent", cpu="3")
    lab.kubernetes.put({**pod, "status": {**pod["status"], "nominatedNodeName": node}})
    take_the_node(lab)
    lab.clock.advance(seconds=NOMINATIONS_VALID_FOR.total_seconds() - 60)
    lab.provision()
    assert len(lab.claims) == 1


def test_bound_pods_are_no_longer_remembered_as_nominated(lab: Lab) -> None:
    """Otherwise, each row keeps its pods forever."""
    join(lab)
    lab.bind("a")
    lab.clock.advance(minutes=1)
    lab.disrupt()
    assert lab.claim.nominated == ("default/b",)
