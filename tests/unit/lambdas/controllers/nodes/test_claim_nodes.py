"""Which calls find a claim's node: by name, by shared lists, by its instance; and what is not its node."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from adapters.ports import DeniedError, Instance, JsonObject
from core import labels
from core.lifecycle.binding.eligibility import CLOCKS_APART
from core.lifecycle.claims import INSTANCE_CHECK_AFTER, REGISTRATION_TIMEOUT
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.manifests.wire import api_resources as kinds
from lambdas.controllers.nodes.claim_nodes import ClaimNodes
from lambdas.controllers.nodes.node_lists import FRESH_FOR, JOINING, NodeLists
from tests.builders import NOW
from tests.fakes.world import FakeClock, FakeKubernetes
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID, a_plan, a_record

OTHER_ID = "aws:///us-east-1a/i-2"
SHAPE = {labels.INSTANCE_TYPE: "m5.large"}


class World:
    """Nodes, and what is asked about them."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.kubernetes = FakeKubernetes(self.clock)
        self.lists = NodeLists(self.kubernetes, self.clock)
        self.calls: list[str] = []
        self.kubernetes.before_call = self.calls.append

    def reader(self) -> ClaimNodes:
        """Begin an invocation; the lists outlive it."""
        return ClaimNodes(self.kubernetes, self.clock, self.lists)

    def put(self, name: str, provider_id: str = PROVIDER_ID, **own: str) -> None:
        self.kubernetes.put(a_node_object(name, provider_id, **own))

    def called(self) -> list[str]:
        """The calls since this was last asked."""
        found, self.calls[:] = list(self.calls), []
        return found


def a_node_object(name: str, provider_id: str, **own: str) -> JsonObject:
    metadata = {"name": name, "labels": own}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"providerID": provider_id}, "status": {}}


def names(reader: ClaimNodes, record: ClaimRecord) -> list[str]:
    return [node.name for node in reader.of(record)]


@pytest.fixture
def world() -> World:
    return World()


def test_a_node_is_read_once_by_its_name_whether_it_exists_or_not(world: World) -> None:
    world.put("n")
    reader = world.reader()
    for _ in range(2):
        found = reader.node("n")
        assert found is not None
        assert found.node.name == "n"
        assert reader.node("gone") is None
    assert world.called() == ["get nodes", "get nodes"]


def test_a_node_is_read_again_after_a_change_of_ours(world: World) -> None:
    world.put("n")
    reader = world.reader()
    before = reader.node("n")
    world.put("n", team="a")
    assert reader.node("n") is before
    reader.refresh("n")
    after = reader.node("n")
    assert after is not None
    assert after.node.labels == {"team": "a"}
    world.kubernetes.drop(kinds.NODES, "n")
    reader.refresh("n")
    assert reader.node("n") is None


def test_a_node_that_cannot_be_parsed_is_not_gone(world: World) -> None:
    """If it counted as gone, its claim would end a node with pods."""
    broken = a_node_object("n", PROVIDER_ID)
    world.kubernetes.put({**broken, "status": {"allocatable": {"cpu": "many"}}})
    with pytest.raises(DeniedError, match=r"^kube:get nodes: .*many"):
        world.reader().node("n")


def test_a_claim_without_an_instance_has_no_node_and_costs_no_call(world: World) -> None:
    world.put("n", "")
    assert names(world.reader(), a_record(ClaimPhase.REQUESTED)) == []
    assert world.called() == []


@pytest.mark.parametrize(("provider_id", "found"), [(PROVIDER_ID, ["n"]), (OTHER_ID, []), ("", [])])
def test_a_node_of_the_claims_name_must_report_its_instance(world: World, provider_id: str, found: list[str]) -> None:
    """A node of the same name may be of a later instance."""
    world.put("n", provider_id)
    assert names(world.reader(), a_record()) == found
    assert names(world.reader(), a_record(node_name="other")) == []


def test_a_booting_claim_finds_its_node_among_those_that_join(world: World) -> None:
    world.put("mine")
    world.put("other", OTHER_ID)
    world.put("working", PROVIDER_ID, **{labels.INITIALIZED: "true"})
    assert names(world.reader(), a_record(ClaimPhase.LAUNCHED)) == ["mine"]
    assert world.called() == [f"list nodes {JOINING}"]


def test_two_nodes_that_report_one_instance_are_both_returned(world: World) -> None:
    world.put("a")
    world.put("b")
    assert names(world.reader(), a_record(ClaimPhase.LAUNCHED)) == ["a", "b"]


def test_a_node_that_was_read_after_the_list_replaces_what_was_listed(world: World) -> None:
    """Otherwise, a step would be taken again that the invocation has just taken."""
    world.put("n")
    reader, record = world.reader(), a_record(ClaimPhase.LAUNCHED)
    reader.of(record)
    world.put("n", team="a")
    reader.refresh("n")
    (found,) = reader.of(record)
    assert found.labels == {"team": "a"}
    world.kubernetes.drop(kinds.NODES, "n")
    reader.refresh("n")
    assert reader.of(record) == ()


LATE = INSTANCE_CHECK_AFTER


@pytest.mark.parametrize(
    ("age", "calls"), [(LATE - timedelta(seconds=1), 1), (LATE, 2), (REGISTRATION_TIMEOUT + timedelta(seconds=1), 2)]
)
def test_a_late_claim_also_looks_among_the_working_nodes_of_its_shape(world: World, age: timedelta, calls: int) -> None:
    """The row of a restored table may be older than its node."""
    shape = {labels.NODEPOOL: "default", labels.INITIALIZED: "true", **SHAPE}
    world.put("n", **shape)
    record = a_record(ClaimPhase.LAUNCHED, age=age)
    assert names(world.reader(), record) == (["n"] if calls == 2 else [])
    selector = f"{labels.INITIALIZED}=true,{labels.NODEPOOL}=default,{labels.INSTANCE_TYPE}=m5.large"
    assert world.called() == [f"list nodes {JOINING}", f"list nodes {selector}"][:calls]


