"""What makes pods equal for scheduling."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.model.pod import PodAffinityTerm
from core.scheduling.pods import pod_signatures
from core.scheduling.pods.pod_signatures import KnownQuestions, PodSignatures
from core.scheduling.primitives.resource_vector import ResourceAxis
from tests.builders import a_pod, a_selector, a_snapshot

APART = PodAffinityTerm(labels.ZONE, a_selector(app="web"))


def test_labels_that_no_rule_reads_do_not_distinguish_pods() -> None:
    """Otherwise, every pod of a workload is planned alone."""
    pods = (
        a_pod("a", cpu="1", labels={"app": "web", "pod-template-hash": "1"}, anti_affinity=(APART,)),
        a_pod("b", cpu="2", labels={"app": "web", "pod-template-hash": "2"}, anti_affinity=(APART,)),
        a_pod("c", cpu="1", labels={"app": "db", "pod-template-hash": "1"}, anti_affinity=(APART,)),
    )
    signatures = PodSignatures(a_snapshot(pods=pods), pods, ResourceAxis(["cpu"]))
    sized = [signatures.of(pod) for pod in pods]
    a, b, c = (one.signature for one in sized)
    assert a is b
    assert a is not c
    assert [one.requests for one in sized] == [(1000,), (2000,), (1000,)]
    assert (a.labels, signatures.all) == ({"app": "web"}, [a, c])


def test_fields_that_a_constraint_reads_distinguish_pods() -> None:
    """Otherwise, pods with and without the constraint are one group."""
    pods = (a_pod("a", annotations={"cap": "1"}), a_pod("b"))
    plain = PodSignatures(a_snapshot(pods=pods), pods, ResourceAxis(["cpu"]))
    told = PodSignatures(
        a_snapshot(pods=pods), pods, ResourceAxis(["cpu"]), lambda pod: ((int, pod.annotations.get("cap")),)
    )
    assert len({id(plain.of(pod).signature) for pod in pods}) == 1
    assert [told.of(pod).signature.facts for pod in pods] == [{int: "1"}, {int: None}]


@pytest.mark.parametrize("kept", [0, 100])
def test_with_known_questions_the_signatures_are_those_of_each_snapshot_alone(
    kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulation keeps the questions of unchanged pods: no change of a pod or of the labels that rules read is missed."""
    monkeypatch.setattr(pod_signatures, "QUESTIONS_KEPT", kept)
    web = tuple(a_pod(name, labels={"app": "web", "tier": name}) for name in "abc")
    db = a_pod("d", labels={"app": "db", "tier": "a"})
    relabelled = msgspec.structs.replace(web[0], labels={"app": "db"})
    apart = a_pod("e", labels={"app": "web"}, anti_affinity=(APART,))
    by_tier = a_pod("f", anti_affinity=(PodAffinityTerm(labels.ZONE, a_selector(tier="a")),))
    elsewhere = msgspec.structs.replace(db, namespace="shop")
    known = KnownQuestions()
    for pods in ((*web, db), (*web[1:], db, relabelled), (*web, apart, db), (*web, apart, by_tier), (elsewhere, *web)):
        snapshot, axis = a_snapshot(pods=pods), ResourceAxis(["cpu"])
        alone, found = PodSignatures(snapshot, pods, axis), PodSignatures(snapshot, pods, axis, known=known)
        for pod in pods:
            assert msgspec.structs.astuple(found.of(pod).signature) == msgspec.structs.astuple(alone.of(pod).signature)
            assert found.of(pod).requests == alone.of(pod).requests
        assert len(found.all) == len(alone.all)
