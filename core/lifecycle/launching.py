"""Launches that claims share: one request and token for several instances, and subnets with free addresses.

Lets similar claims share a launch: one request for several instances, under one token.

Their requests differ only in some offerings: pods of one claim may fit a small type that is too small for another's. The
request has the offerings that all claims accept in the same subnets, always including the cheapest.

Before the request, each claim stores the token, the number of claims that share it, the index of its instance, and the name of
the first one, which requests the launch again for all if EC2 did nothing. If the
response is lost, each claim takes an instance of the launch that no claim has; it is launched alone only once EC2's lists
would have one. Instances
start with the launch's name instead of a claim's; `reconcile` names them after their claims.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from core import labels
from core.catalogue.capacity import EFA
from core.launch.template import tenancy
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.registration import claim_tags
from core.model.catalogue import Offering
from core.model.node_pool import NodeClass
from core.model.plan import Plan
from core.model.pod import MEMBERS_COME_WITHIN, GroupSource
from core.model.snapshot import Snapshot
from core.reasons.pods import PodReason

if TYPE_CHECKING:
    from core.model.pod import Pod

SHARES_MAX: Final = 50
"""The most claims of one launch: a lost response concerns all of them, and 1,000 nodes take 20 requests."""

KEPT_PERCENT: Final = 75
"""Least part of its offerings that each claim keeps in a shared launch: the fewer, the likelier EC2 has no capacity."""


class _Launch(msgspec.Struct):
    """A launch in the making.

    Attributes:
        members: Its claims, by their place in the plan.
        offerings: The offerings that all of them accept, cheapest first.
        subnets: Zone → their subnet, as of the first claim.
        least: The minimum number of these.
    """

    members: list[int]
    offerings: tuple[Offering, ...]
    subnets: dict[str, str]
    least: int

    def common(self, record: ClaimRecord) -> tuple[Offering, ...]:
        """Return the common offerings if this claim joined; none if too few remained for it or for the other claims."""
        zones = {
            shared.zone
            for shared in record.offerings
            if record.subnets.get(shared.zone) == self.subnets.get(shared.zone)
        }
        offerings = frozenset(record.offerings)
        common = tuple(offering for offering in self.offerings if offering in offerings and offering.zone in zones)
        return common if len(common) >= max(self.least, _least(record)) else ()


def share_launches(
    records: Iterable[ClaimRecord], token_of: Callable[[str], str], *, at_most: int = SHARES_MAX
) -> list[ClaimRecord]:
    """Return the claims, in the given order, with similar ones sharing launches of at most `at_most` instances.

    Claims of a shared launch have its offerings and subnets in place of their own. `token_of` gives the token of a launch by
    the name of its first claim. Claims that were requested before keep theirs.
    """
    ordered = list(records)
    by_shape: dict[Any, list[_Launch]] = {}
    for index, record in enumerate(ordered):
        if not record.attempts:
            _join(by_shape.setdefault(_shape(record), []), index, record, at_most)
    shared = list(ordered)
    for launch in chain.from_iterable(by_shape.values()):
        if len(launch.members) == 1:
            continue
        token = token_of(ordered[launch.members[0]].name)
        for share, index in enumerate(launch.members):
            shared[index] = msgspec.structs.replace(
                ordered[index],
                token=token,
                shares=len(launch.members),
                share=share,
                first=ordered[launch.members[0]].name,
                offerings=launch.offerings,
                subnets=launch.subnets,
            )
    return shared


def _join(launches: list[_Launch], index: int, record: ClaimRecord, at_most: int) -> None:
    """Add a claim to the first launch that has room for it, else begin another."""
    for launch in launches:
        common = launch.common(record) if len(launch.members) < at_most else ()
        if common:
            launch.members.append(index)
            launch.offerings, launch.least = common, max(launch.least, _least(record))
            return
    launches.append(_Launch([index], record.offerings, record.subnets, _least(record)))


def _least(record: ClaimRecord) -> int:
    """Return how many of its offerings a claim must keep: all, where minValues count them or a reservation does."""
    offerings = len(record.offerings)
    counts = any(requirement.min_values is not None for requirement in record.plan.requirements)
    is_reserved = any(offering.capacity_type == labels.RESERVED for offering in record.offerings)
    return offerings if counts or is_reserved else -(-offerings * KEPT_PERCENT // 100)


def launch_name(record: ClaimRecord) -> str:
    """Return the name of a claim's instance at launch: the claim's name, or that of its shared launch."""
    return record.name if record.shares == 1 else f"launch-{record.token}"


def is_unnamed(tags: Mapping[str, str]) -> bool:
    """Whether an instance with these tags does not yet have the name of a claim."""
    return labels.LAUNCH in tags and tags.get(labels.CLAIM) == tags[labels.LAUNCH]


def name_tags(claim: str) -> dict[str, str]:
    """Return the tags that name an instance after its claim."""
    return {"Name": claim, labels.NODECLAIM: claim, labels.CLAIM: claim}


def in_launches(records: Sequence[ClaimRecord]) -> list[list[ClaimRecord]]:
    """Return the claims by launch, in the order of the first of each."""
    launches: dict[str, list[ClaimRecord]] = {}
    for record in records:
        launches.setdefault(record.token, []).append(record)
    return list(launches.values())


def by_group(launches: Iterable[list[ClaimRecord]]) -> list[list[list[ClaimRecord]]]:
    """Return the launches, those for one group that starts together beside each other, in the order of the first."""
    groups: dict[str, list[list[ClaimRecord]]] = {}
    for launch in launches:
        first = launch[0]
        groups.setdefault(group_of(first) or first.token, []).append(launch)
    return list(groups.values())


def begun_launches(launches: Sequence[list[ClaimRecord]], at_most: int) -> list[list[ClaimRecord]]:
    """Return the launches to start: as many as have at most `at_most` claims together."""
    begun, claims = list[list[ClaimRecord]](), 0
    for launch in launches:
        claims += len(launch)
        if claims <= at_most:
            begun.append(launch)
    return begun


def first_of_each_class(
    groups: Sequence[list[list[ClaimRecord]]],
) -> tuple[list[list[list[ClaimRecord]]], list[list[list[ClaimRecord]]]]:
    """Return the first group of launches of each EC2NodeClass, then the others."""
    first: dict[str, list[list[ClaimRecord]]] = {}
    for group in groups:
        first.setdefault(group[0][0].plan.node_class.name, group)
    ahead = [group for group in groups if first[group[0][0].plan.node_class.name] is group]
    return ahead, [group for group in groups if first[group[0][0].plan.node_class.name] is not group]


def group_of(record: ClaimRecord) -> str:
    """Return the group that starts together for which alone the claim is launched, empty for none."""
    return record.plan.annotations.get(labels.GROUP_OF_CLAIM, "")


def size_of_group(record: ClaimRecord) -> dict[str, int]:
    """Return that group with how many members it had at the launch; nothing for a claim of none, or of an older release."""
    size = record.plan.annotations.get(labels.SIZE_OF_GROUP, "")
    return {group_of(record): int(size)} if size.isdecimal() else {}


def is_unanswered(record: ClaimRecord | None, first: str) -> bool:
    """Whether the claim takes part in the launch that begins with this claim, and knows no answer to it."""
    if record is None or record.first != first or record.attempts:
        return False
    return record.phase is ClaimPhase.REQUESTED and record.deletion is None


def _shape(record: ClaimRecord) -> tuple[Any, ...]:
    """Return everything of a claim on which the request to EC2 depends; of its offerings only the cheapest."""
    plan = record.plan
    cheapest = record.offerings[:1]
    return (
        plan.node_pool,
        plan.node_class.name,
        cheapest,
        tuple(record.subnets.get(offering.zone) for offering in cheapest),
        record.is_ranked,
        tuple(sorted(plan.labels.items())),
        plan.taints,
        plan.startup_taints,
        tuple(sorted(claim_tags(plan).items())),
        tenancy(plan.requirements),
        plan.resources.get(EFA, 0) > 0,
        plan.annotations.get(labels.GROUP_OF_CLAIM),
    )


def least_instances(record: ClaimRecord) -> int:
    """Return how many of a shared launch's instances EC2 must launch if it launches any.

    All of them for a group that starts together, if they may be in one zone only: EC2 promises it for one zone or one type
    (CreateFleet, MinTargetCapacity).
    """
    zones = {offering.zone for offering in record.offerings}
    is_whole = labels.GROUP_OF_CLAIM in record.plan.annotations and len(zones) == 1
    return record.shares if is_whole else 1


# Gives back the nodes of a group that start although the rest of the group cannot be bought.


class StartsInVain(NamedTuple):
    """What a plan says of the nodes that start for groups.

    Attributes:
        given_back: Claims whose node is given back now, each with why.
        noted: Claims whose row changes, before and after: their group no longer needs the node, or needs it again.
        next_at: When the next one may be given back; None while none is waited for.
    """

    given_back: list[tuple[ClaimRecord, str]]
    noted: list[tuple[ClaimRecord, ClaimRecord]]
    next_at: datetime | None = None


def starts_for_nobody(plan: Plan, snapshot: Snapshot, records: Iterable[ClaimRecord]) -> StartsInVain:
    """Return the claims of groups whose nodes start in vain.

    A node is of no use if the plan finds no room for the rest of its group: it is given back at once, because what EC2 refused
    is asked for again only after more than a minute. If members do not exist or their objects have a mistake, it is given back
    `MEMBERS_COME_WITHIN` after that was first seen, whether or not a member is expected on it: a controller replaces a member
    moments after it is gone. A node that other pods use stays.
    """
    in_vain, starting = StartsInVain([], []), starting_for_groups(records)
    if not starting or any(pod.reason == PodReason.DEADLINE_REACHED for pod in plan.unschedulable):
        return in_vain  # a plan that ran out of time says nothing of what has room
    groups, now = _StartingGroups(plan, snapshot, starting), snapshot.now
    moments = []
    for record in starting:
        verdict = groups.verdict(record)
        since = (record.moments.unneeded_at or now) if verdict is not None and verdict.may_change else None
        if verdict is not None and (since is None or now - since >= MEMBERS_COME_WITHIN):
            in_vain.given_back.append((record, f"group {group_of(record)} {verdict.why}"))
            continue
        if since != record.moments.unneeded_at:
            moved = msgspec.structs.replace(record.moments, unneeded_at=since)
            in_vain.noted.append((record, msgspec.structs.replace(record, moments=moved)))
        if since is not None:
            moments.append(since + MEMBERS_COME_WITHIN)
    return in_vain._replace(next_at=min(moments, default=None))


class _Verdict(NamedTuple):
    """Why a group does not use a node that starts for it; `may_change`: whether pods that come soon may do so."""

    why: str
    may_change: bool


class _StartingGroups:
    """The groups for which nodes start, and where their pods are: read once for all their claims."""

    def __init__(self, plan: Plan, snapshot: Snapshot, starting: Sequence[ClaimRecord]) -> None:
        from core.gangs import gangs_of  # most clusters have none

        names = {group_of(record) for record in starting}
        self._gangs = {gang.identity: gang for gang in gangs_of(snapshot) if gang.identity in names}
        self._members = {name: frozenset(pod.key for pod in gang.pods) for name, gang in self._gangs.items()}
        self._held = {group.identity: group.message for group in plan.groups if group.reason}
        # A group whose members are all expected on nodes has none to plan for, so no plan says that it cannot be complete.
        self._refused = {name: gang.refusal.message for name, gang in self._gangs.items() if gang.refusal is not None}
        self._bound = {binding.node for binding in plan.bindings}
        self._requests = {f"{request.namespace}/{request.name}" for request in snapshot.provisioning_requests}
        nodes = {name for record in starting for name in (record.name, record.node_name) if name}
        wanted = {key for record in starting for key in record.plan.pods}
        self._on_node: dict[str, list[Pod]] = {}
        self._node_of: dict[str, str] = {}
        for pod in snapshot.pods:
            if pod.node_name in nodes:
                self._on_node.setdefault(pod.node_name, []).append(pod)
            if pod.key in wanted:
                self._node_of[pod.key] = pod.node_name

    def verdict(self, record: ClaimRecord) -> _Verdict | None:
        """Return why the group of a claim does not use its node; None if it does, or others do."""
        group = group_of(record)
        if record.name in self._bound or record.node_name in self._bound:
            return None
        why = self._refused.get(group) or self._held.get(group)
        if why is None:
            return None if self._has_pods(record) else _Verdict("no longer needs its node", may_change=True)
        if self._is_used(record):
            return None
        return _Verdict(f"cannot be complete: {why}", may_change=group in self._refused)

    def _is_used(self, record: ClaimRecord) -> bool:
        """Whether members run on a claim's node, or pods of others are expected there; those of DaemonSets do not count."""
        members = self._members.get(group_of(record), frozenset())
        return any(
            not pod.is_daemon and (pod.phase == "Running" or pod.key not in members)
            for name in (record.name, record.node_name)
            for pod in self._on_node.get(name, ())
            if pod.is_active
        )

    def _has_pods(self, record: ClaimRecord) -> bool:
        """Whether any of the pods that it was launched for waits, is expected or runs on it, or is still to come.

        A snapshot of a plan places pods that wait for a node without a name on its claim.
        """
        if record.plan.buffer_pods:
            _, _, name = group_of(record).partition("/")
            return group_of(record) in self._gangs or name in self._requests
        places = ("", record.name, record.node_name)
        wanted = record.plan.pods
        return not wanted or any(self._node_of.get(key) in places for key in wanted)


