"""Counts pods in each domain of each topology group in one plan, and decides whether rules admit one more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from core.scheduling.capacity.claim_profile import ClaimProfile
from core.scheduling.pods.pod_group import PodSignature, TopologyRule
from core.scheduling.primitives.handles import NO_CLAIMS, ClaimMask, TopologyGroupId
from core.scheduling.primitives.memo import memo
from core.scheduling.topology.departures import NO_DEPARTURES, Departures
from core.scheduling.topology.group_domains import Counts
from core.scheduling.topology.hostname_counts import HostnameCounts
from core.scheduling.topology.topology import Topology
from core.scheduling.topology.topology_group import AFFINITY, ANTI_AFFINITY, INVERSE, SPREAD

Effect = tuple[TopologyGroupId, str | None, bool]
"""A group for which a pod counts on a new node, the domain (None for the node itself), and whether that is uncertain."""


class DomainCounts:
    """Counts of running pods that stay, and of pods that the plan has placed so far."""

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

    def admits(self, rule: TopologyRule, domain: str | None, signature: PodSignature) -> bool:
        """Whether the rule admits one more pod in a domain; None is a node without the label."""
        if domain is None:
            return rule.kind in (ANTI_AFFINITY, INVERSE)
        counts = self.of(rule.group)
        there = counts.get(domain, 0)
        if rule.kind == SPREAD:
            # Kubernetes: the pods there with this one, less those in the least loaded domain, are at most maxSkew.
            group = self._topology.groups[rule.group]
            return there + rule.selects_self - self._minimum(rule, domain, signature) <= group.max_skew
        if rule.kind == AFFINITY:
            return there > 0 or (rule.selects_self and self.is_first(rule))
        return there == 0

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
            is_free = rule.selects_self and self.is_first(rule)
            return NO_CLAIMS if is_free else ~hostnames.with_at_least(1)
        too_many = 1
        if rule.kind == SPREAD:
            too_many += self._topology.groups[rule.group].max_skew - rule.selects_self
        return hostnames.with_at_least(too_many)

    def bars_new_node(self, rule: TopologyRule) -> bool:
        """Whether a hostname rule excludes even a node without pods."""
        return self.barred_claims(rule) < 0  # the complement of a finite set contains every later claim

    def is_first(self, rule: TopologyRule) -> bool:
        """Whether no pod counts for an affinity yet."""
        hostnames = self._hostnames.get(rule.group)
        return not any(self.of(rule.group).values()) and not (hostnames and hostnames.total)

    def record_on_node(self, signature: PodSignature, position: int) -> None:
        """Count a pod that the plan puts on an existing node."""
        for group in _counting(self._topology, signature):
            domain = self._topology.domains.at(group, position)
            if domain is not None:
                counts = self.of(group)
                counts[domain] = counts.get(domain, 0) + 1

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
        """Return the fewest pods in any domain that counts for a spread; zero for hostnames, since a new node is possible.

        A pod on a new node that might not count is left out, except in `here`, where it could be one too many.
        """
        if rule.is_hostname:
            return 0
        group = self._topology.groups[rule.group]
        uncertain = self._uncertain.get(rule.group, {})
        counts = self.of(rule.group)
        if not uncertain and self._topology.may_run_anywhere(signature, rule.key):
            return min(counts.values()) if counts and len(counts) >= group.min_domains else 0
        supported = [
            n if domain == here else n - uncertain.get(domain, 0)
            for domain, n in counts.items()
            if self._supports(rule, domain, signature)
        ]
        # With fewer domains than minDomains, the least loaded one counts as empty (Kubernetes).
        return min(supported) if supported and len(supported) >= group.min_domains else 0

    def _supports(self, rule: TopologyRule, domain: str, signature: PodSignature) -> bool:
        """Whether a domain counts: one that the pod may use, or with nodeAffinityPolicy Ignore any one with nodes."""
        if self._topology.may_run_at(signature, rule.key, domain):
            return True
        # Only with the policy Ignore does a group know a domain that the pod may not use.
        return domain in self._topology.domains.of_nodes(rule.group) or self.of(rule.group)[domain] > 0

    def _hostnames_of(self, group: TopologyGroupId) -> HostnameCounts:
        known = self._hostnames.get(group)
        if known is None:
            # Counts above one pod over maxSkew are never queried, see `barred_claims`.
            highest = self._topology.groups[group].max_skew + 1
            known = self._hostnames[group] = HostnameCounts(highest)
        return known

    def _starting(self, group: TopologyGroupId) -> Counts:
        counts = dict(self._topology.domains.running(group))
        if not self._departures.positions:
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
