"""CronJobs: a Job at each time of their schedule, in UTC unless they name a time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.manifests.wire import api_resources as kinds
from simulator.cluster.objects import full_name, is_deleting, key_of, name_of, owner_reference, uid_of
from simulator.cluster.store import Change, Store
from simulator.cluster.workloads.jobs import has_succeeded, is_over


class CronJobs:
    """Starts the Jobs of each CronJob and forgets the old ones."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.watch(self._changed, kinds.CRON_JOBS)
        store.watch(self._job_changed, kinds.JOBS)

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
        cron_job = self._store.find(kinds.CRON_JOBS, name, namespace)
        if cron_job is None or is_deleting(cron_job) or uid_of(cron_job) != uid_of(planned):
            return
        if cron_job["spec"]["schedule"] != planned["spec"]["schedule"]:
            return
        if not cron_job["spec"]["suspend"] and self._may_start(cron_job):
            self._create(cron_job, due)
        self._plan(cron_job)

    def _may_start(self, cron_job: JsonObject) -> bool:
        """Whether the concurrency policy allows another Job; Replace makes room for it."""
        running = [job for job in self._store.owned(kinds.JOBS, cron_job) if not is_over(job)]
        if cron_job["spec"]["concurrencyPolicy"] == "Forbid":
            return not running
        if cron_job["spec"]["concurrencyPolicy"] == "Replace":
            for job in running:
                self._store.delete(kinds.JOBS, name_of(job), namespace=key_of(job)[0])
        return True

    def _create(self, cron_job: JsonObject, due: datetime) -> None:
        template = cron_job["spec"]["jobTemplate"]
        metadata = {
            **(template.get("metadata") or {}),
            "name": f"{name_of(cron_job)}-{int(due.timestamp()) // 60}",
            "namespace": key_of(cron_job)[0],
            "ownerReferences": [owner_reference(kinds.CRON_JOBS, cron_job)],
        }
        self._store.create(kinds.JOBS, {"metadata": metadata, "spec": template["spec"]})

    def _forget(self, namespace: str, name: str) -> None:
        """Delete finished Jobs beyond the history limits, the oldest first."""
        cron_job = self._store.find(kinds.CRON_JOBS, name, namespace)
        if cron_job is None:
            return
        over = [job for job in self._store.owned(kinds.JOBS, cron_job) if is_over(job)]
        over.sort(key=lambda job: (job["metadata"]["creationTimestamp"], name_of(job)))
        for field, success in (("successfulJobsHistoryLimit", True), ("failedJobsHistoryLimit", False)):
            of_kind = [job for job in over if has_succeeded(job) == success]
            for job in of_kind[: max(0, len(of_kind) - cron_job["spec"][field])]:
                self._store.delete(kinds.JOBS, name_of(job), namespace=namespace)


def _next_time(cron_job: JsonObject, now: datetime) -> datetime:
    spec = cron_job["spec"]
    try:
        following = next(CronSim(spec["schedule"], now.astimezone(ZoneInfo(spec.get("timeZone") or "UTC"))))
    except (CronSimError, StopIteration) as error:
        problem = f"{spec['schedule']!r} never comes"
        raise InvalidInputError(problem, subject=f"CronJob {full_name(cron_job)}", field="spec.schedule") from error
    return following.astimezone(UTC)
