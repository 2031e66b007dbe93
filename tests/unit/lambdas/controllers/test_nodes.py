"""Which calls find a claim's node: by name, by shared lists, by its instance; and what is not its node."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.messages import work_on_claim
from adapters.observation.cluster_reader import UNBOUND
from adapters.ports import ConflictError, DeniedError, Instance, JsonObject
from adapters.run_report import RunReport
from core import labels
from core.lifecycle.binding import CLOCKS_APART
from core.lifecycle.claims import INSTANCE_CHECK_AFTER, REGISTRATION_TIMEOUT
from core.lifecycle.draining import EXCLUDED_BY_US, REASON_ANNOTATION
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.manifests.wire import resources
from core.model.values.taints import DISRUPTED, NO_SCHEDULE, Taint
from lambdas.controllers.nodes import (
    FRESH_FOR,
    JOINING,
    ClaimNodes,
    NodeLists,
    ObservedNode,
    delete_node,
    patch_node,
    release_node,
    seen_node,
)
from tests.builders import NOW
from tests.fakes.lab import Lab, a_joining_node, a_pending_pod
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

    def put(self, name: str, provider_id: str = PROVIDER_ID, **node_labels: str) -> None:
        self.kubernetes.put(a_node_object(name, provider_id, **node_labels))

    def called(self) -> list[str]:
        """The calls since this was last asked."""
        calls, self.calls[:] = list(self.calls), []
        return calls


def a_node_object(name: str, provider_id: str, **node_labels: str) -> JsonObject:
    metadata = {"name": name, "labels": node_labels}
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
        observed = reader.node("n")
        assert observed is not None
        assert observed.node.name == "n"
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
    world.kubernetes.drop(resources.NODES, "n")
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


@pytest.mark.parametrize(("provider_id", "expected"), [(PROVIDER_ID, ["n"]), (OTHER_ID, []), ("", [])])
def test_a_node_of_the_claims_name_must_report_its_instance(
    world: World, provider_id: str, expected: list[str]
) -> None:
    """A node of the same name may be of a later instance."""
    world.put("n", provider_id)
    assert names(world.reader(), a_record()) == expected
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
    (node,) = reader.of(record)
    assert node.labels == {"team": "a"}
    world.kubernetes.drop(resources.NODES, "n")
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
    plan = a_plan(node_pool="", labels={labels.ZONE: "us-east-1a"})
    record = a_record(ClaimPhase.LAUNCHED, age=LATE, plan=plan)
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


# Which objects `execute` reads from the API server.


def interrupt(lab: Lab) -> None:
    for claim in lab.claims:
        lab.app.interruptions.run(
            {
                "source": "aws.ec2",
                "detail-type": "EC2 Spot Instance Interruption Warning",
                "detail": {"instance-id": claim.instance_id},
            },
            RunReport(),
        )


@pytest.fixture
def lists() -> list[str]:
    return []


@pytest.fixture
def lab(lists: list[str]) -> Lab:
    """Counts the objects of each list; a turn of binding lists all pods, up to its own bound."""
    lab = Lab(bind_pods=False)
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.boot()
    lab.kubernetes.before_call = lambda call: lists.append(call) if call.startswith("list") else None
    return lab


def test_no_list_grows_with_the_cluster(lab: Lab, lists: list[str]) -> None:
    """Otherwise, ten runs at once list five thousand nodes and a hundred thousand pods: half a gigabyte each."""
    lab.tick(4)
    (node,) = lab.kubernetes.names(resources.NODES)
    assert lab.claim.is_settled
    lab.bind("p")
    interrupt(lab)
    lab.tick(12)
    assert lab.claims == ()
    assert set(lists) <= {
        f"list nodes {JOINING}",
        f"list pods {UNBOUND}",
        f"list pods spec.nodeName={node}",
        "list volumeattachments",
    }
    assert lists.count("list volumeattachments") <= 2


def test_a_node_is_found_whose_registration_was_not_stored(lab: Lab) -> None:
    """The function died after opening the node: the claim lacks the node's name, and would wait for 15 minutes."""
    (node,) = lab.kubernetes.names(resources.NODES)
    lab.kubernetes.amend(resources.NODES, node, {"metadata": {"labels": {"karpenter.sh/registered": "true"}}})
    lab.tick(4)
    assert lab.claim.is_settled


