"""Judges of pods and launches, and the verdict of all judges.

Judges disruption commands: each pod of their nodes must find a place.

Expiry does not count: like Karpenter's, it makes no plan. A pod whose NodePool is at its limits does not count, either: another
pod has taken the planned place, which Kubernetes does not reserve, and no further node may be launched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Protocol

import msgspec

from core import api
from core.model.node_pool import Calendar, Cap
from core.model.values import quantity
from core.pools import share_in
from simulator.aws.ec2.instances import STRANGER
from simulator.checkers.disruption import (
    LAUNCH,
    BudgetJudge,
    InstanceFacts,
    Ledger,
    NodeFacts,
    PodDisruptionBudgetJudge,
    PodFacts,
    claim_of,
    is_protected,
    is_voluntary,
    time_is_up,
)
from simulator.record import Event

# Judges bindings: no pod is bound where the scheduler would not have bound it, or before a kubelet accepts it.


class BindingJudge:
    """Counts bindings against a rule, which the embedded API server reports as `bindingAgainstRule`."""

    name = "bindingViolations"

    def __init__(self, _: Ledger, report: Callable[[str], None]) -> None:
        self._report = report

    def see(self, _: datetime, event: Event) -> None:
        """Judge one event."""
        if event.event == "bindingAgainstRule":
            fields = event.fields
            self._report(f"{fields['pod']} was bound to {fields['node']}: {fields['rule']}")


# Judges the annotation `karpenter.sh/do-not-disrupt`: voluntary disruption removes no pod that carries it.


class DoNotDisruptJudge:
    """Counts protected pods that voluntary disruption evicted, deleted, or ended with their instance."""

    name = "doNotDisruptViolations"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        if event.event == "podEvicted" and event.fields["by"] in ("eviction", "forced"):
            pod = self._ledger.pods.get(event.fields["pod"])
            if pod is not None and not pod.is_leaving:
                self._check(event.fields["pod"], pod, self._ledger.nodes.get(pod.node), moment)
        elif event.event == "instanceTerminated" and event.fields["by"] == "api":
            place = self._ledger.node_of(event.fields["instance"])
            for name, pod in self._ledger.pods_on(place[0]) if place is not None else ():
                if place is not None and not pod.is_leaving:
                    self._check(name, pod, place[1], moment)

    def _check(self, name: str, pod: PodFacts, node: NodeFacts | None, now: datetime) -> None:
        if node is None or not is_voluntary(node) or not is_protected(pod, now):
            return
        if not time_is_up(self._ledger, node, pod, now):
            self._report(f"{name} is marked do-not-disrupt and went for {node.disrupted_for}")


# Judges a NodePool's eviction rate: how many pods consolidation and drift may move in any hour
# (docs/engineering/handbook/moves.md).
#
# A node counts with all its pods from the moment at which its first pod is evicted.


EVICTIONS_PER_HOUR: Final = "fleetwright.dev/evictions-per-hour"
HOUR: Final = timedelta(minutes=50)
"""Ten minutes less than an hour: the functions count a drain when it begins, and its first eviction may come later."""

_BOUNDED: Final = ("Drifted", "Underutilized")


class _Drain(msgspec.Struct):
    """The evictions from one node since `began`."""

    pool: str
    began: datetime
    evicted: int = 0


class EvictionRateJudge:
    """Counts evictions by consolidation and drift above the eviction rate of their NodePool."""

    name = "evictionRateViolations"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report
        self._drains: dict[str, _Drain] = {}

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        if event.event != "podEvicted" or event.fields["by"] not in ("eviction", "forced"):
            return
        pod = self._ledger.pods.get(event.fields["pod"])
        node = None if pod is None or pod.is_leaving else self._ledger.nodes.get(pod.node)
        if node is None or node.disrupted_for not in _BOUNDED:
            return
        drain = self._drains.setdefault(node.instance, _Drain(node.pool, moment))
        drain.evicted += 1
        self._judge(drain, moment)

    def _judge(self, drain: _Drain, now: datetime) -> None:
        metadata = self._ledger.applied.get(("NodePool", "", drain.pool), {}).get("metadata") or {}
        ceiling = str((metadata.get("annotations") or {}).get(EVICTIONS_PER_HOUR, ""))
        # With another text in the annotation the NodePool is invalid, and its nodes are not disrupted voluntarily.
        if not ceiling.isdecimal():
            return
        lately = [
            other_drain
            for other_drain in self._drains.values()
            if other_drain.pool == drain.pool and other_drain.began > now - HOUR
        ]
        evicted = sum(other_drain.evicted for other_drain in lately)
        if evicted > int(ceiling):
            self._report(f"NodePool {drain.pool} had {evicted} pods evicted within an hour, allowed {ceiling}")


# Judges terminations: a node must be drained before its instance is terminated (Karpenter, termination).


class KilledPodsJudge:
    """Counts ready pods that were not evicted and ran on a node whose instance the functions terminated.

    Exempt are pods of DaemonSets, instances with an interruption notice, deleted Nodes, and pods whose node's
    terminationGracePeriod is over.
    """

    name = "podsKilledWithInstance"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report
        self._noticed: set[str] = set()

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        fields = event.fields
        if event.event == "interruptionNotice":
            self._noticed.add(fields["instance"])
        elif event.event == "instanceTerminated" and fields["by"] == "api" and fields["instance"] not in self._noticed:
            place = self._ledger.node_of(fields["instance"])
            if place is not None:
                self._ends(*place, moment)

    def _ends(self, name: str, node: NodeFacts, now: datetime) -> None:
        killed = [
            pod
            for pod, facts in self._ledger.pods_on(name)
            if _is_at_work(facts) and not time_is_up(self._ledger, node, facts, now)
        ]
        if killed:
            self._report(f"{', '.join(killed[:3])} ({len(killed)} in all) ran on {name}, whose instance was terminated")


def _is_at_work(pod: PodFacts) -> bool:
    return pod.is_ready and not pod.is_leaving and not pod.owner.startswith("DaemonSet/")


# Judges launches: never two instances for one claim, nor more instances for one token than requested.


class DoubleLaunchJudge:
    """Counts duplicate instances: those with the token of another, with the claim of another that still runs, or of nobody.

    An instance of a shared launch that the functions end before it has the name of a claim was launched for nobody: others were
    launched in its place, because an answer was lost.
    """

    name = "doubleLaunches"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report

    def see(self, moment: datetime, event: Event) -> None:  # noqa: ARG002 - the same for every judge
        """Judge one event; the ledger holds the world as it was before."""
        if event.event == "instanceLaunched":
            token = event.fields["clientToken"]
            if token and any(i.token == token for i in self._ledger.instances.values()):
                self._report(f"{event.fields['instance']} is the second instance for token {token}")
            self._check_launch(event.fields["instance"], event.fields["tags"].get(LAUNCH, ""), token)
        if event.event == "instanceTerminated" and event.fields.get("by") == "api":
            facts = self._ledger.instances.get(event.fields["instance"])
            if facts is not None and facts.launch and facts.claim == facts.launch:
                self._report(f"{event.fields['instance']} of {facts.launch} ended without ever being a claim's")
        if event.event in ("instanceLaunched", "instanceTagged"):
            self._check_claim(event.fields["instance"], claim_of(event.fields["tags"]))

    def _check_launch(self, instance: str, launch: str, token: str) -> None:
        """Check that all instances of a shared launch have the same token, up to the number of the instance after `#`."""
        for other, facts in self._ledger.instances.items():
            if launch and facts.launch == launch and facts.token.partition("#")[0] != token.partition("#")[0]:
                self._report(f"{instance} and {other} were launched with different tokens for {launch}")
                return

    def _check_claim(self, instance: str, claim: str) -> None:
        record = self._ledger.instances.get(instance)
        if not claim or (record is not None and record.claim == claim):
            return
        for other, facts in self._ledger.instances.items():
            if other != instance and facts.claim == claim and facts.ended_at is None:
                self._report(f"{instance} and {other} both stand for claim {claim}")


# Judges limits of NodePools.


CapacityOf = Callable[[str], Mapping[str, int]]
"""Capacity of an instance type by name."""


def exceeded(ledger: Ledger, capacity_of: CapacityOf, pool: str, launched: str) -> list[str]:
    """Return the names of the limits that one more instance of the type exceeds.

    Nodes that are being disrupted do not count.
    """
    limits = ledger.spec_of("NodePool", pool).get("limits") or {}
    if not limits:
        return []
    going = {node.instance for node in ledger.nodes.values() if node.disrupted_for is not None}
    types = [launched] + [
        facts.instance_type
        for name, facts in ledger.instances.items()
        if facts.pool == pool and facts.ended_at is None and name not in going
    ]
    used = quantity.add({"nodes": len(types)}, *(capacity_of(name) for name in types))
    tops = quantity.parse_resources(limits)
    return [
        f"{used[name]} {name}, its limit is {tops[name]}" for name in sorted(tops) if used.get(name, 0) > tops[name]
    ]


def exceeded_caps(ledger: Ledger, capacity_of: CapacityOf, launched: InstanceFacts) -> Iterator[str]:
    """Yield the caps of Calendars that one more instance exceeds.

    A node that is being disrupted counts only what it costs.
    """
    going = {node.instance for node in ledger.nodes.values() if node.disrupted_for is not None}
    running = [
        facts for name, facts in sorted(ledger.instances.items()) if facts.ended_at is None and name not in going
    ]
    leaving = [facts for name, facts in sorted(ledger.instances.items()) if facts.ended_at is None and name in going]
    for calendar in (api.calendar(dict(written)) for written in ledger.of_kind("Calendar")):
        for cap in calendar.caps:
            parts = [_charged(cap, calendar, facts, capacity_of(facts.instance_type)) for facts in (*running, launched)]
            parts += [_charged(cap, calendar, facts, {}) for facts in leaving]
            if not parts or not _share(cap, calendar, launched):
                continue
            used = quantity.add(*parts)
            for name, limit in sorted(cap.limits.items()):
                if used.get(name, 0) > limit:
                    yield f"cap {cap.name} counts {used[name]} {name}, its limit is {limit}"


def _charged(cap: Cap, calendar: Calendar, facts: InstanceFacts, capacity: Mapping[str, int]) -> dict[str, int]:
    """Return what a cap counts of an instance; one without capacity is leaving."""
    nodes = {quantity.NODES: 1} if capacity else {}
    hourly = {quantity.HOURLY: round(facts.price * quantity.NANODOLLARS)}
    return share_in({**capacity, **nodes, **hourly}, _share(cap, calendar, facts))


def _share(cap: Cap, calendar: Calendar, facts: InstanceFacts) -> int:
    is_selected = bool(facts.pool) and (not calendar.node_pools or facts.pool in calendar.node_pools)
    return facts.charges.get(cap.name, quantity.PPM if cap.is_for_all_pods and is_selected else 0)


class LimitJudge:
    """Counts launches that take a NodePool over one of its limits, or a cap over its own."""

    name = "limitViolations"

    def __init__(self, ledger: Ledger, report: Callable[[str], None], capacity_of: CapacityOf) -> None:
        self._ledger = ledger
        self._report = report
        self._capacity_of = capacity_of

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        if event.event != "instanceLaunched":
            return
        pool = event.fields["tags"].get("karpenter.sh/nodepool", "")
        for excess in exceeded(self._ledger, self._capacity_of, pool, event.fields["instanceType"]):
            self._report(f"NodePool {pool} has {excess}")
        for excess in exceeded_caps(self._ledger, self._capacity_of, self._ledger.launched(moment, event.fields)):
            self._report(excess)


# Judges orphans: objects and instances at the end that nothing needs or refers to.


UNREGISTERED_MAX: Final = timedelta(minutes=20)
"""How long an instance may live without a node: Karpenter abandons it after 15 minutes; the rest is a margin to act."""


class OrphanJudge:
    """Counts instances without a node, and claims in the cluster whose instance is gone."""

    name = "orphanedInstances"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report

    def finish(self, now: datetime) -> None:
        """Judge the final state."""
        with_node = {node.instance for node in self._ledger.nodes.values()}
        for name, instance in sorted(self._ledger.instances.items()):
            settled = now - instance.launched_at > UNREGISTERED_MAX
            if instance.ended_at is None and settled and name not in with_node:
                self._report(
                    f"{name} (claim {instance.claim or 'unknown'}) runs since {instance.launched_at} without a node"
                )
        for claim in self._ledger.of_kind("NodeClaim"):
            self._check_claim(claim["metadata"]["name"], str((claim.get("status") or {}).get("providerID", "")), now)

    def _check_claim(self, name: str, provider_id: str, now: datetime) -> None:
        instance = self._ledger.instances.get(provider_id.rpartition("/")[2])
        ended = None if instance is None else instance.ended_at
        if ended is not None and now - ended > UNREGISTERED_MAX:
            self._report(f"claim {name} stands for {provider_id}, which ended at {ended}")


# Judges groups that start together: a part of one does not run on while the rest waits.


HALF_MAX: Final = timedelta(minutes=30)
"""How long a part of a group may run before all of it has: an instance that does not join is given up after 15 minutes, and the
part's nodes are given back 5 minutes after no plan finds room for the rest; what remains is a margin to act under faults."""

