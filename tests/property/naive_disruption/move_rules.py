"""Whether every pod of a disrupted node has a place where it may run: the scheduling judge on moves and replacements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import msgspec

from core import labels
from core.labels import HOSTNAME
from core.model.plan import Binding, Command, DisruptionPlan, Plan
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import Snapshot
from tests.property.naive.left_over import launched
from tests.property.naive.node_rules import node_violations
from tests.property.naive.places import Place, existing_places, is_pending, must_move, places_after, stays
from tests.property.naive.promises import claim_violations, is_usable, limit_violations
from tests.property.naive.reading import spread_selects, spreads_of, term_selects
from tests.property.naive.topology import Rules, too_near_violations, topology_violations
from tests.property.naive_disruption.price_rules import may_be_merged
from tests.property.naive_disruption.reason_rules import is_going, is_recently_changed, pods_on, pool_of


def move_violations(snapshot: Snapshot, command: Command) -> Iterator[str]:
    """Faults in where a command's pods go, in the world in which it is carried out."""
    yield from _each_pod_once(snapshot, command)
    yield from _targets(snapshot, command)
    if command.method == "static-drift":
        yield from _static(snapshot, command)
        return
    if command.method == "terminate-first":
        yield from _goes_first(snapshot, command)
        return
    needed = {key for claim in command.replacements for key in claim.pods} | {move.pod for move in command.moves}
    world = msgspec.structs.replace(
        snapshot,
        pods=tuple(pod for pod in snapshot.pods if pod.key in needed or not is_pending(snapshot, pod)),
        marked_for_deletion=(*snapshot.marked_for_deletion, *command.claims),
    )
    new = {claim.name for claim in command.replacements}
    bindings = tuple(Binding(move.pod, move.to) for move in command.moves if move.to not in new)
    plan = Plan(now=world.now, claims=command.replacements, bindings=bindings)
    places = places_after(world, plan)
    for place in places:
        yield from node_violations(world, place)
        yield from _replacement(world, place)
    for pool in world.node_pools:
        yield from limit_violations(world, pool, plan)
    if is_quiet(snapshot):
        yield from topology_violations(world, places)
    else:
        yield from too_near_violations(Rules(world, places))


def _goes_first(snapshot: Snapshot, command: Command) -> Iterator[str]:
    """Faults of nodes that go before their replacement: only allowed if that needs their place in a full reservation."""
    held = {node.labels.get(labels.RESERVATION_ID) for node in snapshot.nodes if node.name in command.nodes}
    every = (snapshot.catalogue.default, *snapshot.catalogue.by_node_class.values())
    places = [
        o
        for types in every
        for instance_type in types
        for o in instance_type.offerings
        if o.reservation_id in held - {None}
    ]
    if command.replacements or command.moves or not places or any(o.reservation_capacity for o in places):
        yield f"moves: {command.nodes} go before their replacements, and not out of a full reservation"


def is_quiet(snapshot: Snapshot) -> bool:
    """Whether no other pod is pending; their placement is not part of the command and cannot be judged."""
    if any(is_pending(snapshot, pod) for pod in snapshot.pods):
        return False
    return not any(place.is_leaving for place in existing_places(snapshot))


def _each_pod_once(snapshot: Snapshot, command: Command) -> Iterator[str]:
    present = [pod for node in command.nodes for pod in pods_on(snapshot, node)]
    is_repair = command.reason == "Unhealthy"  # its drain is bounded, so that no pod stays
    movable = {pod.key for pod in present if must_move(pod) and (is_repair or not stays(snapshot, pod))}
    named = [move.pod for move in command.moves]
    if command.method in ("emptiness", "static-drift", "terminate-first"):
        movable = set()  # removing an empty node needs no room; a static pool's node is replaced whatever runs there
    for key in sorted(movable | set(named)):
        if key not in movable:
            yield f"moves: {key} is moved, but need not or cannot"
        elif named.count(key) != 1:
            yield f"moves: {key} is moved {named.count(key)} times"


def _targets(snapshot: Snapshot, command: Command) -> Iterator[str]:
    places = {place.name: place for place in existing_places(snapshot)}
    new = {claim.name: claim for claim in command.replacements}
    if set(new) & {*places, *(claim.name for claim in snapshot.node_claims)} or len(new) != len(command.replacements):
        yield f"names: replacements {[claim.name for claim in command.replacements]} are not new"
    for move in command.moves:
        if move.to in new:
            if move.pod not in new[move.to].pods:
                yield f"moves: {move.pod} goes to {move.to}, which is for {new[move.to].pods}"
        elif move.to not in places or move.to in command.nodes:
            yield f"moves: {move.pod} goes to {move.to}, which is no place"
        elif command.method != "static-drift":
            yield from _unfit(snapshot, command, move.to)
    for claim in command.replacements:
        strangers = set(claim.pods) - {move.pod for move in command.moves if move.to == claim.name}
        waiting = {pod.key for pod in snapshot.pods if is_pending(snapshot, pod) or _is_fleeing(snapshot, pod.key)}
        if strangers - waiting:
            yield f"moves: {claim.name} is for {sorted(strangers - waiting)}, who do not move"


