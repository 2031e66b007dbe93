"""Laws of planning over random clusters, checked by the naive judge in `tests/property/naive`."""

from __future__ import annotations

import hashlib
from functools import cache

import msgspec
import pytest

from core.codec import encode_plan
from core.model.plan import Plan, Unschedulable
from core.model.snapshot import Snapshot
from core.scheduling import schedule
from tests.hash_seeds import lines_that_differ
from tests.property.naive.clusters import random_cluster, shuffled
from tests.property.naive.extras import rich_cluster
from tests.property.naive.fuzz import check, improving, unrest
from tests.property.naive.left_over import violations
from tests.property.naive.reading import spreads_of

_FAST = 100
_IMPROVED = 40
"""Clusters of each run; `make fuzz` judges 20,000 of other seeds by the same laws."""

_LONG = 20_000
_HASHED = range(198, 210)
"""Seed 204 had two plans: zones that pods take in turn were read from a set, which is ordered by hashes."""


@pytest.mark.ci
@pytest.mark.parametrize("first", range(0, _FAST, 50))
def test_no_plan_breaks_a_hard_rule_or_gives_up_a_pod_that_could_run(first: int) -> None:
    """A pod that is planned where it cannot run pays for an idle node; a pod left over without need stays pending."""
    for seed in range(first, first + 50):
        snapshot = rich_cluster(seed)
        assert violations(snapshot, schedule(snapshot)) == [], f"seed {seed}"


@pytest.mark.ci
@pytest.mark.parametrize("first", range(0, _IMPROVED, 20))
def test_no_improved_plan_breaks_a_hard_rule(first: int) -> None:
    """A cheaper plan is useless if the scheduler does not bind its pods."""
    for seed in range(first, first + 20):
        snapshot = improving(rich_cluster(seed))
        assert violations(snapshot, schedule(snapshot)) == [], f"seed {seed}"


@pytest.mark.ci
def test_the_order_of_the_input_does_not_matter() -> None:
    """Two functions that list the same cluster in different orders would launch different nodes."""
    for seed in range(15):
        snapshot = rich_cluster(seed)
        assert encode_plan(schedule(shuffled(snapshot, seed))) == encode_plan(schedule(snapshot)), f"seed {seed}"


@pytest.mark.ci
def test_a_plan_that_is_carried_out_needs_no_second_plan() -> None:
    """A provisioner that launches more once its nodes are there never settles."""
    for seed in range(25):
        assert unrest(rich_cluster(seed)) == [], f"seed {seed}"


@pytest.mark.ci
def test_hash_seeds_do_not_matter() -> None:
    """A plan that depends on the process cannot be replayed. Each line that differs names the cluster's seed."""
    assert lines_that_differ(f"from {__name__} import print_digests; print_digests()") == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, _LONG, 1000))
def test_twenty_thousand_clusters(first: int) -> None:
    """The same laws, over enough clusters to meet rare collisions of rules."""
    failing = {seed: problems[0] for seed, problems, _ in map(check, range(first, first + 1000)) if problems}
    assert failing == {}


class TestTheJudge:
    """A judge that accepts every plan would make all of the above worthless."""

    @pytest.mark.ci
    def test_sees_a_pod_that_is_missing_from_the_plan(self) -> None:
        self._finds("lists", _without_first_pod)

    @pytest.mark.ci
    def test_sees_a_pod_that_is_left_over_without_need(self) -> None:
        noticed = 0
        for snapshot, plan in _plans():
            if len(plan.claims[0].pods) > 1:
                noticed += any(line.startswith("left unplaced") for line in violations(snapshot, _given_up(plan)))
        assert noticed >= 5

    def test_sees_a_wrong_price(self) -> None:
        self._finds("price", lambda plan: _first_claim(plan, price=plan.claims[0].price + 1))

    def test_sees_types_out_of_price_order(self) -> None:
        def reversed_types(plan: Plan) -> Plan:
            return _first_claim(plan, instance_types=plan.claims[0].instance_types[::-1])

        faults = [
            line
            for snapshot, plan in _plans()
            if len(plan.claims[0].instance_types) > 1
            for line in violations(snapshot, reversed_types(plan))
        ]
        assert any(line.startswith("price order") for line in faults)

    def test_sees_pods_that_are_too_many_for_a_node(self) -> None:
        faults = [line for snapshot, plan in _plans() for line in violations(snapshot, _all_on_first_claim(plan))]
        kinds = {line.partition(":")[0] for line in faults}
        assert {"room", "selector", "anti-affinity", "spread"} <= kinds

    def test_sees_a_claim_whose_zone_is_left_open(self) -> None:
        faults = [line for snapshot, plan in _plans() for line in violations(snapshot, _everywhere(snapshot, plan))]
        kinds = {line.partition(":")[0] for line in faults}
        assert {"open", "template"} <= kinds

    def _finds(self, word: str, broken: object) -> None:
        assert callable(broken)
        for snapshot, plan in _plans():
            assert any(line.startswith(word) for line in violations(snapshot, broken(plan)))


@cache
def _plans() -> list[tuple[Snapshot, Plan]]:
    """Clusters and their plans; tests do not change them."""
    clusters = [random_cluster(seed) for seed in range(60)]
    planned = [(cluster, schedule(cluster)) for cluster in clusters]
    return [(cluster, plan) for cluster, plan in planned if plan.claims]


def _first_claim(plan: Plan, **changes: object) -> Plan:
    first = msgspec.structs.replace(plan.claims[0], **changes)
    return msgspec.structs.replace(plan, claims=(first, *plan.claims[1:]))


def _without_first_pod(plan: Plan) -> Plan:
    return _first_claim(plan, pods=plan.claims[0].pods[1:])


def _given_up(plan: Plan) -> Plan:
    """The plan with the first pod of its first claim reported as unschedulable."""
    lost = Unschedulable(plan.claims[0].pods[0], "NoOfferingFits", "nothing is large enough")
    return msgspec.structs.replace(_without_first_pod(plan), unschedulable=(*plan.unschedulable, lost))


def _all_on_first_claim(plan: Plan) -> Plan:
    """The plan with the pods of all its claims on the first one."""
    everyone = tuple(key for claim in plan.claims for key in claim.pods)
    first = msgspec.structs.replace(plan.claims[0], pods=everyone)
    return msgspec.structs.replace(plan, claims=(first,))


def _everywhere(snapshot: Snapshot, plan: Plan) -> Plan:
    zones = {offering.zone for kind in snapshot.catalogue.default for offering in kind.offerings}
    claims = tuple(msgspec.structs.replace(claim, zones=tuple(sorted(zones))) for claim in plan.claims)
    return msgspec.structs.replace(plan, claims=claims)


def print_digests() -> None:
    """Print a hash of the plan of each cluster with topology rules among those of a few seeds."""
    for seed in _HASHED:
        snapshot = rich_cluster(seed)
        if any(spreads_of(snapshot, pod) or pod.spec.affinity or pod.spec.anti_affinity for pod in snapshot.pods):
            print(seed, hashlib.sha256(encode_plan(schedule(snapshot))).hexdigest())  # noqa: T201 - for the process that asked
