"""Rejects objects as the API server would: those that could not be parsed or run. It checks before anything is applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import available_timezones

from cronsim import CronSim, CronSimError

from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.manifests.wire import api_resources as kinds
from core.manifests.wire import decoding as wire
from core.manifests.wire.api_resources import Resource
from core.model.values import quantity
from core.model.values.label_syntax import labels_fault
from simulator.cluster.objects import RUN_SECONDS

_ANY_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
_TEMPLATES: Final[Mapping[Resource, tuple[str, ...]]] = {
    kinds.PODS: (),
    kinds.DEPLOYMENTS: ("spec", "template"),
    kinds.REPLICA_SETS: ("spec", "template"),
    kinds.REPLICATION_CONTROLLERS: ("spec", "template"),
    kinds.STATEFUL_SETS: ("spec", "template"),
    kinds.DAEMON_SETS: ("spec", "template"),
    kinds.JOBS: ("spec", "template"),
    kinds.CRON_JOBS: ("spec", "jobTemplate", "spec", "template"),
}
"""Path of the pod template in each kind."""


def check(resource: Resource, obj: JsonObject) -> None:
    """Refuse an object that the API server would refuse.

    Raises:
        InvalidInputError: Names the object and the field.
    """
    subject = f"{resource.kind} {wire.name_of(obj)}"
    if not (obj.get("metadata") or {}).get("name"):
        raise InvalidInputError("is required", subject=subject, field="metadata.name")
    wire.from_object(resource, obj)
    try:
        if resource in _TEMPLATES:
            _check_pod(obj, _TEMPLATES[resource])
        if resource == kinds.CRON_JOBS:
            _check_schedule(obj["spec"])
        if resource == kinds.NODES:
            for field in ("capacity", "allocatable"):
                _check_quantities((obj.get("status") or {}).get(field), f"status.{field}")
    except InvalidInputError as error:
        raise error.within(subject=subject) from error


def _check_pod(obj: JsonObject, path: tuple[str, ...]) -> None:
    pod, prefix = obj, ""
    for part in path:
        prefix = f"{prefix}{part}."
        pod = pod.get(part) or {}
    if not (pod.get("spec") or {}).get("containers"):
        raise InvalidInputError("is required", field=f"{prefix}spec.containers")
    named = {"metadata.labels": pod.get("metadata") or {}, "spec.nodeSelector": pod["spec"]}
    for field, holder in named.items():
        fault = labels_fault(holder.get(field.rpartition(".")[2]) or {})
        if fault:
            raise InvalidInputError(fault, field=f"{prefix}{field}")
    for field, quantities in _requests(pod["spec"]):
        _check_quantities(quantities, f"{prefix}{field}")
    seconds = ((pod.get("metadata") or {}).get("annotations") or {}).get(RUN_SECONDS, "0")
    if not seconds.replace(".", "", 1).isdigit():
        problem = f"{seconds!r} is not a number of seconds"
        raise InvalidInputError(problem, field=f"{prefix}metadata.annotations[{RUN_SECONDS}]")


def _requests(spec: JsonObject) -> Iterator[tuple[str, Any]]:
    yield "spec.overhead", spec.get("overhead")
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            for field in ("requests", "limits"):
                name = f"spec.{kind}[{index}].resources.{field}"
                yield name, (container.get("resources") or {}).get(field)


def _check_quantities(quantities: Mapping[str, Any] | None, field: str) -> None:
    for name, value in sorted((quantities or {}).items()):
        try:
            amount = quantity.parse(value, name)
        except InvalidInputError as error:
            raise error.within(field=f"{field}.{name}") from error
        if amount < 0:
            raise InvalidInputError(f"{value!r} must not be negative", field=f"{field}.{name}")


def _check_schedule(spec: JsonObject) -> None:
    schedule = str(spec.get("schedule", ""))
    try:
        CronSim(schedule, _ANY_TIME)
    except CronSimError as error:
        problem = f"{schedule!r} is not a cron schedule: {error}"
        raise InvalidInputError(problem, field="spec.schedule") from error
    zone = spec.get("timeZone") or "UTC"
    if zone not in available_timezones():
        raise InvalidInputError(f"{zone!r} is not a time zone", field="spec.timeZone")