def _is_fleeing(snapshot: Snapshot, key: str) -> bool:
    leaving = [place for place in existing_places(snapshot) if place.is_leaving]
    return any(pod.key == key for place in leaving for pod in place.running)


def _unfit(snapshot: Snapshot, command: Command, name: str) -> Iterator[str]:
    """Why pods of other nodes may not move to an existing node."""
    node = next((node for node in snapshot.nodes if node.name == name), None)
    claim = next((c for c in snapshot.node_claims if node and c.provider_id == node.provider_id), None)
    if node is None or claim is None:
        return
    if node.labels.get("karpenter.sh/initialized") != "true":
        yield f"moves: {name} is not initialized"
    if is_going(snapshot, claim):
        yield f"moves: {name} is going"
    pool = pool_of(snapshot, claim)
    has_delay = pool is not None and pool.disruption.consolidate_after is not None
    if command.reason == "Underutilized" and has_delay and is_recently_changed(pool, claim, snapshot.now):
        yield f"rest: pods come to {name} before its consolidateAfter is over"


def _replacement(world: Snapshot, place: Place) -> Iterator[str]:
    if place.claim is None:
        return
    pool = next((pool for pool in world.node_pools if pool.name == place.claim.node_pool), None)
    if pool is None or not is_usable(pool):
        yield f"pool: {place.name} is of NodePool {place.claim.node_pool}, which launches nothing"
    else:
        yield from claim_violations(world, pool, place.claim, place)


def _static(snapshot: Snapshot, command: Command) -> Iterator[str]:
    """A static pool's replacement belongs to the same NodePool, which has room for one more node."""
    claims = [claim for claim in snapshot.node_claims if claim.name in command.claims]
    pools = {claim.node_pool for claim in claims}
    if len(command.replacements) != 1 or {claim.node_pool for claim in command.replacements} != pools:
        yield f"static: {command.claims} of {sorted(pools)} become {[c.name for c in command.replacements]}"
        return
    pool = next(pool for pool in snapshot.node_pools if pool.name in pools)
    pool_claims = [claim for claim in snapshot.node_claims if claim.node_pool == pool.name]
    running = [claim for claim in pool_claims if claim.deleted_at is None]
    if pool.replicas is None or len(running) > pool.replicas:
        yield f"static: {pool.name} wants {pool.replicas} and has {len(running)}"
    new, place = (
        command.replacements[0],
        places_after(snapshot, Plan(now=snapshot.now, claims=command.replacements))[-1],
    )
    for problem in claim_violations(snapshot, pool, new, place):
        if not problem.startswith("empty:"):
            yield problem


def static_limit_violations(before: Snapshot, after: Snapshot, launched_in: dict[str, int]) -> Iterator[str]:
    """Whether a static pool's nodes and their replacements stay within `limits.nodes` while both exist."""
    for pool in before.node_pools:
        present = sum(claim.node_pool == pool.name for claim in before.node_claims)
        most = present + launched_in.get(pool.name, 0)
        if pool.replicas is not None and launched_in.get(pool.name) and most > pool.limits.get("nodes", most):
            yield f"static: {pool.name} comes to {most} nodes of {pool.limits['nodes']}"


def carried_out(snapshot: Snapshot, command: Command) -> Snapshot:
    """The world after the command: its nodes gone, their pods moved, its replacements ready for pods."""
    target = {move.pod: move.to for move in command.moves}
    new = [launched(snapshot, claim, claim.name) for claim in command.replacements]
    pods = []
    for pod in snapshot.pods:
        if pod.node_name in command.nodes:
            if pod.key in target:
                pods.append(msgspec.structs.replace(pod, node_name=target[pod.key]))
        else:
            pods.append(pod)
    return msgspec.structs.replace(
        snapshot,
        pods=tuple(pods),
        nodes=(*(n for n in snapshot.nodes if n.name not in command.nodes), *(node for _, node in new)),
        node_claims=(*(c for c in snapshot.node_claims if c.name not in command.claims), *(claim for claim, _ in new)),
    )


# Judges that no pod moves twice where commands could have been merged into one.


