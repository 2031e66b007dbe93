"""Laws of disruption under commitments, over random worlds."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from core.disruption import disrupt
from core.disruption.command import carried_out
from core.model.plan import NodeClaim
from core.model.snapshot import Snapshot
from core.model.values.commitment import Commitment, CommittedRate, ReservedInstances, SavingsPlan
from tests.property.naive.commitments import DOLLAR, charged, running
from tests.property.naive_disruption.worlds import random_world

PPM = 1_000_000


def _committed(draw: Random, world: Snapshot) -> Snapshot:
    """One commitment that covers some or all running nodes."""
    names = sorted(kind.name for kind in world.catalogue.default)
    plan = SavingsPlan(name="one", amount=DOLLAR * draw.choice((1, 4, 16)) // 40, rates=(CommittedRate(ppm=300_000),))
    reserved = ReservedInstances(name="one", instance_type=draw.choice(names), count=draw.choice((1, 2, 4)))
    options = msgspec.structs.replace(world.options, commitments=(draw.choice((plan, reserved)),))
    return msgspec.structs.replace(world, options=options)


def _bill(world: Snapshot, one: Commitment) -> int:
    """The cost of on-demand nodes beyond the commitment, whichever nodes it covers."""
    nodes = [(price, charged(one, name, zone, price)) for name, zone, price in running(world)]
    used, listed = sum(charge for _, charge in nodes), sum(price for price, _ in nodes)
    if isinstance(one, SavingsPlan):
        return listed - min(one.amount, used) * PPM // (PPM - one.rates[0].ppm)
    return listed - sum(sorted((price for price, charge in nodes if charge), reverse=True)[: one.amount])


def _others(world: Snapshot) -> int:
    """The cost of all our other nodes."""
    claims: dict[str, NodeClaim] = {claim.node_name: claim for claim in world.node_claims}
    kinds = {kind.name: kind for kind in world.catalogue.default}
    found = 0
    for node in world.nodes:
        place = (node.labels.get("topology.kubernetes.io/zone"), node.labels.get("karpenter.sh/capacity-type"))
        kind = kinds.get(node.labels.get("node.kubernetes.io/instance-type", ""))
        if node.name in claims and kind is not None and place[1] != "on-demand":
            found += min((o.price for o in kind.offerings if (o.zone, o.capacity_type) == place), default=0)
    return found


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_what_commands_are_said_to_save_is_off_the_bill(first: int) -> None:
    """Otherwise, nodes go although their commitment must still be paid, and their pods move for nothing."""
    moved = 0
    for seed in range(first, first + 30):
        world = _committed(Random(seed), random_world(seed))  # noqa: S311 - a seeded draw
        plan = disrupt(world)
        one, after = world.options.commitments[0], carried_out(world, *plan.commands)
        chosen = [command for command in plan.commands if command.reason in ("Empty", "Underutilized")]
        if len(chosen) < len(plan.commands):
            continue  # drift may cost more
        moved += len(chosen)
        off = _bill(world, one) + _others(world) - _bill(after, one) - _others(after)
        saved = sum(command.savings for command in chosen)
        assert off >= saved - len(world.nodes), f"seed {seed}: {saved} is said to be saved, {off} is"
    assert moved