_LAUNCHED_FOR: Final = "fleetwright.dev/launched-for-group"
_CHANGES: Final = frozenset({"podBound", "podDeleted", "podFinished", "podEvicted", "podCreated", "nodeDeleted"})


class HalfGroupJudge:
    """Counts groups of which a part runs for too long on nodes that were bought for it, and which never were whole."""

    name = "halfBoughtGroups"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report
        self._since: dict[str, datetime] = {}
        self._changed_at: datetime | None = None
        self._reported: set[str] = set()

    def see(self, moment: datetime, event: Event) -> None:
        """Judge the time until an event; the ledger holds the world as it was before."""
        if self._changed_at is not None:
            half = (group for group in self._bought() if self._is_half(group))
            self._since = {group: self._since.get(group, self._changed_at) for group in half}
            self._changed_at = None
        for group, since in sorted(self._since.items()):
            if moment - since > HALF_MAX and group not in self._reported:
                _, placed, minimum = self._ledger.members(group)
                self._reported.add(group)
                self._report(f"{placed} of {minimum} members of {group} run since {since}, and it never was whole")
        if event.event in _CHANGES:
            self._changed_at = moment

    def _bought(self) -> set[str]:
        """The groups that have a member on a node which was bought for a group."""
        bought = set()
        for pod in self._ledger.pods.values():
            node = self._ledger.nodes.get(pod.node) if pod.group else None
            instance = self._ledger.instances.get(node.instance) if node is not None else None
            claim = self._ledger.applied.get(("NodeClaim", "", instance.claim)) if instance is not None else None
            if claim is not None and _LAUNCHED_FOR in (claim["metadata"].get("annotations") or {}):
                bought.add(pod.group)
        return bought

    def _is_half(self, group: str) -> bool:
        there, placed, minimum = self._ledger.members(group)
        return group not in self._ledger.whole_groups and 0 < placed < minimum <= there


