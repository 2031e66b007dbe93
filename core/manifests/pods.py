"""Translates pods from wire to model: identity, place, state, and the requests of a resized pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from core.errors import InvalidInputError
from core.manifests import effective_requests
from core.manifests.pod_spec import PodSpecTranslator
from core.manifests.wire import object_metadata as wire_common
from core.manifests.wire import pod as wire_pod
from core.model.pod import Owner, Pod, PodSpec

_canonical: Final = msgspec.msgpack.Encoder().encode


class PodTranslator:
    """Translates the pods of one cluster at one moment.

    Args:
        priorities: Priority class → value, for pods that name a class but have no priority yet.
        default_priority: The priority of pods that name no class.
    """

    def __init__(self, priorities: Mapping[str, int] | None = None, default_priority: int = 0) -> None:
        self._specs = PodSpecTranslator(priorities, default_priority)
        self._resized: dict[tuple[int, bytes], PodSpec] = {}
        self._owners: dict[int, tuple[object, tuple[Owner, ...]]] = {}

    def pod(self, written: wire_pod.WirePod) -> Pod:
        """Translate a pod.

        Raises:
            InvalidInputError: If it has no name or a field cannot be understood.
        """
        if not written.metadata.name:
            raise InvalidInputError("is missing", field="metadata.name")
        if written.unreadable:
            raise InvalidInputError(written.unreadable)
        return self._pod(written, self._spec_of(written))

    def readable_or_not(self, written: wire_pod.WirePod) -> Pod:
        """Translate a pod; return its `unreadable` form if a field cannot be understood."""
        try:
            return self.pod(written)
        except InvalidInputError as error:
            return self.unreadable(written, error)

    def unreadable(self, written: wire_pod.WirePod, error: InvalidInputError) -> Pod:
        """Translate a pod for which `pod` raised: its identity and place without its needs. No node is planned for it."""
        fault = ": ".join(part for part in (error.field, error.problem) if part)
        return msgspec.structs.replace(
            self._pod(written, PodSpec(requests={"pods": 1}, problem=fault)), unreadable=fault
        )

    def spec(self, written: wire_pod.WirePodSpec, *, field: str = "spec") -> PodSpec:
        """Translate the spec of a pod or of a template; `field` is its path in the object. Raises InvalidInputError."""
        return self._specs.spec(written, field=field)

    def _pod(self, written: wire_pod.WirePod, spec: PodSpec) -> Pod:
        metadata, status = written.metadata, written.status
        scheduled, ready = status.condition("PodScheduled"), status.condition("Ready")
        marked = scheduled if scheduled is not None and scheduled.reason == "Unschedulable" else None
        return Pod(
            namespace=metadata.namespace or "default",
            name=metadata.name,
            spec=spec,
            uid=metadata.uid,
            created_at=metadata.creation_timestamp,
            labels=metadata.labels,
            annotations=metadata.annotations,
            owners=self._owners_of(metadata),
            node_name=written.node_name,
            nominated_node_name=status.nominated_node_name,
            phase=status.phase or "Pending",
            deleted_at=metadata.deletion_timestamp,
            started_at=status.start_time,
            is_ready=None if ready is None or ready.status == "Unknown" else ready.status == "True",
            is_marked_unschedulable=marked is not None,
            unschedulable_since=marked.last_transition_time if marked is not None else None,
            is_gated=bool(written.spec.scheduling_gates),
        )

    def _owners_of(self, metadata: wire_common.WireMetadata) -> tuple[Owner, ...]:
        """Return the owners, one object for all pods of a workload.

        The wire form is kept referenced, so that its id stays unique.
        """
        written = metadata.owner_references
        known = self._owners.get(id(written))
        if known is None:
            known = self._owners[id(written)] = (written, owners(metadata))
        return known[1]

    def _spec_of(self, written: wire_pod.WirePod) -> PodSpec:
        spec = self._specs.spec(written.spec)
        if not effective_requests.states_resources(written.status):
            return spec
        status = written.status
        state = (status.container_statuses, status.init_container_statuses, status.resize, status.conditions)
        relevant = state if status.condition("PodResizePending") else state[:3]
        key = (id(spec), _canonical(relevant))
        known = self._resized.get(key)
        if known is None:
            requests = effective_requests.of_pod(written)
            known = spec if requests == spec.requests else msgspec.structs.replace(spec, requests=requests)
            self._resized[key] = known
        return known


def owners(metadata: wire_common.WireMetadata) -> tuple[Owner, ...]:
    """Return the owner references of an object."""
    return tuple(
        Owner(ref.kind, ref.name, ref.api_version, ref.uid, ref.controller) for ref in metadata.owner_references
    )
