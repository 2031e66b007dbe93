"""What an observation reads, which depends on what the pods need."""

from __future__ import annotations

from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, a_pending_pod

SCRATCH = {"name": "scratch", "emptyDir": {}}
DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
VOLUME_CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {"storageClassName": "gp3"},
}
STORAGE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "gp3"},
    "provisioner": "ebs.csi.aws.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def planned_and_listed(*pods: object) -> tuple[list[str], set[str]]:
    """Pods that get a node, and the lists that were requested for it."""
    lab, calls = Lab(), list[str]()
    lab.kubernetes.put(STORAGE, VOLUME_CLAIM, *pods)
    lab.kubernetes.before_call = calls.append
    lab.provision()
    listed = {call.removeprefix("list ") for call in calls if call.startswith("list ")}
    return sorted(pod for claim in lab.claims for pod in claim.plan.pods), listed


def test_claims_of_volumes_are_read_where_any_pod_has_one() -> None:
    """Otherwise, the pod's claim counts as missing, and the pod gets no node beside pods that only have scratch space."""
    pods = (a_pending_pod("a", volumes=[SCRATCH]), a_pending_pod("b", volumes=[SCRATCH, DATA]), a_pending_pod("c"))
    planned, listed = planned_and_listed(*pods)
    assert planned == ["default/a", "default/b", "default/c"]
    assert {kind.plural for kind in (kinds.PERSISTENT_VOLUME_CLAIMS, kinds.STORAGE_CLASSES)} <= listed


def test_no_volumes_are_listed_where_no_pod_has_one() -> None:
    """Each list of a large cluster costs the API server and the function time."""
    planned, listed = planned_and_listed(a_pending_pod("a", volumes=[SCRATCH]), a_pending_pod("c"))
    assert planned == ["default/a", "default/c"]
    assert kinds.PERSISTENT_VOLUME_CLAIMS.plural not in listed