def starting_for_groups(records: Iterable[ClaimRecord]) -> list[ClaimRecord]:
    """Return the claims that were launched for members of a group alone, and whose node is not ready yet."""
    return [
        record
        for record in records
        if labels.GROUP_OF_CLAIM in record.plan.annotations
        and record.phase in (ClaimPhase.LAUNCHED, ClaimPhase.REGISTERED)
        and record.deletion is None
    ]


def may_start_for_nobody(records: Iterable[ClaimRecord], waiting: Collection[str]) -> bool:
    """Whether a node starts for a group that may have changed since: only a plan can say whether it is given back.

    A group has changed if a pod is missing for which the node was launched, or if one was missing at the last plan. One whose
    object says its minimum may have changed with all its pods there. It is not to be asked while a ProvisioningRequest is open
    or booked: a node may start for that.
    """
    return any(
        record.moments.unneeded_at is not None
        or not group_of(record).startswith(_BY_PODS_ALONE)
        or not _all_wait(record, waiting)
        for record in starting_for_groups(records)
    )


_BY_PODS_ALONE: Final = (f"{GroupSource.ANNOTATION}/", f"{GroupSource.KUEUE}/")
"""How the names of groups begin that their pods alone define."""


def _all_wait(record: ClaimRecord, waiting: Collection[str]) -> bool:
    return bool(record.plan.pods) and all(key in waiting for key in record.plan.pods)


