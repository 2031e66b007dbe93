"""Where the pods of every topology group are in one plan, and what its rules make of one more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from core.scheduling.capacity.claim_profile import ClaimProfile
from core.scheduling.pods.pod_group import PodSignature, TopologyRule
from core.scheduling.topology.hostname_counts import HostnameCounts
from core.scheduling.topology.topology import Counts, Topology
from core.scheduling.topology.topology_group import AFFINITY, ANTI_AFFINITY, INVERSE, SPREAD

Effect = tuple[int, str | None, bool]


class DomainCounts:
    """Where the pods of every group are in one plan: those that run and stay, and those that the plan has placed."""

    def __init__(self, topology: Topology, leaving: Iterable[int]) -> None:
        self._topology = topology
        self._leaving = tuple(leaving)
        self._counts: dict[int, Counts] = {}
        self._doubtful: dict[int, Counts] = {}
        self._hosts: dict[int, HostnameCounts] = {}
        self._effects: dict[tuple[int, int], tuple[Effect, ...]] = {}

    def copy(self) -> DomainCounts:
        """The counts as they are now; what is placed later counts in one of the two only."""
        other = DomainCounts(self._topology, self._leaving)
        other._counts = {number: dict(counts) for number, counts in self._counts.items()}
        other._doubtful = {number: dict(counts) for number, counts in self._doubtful.items()}
        other._hosts = {number: hosts.copy() for number, hosts in self._hosts.items()}
        return other

    def of(self, number: int) -> Counts:
        """Domain → pods, new nodes aside where each node is a domain of its own."""
        counts = self._counts.get(number)
        if counts is None:
            counts = self._counts[number] = self._starting(number)
        return counts

    def admits(self, rule: TopologyRule, domain: str | None, signature: PodSignature) -> bool:
        """Whether one more pod of the shape may be put in a domain; None is a node without the label."""
        if domain is None:
            return rule.kind in (ANTI_AFFINITY, INVERSE)
        counts = self.of(rule.group)
        there = counts.get(domain, 0)
        if rule.kind == SPREAD:
            group = self._topology.groups[rule.group]
            return there + rule.selects_self - self._minimum(rule, domain, signature) <= group.max_skew
        if rule.kind == AFFINITY:
            return there > 0 or (rule.selects_self and self.is_first(rule))
        return there == 0

    def barred_claims(self, rule: TopologyRule) -> int:
        """New nodes that a rule along hostnames keeps a pod away from, as a bit set of claims; -1 is all of them."""
        hosts = self._hosts_of(rule.group)
        if rule.kind == AFFINITY:
            return 0 if rule.selects_self and self.is_first(rule) else ~hosts.with_at_least(1)
        too_many = 1
        if rule.kind == SPREAD:
            too_many += self._topology.groups[rule.group].max_skew - rule.selects_self
        return hosts.with_at_least(too_many) if too_many > 0 else -1

    def _minimum(self, rule: TopologyRule, here: str, signature: PodSignature) -> int:
        """The fewest pods in any domain that counts for a spread; zero along hostnames, where a new node is always possible.

        A pod on a new node that may turn out not to count is left out, but `here`, where it would be one too many.
        """
        if rule.is_hostname:
            return 0
        group = self._topology.groups[rule.group]
        doubtful = self._doubtful.get(rule.group, {})
        counts = self.of(rule.group)
        if not doubtful and signature.may_run_anywhere(rule.key):
            return min(counts.values()) if counts and len(counts) >= group.min_domains else 0
        supported = [
            n if domain == here else n - doubtful.get(domain, 0)
            for domain, n in counts.items()
            if self._supports(rule, domain, signature)
        ]
        return min(supported) if supported and len(supported) >= group.min_domains else 0

    def _supports(self, rule: TopologyRule, domain: str, signature: PodSignature) -> bool:
        """Whether a domain counts: one that the pod may use, and with nodeAffinityPolicy Ignore every one that has nodes."""
        if signature.may_run_at(rule.key, domain):
            return True
        node_filter = self._topology.groups[rule.group].node_filter
        is_honored = bool(node_filter.selector or node_filter.terms)
        has_nodes = domain in self._topology.node_domains(rule.group) or self.of(rule.group).get(domain, 0) > 0
        return not is_honored and has_nodes

    def bars_new_node(self, rule: TopologyRule) -> bool:
        """Whether a rule along hostnames keeps a pod away even from a node without pods."""
        return self.barred_claims(rule) < 0

    def record_on_node(self, signature: PodSignature, position: int) -> None:
        """Count a pod that the plan puts on an existing node."""
        for number in self._concerned(signature):
            domain = self._topology.domain_at(number, position)
            if domain is not None:
                counts = self.of(number)
                counts[domain] = counts.get(domain, 0) + 1

    def record_on_claim(self, signature: PodSignature, profile: ClaimProfile, claim: int, times: int = 1) -> None:
        """Count pods that the plan puts on a new node, or take them out again."""
        for number, domain, is_doubtful in self._effects_of(signature, profile):
            if domain is None:
                self._hosts_of(number).add(claim, times)
                continue
            counts = self.of(number)
            counts[domain] = counts.get(domain, 0) + times
            if is_doubtful:
                doubtful = self._doubtful.setdefault(number, {})
                doubtful[domain] = doubtful.get(domain, 0) + times

    def recount(self, signature: PodSignature, before: ClaimProfile, after: ClaimProfile, claim: int) -> None:
        """A pod's new node looks different now and may count elsewhere."""
        if self._effects_of(signature, before) != self._effects_of(signature, after):
            self.record_on_claim(signature, before, claim, -1)
            self.record_on_claim(signature, after, claim)

    def _effects_of(self, signature: PodSignature, profile: ClaimProfile) -> tuple[Effect, ...]:
        """Where a pod counts on a new node: the group, the domain (None for the node itself), whether that is in doubt."""
        question = (signature.index, profile.index)
        known = self._effects.get(question)
        if known is None:
            known = self._effects[question] = tuple(self._effects_anew(signature, profile))
        return known

    def _effects_anew(self, signature: PodSignature, profile: ClaimProfile) -> Iterator[Effect]:
        topology = self._topology
        for number in self._concerned(signature):
            group = topology.groups[number]
            domain = None if group.is_hostname else topology.table.single(profile.reqs, group.key)
            if (group.is_hostname or domain is not None) and topology.counts_claim(
                number, profile.reqs, profile.template
            ):
                yield (
                    number,
                    domain,
                    domain is not None and topology.is_doubtful(number, profile.reqs, profile.template),
                )

    def _hosts_of(self, number: int) -> HostnameCounts:
        known = self._hosts.get(number)
        if known is None:
            known = self._hosts[number] = HostnameCounts(max(1, self._topology.groups[number].max_skew + 1))
        return known

    def is_first(self, rule: TopologyRule) -> bool:
        """Whether nobody counts yet for an affinity."""
        hosts = self._hosts.get(rule.group)
        return not any(self.of(rule.group).values()) and not (hosts and hosts.total)

    def _concerned(self, signature: PodSignature) -> Iterable[int]:
        groups = self._topology.groups
        return (*(n for n in signature.selected_by if groups[n].kind != INVERSE), *signature.avoids)

    def _starting(self, number: int) -> Counts:
        counts = dict(self._topology.base(number))
        if not self._leaving:
            return counts
        for position in self._leaving:
            domain = self._topology.domain_at(number, position)
            if domain is not None:
                gone = sum(signature.bound.get(position, 0) for signature in self._topology.counted(number))
                counts[domain] = counts.get(domain, 0) - gone
        self._forget_domains(number, counts)
        return counts

    def _forget_domains(self, number: int, counts: Counts) -> None:
        """A domain that only leaving nodes made is one no longer."""
        group = self._topology.groups[number]
        knows_empty = group.kind == SPREAD and not group.is_hostname
        nodes = self._topology.node_domains(number) if knows_empty else {}
        possible = set(self._topology.possible_domains(number)) if knows_empty else set()
        lost: Counts = {}
        for position in self._leaving:
            domain = self._topology.domain_at(number, position)
            if domain is not None:
                lost[domain] = lost.get(domain, 0) + 1
        for domain, count in lost.items():
            if counts.get(domain) == 0 and domain not in possible and nodes.get(domain, 0) <= count:
                del counts[domain]
