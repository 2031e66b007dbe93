"""Computes what a pod requests of a node by Kubernetes' rules, including in-place resize."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from core.manifests.wire import pod as wire_pod
from core.model.values import quantity, resources

_POD_LEVEL: Final = (quantity.CPU, quantity.MEMORY)
_INFEASIBLE: Final = "Infeasible"

Statuses = Mapping[str, wire_pod.ContainerStatus]


def of_spec(spec: wire_pod.WirePodSpec, *, field: str = "spec") -> dict[str, int]:
    """Return the effective requests of a pod that runs as specified, and one pod slot; names in order.

    Limits count as requests if there are none, as in the API server's defaults.

    Raises:
        InvalidInputError: If a quantity cannot be read or is negative.
    """
    return _effective(spec, {}, field=field, is_infeasible=False)


def of_pod(pod: wire_pod.WirePod) -> dict[str, int]:
    """Return the effective requests of a pod whose containers may have been resized in place.

    A container counts with the maximum of its requested, allocated and actual resources; an infeasible resize is ignored.

    Raises:
        InvalidInputError: If a quantity cannot be read or is negative.
    """
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    by_name = {status.name: status for status in statuses if status.resources is not None}
    return _effective(pod.spec, by_name, field="spec", is_infeasible=_is_infeasible(pod.status))


def states_resources(status: wire_pod.PodStatus) -> bool:
    """Whether the status states the resources of any container."""
    return any(
        container.resources is not None for container in (*status.container_statuses, *status.init_container_statuses)
    )


def _is_infeasible(status: wire_pod.PodStatus) -> bool:
    pending = status.condition("PodResizePending")
    return status.resize == _INFEASIBLE or (pending is not None and pending.reason == _INFEASIBLE)


def _effective(spec: wire_pod.WirePodSpec, statuses: Statuses, *, field: str, is_infeasible: bool) -> dict[str, int]:
    running = resources.add(
        *(
            _of_container(container, statuses, field=f"{field}.containers[{i}]", is_infeasible=is_infeasible)
            for i, container in enumerate(spec.containers)
        )
    )
    sidecars: dict[str, int] = {}
    peaks: list[dict[str, int]] = []
    for i, container in enumerate(spec.init_containers):
        where = f"{field}.initContainers[{i}]"
        if container.restart_policy == "Always":
            own = _of_container(container, statuses, field=where, is_infeasible=is_infeasible)
            sidecars = resources.add(sidecars, own)
            peaks.append(sidecars)
        else:
            peaks.append(resources.add(sidecars, _written(container.resources, field=f"{where}.resources")))
    total = resources.maximum([resources.add(running, sidecars), *peaks])
    total |= _pod_level(spec, total, field=field)
    total = resources.add(total, resources.parse(spec.overhead, field=f"{field}.overhead"))
    return {name: min(amount, quantity.AMOUNT_MAX) for name, amount in sorted({**total, quantity.PODS: 1}.items())}


def _of_container(
    container: wire_pod.Container, statuses: Statuses, *, field: str, is_infeasible: bool
) -> dict[str, int]:
    asked = _written(container.resources, field=f"{field}.resources")
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return asked
    has = resources.parse(status.resources.requests, field="status.containerStatuses.resources.requests")
    granted = resources.parse(status.allocated_resources, field="status.containerStatuses.allocatedResources")
    return resources.maximum([has, granted] if is_infeasible else [asked, has, granted])


def _written(written: wire_pod.Resources, *, field: str) -> dict[str, int]:
    if not written.limits:
        return resources.parse(written.requests, field=f"{field}.requests")
    limits = resources.parse(written.limits, field=f"{field}.limits")
    return limits | resources.parse(written.requests, field=f"{field}.requests")


def _pod_level(spec: wire_pod.WirePodSpec, of_containers: Mapping[str, int], *, field: str) -> dict[str, int]:
    """Return pod-level requests, which replace the containers' sum; pod-level limits count where no container requests any."""
    if spec.resources is None:
        return {}
    limits = resources.parse(spec.resources.limits, field=f"{field}.resources.limits")
    requests = resources.parse(spec.resources.requests, field=f"{field}.resources.requests")
    defaults = {name: amount for name, amount in limits.items() if name not in of_containers}
    return {name: amount for name, amount in (defaults | requests).items() if _is_pod_level(name)}


def _is_pod_level(name: str) -> bool:
    return name in _POD_LEVEL or name.startswith("hugepages-")
