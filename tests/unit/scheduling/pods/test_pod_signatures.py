"""What makes pods equal for scheduling."""

from __future__ import annotations

from core import labels
from core.model.pod import PodAffinityTerm
from core.scheduling.pods.pod_signatures import PodSignatures
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
