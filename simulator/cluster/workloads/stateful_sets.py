"""StatefulSets: pods with stable names and volumes, one after the other."""

from __future__ import annotations

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.int_or_percent import amount
from simulator.cluster.objects import Key, is_deleting, is_finished, is_ready, key_of, labels_of, name_of
from simulator.cluster.store import Store
from simulator.cluster.work_queue import WorkQueue
from simulator.cluster.workloads.ownership import create_pod, template_hash, wake_for

_REVISION = "controller-revision-hash"


class StatefulSets:
    """Brings each StatefulSet's pods up in order, down in reverse, and to a new template from the last to the first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        wake_for(store, WorkQueue(store.clock, self._reconcile), kinds.STATEFUL_SETS, kinds.PODS)

    def _reconcile(self, key: Key) -> None:
        stateful_set = self._store.find(kinds.STATEFUL_SETS, key[1], key[0])
        if stateful_set is None or is_deleting(stateful_set):
            return
        pods = {name_of(pod): pod for pod in self._store.owned(kinds.PODS, stateful_set)}
        if self._raise(stateful_set, pods) and self._lower(stateful_set, pods):
            self._update(stateful_set, pods)
        self._report(stateful_set)

    def _raise(self, stateful_set: JsonObject, pods: dict[str, JsonObject]) -> bool:
        """Create missing pods; true if all wanted pods exist, and are ready where order matters."""
        for ordinal in _ordinals(stateful_set):
            pod = pods.get(f"{name_of(stateful_set)}-{ordinal}")
            if pod is not None and is_finished(pod) and not is_deleting(pod):
                self._store.delete(kinds.PODS, name_of(pod), namespace=key_of(pod)[0])
            elif pod is None:
                self._create(stateful_set, ordinal)
            if not _is_parallel(stateful_set) and (pod is None or not is_ready(pod) or is_deleting(pod)):
                return False
        return True

    def _lower(self, stateful_set: JsonObject, pods: dict[str, JsonObject]) -> bool:
        """Delete surplus pods, the highest ordinal first; true if there are none."""
        wanted = {f"{name_of(stateful_set)}-{ordinal}" for ordinal in _ordinals(stateful_set)}
        surplus = sorted((name for name in pods if name not in wanted), key=_ordinal_of, reverse=True)
        for name in surplus:
            if not is_deleting(pods[name]):
                self._store.delete(kinds.PODS, name, namespace=key_of(stateful_set)[0])
            if not _is_parallel(stateful_set):
                return False
        return not surplus

    def _update(self, stateful_set: JsonObject, pods: dict[str, JsonObject]) -> None:
        """Delete outdated pods, the highest first, as many at a time as may be unavailable."""
        strategy = stateful_set["spec"]["updateStrategy"]
        if strategy.get("type") == "OnDelete":
            return
        rolling = strategy.get("rollingUpdate") or {}
        allowed = max(1, amount(rolling.get("maxUnavailable", 1), len(pods), round_up=True))
        revision = template_hash(stateful_set["spec"]["template"])
        unavailable = sum(is_deleting(pod) or not is_ready(pod) for pod in pods.values())
        for ordinal in reversed(_ordinals(stateful_set)):
            pod = pods.get(f"{name_of(stateful_set)}-{ordinal}")
            if ordinal < rolling.get("partition", 0) or pod is None:
                return
            if is_deleting(pod) or labels_of(pod).get(_REVISION) == revision:
                continue
            if is_ready(pod):
                if unavailable >= allowed:
                    return
                unavailable += 1
            self._store.delete(kinds.PODS, name_of(pod), namespace=key_of(pod)[0])

    def _create(self, stateful_set: JsonObject, ordinal: int) -> None:
        name = f"{name_of(stateful_set)}-{ordinal}"
        spec = stateful_set["spec"]["template"].get("spec") or {}
        templates = stateful_set["spec"].get("volumeClaimTemplates") or []
        claimed = {template["metadata"]["name"]: f"{template['metadata']['name']}-{name}" for template in templates}
        for template in templates:
            self._claim(stateful_set, template, claimed[template["metadata"]["name"]])
        volumes = [volume for volume in spec.get("volumes") or [] if volume["name"] not in claimed]
        volumes += [{"name": n, "persistentVolumeClaim": {"claimName": claim}} for n, claim in claimed.items()]
        own = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
            _REVISION: template_hash(stateful_set["spec"]["template"]),
        }
        changes = {"hostname": name, **({"volumes": volumes} if volumes else {})}
        create_pod(self._store, kinds.STATEFUL_SETS, stateful_set, name=name, labels=own, spec=changes)

    def _claim(self, stateful_set: JsonObject, template: JsonObject, name: str) -> None:
        namespace = key_of(stateful_set)[0]
        if self._store.find(kinds.PERSISTENT_VOLUME_CLAIMS, name, namespace) is not None:
            return
        selector = (stateful_set["spec"].get("selector") or {}).get("matchLabels") or {}
        metadata = {**template["metadata"], "name": name, "namespace": namespace}
        metadata["labels"] = {**(metadata.get("labels") or {}), **selector}
        self._store.create(kinds.PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": template["spec"]})

    def _report(self, stateful_set: JsonObject) -> None:
        pods = self._store.owned(kinds.PODS, stateful_set)
        ready = sum(is_ready(pod) and not is_deleting(pod) for pod in pods)
        self._store.patch_status(
            kinds.STATEFUL_SETS,
            stateful_set,
            replicas=len(pods),
            readyReplicas=ready,
            availableReplicas=ready,
            observedGeneration=stateful_set["metadata"]["generation"],
        )


def _ordinals(stateful_set: JsonObject) -> range:
    start = (stateful_set["spec"].get("ordinals") or {}).get("start", 0)
    return range(start, start + stateful_set["spec"]["replicas"])


def _is_parallel(stateful_set: JsonObject) -> bool:
    return bool(stateful_set["spec"]["podManagementPolicy"] == "Parallel")


def _ordinal_of(name: str) -> int:
    return int(name.rpartition("-")[2])
