"""How many volumes a node can attach."""

from __future__ import annotations

import msgspec

from core.model.pod import Pod, VolumeUse
from core.model.storage import EBS_DRIVER, WAIT_FOR_FIRST_CONSUMER, StorageClass
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.constraints.attach_limits import AttachLimits
from core.scheduling.primitives.handles import NO_TYPES
from tests.builders import a_node_of, a_pod, a_type
from tests.unit.scheduling.reading import context_of, group_of

TYPE = msgspec.structs.replace(a_type("m", cpu="8"), attach_limit=2)
STORAGE = StorageClass(name="gp3", provisioner=EBS_DRIVER, binding_mode=WAIT_FOR_FIRST_CONSUMER)


def a_pod_with_volumes(name: str, count: int) -> Pod:
    uses = (VolumeUse("", ephemeral=f"scratch-{number}", storage_class="gp3") for number in range(count))
    return a_pod(name, volumes=tuple(uses))


def test_volumes_of_all_pods_count_together_on_claims_and_nodes() -> None:
    """Otherwise, a pod waits for a volume that its node cannot attach."""
    claim, node = a_node_of(TYPE, attach_limits={EBS_DRIVER: 2})
    pods = (a_pod_with_volumes("two", 2), a_pod_with_volumes("one", 1), a_pod("plain"))
    context = context_of(types=(TYPE,), pods=pods, nodes=(node,), node_claims=(claim,), storage_classes=(STORAGE,))
    (limits,) = (c for c in context.plan_constraints(()).all if isinstance(c, AttachLimits))
    two, one = group_of(context, "two"), group_of(context, "one")
    (template,), (existing,) = context.templates, context.existing_nodes
    new = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    assert (limits.types(new, two), limits.admits(existing, two)) == (template.types.full, True)
    limits.reserve_on_claim(new, two)
    limits.reserve_on_node(existing, two)
    assert (limits.types(new, one), limits.admits(existing, one)) == (NO_TYPES, False)
    assert limits.types(new, two) == template.types.full, "a volume that is attached already costs nothing"


def test_pods_with_volumes_are_not_moved() -> None:
    """Otherwise, repacking moves a pod out of its volume's zone."""
    context = context_of(types=(TYPE,), pods=(a_pod_with_volumes("one", 1), a_pod("plain")), storage_classes=(STORAGE,))
    assert not AttachLimits.may_move(group_of(context, "one"))
    assert AttachLimits.may_move(group_of(context, "plain"))
