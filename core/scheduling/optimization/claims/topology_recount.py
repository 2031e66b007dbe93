"""Counts a changed plan's pods anew, and checks that every rule along shared domains finds what the greedy planner left."""

from __future__ import annotations

from collections import Counter

from core.scheduling.capacity.claim_profile import Looks
from core.scheduling.context import Ground
from core.scheduling.greedy.scheduler import Solution
from core.scheduling.topology.domain_counts import Tally
from core.scheduling.topology.topology_group import Group


def census(ground: Ground, solution: Solution) -> Tally:
    """Where the pods of every group are; no node leaves in a plan for pods that wait."""
    tally = Tally(ground.topology, ())
    for pod, position in solution.bound:
        tally.record_on_node(ground.classes.of(pod).shape, position)
    looks = Looks()
    for number, claim in enumerate(solution.claims):
        look = looks.of(claim.template, claim.reqs, claim.allowed)
        shapes = {shape.index: shape for shape in claim.shapes}
        for index, count in Counter(shape.index for shape in claim.shapes).items():
            tally.record_on_claim(shapes[index], look, number, count)
    return tally


def keeps_counts(ground: Ground, before: Tally, after: Tally) -> bool:
    """Whether every hard group along shared domains has as many pods in each as it had."""
    topology = ground.topology
    numbers = (n for n, group in enumerate(topology.groups) if topology.is_hard(n) and _is_shared(group))
    return all(_present(before, number) == _present(after, number) for number in numbers)


def _is_shared(group: Group) -> bool:
    return not group.is_hostname


def _present(tally: Tally, number: int) -> dict[str, int]:
    return {domain: count for domain, count in tally.of(number).items() if count}