def test_a_late_claim_whose_node_joins_is_not_looked_for_elsewhere(world: World) -> None:
    world.put("n")
    assert names(world.reader(), a_record(ClaimPhase.LAUNCHED, age=LATE)) == ["n"]
    assert world.called() == [f"list nodes {JOINING}"]


def test_the_shape_has_the_zone_and_a_claim_made_by_hand_has_no_pool(world: World) -> None:
    own = a_plan(node_pool="", labels={labels.ZONE: "us-east-1a"})
    record = a_record(ClaimPhase.LAUNCHED, age=LATE, plan=own)
    world.put("n", **{labels.INITIALIZED: "true", labels.ZONE: "us-east-1a", **SHAPE})
    assert names(world.reader(), record) == ["n"]
    expected = f"{labels.INITIALIZED}=true,!{labels.NODEPOOL},{labels.INSTANCE_TYPE}=m5.large,{labels.ZONE}=us-east-1a"
    assert world.called()[-1] == f"list nodes {expected}"


def leaving(*, terminated: bool) -> Callable[[], ClaimRecord]:
    deletion = Deletion(reason="Empty", asked_at=NOW, terminated_at=NOW if terminated else None)
    return lambda: a_record(ClaimPhase.LAUNCHED, deletion=deletion)


@pytest.mark.parametrize(
    ("record", "calls"),
    [
        (lambda: a_record(ClaimPhase.LAUNCHED), 0),
        (lambda: a_record(ClaimPhase.LAUNCHED, age=REGISTRATION_TIMEOUT - timedelta(seconds=1)), 1),
        (lambda: a_record(ClaimPhase.LAUNCHED, age=REGISTRATION_TIMEOUT), 2),
        (leaving(terminated=False), 2),
        (leaving(terminated=True), 1),
    ],
    ids=["booting", "late", "too-late", "leaving", "terminated"],
)
def test_a_missing_node_that_would_end_the_instance_is_looked_for_in_a_list_of_this_invocation(
    world: World, record: Callable[[], ClaimRecord], calls: int
) -> None:
    """A list from before may be older than the node."""
    world.reader().of(a_record(ClaimPhase.LAUNCHED))
    world.clock.advance(seconds=FRESH_FOR.total_seconds() / 2)
    world.called()
    made: Any = record()
    world.reader().of(made)
    assert len(world.called()) == calls


def registered(**changes: Any) -> ClaimRecord:
    return a_record(ClaimPhase.REGISTERED, age=CLOCKS_APART, **changes)


def test_a_registered_node_is_taken_from_the_list_of_all_that_join(world: World) -> None:
    world.put("n")
    world.put("other", OTHER_ID)
    reader = world.reader()
    assert names(reader, registered()) == ["n"]
    assert names(reader, registered()) == ["n"]
    assert world.called() == [f"list nodes {JOINING}"]


def test_a_registered_node_that_is_not_listed_is_read_by_its_name(world: World) -> None:
    """It may have been initialized by another sandbox since."""
    world.put("n", **{labels.INITIALIZED: "true"})
    assert names(world.reader(), registered()) == ["n"]
    assert world.called() == [f"list nodes {JOINING}", "get nodes"]


@pytest.mark.parametrize(
    "record",
    [
        registered(phase_since=NOW - CLOCKS_APART + timedelta(milliseconds=1)),
        registered(deletion=Deletion(reason="Empty", asked_at=NOW)),
        a_record(ClaimPhase.INITIALIZED, age=timedelta(minutes=1)),
    ],
    ids=["just-registered", "leaving", "open"],
)
def test_every_other_node_is_read_by_its_name(world: World, record: ClaimRecord) -> None:
    world.put("n")
    assert names(world.reader(), record) == ["n"]
    assert world.called() == ["get nodes"]


def test_a_list_from_before_the_registration_lacks_our_marks_and_is_not_used(world: World) -> None:
    world.put("n")
    world.reader().of(a_record(ClaimPhase.LAUNCHED))
    world.clock.advance(seconds=0.5)
    record = registered(phase_since=world.clock.now() - CLOCKS_APART)
    world.called()
    assert names(world.reader(), record) == ["n"]
    assert world.called() == [f"list nodes {JOINING}"]
    assert names(world.reader(), record) == ["n"]
    assert world.called() == []


def test_a_node_that_this_invocation_has_read_is_not_listed(world: World) -> None:
    world.put("n")
    reader = world.reader()
    reader.refresh("n")
    world.called()
    assert names(reader, registered()) == ["n"]
    assert world.called() == []


def an_instance(private_dns_name: str) -> Instance:
    return Instance(
        instance_id="i-1",
        instance_type="m5.large",
        zone="us-east-1a",
        capacity_type="spot",
        state="running",
        launched_at=NOW,
        image_id="ami-1",
        tags={},
        private_dns_name=private_dns_name,
    )


def test_a_rebuilt_claim_finds_its_node_by_the_name_of_its_instance(world: World) -> None:
    world.put("ip-1")
    world.put("ip-2", OTHER_ID)
    reader, record = world.reader(), a_record(ClaimPhase.LAUNCHED)
    assert [node.name for node in reader.named_after(an_instance("ip-1"), record)] == ["ip-1"]
    assert reader.named_after(an_instance("ip-2"), record) == ()
    assert reader.named_after(an_instance("ip-3"), record) == ()
    world.called()
    assert reader.named_after(an_instance(""), record) == ()
    assert world.called() == []