def twice_violations(snapshot: Snapshot, plan: DisruptionPlan) -> Iterator[str]:
    """A pod moves once, unless it first moved to a node that a later command removes and the two could not be merged.

    A later command of several nodes may have had a part that came before, with which they could not: a node that goes alone.
    """
    for number, command in enumerate(plan.commands):
        if command.method == "static-drift":
            continue
        feeding = [
            earlier for earlier in plan.commands[:number] if any(move.to in command.nodes for move in earlier.moves)
        ]
        filled = {move.to for feeder in feeding for move in feeder.moves}
        between = [*plan.commands[:number], *(o for o in plan.commands[number + 1 :] if may_be_merged(snapshot, o))]
        is_built_upon = any(filled & set(interim.nodes) for interim in between if interim not in feeding)
        is_alike = not any(feeder.replacements or feeder.reason != command.reason for feeder in feeding)
        if not feeding or not is_alike or is_built_upon:
            continue
        excuses = (_would_come_late, _would_be_early, _would_wait)
        if not any(excuse(snapshot, between, feeding, command) for excuse in excuses):
            yield f"twice: pods move to {command.nodes}, and on when these go"


def _would_come_late(snapshot: Snapshot, between: Sequence[Command], feeding: Sequence[Command], last: Command) -> bool:
    """Whether a pod would come after one that its spread counts: on its new node, or anywhere if it is not over hosts."""
    pods = {pod.key: pod for pod in snapshot.pods}
    goes_on = {move.pod for move in last.moves}
    for first, later in _pairs(between, feeding, last):
        for first_move, other in product(first.moves, later.moves):
            if first_move.pod in goes_on:
                continue
            is_near = first_move.to == other.to and later not in feeding and later is not last
            for spread in _binding_spreads(snapshot, pods[first_move.pod]):
                is_asked = is_near if spread.topology_key == HOSTNAME else True
                if is_asked and spread_selects(spread, pods[first_move.pod], pods[other.pod]):
                    return True
    return False


def _would_be_early(snapshot: Snapshot, between: Sequence[Command], feeding: Sequence[Command], last: Command) -> bool:
    """Whether another command's pod, which followed or made room, would move while an earlier one is on its old node.

    A pod that moves on keeps only those away that come to where it was.
    """
    pods = {pod.key: pod for pod in snapshot.pods}
    goes_on = {move.pod for move in last.moves}
    for first, later in _pairs(between, feeding, last):
        if later in feeding or later is last:
            continue
        for first_move, other in product(first.moves, later.moves):
            pod, follower = pods[first_move.pod], pods[other.pod]
            if _is_about(snapshot, follower, pod, near=first_move.to == other.to):
                return True
            if _is_about(snapshot, pod, follower, near=False, keeps_away_only=first_move.pod in goes_on):
                return True
    return False


def _is_about(snapshot: Snapshot, owner: Pod, other: Pod, *, near: bool, keeps_away_only: bool = False) -> bool:
    """Whether a rule of one pod over more than one node is about the other, or an affinity where both are on one node."""
    spec, others = owner.spec, snapshot.namespaces
    if any(_is_wide(term) and term_selects(term, owner, other, others) for term in spec.anti_affinity):
        return True
    if keeps_away_only:
        return False
    if any(_is_wide(s) and spread_selects(s, owner, other) for s in _binding_spreads(snapshot, owner)):
        return True
    return any((_is_wide(term) or near) and term_selects(term, owner, other, others) for term in spec.affinity)


def _would_wait(snapshot: Snapshot, between: Sequence[Command], feeding: Sequence[Command], last: Command) -> bool:
    """Whether a pod that moves later has to do with one that is on an earlier node until that ends, of a DaemonSet for one.

    Merged, the earlier node would still exist.
    """
    pods = {pod.key: pod for pod in snapshot.pods}
    for first, later in _pairs(between, feeding, last):
        movers = [pods[move.pod] for move in later.moves]
        leaving = {move.pod for move in first.moves}
        remaining = [pod for name in first.nodes for pod in pods_on(snapshot, name) if pod.key not in leaving]
        if any(_has_to_do_with(snapshot, *pair) for pair in product(movers, remaining)):
            return True
    return False


def _has_to_do_with(snapshot: Snapshot, mover: Pod, other: Pod) -> bool:
    """Whether a rule of the mover is about the other, or the other keeps it away; a terminating pod does only that."""
    if _is_about(snapshot, other, mover, near=False, keeps_away_only=True):
        return True
    return other.deleted_at is None and _is_about(snapshot, mover, other, near=False)


def _is_wide(rule: TopologySpread | PodAffinityTerm) -> bool:
    return rule.topology_key != HOSTNAME


def _binding_spreads(snapshot: Snapshot, pod: Pod) -> list[TopologySpread]:
    return [spread for spread in spreads_of(snapshot, pod) if spread.when_unsatisfiable == "DoNotSchedule"]


def _pairs(between: Sequence[Command], feeding: Sequence[Command], last: Command) -> Iterator[tuple[Command, Command]]:
    """Each command that fills a node of the last, with each that comes after it."""
    commands = [*between, last]
    for first in feeding:
        for later in commands[commands.index(first) + 1 :]:
            yield first, later