PENDING_MAX: Final = timedelta(minutes=20)
"""How long the successor of an evicted pod may wait: a launch that never joins takes 15 minutes, and is then repeated."""

_PLANNED: Final = ("Empty", "Drifted", "Underutilized")
_FOLLOWS_WITHIN: Final = timedelta(minutes=5)
"""How long after an eviction a controller's next pod counts as the successor: some controllers wait for the old pod's end."""


class _Eviction(msgspec.Struct):
    pod: str
    reason: str
    at: datetime
    pool: str
    instance_type: str


class StrandedPodsJudge:
    """Counts successors of pods that a disruption command evicted which wait too long for a node that could be launched."""

    name = "evictionsWithoutPlace"

    def __init__(self, ledger: Ledger, report: Callable[[str], None], capacity_of: CapacityOf) -> None:
        self._ledger = ledger
        self._report = report
        self._capacity_of = capacity_of
        self._evicted: dict[str, list[_Eviction]] = {}
        self._waiting: dict[str, tuple[datetime, _Eviction]] = {}

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        fields = event.fields
        if event.event == "podEvicted" and fields["by"] in ("eviction", "forced"):
            self._leaves(fields["pod"], moment)
        elif event.event == "podCreated":
            self._comes(fields["pod"], f"{fields['object']['metadata'].get('namespace')}/{fields['owner']}", moment)
        elif event.event == "podBound" and fields["pod"] in self._waiting:
            self._end(fields["pod"], moment)
        elif event.event == "podDeleted":
            self._waiting.pop(fields["pod"], None)

    def has_waiting(self) -> bool:
        """Whether the successor of an evicted pod has no node yet."""
        return bool(self._waiting)

    def finish(self, now: datetime) -> None:
        """Judge those that still wait."""
        for pod in sorted(self._waiting):
            self._end(pod, now)

    def _leaves(self, name: str, now: datetime) -> None:
        pod = self._ledger.pods.get(name)
        if pod is None or pod.is_leaving:
            return
        node = self._ledger.nodes.get(pod.node)
        if node is not None and node.disrupted_for in _PLANNED:
            instance = self._ledger.instances.get(node.instance)
            type_ = instance.instance_type if instance is not None else ""
            eviction = _Eviction(name, node.disrupted_for or "", now, node.pool, type_)
            self._evicted.setdefault(f"{pod.namespace}/{pod.owner}", []).append(eviction)

    def _comes(self, name: str, owner: str, now: datetime) -> None:
        due = self._evicted.get(owner)
        if due:
            eviction = due.pop(0)
            if now - eviction.at <= _FOLLOWS_WITHIN:
                self._waiting[name] = (now, eviction)

    def _end(self, name: str, now: datetime) -> None:
        since, eviction = self._waiting.pop(name)
        if now - since > PENDING_MAX and not self._is_at_limit(eviction):
            waited = round((now - since).total_seconds() / 60)
            self._report(f"{name} waited {waited} minutes: it follows {eviction.pod}, evicted for {eviction.reason}")

    def _is_at_limit(self, eviction: _Eviction) -> bool:
        """Whether limits forbid another node like the one that the pod left."""
        if not eviction.instance_type:
            return False
        if exceeded(self._ledger, self._capacity_of, eviction.pool, eviction.instance_type):
            return True
        same = [facts for _, facts in sorted(self._ledger.instances.items()) if facts.pool == eviction.pool]
        likely = [facts for facts in same if facts.instance_type == eviction.instance_type][-1:]
        return any(any(exceeded_caps(self._ledger, self._capacity_of, facts)) for facts in likely)


