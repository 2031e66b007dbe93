"""Counters of NodePools' limits that are wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import msgspec
import pytest

from adapters.store import PoolUsage
from core import labels
from core.api.objects import JsonObject
from core.lifecycle.metering import spending, whole_costs
from core.lifecycle.records import ClaimRecord, PriceChange
from core.manifests.wire import resources
from core.model.catalogue import Catalogue
from core.model.values.quantity import HOURLY, NANODOLLARS, PPM
from core.pools import charges_of
from core.reasons.runs import RunReason
from installation.metric_names import CAPS_NEARLY_SPENT
from lambdas.controllers.run_requests import mismatches
from lambdas.controllers.sweeps import account
from tests.builders import NOW
from tests.fakes.lab import Lab, a_capping, a_node_pool, a_pending_pod
from tests.fakes.world import FakeCatalogues
from tests.unit.lambdas.controllers.sweeps.instances.instances_for_tests import a_fleet

# Windows of budgets as schedules.


def test_budget_windows_become_schedules(lab: Lab) -> None:
    """Otherwise, a window of an hour may pass before `disrupt` runs."""
    budget = {"nodes": "0", "schedule": "0 8 * * sun", "duration": "165h"}
    lab.kubernetes.put(a_node_pool(disruption={"budgets": [budget]}))
    lab.reconcile()
    assert sorted(lab.windows.present.values()) == ["cron(0 5 ? * SUN *)", "cron(0 8 ? * SUN *)"]


def test_the_next_boundaries_of_calendars_become_schedules_in_utc(lab: Lab) -> None:
    """In the zone's own time, EventBridge Scheduler would leave out excepted dates, lead times and skipped hours."""
    rule = {
        "name": "nights",
        "windows": [{"from": "08:00", "to": "19:00"}],
        "when": "Outside",
        "settings": {"closed": True, "leadTime": "10m"},
    }
    spec = {"timeZone": "Europe/Berlin", "rules": [rule]}
    metadata = {"name": "office"}
    lab.kubernetes.put(
        {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Calendar", "metadata": metadata, "spec": spec}
    )
    lab.reconcile()
    expressions = sorted(lab.windows.present.values())
    assert [expression[-9:-1] for expression in expressions] == ["06:50:00", "07:00:00", "18:00:00"] * 2
    assert all(expression.startswith("at(") for expression in expressions)


# Caps that come after nodes.


ALL = {"namespaces": ["default"]}


def test_a_cap_counts_the_nodes_from_before_it_so_that_two_runs_at_once_keep_within_it() -> None:
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    (before,) = lab.claims
    lab.kubernetes.put(a_capping({"nodes": 1, "dollars-per-hour": "9"}))
    lab.tick(minutes=20)
    lab.reconcile()
    (claim,) = lab.claims
    assert claim.limit_groups == ("costs/all",)
    assert lab.rows.usage["shared/costs/all"].reserved == claim.reserved
    assert claim.machine is not None
    assert claim.reserved == {**before.reserved, HOURLY: claim.machine.offering.price}
    assert lab.rows.usage["default"].reserved == claim.reserved
    other = msgspec.structs.replace(claim, name="other", token="other", machine=None, version=0)
    limits = {"shared/costs/all": {"nodes": 1}}
    assert not lab.app.adapters.stores.claims.request([other], limits, None).accepted
    lab.reconcile()
    assert lab.claims == (claim,)


def spent(lab: Lab, records: tuple[ClaimRecord, ...] | None = None) -> int:
    """What the cap has spent in its period, by these records."""
    calendars = lab.app.shared.observer.observe().snapshot.calendars
    records = lab.claims if records is None else records
    (state,) = spending(calendars, lab.app.adapters.stores.claims.meters(), records, lab.clock.now())
    return state.spent


def price_of(claim: ClaimRecord) -> int:
    assert claim.machine is not None
    return claim.machine.offering.price


@pytest.mark.parametrize(("limit", "hours"), [("dollars-per-day", 7), ("dollars-per-month", 240)])
def test_a_new_cap_counts_what_its_nodes_cost_from_then_on_and_remembers_it(limit: str, hours: int) -> None:
    """A month's cap of the 30th would else block launches at once, and forget the node's costs when it ends."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.tick(hours=hours)
    lab.kubernetes.put(a_capping({limit: "90"}))
    lab.tick(minutes=20)
    lab.reconcile()
    assert (lab.claim.limit_groups, spent(lab)) == (("costs/all",), 0)
    lab.tick(hours=2)
    price = price_of(lab.claim)
    assert spent(lab) == 2 * price
    lab.app.adapters.stores.claims.forget(lab.claim, whole_costs(lab.claim, lab.clock.now()))
    lab.tick(hours=1)
    assert spent(lab) == 2 * price


def test_what_a_cap_has_spent_never_falls_while_nodes_from_before_it_join() -> None:
    """A run may read the claims before a join, and the meters after it: it would launch as if nothing were spent."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.tick(hours=30)
    lab.kubernetes.put(a_capping({"dollars-per-month": "90"}))
    store = lab.app.adapters.stores.claims
    store.read_meter("costs/all", "Month", lab.clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0), 0)
    store.change(lab.claim, lab.claim, {"costs/all": 5 * NANODOLLARS})
    earlier = lab.claims
    lab.tick(minutes=1)
    lab.reconcile()
    assert lab.claims != earlier
    assert [spent(lab, records) for records in (earlier, lab.claims)] == [5 * NANODOLLARS] * 2