# Distributes the claims of a plan over the subnets of a zone, where all of them have few free addresses.
#
# A request to EC2 names one subnet for each instance type and zone, so each claim has one in each zone in which it may be
# launched. It is the subnet with most addresses left: the pods of its node take further ones of it.


def with_subnets(records: Iterable[ClaimRecord], snapshot: Snapshot) -> list[ClaimRecord]:
    """Return the claims, in the given order, with the subnets for their launches.

    A claim takes addresses in every zone in which it may be launched. A zone where a subnet has plenty, or where the
    EC2NodeClass has only one, is left out: its launches go to the subnet that had most at the last reading.
    """
    ordered = list(records)
    if not snapshot.subnet_addresses:
        return ordered
    classes = {node_class.name: node_class for node_class in snapshot.node_classes}
    addresses = dict(snapshot.subnet_addresses)
    return [_assigned(record, classes.get(record.plan.node_class.name), addresses) for record in ordered]


def full_zones(node_class: NodeClass, free: Mapping[str, int]) -> frozenset[str]:
    """Return the zones in which no subnet of the class has the addresses that a node takes.

    `free` has only subnets with few addresses, launches in flight subtracted.
    """
    most: dict[str, int] = {}
    for subnet, zone in node_class.subnets:
        most[zone] = max(most.get(zone, 0), free.get(subnet, node_class.addresses_per_node))
    return frozenset(zone for zone, addresses in most.items() if addresses < node_class.addresses_per_node)


def _assigned(record: ClaimRecord, node_class: NodeClass | None, free: dict[str, int]) -> ClaimRecord:
    """Return the claim with its subnets, and take its addresses from `free`."""
    if node_class is None:
        return record
    chosen: dict[str, str] = {}
    for zone in sorted({offering.zone for offering in record.offerings}):
        subnets = sorted(subnet for subnet, subnet_zone in node_class.subnets if subnet_zone == zone)
        if not subnets or any(subnet not in free for subnet in subnets):
            continue
        roomiest = max(subnets, key=lambda subnet: free[subnet])  # the first of several
        free[roomiest] -= node_class.addresses_per_node
        if len(subnets) > 1:
            chosen[zone] = roomiest
    return msgspec.structs.replace(record, subnets=chosen) if chosen else record
