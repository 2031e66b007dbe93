"""Jobs and CronJobs: pods that run until enough of them have succeeded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.manifests.wire import resources
from simulator.cluster.controllers import WorkQueue
from simulator.cluster.store import (
    Change,
    Key,
    Store,
    annotations_of,
    condition_of,
    controller_of,
    full_name,
    is_active,
    is_deleting,
    key_of,
    name_of,
    owner_reference,
    phase_of,
    timestamp,
    uid_of,
    with_condition,
)
from simulator.cluster.workloads import create_pod, wake_for

_INDEX = "batch.kubernetes.io/job-completion-index"


class Jobs:
    """Runs each Job's pods: `parallelism` at a time until `completions` have succeeded.

    An evicted or lost pod is replaced and does not count against `backoffLimit`. A pod that has succeeded counts even if it is
    deleted with its node: Kubernetes keeps such pods by a finalizer until they are counted.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._succeeded: dict[str, dict[str, JsonObject]] = {}
        store.watch(self._pod_changed, resources.PODS)
        self._queue = WorkQueue(store.clock, self._reconcile)
        wake_for(store, self._queue, resources.JOBS, resources.PODS)

    def _pod_changed(self, change: Change) -> None:
        pod = change.new
        if pod is None or phase_of(pod) != "Succeeded" or is_deleting(pod):
            return
        reference = controller_of(pod)
        if reference is not None and reference["kind"] == resources.JOBS.kind:
            self._succeeded.setdefault(reference["uid"], {})[uid_of(pod)] = pod

    def _reconcile(self, key: Key) -> None:
        job = self._store.find(resources.JOBS, key[1], key[0])
        if job is None or is_deleting(job) or is_over(job):
            return
        pods = self._store.owned(resources.PODS, job)
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
            self._store.delete(resources.PODS, name_of(pod), namespace=key_of(pod)[0])
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
            return create_pod(self._store, resources.JOBS, job, labels=labels, spec=policy)
        name = self._store.new_name(f"{name_of(job)}-{index}-")
        mark = {_INDEX: str(index)}
        labels |= mark
        return create_pod(self._store, resources.JOBS, job, name=name, labels=labels, annotations=mark, spec=policy)

    def _stop(self, job: JsonObject, active: list[JsonObject], condition: str, **counts: int) -> None:
        for pod in active:
            self._store.delete(resources.PODS, name_of(pod), namespace=key_of(pod)[0])
        now = self._store.clock.now()
        done = {"completionTime": timestamp(now)} if condition == "Complete" else {}
        conditions = with_condition(job, condition, "True", now)
        self._report(job, active=0, conditions=conditions, **counts, **done)
        after = job["spec"].get("ttlSecondsAfterFinished")
        if after is not None:
            self._store.clock.after(timedelta(seconds=after), lambda: self._expire(job))

    def _expire(self, job: JsonObject) -> None:
        namespace, name = key_of(job)
        present = self._store.find(resources.JOBS, name, namespace)
        if present is not None and uid_of(present) == uid_of(job):
            self._store.delete(resources.JOBS, name, namespace=namespace)

    def _report(self, job: JsonObject, **fields: Any) -> None:
        started = (job.get("status") or {}).get("startTime") or timestamp(self._store.clock.now())
        self._store.patch_status(resources.JOBS, job, startTime=started, **fields)


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


# CronJobs: a Job at each time of their schedule, in UTC unless they name a time zone.


class CronJobs:
    """Starts the Jobs of each CronJob and forgets the old ones."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.watch(self._changed, resources.CRON_JOBS)
        store.watch(self._job_changed, resources.JOBS)

    def _changed(self, change: Change) -> None:
        if change.new is None:
            return
        if change.old is None or change.old["spec"].get("schedule") != change.new["spec"].get("schedule"):
            self._plan(change.new)

    def _job_changed(self, change: Change) -> None:
        if change.new is not None and is_over(change.new) and not (change.old is not None and is_over(change.old)):
            owner = next(
                (ref for ref in change.new["metadata"].get("ownerReferences") or () if ref["kind"] == "CronJob"), None
            )
            if owner is not None:
                self._store.clock.at(
                    self._store.clock.now(), lambda: self._forget(key_of(change.obj)[0], owner["name"])
                )

    def _plan(self, cron_job: JsonObject) -> None:
        due = _next_time(cron_job, self._store.clock.now())
        self._store.clock.at(due, lambda: self._start(cron_job, due))

    def _start(self, planned: JsonObject, due: datetime) -> None:
        namespace, name = key_of(planned)
        cron_job = self._store.find(resources.CRON_JOBS, name, namespace)
        if cron_job is None or is_deleting(cron_job) or uid_of(cron_job) != uid_of(planned):
            return
        if cron_job["spec"]["schedule"] != planned["spec"]["schedule"]:
            return
        if not cron_job["spec"]["suspend"] and self._may_start(cron_job):
            self._create(cron_job, due)
        self._plan(cron_job)

    def _may_start(self, cron_job: JsonObject) -> bool:
        """Whether the concurrency policy allows another Job; Replace makes room for it."""
        running = [job for job in self._store.owned(resources.JOBS, cron_job) if not is_over(job)]
        if cron_job["spec"]["concurrencyPolicy"] == "Forbid":
            return not running
        if cron_job["spec"]["concurrencyPolicy"] == "Replace":
            for job in running:
                self._store.delete(resources.JOBS, name_of(job), namespace=key_of(job)[0])
        return True

    def _create(self, cron_job: JsonObject, due: datetime) -> None:
        template = cron_job["spec"]["jobTemplate"]
        metadata = {
            **(template.get("metadata") or {}),
            "name": f"{name_of(cron_job)}-{int(due.timestamp()) // 60}",
            "namespace": key_of(cron_job)[0],
            "ownerReferences": [owner_reference(resources.CRON_JOBS, cron_job)],
        }
        self._store.create(resources.JOBS, {"metadata": metadata, "spec": template["spec"]})

    def _forget(self, namespace: str, name: str) -> None:
        """Delete finished Jobs beyond the history limits, the oldest first."""
        cron_job = self._store.find(resources.CRON_JOBS, name, namespace)
        if cron_job is None:
            return
        over = [job for job in self._store.owned(resources.JOBS, cron_job) if is_over(job)]
        over.sort(key=lambda job: (job["metadata"]["creationTimestamp"], name_of(job)))
        for field, success in (("successfulJobsHistoryLimit", True), ("failedJobsHistoryLimit", False)):
            of_kind = [job for job in over if has_succeeded(job) == success]
            for job in of_kind[: max(0, len(of_kind) - cron_job["spec"][field])]:
                self._store.delete(resources.JOBS, name_of(job), namespace=namespace)


def _next_time(cron_job: JsonObject, now: datetime) -> datetime:
    spec = cron_job["spec"]
    try:
        following = next(CronSim(spec["schedule"], now.astimezone(ZoneInfo(spec.get("timeZone") or "UTC"))))
    except (CronSimError, StopIteration) as error:
        problem = f"{spec['schedule']!r} never comes"
        raise InvalidInputError(problem, subject=f"CronJob {full_name(cron_job)}", field="spec.schedule") from error
    return following.astimezone(UTC)