def test_a_cap_that_loses_its_pods_and_gets_them_again_counts_each_node_once() -> None:
    """All of a node for all pods, its share else; what it has cost is metered at the share of its time."""
    lab, pods = Lab(), {"namespaces": ["default"]}
    cap = {"dollars-per-day": "90", "nodes": 9, "cpu": "9"}
    lab.kubernetes.put(a_capping(cap, pods), a_pending_pod("p"), a_pending_pod("q", metadata={"namespace": "other"}))
    lab.settle()
    share = charges_of(lab.claim.plan.annotations)["costs/all"]
    assert 0 < share < PPM
    price, store = price_of(lab.claim), lab.app.adapters.stores.claims
    held, nodes = list[int](), list[int]()
    for selected in (pods, None, pods):
        lab.kubernetes.put(a_capping(cap, selected))
        before = spent(lab)
        lab.reconcile()
        assert abs(spent(lab) - before) <= 1, "rounding"
        lab.tick(hours=2)
        assert abs(spent(lab) - before - 2 * price * (share if selected else PPM) // PPM) <= 2
        assert mismatches(store, store.all()) == []
        assert lab.claim.counters == ("default", "shared/costs/all")
        held.append(lab.rows.usage["shared/costs/all"].reserved["cpu"])
        nodes.append(lab.rows.usage["shared/costs/all"].reserved["nodes"])
    cpu = lab.claim.reserved["cpu"]
    assert (held, nodes) == ([-(-cpu * share // PPM), cpu, -(-cpu * share // PPM)], [1, 1, 1])
    total = spent(lab)
    store.forget(lab.claim, whole_costs(lab.claim, lab.clock.now()))
    assert spent(lab) == total


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (a_capping({"nodes": 9}), a_capping({"nodes": 9, "dollars-per-hour": "9"})),
        (a_capping({"nodes": 9}, ALL), a_capping({"nodes": 9, "dollars-per-hour": "9"}, ALL)),
        (a_node_pool(), a_node_pool(limits={HOURLY: "9"})),
    ],
    ids=["cap", "cap of pods", "NodePool"],
)
def test_dollars_that_a_limit_gets_later_count_running_nodes(before: JsonObject, after: JsonObject) -> None:
    lab = Lab()
    lab.kubernetes.put(before, a_pending_pod("p"))
    lab.settle()
    assert HOURLY not in lab.claim.reserved
    lab.kubernetes.put(after)
    lab.tick(minutes=2)
    lab.reconcile()
    price = price_of(lab.claim)
    assert [usage.reserved[HOURLY] for usage in lab.rows.usage.values()] == [price] * len(lab.claim.counters)
    claims = lab.claims
    lab.reconcile()
    assert lab.claims == claims


def reprice(lab: Lab, factor: float) -> None:
    """All prices of the market change."""
    catalogues = cast(FakeCatalogues, lab.app.adapters.catalogues)
    types = tuple(
        msgspec.structs.replace(
            kind,
            offerings=tuple(msgspec.structs.replace(o, price=int(o.price * factor)) for o in kind.offerings),
        )
        for kind in lab.types
    )
    catalogues.present = Catalogue(default=types)


@pytest.mark.parametrize("pods", [None, {"namespaces": ["default"]}])
def test_a_price_that_rises_counts_from_the_next_round_on_in_counters_and_in_what_is_spent(
    pods: JsonObject | None,
) -> None:
    """Two runs at once keep within a cap by counters alone, and these held the price of the launch."""
    lab = Lab()
    lab.kubernetes.put(a_capping({"dollars-per-hour": "9", "dollars-per-day": "90"}, pods), a_pending_pod("p"))
    lab.settle()
    price = price_of(lab.claim)
    lab.tick(hours=1)
    lab.reconcile()
    before, counters = spent(lab), dict.fromkeys(lab.claim.counters, price)
    assert {name: usage.reserved[HOURLY] for name, usage in lab.rows.usage.items()} == counters
    reprice(lab, 3)
    lab.reconcile()
    assert {name: usage.reserved[HOURLY] for name, usage in lab.rows.usage.items()} == dict.fromkeys(
        counters, 3 * price
    )
    assert spent(lab) == before, "what it has cost stays"
    lab.tick(hours=1)
    assert spent(lab) == before + 3 * price
    assert mismatches(lab.app.adapters.stores.claims, lab.claims) == []
    reprice(lab, 0.5)
    lab.reconcile()
    lab.tick(hours=2)
    assert spent(lab) == before + 4 * price
    total = spent(lab)
    lab.app.adapters.stores.claims.forget(lab.claim, whole_costs(lab.claim, lab.clock.now()))
    assert spent(lab) == total


AN_OVERLAY: JsonObject = {
    "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "priced"},
    "spec": {"requirements": [], "priceAdjustment": "+100%"},
}  # fmt: skip


def test_a_round_without_pods_counts_node_overlays_too() -> None:
    """Most rounds observe no pods: the price that is counted would fall in one, and rise in the next whole one."""
    lab = Lab(feature_gates="NodeOverlay=true")
    lab.kubernetes.put(AN_OVERLAY, a_capping({"dollars-per-hour": "9"}), a_pending_pod("p"))
    lab.settle()
    lab.tick(minutes=4)
    lab.reconcile()
    assert lab.claim.hourly == 2 * price_of(lab.claim)
    changes, rounds = lab.claim.price_changes, list[list[str]]()
    for _ in range(4):
        lab.tick(minutes=4)
        rounds.append([])
        lab.kubernetes.before_call = rounds[-1].append
        lab.reconcile()
        lab.kubernetes.before_call = lambda _: None
    assert any("list nodepools" in calls and "list pods" not in calls for calls in rounds)
    assert lab.claim.price_changes == changes


@pytest.mark.parametrize(
    ("requirement", "factors", "ratio"),
    [
        (None, "", 1.0),
        (None, "m5=0.9", 1.0),
        (None, "m5=1.7", 1.0),
        ("dedicated", "", 1.1),
        ("dedicated", "m5=0.8", 1.1),
    ],
)
def test_a_node_counts_from_its_launch_on_as_in_later_rounds(
    requirement: str | None, factors: str, ratio: float
) -> None:
    """A price factor only steers the choice, and a spot node never counts as an on-demand one."""
    lab = Lab(price_terms='{"dedicatedTenancyPercent": 10}')
    pool = a_node_pool()
    if requirement:
        demanded = [{"key": labels.TENANCY, "operator": "In", "values": [requirement]}]
        pool["spec"]["template"]["spec"]["requirements"] = demanded
    if factors:
        pool["metadata"]["annotations"] = {labels.PRICE_FACTORS: factors}
    lab.kubernetes.put(pool, a_capping({"dollars-per-hour": "9", "dollars-per-day": "90"}), a_pending_pod("p"))
    lab.settle()
    launched, price = lab.claim, price_of(lab.claim)
    assert launched.hourly == launched.reserved[HOURLY] == int(price * ratio)
    assert (launched.price_factors, len(launched.price_changes)) == ({}, int(ratio != 1))
    lab.tick(minutes=4)
    lab.reconcile()
    assert lab.claim.price_changes == launched.price_changes


def test_the_largest_rises_count_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round counts a part of a large fleet; what it leaves may let launches exceed the cap meanwhile."""
    monkeypatch.setattr(account, "JOINING_MAX", 1)
    lab = Lab()
    lab.kubernetes.put(a_capping({"dollars-per-hour": "9"}), a_pending_pod("p", cpu="3"), a_pending_pod("q", cpu="3"))
    lab.settle()
    small, large = sorted(lab.claims, key=lambda claim: claim.name)
    assert small.hourly == large.hourly
    before = small.hourly
    changes = (PriceChange(lab.clock.now(), before // 2),)
    behind = {**large.reserved, HOURLY: before // 2}
    lab.rows.claims[large.name] = msgspec.structs.replace(large, price_changes=changes, reserved=behind)
    reprice(lab, 3)
    lab.tick(minutes=4)
    lab.reconcile()
    assert {claim.name: claim.hourly for claim in lab.claims} == {small.name: before, large.name: 3 * before}
    lab.tick(minutes=4)
    lab.reconcile()
    assert [claim.hourly for claim in lab.claims] == [3 * before] * 2


# Caps in dollars a day or a month.


def test_a_day_is_metered_from_its_first_round_on_and_the_calendar_gets_a_warning_once_an_hour() -> None:
    lab = Lab()
    calendar = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Calendar", "metadata": {"name": "costs"}}
    caps = [{"name": "all", "limits": {"dollars-per-day": "5"}, "actions": [{"percent": 5, "do": ["Tell"]}]}]
    lab.kubernetes.put({**calendar, "spec": {"caps": caps}}, a_pending_pod("p"))
    lab.settle()
    (claim,) = lab.claims
    assert claim.limit_groups == ("costs/all",)
    reports = [lab.reconcile() for _ in range(2)]
    assert [report.counts[CAPS_NEARLY_SPENT] for report in reports] == [1, 1]
    events = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
    told = [event for event in events if event["reason"] == RunReason.CAP_FORECAST]
    assert [event["involvedObject"]["name"] for event in told] == ["costs"]
    assert "of $5 a day are spent" in told[0]["message"]
    (reading,) = lab.rows.meters["costs/all"].readings.values()
    lab.clock.advance(hours=25)
    lab.reconcile()
    (later,) = lab.rows.meters["costs/all"].readings.values()
    assert (later[0] - reading[0], later[1] > reading[1]) == (timedelta(days=1), True)


# Changes of pods on a node that no event told of.


def test_a_leaving_pod_is_recorded_for_consolidate_after(lab: Lab) -> None:
    lab.reconcile()
    lab.clock.advance(minutes=10)
    lab.kubernetes.drop(resources.PODS, "p", "default")
    lab.reconcile()
    assert lab.claim.last_pod_event_at == lab.clock.now() > NOW + timedelta(minutes=10)


def test_wrong_counters_are_corrected() -> None:
    """Otherwise, a NodePool stays full, or exceeds its limit, after one row was edited or lost."""
    lab = a_fleet(1)
    right = lab.rows.usage["default"]
    lab.rows.usage["default"] = msgspec.structs.replace(right, reserved={"nodes": 7, "cpu": 1}, disrupting=3)
    lab.rows.usage["gone"] = PoolUsage(node_pool="gone", reserved={"nodes": 2}, version=4)
    lab.reconcile()
    assert lab.rows.usage["default"].reserved == right.reserved
    assert (lab.rows.usage["default"].disrupting, lab.rows.usage["gone"].reserved) == (0, {})
    assert "repairedUsage" not in lab.reconcile().counts


def test_counters_stay_while_a_claim_cannot_be_read() -> None:
    """What it holds is unknown: a lower counter would let a NodePool exceed its limit and its budget."""
    lab = a_fleet(2)
    (name, _), right = min(lab.rows.claims.items()), lab.rows.usage["default"]
    lab.rows.spoil("claims", name)
    report = lab.reconcile()
    assert lab.rows.usage["default"] == right
    assert len(lab.cloud.instances()) == 2
    assert report.counts["unreadableRows"] == 1
    (told,) = [d.message for d in report.decisions if d.subject == name and d.reason == RunReason.CANNOT_BE_READ]
    assert told.startswith(f"row {name} of partition test#claims#")
    assert told.endswith("; correct or delete it")
