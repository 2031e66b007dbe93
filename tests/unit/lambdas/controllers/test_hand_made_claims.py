"""A NodeClaim that somebody made gets a claim, or says why not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adapters.messages import made_node_claim
from adapters.observation.cluster_reader import KarpenterPresence
from adapters.run_report import RunReport
from adapters.runtime import in_turn
from core import labels
from core.brakes import Brake, BrakeKind
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import resources
from core.model.catalogue import Offering
from core.model.values.quantity import HOURLY, NANODOLLARS, nanodollars
from lambdas.controllers.hand_made_claims import CHECKED_AGAIN, HandMadeClaims
from lambdas.controllers.node_claims import NodeClaimMirror
from lambdas.controllers.sweeps.instances import UNKNOWN_AFTER
from tests.fakes.lab import Lab, a_capping, a_node_pool, a_pending_pod
from tests.unit.lifecycle.records_for_tests import a_record

KIND = resources.NODE_CLAIMS
HOLDER = {"holderIdentity": "karpenter-1", "renewTime": "2030-01-01T00:00:00.000000Z"}
LEASE = {"kind": "Lease", "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"}, "spec": HOLDER}


class World:
    """A NodeClaim made by hand, and the controller that takes it on."""

    def __init__(self, *, is_on: bool = True, ready: bool = True) -> None:
        self.lab = Lab()
        self.report = RunReport()
        if ready:
            status = {"conditions": [{"type": "Ready", "status": "True"}]}
            self.lab.kubernetes.amend(resources.EC2_NODE_CLASSES, "default", {"status": status})
        lab, app = self.lab, self.lab.app
        claims = app.adapters.stores.claims
        karpenter = KarpenterPresence(lab.kubernetes, lab.clock)
        mirror = NodeClaimMirror(lab.kubernetes, claims, karpenter, lab.clock, in_turn, is_on=is_on)
        self.controller = HandMadeClaims(
            lab.kubernetes, claims, app.shared.observer, app.shared.launcher, mirror, lab.brakes, lab.clock
        )

    def put(self, *, pool: str = "", requests: dict[str, str] | None = None, **metadata: Any) -> None:
        reference = {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": "default"}
        pool_label = {labels.NODEPOOL: pool} if pool else {}
        spec = {
            "nodeClassRef": reference,
            "requirements": [{"key": labels.OS, "operator": "In", "values": ["linux"]}],
            "resources": {"requests": requests or {"cpu": "1"}},
        }
        self.lab.kubernetes.put(
            {
                "kind": "NodeClaim",
                "metadata": {"name": "mine", "uid": "u-1", "labels": pool_label, **metadata},
                "spec": spec,
            }
        )

    def check(self) -> object:
        return self.controller.check("mine", self.report)

    @property
    def shown(self) -> dict[str, Any]:
        return self.lab.kubernetes.raw(KIND, "mine")

    def conditions(self) -> dict[str, tuple[str, str, str]]:
        conditions = self.shown["status"]["conditions"]
        return {
            condition["type"]: (condition["status"], condition["reason"], condition["message"])
            for condition in conditions
        }

    def reasons(self) -> list[str]:
        return [decision.reason for decision in self.report.decisions]


def test_a_claim_is_stored_and_the_object_marked_as_its_own() -> None:
    world = World()
    world.put()
    assert world.check() is None
    record = world.lab.claim
    assert (record.name, record.phase, record.plan.made_by_hand) == ("mine", ClaimPhase.REQUESTED, "u-1")
    metadata = world.shown["metadata"]
    assert metadata["finalizers"] == [labels.TERMINATION_FINALIZER]
    assert metadata["annotations"][labels.CLAIM] == "mine"
    assert world.reasons() == []


def test_it_is_launched_into_the_subnet_with_most_addresses_left() -> None:
    """The claims in flight count: the class lists what was read up to five minutes ago."""
    world = World()
    zone = world.lab.app.shared.observer.market().catalogue.default[0].offerings[0].zone
    world.lab.set_addresses({f"{zone}x": 3, f"{zone}y": 2})
    offerings = (Offering("m5.large", zone, labels.SPOT, 1),)
    record = a_record(ClaimPhase.REQUESTED, offerings=offerings, subnets={zone: f"{zone}x"})
    for name in ("one", "other"):
        world.lab.rows.claims[name] = msgspec.structs.replace(record, name=name)
    world.put()
    world.check()
    assert world.lab.rows.claims["mine"].subnets == {zone: f"{zone}y"}


def test_one_that_was_marked_late_is_marked_and_not_stored_again() -> None:
    """The run died between the row and the mark."""
    world = World()
    world.put()
    world.check()
    before = world.lab.claim
    world.lab.kubernetes.amend(KIND, "mine", {"metadata": {"annotations": {labels.CLAIM: None}}})
    assert world.check() is None
    assert world.lab.claim == before
    assert world.shown["metadata"]["annotations"][labels.CLAIM] == "mine"


@pytest.mark.parametrize(("dollars", "is_taken_on"), [("3", False), ("300", True)])
def test_what_a_day_has_spent_counts_for_it(dollars: str, *, is_taken_on: bool) -> None:
    """The market that it is launched in was read without the running cluster, so nothing counted as spent."""
    world = World()
    lab = world.lab
    lab.kubernetes.put(a_capping({"dollars-per-day": dollars}, countAhead="1h"), a_pending_pod("p"))
    lab.settle()
    spent = {"costs/all": 3 * NANODOLLARS}
    lab.reconcile()
    lab.app.adapters.stores.claims.change(lab.claim, lab.claim, spent)
    world.put(pool="default")
    world.check()
    assert ("mine" in {claim.name for claim in lab.claims}) is is_taken_on


@pytest.mark.parametrize("scarce", [False, True])
def test_claims_of_one_round_share_what_is_read_of_the_market(monkeypatch: pytest.MonkeyPatch, *, scarce: bool) -> None:
    """Hundreds that are refused for good read it each; those that fit count for the next ones."""
    world, reads = World(), list[str]()
    observer = world.lab.app.shared.observer
    if scarce:
        zone = observer.market().catalogue.default[0].offerings[0].zone
        world.lab.set_addresses({f"{zone}x": 3})
    read = observer.market
    monkeypatch.setattr(observer, "market", lambda: (reads.append("market"), read())[1])
    world.lab.kubernetes.put(a_node_pool(limits={"cpu": "2"}))
    names = ("bad-1", "bad-2", "fits", "late", "bad-3")
    for name in names:
        world.put(name=name, uid=name, pool="default", requests={"cpu": "1000" if "bad" in name else "1"})
    check = world.controller.checks()
    for name in names:
        check(name, world.report)
    assert [record.name for record in world.lab.claims] == ["fits"]
    assert len(reads) == 1 + scarce
    assert world.reasons()[-2:] == ["LimitReached", "InsufficientCapacity"]


@pytest.mark.parametrize("end", ["released", "deleted", "made again"])
def test_one_that_another_run_has_released_meanwhile_is_not_launched(end: str) -> None:
    """The other run was denied by EC2; a row stored from the older reading launches an instance that nobody can end."""
    world = World()
    world.put()
    kubernetes, calls = world.lab.kubernetes, list[str]()

    def released(call: str) -> None:
        calls.append(call)
        if calls.count("patch nodeclaims") == 2:  # the mark follows the row
            kubernetes.before_call = lambda _: None
            if end == "released":
                kubernetes.amend(KIND, "mine", {"metadata": {"finalizers": []}})
            else:
                kubernetes.drop(KIND, "mine")
            if end == "made again":
                world.put(uid="u-2", finalizers=[labels.TERMINATION_FINALIZER])

    kubernetes.before_call = released
    assert world.check() is None
    assert (world.lab.claims, world.reasons()) == ((), ["NodeClaimGone"])


def test_a_launch_of_two_runs_that_one_was_denied_ends_with_its_object() -> None:
    """The denied run releases the NodeClaim and the row, while the other gets an instance without either."""
    world = World()
    world.put()
    world.check()
    world.lab.execute(made_node_claim("mine", world.lab.clock.now()))
    world.lab.boot()
    record = world.lab.claim
    world.lab.app.adapters.stores.claims.forget(record)
    world.lab.kubernetes.drop(KIND, "mine")
    world.lab.clock.advance(seconds=UNKNOWN_AFTER.total_seconds())
    report = world.lab.reconcile()
    told = [decision.message for decision in report.decisions if decision.reason == "UnknownInstance"]
    assert told == ["NodeClaim mine, for which it was launched, is gone"]


def test_one_of_which_no_message_tells_gets_its_claim_from_reconcile() -> None:
    """With a dead work queue it was launched an hour late; its row says that it is due."""
    world = World()
    world.put()
    world.lab.reconcile()
    assert [claim.name for claim in world.lab.claims] == ["mine"]


def test_one_whose_row_alone_is_lost_is_rebuilt() -> None:
    world = World()
    world.put()
    world.check()
    world.lab.execute(made_node_claim("mine", world.lab.clock.now()))
    world.lab.boot()
    record = world.lab.claim
    world.lab.rows.claims.clear()
    world.lab.clock.advance(minutes=2)
    world.lab.reconcile()
    assert (world.lab.claim.name, world.lab.claim.instance_id) == (record.name, record.instance_id)


def test_a_finalizer_that_is_there_is_not_written_again() -> None:
    world = World()
    world.put(finalizers=[labels.TERMINATION_FINALIZER])
    calls: list[str] = []
    world.lab.kubernetes.before_call = calls.append
    world.check()
    assert world.lab.claim.name == "mine"
    assert calls.count("patch nodeclaims") == 1, "the mark alone"


def test_one_that_is_being_deleted_before_it_has_a_claim_is_let_go() -> None:
    world = World()
    world.put(finalizers=[labels.TERMINATION_FINALIZER], deletionTimestamp="2026-11-20T00:00:00Z")
    assert world.check() is None
    assert (world.lab.kubernetes.names(KIND), world.lab.claims) == ([], ())


def test_another_claims_name_is_taken() -> None:
    world = World()
    world.put()
    other = msgspec.structs.replace(a_record(), name="mine")
    world.lab.rows.claims["mine"] = other
    assert world.check() is None
    expected = ("False", "NodeClaimNameTaken", "metadata.name: a claim of another NodeClaim has this name")
    assert world.conditions() == {"Launched": expected, "Ready": expected}
    assert (world.reasons(), world.lab.claim) == (["NodeClaimNameTaken"], other)


def test_a_class_that_is_not_ready_is_waited_for() -> None:
    world = World(ready=False)
    world.put()
    assert world.check() == CHECKED_AGAIN
    assert {status for status, _, _ in world.conditions().values()} == {"Unknown"}
    assert world.lab.claims == ()


def test_limits_of_its_pool_are_waited_for() -> None:
    world = World()
    world.lab.kubernetes.put(a_node_pool("small", limits={"cpu": "1"}))
    world.put(pool="small")
    assert world.check() == CHECKED_AGAIN
    status, reason, message = world.conditions()["Launched"]
    assert (status, reason) == ("Unknown", "LimitReached")
    assert message == "the limits of NodePool small have no room for it"
    assert world.lab.claims == ()


@pytest.mark.parametrize(("nodes", "dollars", "is_launched"), [(2, "0.12", True), (2, "0.01", False), (0, "9", False)])
def test_a_cap_leaves_types_that_it_has_room_for_and_is_named(nodes: int, dollars: str, is_launched: bool) -> None:
    """The claim counts at its highest price, which a cap on all nodes may never have room for."""
    world = World()
    world.lab.kubernetes.put(a_node_pool("small"), a_capping({"nodes": nodes, "dollars-per-hour": dollars}))
    world.put(pool="small")
    assert world.check() == (None if is_launched else CHECKED_AGAIN)
    if is_launched:
        (claim,) = world.lab.claims
        assert claim.reserved[HOURLY] <= nanodollars(0.12)
    else:
        _, reason, message = world.conditions()["Launched"]
        assert (reason, message) == ("LimitReached", "the limits of cap costs/all have no room for it")


def test_limits_of_its_pool_leave_smaller_types() -> None:
    world = World()
    world.lab.kubernetes.put(a_node_pool("small", limits={"cpu": "7"}))
    held = msgspec.structs.replace(a_record(), reserved={"cpu": 4000, "nodes": 1})
    stores = world.lab.app.adapters.stores
    plan = msgspec.structs.replace(held.plan, node_pool="small")
    stores.claims.restore(msgspec.structs.replace(held, plan=plan))
    world.put(pool="small")
    assert world.check() is None
    claim = next(claim for claim in world.lab.claims if claim.name == "mine")
    assert 0 < claim.reserved["cpu"] <= 3000


def test_limits_of_other_pools_do_not_matter() -> None:
    world = World()
    world.lab.kubernetes.put(a_node_pool("small", limits={"cpu": "1"}), a_node_pool("large", limits={"cpu": "100"}))
    world.put(pool="large")
    assert world.check() is None
    assert world.lab.claim.plan.node_pool == "large"


def test_one_that_can_never_be_launched_says_so_for_good() -> None:
    world = World()
    world.put(finalizers=["theirs"])
    assert world.check() is None
    status, reason, message = world.conditions()["Ready"]
    assert (status, reason) == ("False", "NodeClaimValidationFailed")
    assert message.startswith("metadata.finalizers: theirs is another controller's")
    assert world.lab.claims == ()


def test_a_brake_delays_it() -> None:
    world = World()
    world.put()
    world.lab.brakes.hold(Brake(BrakeKind.STOP, "stopped by a test"), world.lab.clock.now())
    assert world.check() == CHECKED_AGAIN
    assert (world.lab.claims, world.reasons()) == ((), [BrakeKind.STOP])


@pytest.mark.parametrize("why", ["off", "gone", "karpenter's", "beside karpenter"])
def test_what_is_not_ours_is_left_alone(why: str) -> None:
    world = World(is_on=why != "off")
    if why != "gone":
        world.put(finalizers=[labels.KARPENTER_FINALIZER] if why == "karpenter's" else [])
    if why == "beside karpenter":
        world.lab.kubernetes.put(LEASE)
    assert world.check() is None
    assert (world.lab.claims, world.reasons()) == ((), [])


def test_a_field_that_this_version_does_not_know_launches_nothing_until_people_accept_that() -> None:
    """A node without the field would not be the one that was asked for."""
    world = World()
    world.put()
    spec = world.shown["spec"]
    world.lab.kubernetes.amend(KIND, "mine", {"spec": {**spec, "hibernation": {"enabled": True}}})
    world.check()
    status, reason, message = world.conditions()["Launched"]
    assert (status, reason) == ("False", "NodeClaimValidationFailed")
    assert message.startswith("spec.hibernation: this version does not know it")
    unknown = ("False", "UnknownField", "this version does not know spec.hibernation, and drops it")
    assert world.conditions()["KnownFields"] == unknown
    assert (world.lab.claims, world.reasons()) == ((), ["UnknownField", "NodeClaimValidationFailed"])
    events = [
        world.lab.kubernetes.raw(resources.EVENTS, name, "default")
        for name in world.lab.kubernetes.names(resources.EVENTS)
    ]
    assert [event["involvedObject"]["name"] for event in events if event["reason"] == "UnknownField"] == ["mine"]
    world.check()
    assert world.reasons().count("UnknownField") == 1, "the second time it is no news"
    accepted = {**world.shown["metadata"], "annotations": {labels.IGNORED_FIELDS: "spec.hibernation"}}
    world.lab.kubernetes.amend(KIND, "mine", {"metadata": accepted})
    world.check()
    assert world.lab.claim.name == "mine"


def test_an_object_with_a_claim_says_which_of_its_fields_are_dropped() -> None:
    """Accepted from the start, or made by Karpenter: nothing was refused, and its node still lacks the field."""
    world = World()
    world.put(annotations={labels.IGNORED_FIELDS: "spec.hibernation"})
    spec = world.shown["spec"]
    world.lab.kubernetes.amend(KIND, "mine", {"spec": {**spec, "hibernation": {"enabled": True}}})
    world.check()
    assert (world.lab.claim.name, world.reasons()) == ("mine", [])
    assert world.lab.reconcile().counts["unknownFields"] == 1
    assert world.conditions()["KnownFields"][:2] == ("False", "UnknownField")
