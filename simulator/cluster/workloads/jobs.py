"""Jobs: pods that run until enough of them have succeeded."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.objects import (
    Key,
    annotations_of,
    condition_of,
    controller_of,
    is_active,
    is_deleting,
    key_of,
    name_of,
    phase_of,
    timestamp,
    uid_of,
    with_condition,
)
from simulator.cluster.store import Change, Store
from simulator.cluster.work_queue import WorkQueue
from simulator.cluster.workloads.ownership import create_pod, wake_for

_INDEX = "batch.kubernetes.io/job-completion-index"


class Jobs:
    """Runs each Job's pods: `parallelism` at a time until `completions` have succeeded.

    An evicted or lost pod is replaced and does not count against `backoffLimit`. A pod that has succeeded counts even if it is
    deleted with its node: Kubernetes keeps such pods by a finalizer until they are counted.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._succeeded: dict[str, dict[str, JsonObject]] = {}
        store.watch(self._pod_changed, kinds.PODS)
        self._queue = WorkQueue(store.clock, self._reconcile)
        wake_for(store, self._queue, kinds.JOBS, kinds.PODS)

    def _pod_changed(self, change: Change) -> None:
        pod = change.new
        if pod is None or phase_of(pod) != "Succeeded" or is_deleting(pod):
            return
        reference = controller_of(pod)
        if reference is not None and reference["kind"] == kinds.JOBS.kind:
            self._succeeded.setdefault(reference["uid"], {})[uid_of(pod)] = pod

    def _reconcile(self, key: Key) -> None:
        job = self._store.find(kinds.JOBS, key[1], key[0])
        if job is None or is_deleting(job) or is_over(job):
            return
        pods = self._store.owned(kinds.PODS, job)
        active = [pod for pod in pods if is_active(pod)]
        succeeded = list(self._succeeded.get(uid_of(job), {}).values())
        failed = sum(phase_of(pod) == "Failed" for pod in pods)
        spec = job["spec"]
        wanted = spec.get("completions")
        done = len(succeeded) >= wanted if wanted is not None else bool(succeeded) and not active
        if failed > spec["backoffLimit"]:
            self._stop(job, active, "Failed", succeeded=len(succeeded), failed=failed)
        elif done:
            self._stop(job, active, "Complete", succeeded=len(succeeded), failed=failed)
        else:
            active = self._balance(job, active, succeeded)
            self._report(job, active=len(active), succeeded=len(succeeded), failed=failed)

    def _balance(self, job: JsonObject, active: list[JsonObject], succeeded: list[JsonObject]) -> list[JsonObject]:
        """Create or delete pods until the allowed number is active."""
        wanted = 0 if job["spec"]["suspend"] else job["spec"]["parallelism"]
        completions = job["spec"].get("completions")
        if completions is not None:
            wanted = min(wanted, completions - len(succeeded))
        elif succeeded:
            wanted = min(wanted, len(active))
        for pod in active[wanted:]:
            self._store.delete(kinds.PODS, name_of(pod), namespace=key_of(pod)[0])
        active = active[:wanted]
        free = _free_indexes(job, [*active, *succeeded])
        return [*active, *(self._create(job, index) for index in free[: wanted - len(active)])]

    def _create(self, job: JsonObject, index: int | None) -> JsonObject:
        labels = {
            "batch.kubernetes.io/job-name": name_of(job),
            "job-name": name_of(job),
            "batch.kubernetes.io/controller-uid": uid_of(job),
        }
        template = job["spec"]["template"]
        policy = {"restartPolicy": (template.get("spec") or {}).get("restartPolicy") or "Never"}
        if index is None:
            return create_pod(self._store, kinds.JOBS, job, labels=labels, spec=policy)
        name = self._store.new_name(f"{name_of(job)}-{index}-")
        mark = {_INDEX: str(index)}
        labels |= mark
        return create_pod(self._store, kinds.JOBS, job, name=name, labels=labels, annotations=mark, spec=policy)

    def _stop(self, job: JsonObject, active: list[JsonObject], condition: str, **counts: int) -> None:
        for pod in active:
            self._store.delete(kinds.PODS, name_of(pod), namespace=key_of(pod)[0])
        now = self._store.clock.now()
        done = {"completionTime": timestamp(now)} if condition == "Complete" else {}
        conditions = with_condition(job, condition, "True", now)
        self._report(job, active=0, conditions=conditions, **counts, **done)
        after = job["spec"].get("ttlSecondsAfterFinished")
        if after is not None:
            self._store.clock.after(timedelta(seconds=after), lambda: self._expire(job))

    def _expire(self, job: JsonObject) -> None:
        namespace, name = key_of(job)
        present = self._store.find(kinds.JOBS, name, namespace)
        if present is not None and uid_of(present) == uid_of(job):
            self._store.delete(kinds.JOBS, name, namespace=namespace)

    def _report(self, job: JsonObject, **fields: Any) -> None:
        started = (job.get("status") or {}).get("startTime") or timestamp(self._store.clock.now())
        self._store.patch_status(kinds.JOBS, job, startTime=started, **fields)


def is_over(job: JsonObject) -> bool:
    """Whether the Job is complete or has failed."""
    return any(condition_of(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))


def has_succeeded(job: JsonObject) -> bool:
    """Whether the Job is complete."""
    return condition_of(job, "Complete").get("status") == "True"


def _free_indexes(job: JsonObject, taken: list[JsonObject]) -> list[int | None]:
    if job["spec"]["completionMode"] != "Indexed":
        return [None] * int(job["spec"]["parallelism"])
    used = {annotations_of(pod).get(_INDEX) for pod in taken}
    return [index for index in range(job["spec"]["completions"]) if str(index) not in used]