def test_a_node_without_our_labels_is_found(lab: Lab) -> None:
    """A Custom AMI's user data belongs to the user."""
    (node,) = lab.kubernetes.names(resources.NODES)
    assert "karpenter.sh/nodepool" not in lab.kubernetes.raw(resources.NODES, node)["metadata"]["labels"]
    lab.tick(4)
    assert lab.claim.node_name == node


def test_an_initialized_node_is_found_whose_claim_does_not_know_it(lab: Lab) -> None:
    """Otherwise, a claim rebuilt while its node was not visible loses its machine, full of pods, after 15 minutes."""
    (node,) = lab.kubernetes.names(resources.NODES)
    (instance,) = lab.cloud.instances()
    lab.cloud._instances[instance.instance_id] = msgspec.structs.replace(instance, private_dns_name=node)
    marks = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    lab.kubernetes.amend(resources.NODES, node, {"metadata": {"labels": marks}})
    lab.tick(minutes=3)
    lab.tick(3)
    assert lab.claim.is_settled


def test_claims_that_wait_for_their_nodes_share_a_list(lists: list[str]) -> None:
    """Forty booting claims made six hundred lists a minute (seeds 18, 42, 50, 200)."""
    lab = Lab()
    for number in range(8):
        lab.kubernetes.put(a_pending_pod(f"p{number}", cpu="3"))
    lab.provision()
    claims = [claim.name for claim in lab.claims]
    assert len(claims) >= 4
    lab.clock.advance(seconds=30)
    lab.kubernetes.before_call = lambda call: lists.append(call) if call.startswith("list nodes") else None
    for _ in range(10):  # each message is handled in its own invocation
        for name in claims:
            lab.clock.advance(milliseconds=100)
            lab.execute(work_on_claim(name, lab.clock.now()))
        lab.clock.advance(seconds=1)
    assert 1 <= len(lists) <= 10


def test_a_list_that_ends_a_claim_is_a_fresh_one(lab: Lab, lists: list[str]) -> None:
    """Otherwise, a node that has just joined is terminated with its claim."""
    (node,) = lab.kubernetes.names(resources.NODES)
    joined = lab.kubernetes.raw(resources.NODES, node)
    lab.kubernetes.drop(resources.NODES, node)
    lab.clock.advance(minutes=14, seconds=59)
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    lab.kubernetes.put(joined)
    lab.clock.advance(seconds=1)
    lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    assert lab.claim.deletion is None
    assert lab.claim.is_registered
    assert len([call for call in lists if JOINING in call]) == 2


def test_lists_that_are_too_old_to_be_used_are_dropped() -> None:
    """Each may have five thousand nodes, and a sandbox lives for hours."""
    lab = Lab()
    lists = NodeLists(lab.kubernetes, lab.clock)
    lists.recent("old=1")
    lab.clock.advance(seconds=FRESH_FOR.total_seconds() / 2)
    lists.recent("recent=1")
    lab.clock.advance(seconds=FRESH_FOR.total_seconds() / 2)
    lists.recent("third=1")
    assert sorted(lists._listed) == ["old=1", "recent=1", "third=1"]
    lab.clock.advance(milliseconds=1)
    lists.recent("fourth=1")
    assert sorted(lists._listed) == ["fourth=1", "recent=1", "third=1"]


def test_a_list_is_used_while_it_is_fresh() -> None:
    lab, calls = Lab(), list[str]()
    lab.kubernetes.before_call = calls.append
    node_lists = NodeLists(lab.kubernetes, lab.clock)
    for seconds, lists in ((0.0, 1), (FRESH_FOR.total_seconds(), 1), (0.001, 2)):
        lab.clock.advance(seconds=seconds)
        node_lists.recent("a=1")
        assert len(calls) == lists


# Writes to Nodes: lists are replaced only where nobody has changed the Node meanwhile, and only our own marks go.


