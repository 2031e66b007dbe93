"""Two pods of a node never use the same host port."""

from __future__ import annotations

from core.model.pod import HostPort
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.constraints.host_ports import HostPorts
from core.scheduling.primitives.handles import NO_TYPES
from tests.builders import a_node_of, a_pod, a_type
from tests.unit.scheduling.reading import context_of, group_of

TYPE = a_type("m", cpu="8")
WEB = a_pod("web", host_ports=(HostPort(80),))


def test_claims_and_nodes_give_each_port_once() -> None:
    """Otherwise, the kubelet refuses the second pod."""
    claim, node = a_node_of(TYPE)
    context = context_of(types=(TYPE,), pods=(WEB, a_pod("plain")), nodes=(node,), node_claims=(claim,))
    (ports,) = (c for c in context.plan_constraints(()).all if isinstance(c, HostPorts))
    web, (template,), (existing,) = group_of(context, "web"), context.templates, context.existing_nodes
    new = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    assert (ports.types(new, web), ports.admits(existing, web)) == (template.types.full, True)
    ports.reserve_on_claim(new, web)
    ports.reserve_on_node(existing, web)
    assert (ports.types(new, web), ports.admits(existing, web)) == (NO_TYPES, False)


def test_it_applies_to_pods_with_ports_and_repacking_does_not_move_those() -> None:
    """Otherwise, pods are checked without need, or moved beside one with the same port."""
    context = context_of(types=(TYPE,), pods=(WEB, a_pod("plain")))
    web, plain = group_of(context, "web"), group_of(context, "plain")
    answers = [(HostPorts.concerns(g.signature, g.volumes), HostPorts.may_move(g), g.is_plain) for g in (web, plain)]
    assert answers == [(True, False, False), (False, True, True)]
