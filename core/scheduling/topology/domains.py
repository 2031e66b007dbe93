"""Counts of pods in topology domains, and the one domain of each key that a new node is held to.

Restricts a new node to one value of every topology key of its pods' rules.

Karpenter leaves such keys open if it can, so that the domain of a pod is unknown. Here a node's zone is decided with the first
pod that any hard rule concerns, so every later count is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from core.labels import normalized
from core.model.pod import Pod
from core.model.values.requirements import Requirement
from core.scheduling.new_node import ClaimDraft, ClaimProfile, InFlightClaim, NodeClaimTemplate, any_value
from core.scheduling.pods import PendingGroup, PodGroup, PodSignature, RelaxationStep, TopologyRule
from core.scheduling.primitives import (
    IMPOSSIBLE,
    NO_CLAIMS,
    NO_TYPES,
    ClaimMask,
    RequirementId,
    RequirementTable,
    StepId,
    TopologyGroupId,
    TypeMask,
    Vector,
    bits,
    memo,
)
from core.scheduling.topology.groups import AFFINITY, ANTI_AFFINITY, INVERSE, SPREAD, Counts, Topology

# Counts the pods that leave the nodes which a plan removes.


_NOBODY: Final[Mapping[int, int]] = {}


class Departures(msgspec.Struct, frozen=True, eq=False):
    """Which nodes a plan removes, and which of their pods it places elsewhere.

    All other pods of these nodes count where they are while the plan's pods are placed: DaemonSets' pods, mirror pods, those
    that may not be evicted, and those that end without a successor (Karpenter).

    Attributes:
        positions: The nodes.
        active, ending: Index of a signature → node position → how many of its pods leave; apart, as in `PodSignature`.
    """

    positions: tuple[int, ...] = ()
    active: Mapping[int, Mapping[int, int]] = msgspec.field(default_factory=dict)
    ending: Mapping[int, Mapping[int, int]] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, positions: Iterable[int], pods: Iterable[tuple[PodSignature, Pod, int]]) -> Departures:
        """Count pods that leave.

        Args:
            positions: The nodes that the plan removes.
            pods: Every pod that the plan places elsewhere, with the node where it is.
        """
        active: dict[int, dict[int, int]] = {}
        ending: dict[int, dict[int, int]] = {}
        for signature, pod, position in pods:
            counts = (ending if pod.is_terminating else active).setdefault(signature.index, {})
            counts[position] = counts.get(position, 0) + 1
        return cls(tuple(sorted(positions)), active, ending)

    def counted(self, signature: PodSignature, *, with_ending: bool) -> Iterator[tuple[int, int]]:
        """Return node and number of the pods that leave, terminating ones only if requested."""
        yield from self.active.get(signature.index, _NOBODY).items()
        if with_ending:
            yield from self.ending.get(signature.index, _NOBODY).items()


NO_DEPARTURES: Final = Departures()
"""A plan that removes no node."""


# Counts the pods of one hostname group on each new node.


SETS_MAX: Final = 256
"""The largest count with a set of its own: a maxSkew may be two thousand million, and few nodes have more pods."""


class HostnameCounts:
    """Counts by claim, and bit sets of the claims that have reached a count, so that a rule covers all claims at once.

    Attributes:
        total: Pods on all claims.
    """

    def __init__(self, highest: int) -> None:
        """Start without pods.

        Args:
            highest: The largest count that is queried.
        """
        self.total = 0
        self._counts: dict[int, int] = {}
        # [count], the claims with at least that many pods; a claim that gains a pod enters one more set, so each change is one
        # bit. Larger counts are looked up claim by claim.
        self._reached = [ClaimMask(0)] * (min(highest, SETS_MAX) + 1)

    def copy(self) -> HostnameCounts:
        """Return an independent copy of the counts."""
        other = HostnameCounts(len(self._reached) - 1)
        other.total, other._counts, other._reached = self.total, dict(self._counts), list(self._reached)
        return other

    def add(self, claim: int, times: int) -> None:
        """Count pods on a claim, or remove them with negative `times`."""
        before = self._counts.get(claim, 0)
        after = self._counts[claim] = before + times
        self.total += times
        reached, bit = self._reached, 1 << claim
        if times == 1:  # nearly always
            if after < len(reached):
                reached[after] |= bit
            return
        while before < after:
            before += 1
            if before < len(reached):
                reached[before] |= bit
        while before > after:
            if before < len(reached):
                reached[before] &= ~bit
            before -= 1

    def of(self, claim: int) -> int:
        """Return how many pods a claim has."""
        return self._counts.get(claim, 0)

    def with_at_least(self, count: int) -> ClaimMask:
        """Return the claims with at least `count` pods (at least one), as a bit set."""
        if count < len(self._reached):
            return self._reached[count]
        return ClaimMask(bits(claim for claim, pods in self._counts.items() if pods >= count))


# Counts pods in each domain of each topology group in one plan, and decides whether rules admit one more.


Effect = tuple[TopologyGroupId, str | None, bool]
"""A group for which a pod counts on a new node, the domain (None for the node itself), and whether that is uncertain."""


class ReachableDomains(msgspec.Struct, frozen=True, eq=False):
    """What makes a domain without nodes count for the spreads of a pod, if not every domain that NodePools could launch does.

    Attributes:
        launches: Topology key and value, None for a node as such → whether the pod could get a new node there.
        claims: The new nodes of the plan.
    """

    launches: Callable[[str, str | None], bool]
    claims: Sequence[InFlightClaim]


class DomainCounts:
    """Counts of running pods that stay, and of pods that the plan has placed so far.

    `reachable`: set while a spread counts domains without nodes only if the pod could get a node there.
    """

    def __init__(self, topology: Topology, departures: Departures = NO_DEPARTURES) -> None:
        """Start with the running pods.

        Args:
            topology: The groups.
            departures: The nodes that the plan removes, and those of their pods that do not count there.
        """
        self._topology = topology
        self._departures = departures
        self._counts: dict[TopologyGroupId, Counts] = {}
        self._uncertain: dict[TopologyGroupId, Counts] = {}
        self._hostnames: dict[TopologyGroupId, HostnameCounts] = {}
        self._least_hosts: dict[TopologyGroupId, int] = {}
        self.reachable: ReachableDomains | None = None
        self._effects: Callable[[PodSignature, ClaimProfile], tuple[Effect, ...]] = memo(partial(_effects, topology))

    def at_start(self) -> DomainCounts:
        """Return the counts as they were before the plan placed any pod."""
        return DomainCounts(self._topology, self._departures)

    def copy(self) -> DomainCounts:
        """Return an independent copy of the counts."""
        other = DomainCounts(self._topology, self._departures)
        other._counts = {group: dict(counts) for group, counts in self._counts.items()}
        other._uncertain = {group: dict(counts) for group, counts in self._uncertain.items()}
        other._hostnames = {group: hostnames.copy() for group, hostnames in self._hostnames.items()}
        return other

    def of(self, group: TopologyGroupId) -> Counts:
        """Return domain → pods, without new nodes if each node is a domain."""
        counts = self._counts.get(group)
        if counts is None:
            counts = self._counts[group] = self._starting(group)
        return counts

    def admits(self, rule: TopologyRule, domain: str | None, signature: PodSignature, *, is_new: bool = False) -> bool:
        """Whether the rule admits one more pod in a domain; None is a node without the label.

        `is_new`: the pods of DaemonSets that the pod must be near are yet to come to the node.
        """
        if domain is None:
            return rule.kind in (ANTI_AFFINITY, INVERSE)
        counts = self.of(rule.group)
        there = counts.get(domain, 0)
        if rule.kind == SPREAD:
            # Kubernetes: the pods there with this one, less those in the least loaded domain, are at most maxSkew.
            group = self._topology.groups[rule.group]
            return there + rule.selects_self - self._minimum(rule, domain, signature) <= group.max_skew
        if rule.kind == AFFINITY:
            return there > 0 or (is_new and rule.by_daemons) or (rule.selects_self and self.is_first(rule))
        return there == 0

    def admits_beside(
        self, rule: TopologyRule, domain: str, signature: PodSignature, others: Sequence[PodSignature]
    ) -> bool:
        """Whether the rule admits one more pod in a domain once these others are there, too, which may raise the minimum."""
        counted = sum(rule.group in (o.avoids if rule.kind == INVERSE else o.selected_by) for o in others)
        counted = counted or self._counted_by_empty_selector(rule, signature, others)
        if not counted:
            return True
        counts = self.of(rule.group)
        before = counts.get(domain)
        counts[domain] = (before or 0) + counted
        self._least_hosts.pop(rule.group, None)
        is_admitted = self.admits(rule, domain, signature)
        self._least_hosts.pop(rule.group, None)
        if before is None:
            del counts[domain]
        else:
            counts[domain] = before
        return is_admitted

    def _counted_by_empty_selector(
        self, rule: TopologyRule, signature: PodSignature, others: Sequence[PodSignature]
    ) -> int:
        """Return how many pods a spread with an empty selector counts, its own included, if others are nominated to a node.

        kube-scheduler leaves running pods out, but not those that it adds to a node (podtopologyspread/filtering.go,
        updateWithPod).
        """
        if rule.kind != SPREAD or self._topology.groups[rule.group].selector is not None:
            return 0
        is_empty = any(s.selector is not None and normalized(s.topology_key) == rule.key for s in signature.spreads)
        near = sum(other.namespace == signature.namespace for other in others)
        return near + 1 if is_empty and near else 0

    def is_overfull(self, rule: TopologyRule, domain: str, signature: PodSignature) -> bool:
        """Whether a domain has more pods than a spread allows, so that a pod that leaves may not return."""
        if rule.kind != SPREAD:
            return False
        there = self.of(rule.group).get(domain, 0)
        return there - self._minimum(rule, domain, signature) > self._topology.groups[rule.group].max_skew

    def barred_claims(self, rule: TopologyRule) -> ClaimMask:
        """Return claims that a hostname rule excludes for a pod; a complement, below zero, if it also excludes new ones."""
        hostnames = self._hostnames_of(rule.group)
        if rule.kind == AFFINITY:
            is_free = rule.by_daemons or (rule.selects_self and self.is_first(rule))
            return NO_CLAIMS if is_free else ~hostnames.with_at_least(1)
        too_many = 1
        if rule.kind == SPREAD:
            least = 0 if self.reachable is None else self._least_host(rule, self.reachable)
            too_many += self._topology.groups[rule.group].max_skew - rule.selects_self + least
        return hostnames.with_at_least(too_many)

    def bars_new_node(self, rule: TopologyRule) -> bool:
        """Whether a hostname rule excludes even a node without pods."""
        return self.barred_claims(rule) < 0  # the complement of a finite set contains every later claim

    def is_first(self, rule: TopologyRule) -> bool:
        """Whether no pod counts for an affinity yet, along none of its keys."""
        return all(self._is_empty(group) for group in rule.together or (rule.group,))

    def _is_empty(self, group: TopologyGroupId) -> bool:
        hostnames = self._hostnames.get(group)
        return not any(self.of(group).values()) and not (hostnames and hostnames.total)

    def record_on_node(self, signature: PodSignature, position: int) -> None:
        """Count a pod that the plan puts on an existing node."""
        for group in _counting(self._topology, signature):
            domain = self._topology.domains.at(group, position)
            if domain is not None:
                counts = self.of(group)
                counts[domain] = counts.get(domain, 0) + 1
                self._least_hosts.pop(group, None)

    def record_on_claim(self, signature: PodSignature, profile: ClaimProfile, claim: int, times: int = 1) -> None:
        """Count pods that the plan puts on a new node, or remove them with negative `times`."""
        for group, domain, is_uncertain in self._effects(signature, profile):
            if domain is None:
                self._hostnames_of(group).add(claim, times)
                continue
            counts = self._counts.get(group)
            if counts is None:
                counts = self.of(group)
            counts[domain] = counts.get(domain, 0) + times
            if is_uncertain:
                uncertain = self._uncertain.setdefault(group, {})
                uncertain[domain] = uncertain.get(domain, 0) + times

    def record_on_claims(self, signature: PodSignature, profile: ClaimProfile, claims: Sequence[int]) -> None:
        """Count one pod on each of these new nodes with a profile; a node may be named several times."""
        for group, domain, is_uncertain in self._effects(signature, profile):
            if domain is None:
                hostnames = self._hostnames_of(group)
                for claim in claims:
                    hostnames.add(claim, 1)
                continue
            for counts in (
                (self.of(group), self._uncertain.setdefault(group, {})) if is_uncertain else (self.of(group),)
            ):
                counts[domain] = counts.get(domain, 0) + len(claims)

    def recount(self, signature: PodSignature, before: ClaimProfile, after: ClaimProfile, claim: int) -> None:
        """Move a pod's count from its claim's old profile to the new one."""
        if self._effects(signature, before) != self._effects(signature, after):
            self.record_on_claim(signature, before, claim, -1)
            self.record_on_claim(signature, after, claim)

    def _minimum(self, rule: TopologyRule, here: str, signature: PodSignature) -> int:
        """Return the fewest pods in any domain that counts for a spread; zero for hostnames while a new node is possible.

        A pod on a new node that might not count is left out, except in `here`, where it could be one too many.
        """
        if rule.is_hostname:
            return 0 if self.reachable is None else self._least_host(rule, self.reachable)
        group = self._topology.groups[rule.group]
        uncertain = self._uncertain.get(rule.group, {})
        counts = self.of(rule.group)
        if not uncertain and self.reachable is None and self._topology.may_run_anywhere(signature, rule.key):
            return min(counts.values()) if counts and len(counts) >= group.min_domains else 0
        supported = [
            n if domain == here else n - uncertain.get(domain, 0)
            for domain, n in counts.items()
            if self._supports(rule, domain, signature) and (domain == here or self._exists(rule, domain))
        ]
        # With fewer domains than minDomains, the least loaded one counts as empty (Kubernetes).
        return min(supported) if supported and len(supported) >= group.min_domains else 0

    def _least_host(self, rule: TopologyRule, reachable: ReachableDomains) -> int:
        """Return the fewest pods on any node that is there or comes with the plan; zero if the pod could get a further one."""
        if reachable.launches(rule.key, None):
            return 0
        number, domains = rule.group, self._topology.domains
        # Where nodes alone count, each pod that is placed changes the answer, and not each node that is tried for it.
        least = None if reachable.claims else self._least_hosts.get(number)
        if least is not None:
            return least
        counts, hostnames = self.of(number), self._hostnames_of(number)
        gone = {domains.at(number, position) for position in self._departures.positions}
        counts_here = [counts.get(host, 0) for host in domains.of_nodes(number) if host not in gone]
        counts_here += [
            hostnames.of(claim.index)
            for claim in reachable.claims
            if self._topology.new_nodes.counts(number, claim.reqs, claim.template)
        ]
        has_enough = counts_here and len(counts_here) >= self._topology.groups[number].min_domains
        least = min(counts_here) if has_enough else 0
        if not reachable.claims:
            self._least_hosts[number] = least
        return least

    def vacant(self, rule: TopologyRule, signature: PodSignature) -> list[str | None]:
        """Return the domains that a spread does not count now, because they have no nodes; None for a further node as such."""
        reachable = self.reachable
        if reachable is None:
            return []
        if rule.is_hostname:
            return [] if reachable.launches(rule.key, None) else [None]
        supported = (d for d in sorted(self.of(rule.group)) if self._supports(rule, d, signature))
        return [domain for domain in supported if not self._exists(rule, domain)]

    def _exists(self, rule: TopologyRule, domain: str) -> bool:
        """Whether nodes are in a domain, or may come there; all that NodePools could launch, unless `reachable` says which."""
        reachable, number = self.reachable, rule.group
        if reachable is None or self.of(number).get(domain, 0) > 0:
            return True
        domains = self._topology.domains
        gone = sum(domains.at(number, position) == domain for position in self._departures.positions)
        if domains.of_nodes(number).get(domain, 0) > gone or reachable.launches(rule.key, domain):
            return True
        may_be = (self._topology.table[claim.reqs].of(rule.key).has(domain) for claim in reachable.claims)
        return any(may_be)

    def _supports(self, rule: TopologyRule, domain: str, signature: PodSignature) -> bool:
        """Whether a domain counts: one that the pod may use, or with nodeAffinityPolicy Ignore any one with nodes."""
        if self._topology.may_run_at(signature, rule.key, domain):
            return True
        # Only with the policy Ignore does a group know a domain that the pod may not use.
        return domain in self._topology.domains.of_nodes(rule.group) or self.of(rule.group)[domain] > 0

    def _hostnames_of(self, group: TopologyGroupId) -> HostnameCounts:
        counts = self._hostnames.get(group)
        if counts is None:
            # Counts above one pod over maxSkew are never queried, see `barred_claims`.
            highest = self._topology.groups[group].max_skew + 1
            counts = self._hostnames[group] = HostnameCounts(highest)
        return counts

    def _starting(self, group: TopologyGroupId) -> Counts:
        counts = dict(self._topology.domains.running(group))
        if not self._departures.positions or self._topology.groups[group].is_of_claim:
            return counts
        with_ending = self._topology.groups[group].counts_ending
        for signature in self._topology.counted(group):
            for position, pods in self._departures.counted(signature, with_ending=with_ending):
                domain = self._topology.domains.at(group, position)
                if domain is not None:
                    counts[domain] -= pods
        return {domain: count for domain, count in counts.items() if count or self._may_be_empty(group, domain)}

    def _may_be_empty(self, number: TopologyGroupId, domain: str) -> bool:
        """Whether a domain counts without pods: for a spread along shared domains, if remaining or new nodes are in it."""
        group, domains = self._topology.groups[number], self._topology.domains
        # Each emptied host would be looked for at all nodes that go: their number squared.
        if group.kind != SPREAD or group.is_hostname:
            return False
        if domain in domains.possible(number):
            return True
        gone = sum(domains.at(number, position) == domain for position in self._departures.positions)
        return domains.of_nodes(number)[domain] > gone


def _effects(topology: Topology, signature: PodSignature, profile: ClaimProfile) -> tuple[Effect, ...]:
    return tuple(_effects_of(topology, signature, profile))


def _effects_of(topology: Topology, signature: PodSignature, profile: ClaimProfile) -> Iterator[Effect]:
    template = profile.template
    for number in _counting(topology, signature):
        group = topology.groups[number]
        domain = None if group.is_hostname else topology.table.single(profile.reqs, group.key)
        if (group.is_hostname or domain is not None) and topology.new_nodes.counts(number, profile.reqs, template):
            yield number, domain, topology.new_nodes.is_uncertain(number, profile.reqs, template)


def _counting(topology: Topology, signature: PodSignature) -> Iterable[TopologyGroupId]:
    """Return groups for which pods count: those that select them, and the inverse groups that they own."""
    groups = topology.groups
    return (*(n for n in signature.selected_by if groups[n].kind != INVERSE), *signature.avoids)


_WHOLE = 1000
"""The weight of a waiting pod that can go to one value only; a pod with n values weighs 1/n of this."""

_Preference = tuple[int, int, int, int, int, str]
"""Sort key of values, smaller is better: the pod count there by own spreads, the need of other pods, pods that should share the
node but cannot go there, price, the pod count there by other spreads, the value itself."""


class _PreferenceGroups(msgspec.Struct, frozen=True, eq=False):
    """The groups by which pods prefer one value of a key to another.

    Attributes:
        spreads: Spread constraints of their own.
        counted_by: Spread constraints, of any pods, that count them.
        affinities: Affinities and anti-affinities, of their own and of others.
    """

    spreads: tuple[TopologyGroupId, ...]
    counted_by: tuple[TopologyGroupId, ...]
    affinities: tuple[TopologyGroupId, ...]


class DomainChoice:
    """Chooses values for the new nodes of one plan.

    Attributes:
        differs_if_shared: Whether any choice so far would have been another if one new node should take all pods. It is only
            known if choices compare it, see the constructor.
    """

    def __init__(
        self,
        topology: Topology,
        domain_counts: DomainCounts,
        pending_groups: Iterable[PendingGroup],
        together: Callable[[], Vector] | None = None,
        *,
        only_compares: bool = False,
    ) -> None:
        """Choose for these pods.

        Args:
            topology: The rules.
            domain_counts: How many pods each domain has.
            pending_groups: The pods that need a place.
            together: Returns the requests of all pods that one new node should take; None if they may use several nodes.
            only_compares: Whether choices are made as without `together`, and only compared with those that it would lead to.
        """
        self.differs_if_shared = False
        self._topology = topology
        self._pending_groups = pending_groups = tuple(pending_groups)
        self._together = together
        self._only_compares = only_compares
        self._domain_counts = domain_counts
        self._table: RequirementTable = topology.table
        self._concerned: Callable[[], Mapping[TopologyGroupId, list[PendingGroup]]] = memo(
            partial(_by_topology_group, pending_groups)
        )
        self._preference_groups: dict[tuple[StepId, str], _PreferenceGroups] = {}
        self._price: Callable[[NodeClaimTemplate, RequirementId, TypeMask, str, str], int] = memo(_price)
        self._possible: Callable[[PodGroup, NodeClaimTemplate, str], tuple[str, ...]] = memo(_possible)
        self._restricted: Callable[[NodeClaimTemplate, str], tuple[tuple[PendingGroup, tuple[str, ...]], ...]] = memo(
            partial(_restricted, pending_groups, self._possible)
        )

    def best(self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep) -> RequirementId | None:
        """Return the first choice that leaves enough types for minValues, or None."""
        return next((c.reqs for c in self.choices(draft, signature, step, step.keys) if not c.missing_values()), None)

    def choices(
        self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep, keys: tuple[str, ...]
    ) -> Iterator[ClaimDraft]:
        """Yield the draft narrowed to one value of each key, for all combinations that the rules admit, the best first."""
        if not keys:
            yield draft
            return
        for value in self.options(draft, signature, step, keys[0]):
            narrowed = draft
            if value is not None and self._table.single(draft.reqs, keys[0]) != value:
                narrowed = draft.narrowed(self._table.with_value(draft.reqs, keys[0], value))
                if not narrowed.is_possible:
                    continue
            yield from self.choices(narrowed, signature, step, keys[1:])

    def options(self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep, key: str) -> list[str | None]:
        """Return values that every rule admits, the best first; only None if the node will not have the label."""
        rules = [rule for rule in step.zone_rules if rule.key == key]
        single = self._table.single(draft.reqs, key)
        if single is not None:
            return [single] if self._admitted(rules, single, signature) else []
        values = draft.template.types.values(draft.mask, draft.reqs, key)
        if not values:
            label = self._table[draft.reqs].get(key)
            if label is not None and not label.is_finite and key not in self._table.well_known:
                return self._open_label(rules, label, signature)
            return [None] if self._admitted(rules, None, signature) else []
        admitted = [value for value in values if self._admitted(rules, value, signature)]
        if len(admitted) > 1:
            return [*self._ordered(admitted, draft, signature, step, key)]
        return [*admitted]

    def _ordered(
        self, values: Sequence[str], draft: ClaimDraft, signature: PodSignature, step: RelaxationStep, key: str
    ) -> list[str]:
        """Return the values, the best first."""
        shared = self._shared(draft)
        if shared and not self._only_compares:
            return sorted(values, key=self._preference(draft, signature, step, key, shared))
        ordered = sorted(values, key=self._preference(draft, signature, step, key))
        if shared:
            self.differs_if_shared = ordered != sorted(
                ordered, key=self._preference(draft, signature, step, key, shared)
            )
        return ordered

    def _admitted(self, rules: Iterable[TopologyRule], value: str | None, signature: PodSignature) -> bool:
        for rule in rules:  # noqa: SIM110 - a generator takes twice as long, and this is called for every value
            if not self._domain_counts.admits(rule, value, signature, is_new=True):
                return False
        return True

    def _open_label(
        self, rules: Sequence[TopologyRule], label: Requirement, signature: PodSignature
    ) -> list[str | None]:
        """Return values of a label that the NodePool leaves open: those in use, the emptiest first, or else a new one.

        A new value is a new domain, which makes spreads less even; it is used only if a hard rule excludes all others.
        """
        counts = [self._domain_counts.of(rule.group) for rule in rules]
        used = sorted({value for domain_counts in counts for value in domain_counts})
        admitted = [value for value in used if label.has(value) and self._admitted(rules, value, signature)]
        if admitted:
            return [
                *sorted(
                    admitted, key=lambda value: (sum(domain_counts.get(value, 0) for domain_counts in counts), value)
                )
            ]
        is_preference = not all(self._topology.is_hard(rule.group) for rule in rules)
        fresh = None if is_preference else any_value(label, used)
        return [fresh] if fresh is not None and self._admitted(rules, fresh, signature) else []

    def _preference(
        self,
        draft: ClaimDraft,
        signature: PodSignature,
        step: RelaxationStep,
        key: str,
        shared: TypeMask = NO_TYPES,
    ) -> Callable[[str], _Preference]:
        """Return the ranking of values: even spread, values that others need, price, then even spread by others' rules.

        `shared` are the types with room for all pods if they should share a node.
        """
        groups = self._preference_groups_of(signature, step, key)
        spreads = [self._domain_counts.of(number) for number in groups.spreads]
        other_spreads = [self._domain_counts.of(number) for number in groups.counted_by]
        needs = self._needs(draft.template, signature, groups.affinities, key)
        apart = self._apart(draft.template, key) if shared else []
        priced = shared or draft.mask

        def rank(value: str) -> _Preference:
            # Sums of generators take three times as long, for each value of each pod.
            spread = by_others = 0
            for counts in spreads:
                spread += counts.get(value, 0)
            for counts in other_spreads:
                by_others += counts.get(value, 0)
            return (
                spread,
                needs.get(value, 0),
                sum(pods for pods, possible in apart if value not in possible),
                self._price(draft.template, draft.reqs, priced, key, value),
                by_others,
                value,
            )

        return rank

    def _shared(self, draft: ClaimDraft) -> TypeMask:
        """Return the types with room for all pods that should share the node; none if they may or have to use several."""
        if self._together is None or self.differs_if_shared:
            return NO_TYPES
        return draft.template.types.room.fitting(draft.mask, self._together())

    def _apart(self, template: NodeClaimTemplate, key: str) -> list[tuple[int, tuple[str, ...]]]:
        """Return how many pods of each group that cannot have every value still wait, and the group's values."""
        return [(group.waiting, values) for group, values in self._restricted(template, key) if group.waiting]

    def _preference_groups_of(self, signature: PodSignature, step: RelaxationStep, key: str) -> _PreferenceGroups:
        preference_groups = self._preference_groups.get((step.index, key))
        if preference_groups is None:
            groups = self._topology.groups
            rules = [rule for rule in step.zone_rules if rule.key == key]
            numbers = (
                {rule.group for rule in rules if rule.kind != SPREAD}
                | set(signature.selected_by)
                | set(signature.avoids)
            )
            preference_groups = self._preference_groups[step.index, key] = _PreferenceGroups(
                spreads=tuple(rule.group for rule in rules if rule.kind == SPREAD),
                counted_by=tuple(n for n in signature.selected_by if groups[n].kind == SPREAD and groups[n].key == key),
                affinities=tuple(sorted(n for n in numbers if groups[n].kind != SPREAD and groups[n].key == key)),
            )
        return preference_groups

    def _needs(
        self, template: NodeClaimTemplate, signature: PodSignature, affinities: Iterable[TopologyGroupId], key: str
    ) -> dict[str, int]:
        """Return value → weight of waiting pods that need this pod there (negative) or elsewhere (positive)."""
        needs: dict[str, int] = {}
        for number in affinities:
            sign = -1 if self._topology.groups[number].kind == AFFINITY else 1
            for pending_group in self._concerned().get(number, ()):
                if pending_group.waiting and pending_group.pod_group.signature is not signature:
                    possible = self._possible(pending_group.pod_group, template, key)
                    for value in possible:
                        weight = _WHOLE if sign < 0 else _WHOLE // len(possible)
                        needs[value] = needs.get(value, 0) + sign * weight
        return needs