# Combines all judges and their findings.


class Violation(msgspec.Struct, frozen=True):
    """One violation of a law."""

    at: datetime
    law: str
    message: str


class Verdict(msgspec.Struct, frozen=True):
    """The judges' findings: violations in order."""

    violations: tuple[Violation, ...]

    def count(self, law: str) -> int:
        """Return how often this law was violated."""
        return sum(1 for violation in self.violations if violation.law == law)


class _Judge(Protocol):
    def see(self, moment: datetime, event: Event) -> None: ...


class Judges:
    """Watches a record and reports violations at the end.

    Attributes:
        ledger: Their common view of the world.

    Args:
        capacity_of: Capacity of an instance type by name.
    """

    def __init__(self, capacity_of: CapacityOf) -> None:
        self.ledger = Ledger()
        self._found: list[Violation] = []
        self._foreign: set[str] = set()
        self._now = datetime.min.replace(tzinfo=UTC)
        self._orphans = OrphanJudge(self.ledger, self._reporter(OrphanJudge.name))
        self._stranded = StrandedPodsJudge(self.ledger, self._reporter(StrandedPodsJudge.name), capacity_of)
        self._judges: tuple[_Judge, ...] = (
            BudgetJudge(self.ledger, self._reporter(BudgetJudge.name)),
            PodDisruptionBudgetJudge(self.ledger, self._reporter(PodDisruptionBudgetJudge.name)),
            DoNotDisruptJudge(self.ledger, self._reporter(DoNotDisruptJudge.name)),
            DoubleLaunchJudge(self.ledger, self._reporter(DoubleLaunchJudge.name)),
            LimitJudge(self.ledger, self._reporter(LimitJudge.name), capacity_of),
            KilledPodsJudge(self.ledger, self._reporter(KilledPodsJudge.name)),
            BindingJudge(self.ledger, self._reporter(BindingJudge.name)),
            EvictionRateJudge(self.ledger, self._reporter(EvictionRateJudge.name)),
            HalfGroupJudge(self.ledger, self._reporter(HalfGroupJudge.name)),
            self._stranded,
        )

    def see(self, event: Event) -> None:
        """Judge one event of the record."""
        self._now = datetime.fromisoformat(event.t)
        if event.fields.get("by") == STRANGER:
            self._foreign.add(event.fields["instance"])
        if event.fields.get("instance") in self._foreign:
            return
        for judge in self._judges:
            judge.see(self._now, event)
        self.ledger.see(self._now, event)

    def await_more(self) -> bool:
        """Whether something whose duration is judged has not ended yet."""
        return self._stranded.has_waiting()

    def finish(self) -> Verdict:
        """Return the verdict, after the last event."""
        self._orphans.finish(self._now)
        self._stranded.finish(self._now)
        return Verdict(tuple(self._found))

    def report(self, law: str, message: str) -> None:
        """Add a violation that another kind of judge found."""
        self._found.append(Violation(self._now, law, message))

    def _reporter(self, law: str) -> Callable[[str], None]:
        return partial(self.report, law)


# The judges of a run. They read only the record, and share no code with the functions under test.


__all__ = ["Judges", "Verdict"]
