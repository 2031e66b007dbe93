"""Host ports: two pods cannot open the same one on one node."""

from __future__ import annotations

from core.model.pod import HostPort
from core.reasons.pod import PodReason
from core.scheduling.capacity.existing_node import ExistingNode
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.constraints.constraint import Constraint, PlanStart
from core.scheduling.pods.pod_group import PodGroup, PodSignature
from core.scheduling.pods.volumes import VolumeNeeds
from core.scheduling.primitives.handles import NO_TYPES, TypeMask
from core.scheduling.primitives.host_ports import conflict

Ports = tuple[HostPort, ...]


class HostPorts(Constraint):
    """Keeps pods off nodes on which their port is used by a pod, or by a DaemonSet pod that the node has yet to get."""

    label = "host ports"
    reason = PodReason.HOST_PORT_TAKEN

    def __init__(self, start: PlanStart) -> None:
        self._on_nodes: dict[int, Ports] = {}
        self._on_claims: dict[int, Ports] = {}

    @classmethod
    def concerns(cls, signature: PodSignature, volumes: VolumeNeeds) -> bool:
        """Whether the pods open any host ports."""
        return bool(signature.spec.host_ports)

    def admits(self, node: ExistingNode, pods: PodGroup) -> bool:
        """Whether the ports are free on the node."""
        taken = (*node.ports, *self._on_nodes.get(node.index, ()))
        return not conflict(pods.signature.spec.host_ports, taken)

    def reserve_on_node(self, node: ExistingNode, pods: PodGroup) -> None:
        """Reserve the ports."""
        self._on_nodes[node.index] = self._on_nodes.get(node.index, ()) + pods.signature.spec.host_ports

    def types(self, claim: InFlightClaim, pods: PodGroup) -> TypeMask:
        """Return types whose DaemonSet pods leave the ports free; none if a pod of the claim uses one."""
        wanted = pods.signature.spec.host_ports
        if conflict(wanted, self._on_claims.get(claim.index, ())):
            return NO_TYPES
        return claim.template.types.room.port_mask(wanted)

    def reserve_on_claim(self, claim: InFlightClaim, pods: PodGroup) -> None:
        """Reserve the ports."""
        self._on_claims[claim.index] = self._on_claims.get(claim.index, ()) + pods.signature.spec.host_ports