def _price(template: NodeClaimTemplate, reqs: RequirementId, allowed: TypeMask, key: str, value: str) -> int:
    """Return the lowest price of a claim that is restricted to a value."""
    narrowed = template.types.table.with_value(reqs, key, value)
    return ClaimDraft(template, narrowed, allowed, ()).price


def _possible(pod_group: PodGroup, template: NodeClaimTemplate, key: str) -> tuple[str, ...]:
    """Return values of a label that pods of a group could get from a NodePool."""
    values: set[str] = set()
    types = template.types
    for alternative in pod_group.steps[0].alternatives if pod_group.steps else ():
        reqs = types.table.narrowed(template.offered, required=alternative)
        if reqs != IMPOSSIBLE:
            fitting = types.room.fitting(types.mask(reqs), pod_group.requests)
            values.update(types.values(fitting, reqs, key))
    return tuple(sorted(values))


def _restricted(
    pending_groups: Iterable[PendingGroup],
    possible: Callable[[PodGroup, NodeClaimTemplate, str], tuple[str, ...]],
    template: NodeClaimTemplate,
    key: str,
) -> tuple[tuple[PendingGroup, tuple[str, ...]], ...]:
    """Return the groups whose pods could get some values of a label from a NodePool, but not all, with their values."""
    every = set(template.types.values(template.mask, template.offered, key))
    restricted = ((group, possible(group.pod_group, template, key)) for group in pending_groups)
    return tuple((group, values) for group, values in restricted if values and not every.issubset(values))


def _by_topology_group(pending_groups: Iterable[PendingGroup]) -> Mapping[TopologyGroupId, list[PendingGroup]]:
    """Return affinity and anti-affinity groups, each with the pending groups that it concerns."""
    by_group: dict[TopologyGroupId, list[PendingGroup]] = {}
    for pending_group in pending_groups:
        for number in _groups_of(pending_group):
            by_group.setdefault(number, []).append(pending_group)
    return by_group


def _groups_of(pending_group: PendingGroup) -> tuple[TopologyGroupId, ...]:
    """Return affinity and anti-affinity groups of a pending group: those that it owns, and inverse ones that select it."""
    steps = pending_group.pod_group.steps
    zone_groups = {rule.group for rule in steps[0].zone_rules if rule.kind != SPREAD} if steps else set()
    return tuple(sorted(zone_groups | set(pending_group.pod_group.signature.repelled_by)))