OURS, THEIRS = labels.TERMINATION_FINALIZER, "example.com/hold"
TEAM = Taint("team", NO_SCHEDULE, "x")


@pytest.fixture
def kubernetes() -> FakeKubernetes:
    """An API server with one Node, which has our finalizer and another."""
    server = FakeKubernetes(FakeClock(NOW))
    server.put(a_joining_node("n", "aws:///z/i-1"))
    server.amend(resources.NODES, "n", {"metadata": {"finalizers": [OURS, THEIRS]}})
    return server


def seen(kubernetes: FakeKubernetes) -> ObservedNode:
    return seen_node(kubernetes.get(resources.NODES, "n"))


def raw(kubernetes: FakeKubernetes) -> JsonObject:
    return kubernetes.raw(resources.NODES, "n")


def changed(kubernetes: FakeKubernetes) -> ObservedNode:
    """The Node as it was seen before somebody changed it."""
    before = seen(kubernetes)
    kubernetes.amend(resources.NODES, "n", {"metadata": {"labels": {"meanwhile": "yes"}}})
    return before


@pytest.mark.parametrize("lists", [{"taints": (TEAM,)}, {"finalizers": (THEIRS,)}, {"taints": ()}, {"finalizers": ()}])
def test_a_list_is_not_replaced_if_the_node_has_changed(kubernetes: FakeKubernetes, lists: dict[str, Any]) -> None:
    """Otherwise, a taint or finalizer that somebody set meanwhile is lost."""
    before = changed(kubernetes)
    with pytest.raises(ConflictError):
        patch_node(kubernetes, before, **lists)
    patch_node(kubernetes, seen(kubernetes), **lists)


def test_labels_and_annotations_are_added_whatever_has_changed(kubernetes: FakeKubernetes) -> None:
    before = changed(kubernetes)
    patch_node(kubernetes, before, labels={"a": "1"}, annotations={"b": "2"})
    metadata = raw(kubernetes)["metadata"]
    assert (metadata["labels"]["a"], metadata["labels"]["meanwhile"], metadata["annotations"]["b"]) == ("1", "yes", "2")
    assert metadata["finalizers"] == [OURS, THEIRS]
    assert raw(kubernetes)["spec"]["taints"]


def test_a_deleted_node_keeps_the_finalizers_of_others(kubernetes: FakeKubernetes) -> None:
    delete_node(kubernetes, seen(kubernetes))
    metadata = raw(kubernetes)["metadata"]
    assert metadata["finalizers"] == [THEIRS]
    assert metadata["deletionTimestamp"]
    delete_node(kubernetes, seen(kubernetes))
    kubernetes.drop(resources.NODES, "n")
    delete_node(kubernetes, seen_node(_alone()))


def _alone() -> Any:
    other = FakeKubernetes(FakeClock(NOW))
    other.put(a_joining_node("gone", "aws:///z/i-2"))
    return other.get(resources.NODES, "gone")


def test_a_node_that_stays_loses_our_marks_alone(kubernetes: FakeKubernetes) -> None:
    """It takes pods and the load balancers' traffic again; a label that somebody else set keeps the balancers away."""
    patch_node(
        kubernetes,
        seen(kubernetes),
        labels={labels.EXCLUDE_FROM_BALANCERS: EXCLUDED_BY_US},
        annotations={REASON_ANNOTATION: "Drifted", "other": "stays"},
        taints=(TEAM, DISRUPTED),
    )
    release_node(kubernetes, seen(kubernetes))
    node = raw(kubernetes)
    assert [taint["key"] for taint in node["spec"]["taints"]] == [TEAM.key]
    assert labels.EXCLUDE_FROM_BALANCERS not in node["metadata"]["labels"]
    assert node["metadata"]["annotations"] == {"other": "stays"}
    patch_node(kubernetes, seen(kubernetes), labels={labels.EXCLUDE_FROM_BALANCERS: "by-hand"})
    release_node(kubernetes, seen(kubernetes))
    assert raw(kubernetes)["metadata"]["labels"][labels.EXCLUDE_FROM_BALANCERS] == "by-hand"
    with pytest.raises(ConflictError):
        release_node(kubernetes, changed(kubernetes))
