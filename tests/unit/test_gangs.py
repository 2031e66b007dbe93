"""Groups of pods that start together, in every way in which they are written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.gangs import EFA, Gang, gangs_of, groups_leaving, groups_named, is_member, kept_together, members_of
from core.model.plan import NodeClaim
from core.model.pod import GroupObject, GroupSource, MemberTemplate, Pod
from core.model.snapshot import ProvisioningRequest, RequestedPods, Snapshot
from core.pods import COMING_MAX
from core.provisioning_requests import ATOMIC_SCALE_UP, own_value
from core.reasons.groups import SizesDiffer
from core.reasons.pods import PodReason
from core.reasons.runs import GroupFate, GroupLeaves
from tests.builders import NOW, a_pod, a_snapshot

LWS = {labels.LEADER_WORKER_SET: "llm", labels.LEADER_WORKER_GROUP: "0", labels.LEADER_WORKER_KEY: "k0"}
JOBS = {labels.JOB_SET: "train", labels.JOB_SET_PART: "workers", labels.JOB_SET_JOB: "0"}
OWN = {labels.GROUP: "train", labels.GROUP_MINIMUM: "2"}


def an_object(source: GroupSource, name: str, **changes: Any) -> GroupObject:
    return GroupObject(source=source, namespace="default", name=name, **changes)


def the_gang(*pods: Pod, objects: tuple[GroupObject, ...] = (), **changes: Any) -> Gang:
    (gang,) = gangs_of(snapshot_of(*pods, objects=objects, **changes))
    return gang


def snapshot_of(*pods: Pod, objects: tuple[GroupObject, ...] = (), **changes: Any) -> Snapshot:
    return a_snapshot(pods=pods, group_objects=objects, **changes)


def members(count: int, **changes: Any) -> tuple[Pod, ...]:
    return tuple(a_pod(f"m-{i}", **changes) for i in range(count))


def a_template(part: str, pods: int, jobs: int = 1) -> MemberTemplate:
    return MemberTemplate(part=part, spec=a_pod().spec, pods=pods, jobs=jobs)


@pytest.mark.parametrize(
    ("pods", "written", "source", "minimum"),
    [
        (members(3, pod_group="g"), an_object(GroupSource.POD_GROUP, "g", minimum=3), "PodGroup", 3),
        (
            members(3, pod_group="w/g/0", workload="w"),
            an_object(GroupSource.WORKLOAD, "w/g", minimum=2),
            "Workload",
            2,
        ),
        (
            members(3, annotations={labels.VOLCANO_GROUP: "g"}),
            an_object(GroupSource.VOLCANO, "g", minimum=3),
            "Volcano",
            3,
        ),
        (
            members(3, labels={labels.COSCHEDULING_GROUP: "g"}),
            an_object(GroupSource.COSCHEDULING, "g", minimum=1),
            "Coscheduling",
            1,
        ),
        (members(3, labels={labels.KUEUE_GROUP: "g"}, annotations={labels.KUEUE_GROUP_COUNT: "3"}), None, "Kueue", 3),
        (members(2, annotations=OWN), None, "Annotation", 2),
        (members(3, labels=LWS, annotations={labels.LEADER_WORKER_SIZE: "3"}), None, "LeaderWorkerSet", 3),
        (
            members(4, labels=JOBS),
            an_object(GroupSource.JOB_SET, "train", minimum=4, templates=(a_template("workers", 2, 2),)),
            "JobSet",
            4,
        ),
    ],
)
def test_each_way_of_writing_gives_one_group(
    pods: tuple[Pod, ...], written: GroupObject | None, source: str, minimum: int
) -> None:
    gang = the_gang(*pods, objects=(written,) if written is not None else ())
    assert (gang.source, gang.minimum, gang.total, gang.refusal) == (source, minimum, len(pods), None)
    assert {pod.name for pod in gang.pods} == {pod.name for pod in pods}


def test_pods_without_a_mark_are_in_no_group() -> None:
    opted_out = a_pod("out", labels=JOBS, annotations={labels.GROUP: "none"})
    assert gangs_of(snapshot_of(a_pod(), opted_out)) == ()


def test_a_basic_pod_group_asks_nothing_of_all() -> None:
    """Kubernetes starts its pods one by one, unless they share a domain."""
    basic = an_object(GroupSource.POD_GROUP, "g", minimum=0)
    assert gangs_of(snapshot_of(*members(2, pod_group="g"), objects=(basic,))) == ()
    near = msgspec.structs.replace(basic, topology_keys=(labels.ZONE,))
    gang = the_gang(*members(2, pod_group="g"), objects=(near,))
    assert (gang.needed, gang.topology_keys) == (0, (labels.ZONE,))


def test_copies_of_a_workloads_group_are_apart() -> None:
    pods = (a_pod("a", workload="w", pod_group="w/g/0"), a_pod("b", workload="w", pod_group="w/g/1"))
    found = gangs_of(snapshot_of(*pods, objects=(an_object(GroupSource.WORKLOAD, "w/g", minimum=1),)))
    assert [gang.name for gang in found] == ["default/w/g/0", "default/w/g/1"]


def test_members_with_a_node_count_and_failed_ones_do_not() -> None:
    bound, done = a_pod("a", node_name="n", annotations=OWN), a_pod("b", phase="Succeeded", annotations=OWN)
    failed = a_pod("c", phase="Failed", annotations=OWN)
    gang = the_gang(bound, done, failed, a_pod("d", annotations=OWN))
    assert (len(gang.settled), gang.needed, [pod.name for pod in gang.waiting]) == (2, 0, ["d"])


def test_a_group_waits_for_members_that_do_not_exist_and_says_how_many() -> None:
    annotations = {labels.GROUP: "g", labels.GROUP_MINIMUM: "8"}
    gang = the_gang(*members(7, annotations=annotations))
    assert gang.refusal is not None
    assert gang.refusal.reason is PodReason.GROUP_INCOMPLETE
    assert "7 of 8" in gang.refusal.message
    assert "1 has not been created" in gang.refusal.message
    assert "since 2026-11-19 23:59 UTC" in gang.refusal.message


def test_gated_members_are_told_from_missing_ones() -> None:
    gated = a_pod("gated", is_gated=True, annotations=OWN)
    gang = the_gang(a_pod("a", annotations=OWN), gated)
    assert gang.refusal is not None
    assert gang.refusal.reason is PodReason.GROUP_INCOMPLETE
    assert "1 still has a scheduling gate" in gang.refusal.message


def test_a_leader_stands_for_its_whole_group() -> None:
    """Its workers exist only once it runs: they are planned for from the template."""
    leader = a_pod(
        "llm-0", labels=LWS | {labels.LEADER_WORKER_INDEX: "0"}, annotations={labels.LEADER_WORKER_SIZE: "4"}
    )
    owner = an_object(
        GroupSource.LEADER_WORKER_SET, "llm", minimum=4, templates=(a_template("leader", 1), a_template("worker", 3))
    )
    gang = the_gang(leader, objects=(owner,))
    assert (len(gang.coming), gang.minimum, gang.needed, gang.refusal) == (3, 4, 4, None)
    assert all(pod.labels[labels.LEADER_WORKER_KEY] == "k0" for pod in gang.coming)
    worker = a_pod("llm-0-1", labels=LWS | {labels.LEADER_WORKER_INDEX: "1"})
    assert len(the_gang(leader, worker, objects=(owner,)).coming) == 2


def test_members_whose_node_is_requested_are_not_planned_again() -> None:
    leader = a_pod(
        "llm-0", labels=LWS | {labels.LEADER_WORKER_INDEX: "0"}, annotations={labels.LEADER_WORKER_SIZE: "2"}
    )
    owner = an_object(
        GroupSource.LEADER_WORKER_SET, "llm", minimum=2, templates=(a_template("leader", 1), a_template("worker", 1))
    )
    (coming,) = the_gang(leader, objects=(owner,)).coming
    gang = the_gang(leader, objects=(owner,), requested_members=(coming.key,))
    assert (gang.coming, gang.promised, gang.refusal) == ((), 1, None)
    of_others = ("default/llm-0-room-0-1", coming.key.replace("llm-0", "llm-0-1"))
    gang = the_gang(leader, objects=(owner,), requested_members=of_others)
    assert (gang.coming, gang.promised) == ((coming,), 0)


def test_each_job_of_a_job_set_with_exclusive_topology_is_a_group() -> None:
    """Its webhook refuses the other pods of a Job until the first is bound."""
    notes = {labels.JOB_SET_TOPOLOGY: labels.ZONE}
    pods = [a_pod(f"j-{i}", labels=JOBS | {labels.JOB_SET_JOB: str(i)}, annotations=notes) for i in range(2)]
    owner = an_object(GroupSource.JOB_SET, "train", minimum=6, templates=(a_template("workers", 3, 2),))
    found = gangs_of(snapshot_of(*pods, objects=(owner,)))
    assert [(gang.name, gang.minimum, len(gang.coming)) for gang in found] == [
        ("default/train-workers-0", 3, 2),
        ("default/train-workers-1", 3, 2),
    ]
    assert found[0].topology_keys == (labels.ZONE,)


def test_a_job_set_that_starts_in_order_waits_for_no_later_part() -> None:
    first, second = a_template("driver", 1), a_template("workers", 8)
    owner = an_object(GroupSource.JOB_SET, "train", minimum=9, starts_in_order=True, templates=(first, second))
    gang = the_gang(a_pod("d", labels=JOBS | {labels.JOB_SET_PART: "driver"}), objects=(owner,))
    assert (gang.minimum, gang.coming) == (1, ())


def test_efa_keeps_a_group_in_one_zone() -> None:
    gang = the_gang(*members(2, annotations=OWN, extra={EFA: "1"}))
    assert gang.topology_keys == (labels.ZONE,)


@pytest.mark.parametrize(
    ("pods", "objects", "reason"),
    [
        (members(2, pod_group="g"), (), PodReason.GROUP_NOT_FOUND),
        (members(2, labels={labels.COSCHEDULING_GROUP: "g"}), (), PodReason.GROUP_NOT_FOUND),
        (members(2, annotations={labels.GROUP: "g"}), (), PodReason.GROUP_INVALID),
        *(
            (members(2, annotations={labels.GROUP: "g", labels.GROUP_MINIMUM: text}), (), PodReason.GROUP_INVALID)
            for text in ("two", "0", "-1", " 2", "2.0", "\u0662", "", "1234567")
        ),
        # The group has grown, and not all of its pods say so yet.
        (
            (a_pod("a", annotations=OWN), a_pod("b", annotations=OWN | {labels.GROUP_MINIMUM: "3"})),
            (),
            PodReason.GROUP_SPELLINGS_DIFFER,
        ),
        (
            (a_pod("a", pod_group="g", priority=1), a_pod("b", pod_group="g")),
            (an_object(GroupSource.POD_GROUP, "g", minimum=2),),
            PodReason.GROUP_INVALID,
        ),
        (
            members(2, labels=JOBS | {labels.COSCHEDULING_GROUP: "g"}),
            (
                an_object(GroupSource.COSCHEDULING, "g", minimum=5),
                an_object(GroupSource.JOB_SET, "train", minimum=2, templates=(a_template("workers", 2),)),
            ),
            PodReason.GROUP_MINIMUM_TOO_HIGH,
        ),
        (
            members(2, pod_group="g", annotations={labels.VOLCANO_GROUP: "v"}),
            (an_object(GroupSource.POD_GROUP, "g", minimum=2), an_object(GroupSource.VOLCANO, "v", minimum=1)),
            PodReason.GROUP_SPELLINGS_DIFFER,
        ),
        (
            (a_pod("a", annotations=OWN), a_pod("b", annotations=OWN | {labels.GROUP_TOPOLOGY: labels.ZONE})),
            (),
            PodReason.GROUP_DOMAINS_DIFFER,
        ),
    ],
)
def test_a_mistake_has_a_code_of_its_own(
    pods: tuple[Pod, ...], objects: tuple[GroupObject, ...], reason: PodReason
) -> None:
    gang = the_gang(*pods, objects=objects)
    assert gang.refusal is not None
    assert gang.refusal.reason == reason
    assert gang.refusal.message


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (labels.GROUP_MINIMUM, [str(number + 1) for number in range(500)]),
        (labels.GROUP_TOPOLOGY, ["x" * 100_000, "y" * 100_000]),
    ],
)
def test_the_message_about_a_mistake_does_not_grow_with_the_group(key: str, values: list[str]) -> None:
    """Each pod of the group gets it: 1,500 pods that state different sizes made a plan of 49 MB."""
    gang = the_gang(*(a_pod(f"m-{i}", annotations=OWN | {key: value}) for i, value in enumerate(values)))
    assert gang.refusal is not None
    assert len(gang.refusal.message) < 1_000
    assert ("; and 495 more" in gang.refusal.message) is (len(values) == 500)


@pytest.mark.parametrize(
    ("marks", "changed", "said"),
    [
        ({}, {labels.GROUP_MINIMUM: "3"}, "2 (default/m-1); 3 (default/m-0)"),
        ({}, {labels.GROUP_MINIMUM: "many"}, "group-minimum of pod default/m-0 has 'many'"),
        ({labels.GROUP_TOPOLOGY: labels.ZONE}, {labels.GROUP_TOPOLOGY: ""}, "none (default/m-0); topology"),
        ({labels.KUEUE_GROUP_COUNT: "two"}, {}, "total-count of pod default/m-0 has 'two'"),
    ],
)
def test_a_mistake_names_the_members_and_what_they_say(
    marks: dict[str, str], changed: dict[str, str], said: str
) -> None:
    """In a group of hundreds nobody finds the one that differs."""
    tags = {labels.KUEUE_GROUP: "g"} if labels.KUEUE_GROUP_COUNT in marks else {}
    pods = [a_pod(f"m-{n}", labels=tags, annotations=OWN | marks | (changed if n == 0 else {})) for n in range(2)]
    gang = the_gang(*pods)
    assert gang.refusal is not None
    assert said in gang.refusal.message


def test_the_most_important_group_comes_first_then_the_oldest() -> None:
    old = members(2, annotations=OWN, created_at=NOW - timedelta(hours=2))
    urgent = a_pod("u", annotations={labels.GROUP: "urgent", labels.GROUP_MINIMUM: "1"}, priority=5, created_at=NOW)
    young = a_pod("y", annotations={labels.GROUP: "young", labels.GROUP_MINIMUM: "1"}, created_at=NOW)
    found = sorted(gangs_of(snapshot_of(young, urgent, *old)), key=lambda gang: gang.rank)
    assert [gang.name for gang in found] == ["default/urgent", "default/train", "default/young"]


def test_no_member_of_a_running_group_moves_unless_its_owner_says_so() -> None:
    running = members(2, node_name="n", annotations=OWN)
    assert set(kept_together(snapshot_of(*running))) == {"default/m-0", "default/m-1"}
    loose = members(2, node_name="n", annotations=OWN | {labels.GROUP_DISRUPTION: "single"})
    assert kept_together(snapshot_of(*loose)) == {}
    starting = (a_pod("a", node_name="n", annotations=OWN), a_pod("b", annotations=OWN))
    assert kept_together(snapshot_of(*starting)) == {}


def test_the_members_to_come_of_one_namespace_are_bounded() -> None:
    """Two hundred small pods and one LeaderWorkerSet took 668 MiB: each stood for five thousand pods."""
    leaders = tuple(
        a_pod(
            f"{namespace}-{number}",
            namespace=namespace,
            created_at=NOW - timedelta(minutes=9 - number),
            labels={labels.LEADER_WORKER_SET: "llm", labels.LEADER_WORKER_GROUP: str(number)},
        )
        for namespace, groups in (("default", 4), ("other", 1))
        for number in range(groups)
    )
    objects = tuple(
        GroupObject(
            source=GroupSource.LEADER_WORKER_SET,
            namespace=namespace,
            name="llm",
            templates=(a_template("worker", 4_000),),
        )
        for namespace in ("default", "other")
    )
    gangs = gangs_of(Snapshot(now=NOW, pods=leaders, group_objects=objects))
    reasons = {gang.name: gang.refusal and gang.refusal.reason for gang in gangs}
    late = PodReason.TOO_COMPLEX
    assert reasons == {
        "default/llm-0": None,
        "default/llm-1": None,
        "default/llm-2": late,
        "default/llm-3": late,
        "other/llm-0": None,
    }
    assert sum(len(gang.coming) for gang in gangs) <= 2 * COMING_MAX


def test_a_group_with_a_mistake_takes_no_part_of_the_bound_and_stands_for_no_pods() -> None:
    """Nothing is bought for it, and a correct group behind two of them waited for ever."""
    contradiction = {labels.GROUP: "other", labels.GROUP_MINIMUM: "7"}
    leaders = tuple(
        a_pod(
            f"p-{number}",
            created_at=NOW - timedelta(minutes=9 - number),
            labels={labels.LEADER_WORKER_SET: "llm", labels.LEADER_WORKER_GROUP: str(number)},
            annotations=contradiction if number < 2 else {},
        )
        for number in range(3)
    )
    owner = GroupObject(
        source=GroupSource.LEADER_WORKER_SET, namespace="default", name="llm", templates=(a_template("worker", 5_000),)
    )
    mistaken, alike, correct = gangs_of(Snapshot(now=NOW, pods=leaders, group_objects=(owner,)))
    assert isinstance(mistaken.refusal, SizesDiffer)
    assert isinstance(alike.refusal, SizesDiffer)
    assert mistaken.coming == alike.coming == ()
    assert (correct.refusal, len(correct.coming)) == (None, 4_999)


def test_the_places_of_the_requests_of_one_namespace_are_bounded() -> None:
    spec = a_pod("p").spec
    requests = tuple(
        ProvisioningRequest(
            namespace="default",
            name=f"r{number}",
            provisioning_class=ATOMIC_SCALE_UP,
            created_at=NOW - timedelta(minutes=9 - number),
            pod_sets=(RequestedPods(pods=4_000, spec=spec),),
        )
        for number in range(4)
    )
    asked = gangs_of(Snapshot(now=NOW, provisioning_requests=requests))
    assert [gang.name for gang in asked] == ["default/r0", "default/r1"]
    booked = msgspec.structs.replace(requests[3], provisioned_at=NOW - timedelta(minutes=1))
    asked = gangs_of(Snapshot(now=NOW, provisioning_requests=(*requests[:3], booked)))
    assert [gang.name for gang in asked] == ["default/r0"]


def a_request(name: str, age: int, places: int, **changes: Any) -> ProvisioningRequest:
    return ProvisioningRequest(
        namespace="default",
        name=name,
        provisioning_class=ATOMIC_SCALE_UP,
        created_at=NOW - timedelta(minutes=age),
        pod_sets=(RequestedPods(pods=places, spec=a_pod("p").spec),),
        **changes,
    )


def test_a_request_that_is_not_planned_for_takes_nothing_of_the_bound() -> None:
    """One that waits days for its block kept all younger ones of its namespace from being planned for."""
    old, young = a_request("old", 9, COMING_MAX - 1, reservation="cr-1"), a_request("young", 1, 10)
    found = gangs_of(Snapshot(now=NOW, provisioning_requests=(old, young)))
    assert [gang.name for gang in found] == ["default/young"]


def test_a_request_whose_nodes_start_keeps_its_turn_when_an_older_one_may_be_planned_for() -> None:
    old, young = a_request("old", 9, COMING_MAX - 1), a_request("young", 1, 10)
    claim = NodeClaim(name="c", labels={labels.PROVISIONING_REQUEST: own_value(young)})
    for claims, name in (((), "default/old"), ((claim,), "default/young")):
        found = gangs_of(Snapshot(now=NOW, provisioning_requests=(old, young), node_claims=claims))
        assert [gang.name for gang in found] == [name]


@pytest.mark.parametrize(
    ("pods", "may_wait", "fate"),
    [
        (members(2, node_name="n", annotations=OWN), False, GroupFate.LOSES_THEM),
        (members(2, node_name="n", annotations=OWN), True, GroupFate.MAY_END_FIRST),
        (members(2, node_name="n", annotations=OWN | {labels.GROUP_DISRUPTION: "single"}), True, GroupFate.RUNS_ON),
        ((*members(1, node_name="n", annotations=OWN), a_pod("m-9", annotations=OWN)), True, GroupFate.NOT_STARTED),
    ],
)
def test_what_becomes_of_a_group_that_loses_members(pods: tuple[Pod, ...], may_wait: bool, fate: GroupFate) -> None:
    single = a_pod("single", node_name="n")
    group_of = members_of(gangs_of(snapshot_of(*pods, single)))
    assert groups_leaving(group_of, pods[:1], may_wait=may_wait) == (GroupLeaves("default/train", fate, 1, 2),)
    assert groups_leaving(group_of, [single], may_wait=may_wait) == ()


@pytest.mark.parametrize("leaving", [1, 2])
def test_a_group_of_which_a_member_terminates_is_not_told_that_it_does_not_run_yet(leaving: int) -> None:
    """A drain deletes members one by one, and who asks meanwhile reads what the events said."""
    pods = (
        a_pod("a", node_name="n", annotations=OWN),
        a_pod("b", node_name="n", annotations=OWN, deleted_at=NOW),
    )
    made_again = a_pod("c", annotations=OWN)
    group_of = members_of(gangs_of(snapshot_of(*pods, made_again)))
    told = GroupLeaves("default/train", GroupFate.LOSES_THEM, leaving, 2)
    assert groups_leaving(group_of, pods[:leaving], may_wait=False) == (told,)


def test_pods_that_start_one_by_one_are_not_told_that_they_start_again_as_a_whole() -> None:
    """A PodGroup of policy `basic` has no minimum; who sees one node only does not know which policy a PodGroup has."""
    pods = members(2, node_name="n", pod_group="g")
    basic = an_object(GroupSource.POD_GROUP, "g", minimum=0, topology_keys=(labels.ZONE,))
    group_of = members_of(gangs_of(snapshot_of(*pods, objects=(basic,))))
    assert groups_leaving(group_of, pods[:1], may_wait=False) == (GroupLeaves("default/g", "", 1, 2),)
    assert groups_named(pods, {}, may_wait=False) == (GroupLeaves("default/g", "", 2),)
    (known,) = groups_named(pods, {"PodGroup/default/g": 8}, may_wait=False)
    assert known == GroupLeaves("default/g", GroupFate.LOSES_THEM, 2, 8)
    together = msgspec.structs.replace(basic, disrupts_all=True)
    group_of = members_of(gangs_of(snapshot_of(*pods, objects=(together,))))
    (leaves,) = groups_leaving(group_of, pods[:1], may_wait=False)
    assert leaves.fate == GroupFate.LOSES_THEM


@pytest.mark.parametrize(
    ("pod", "is_one"),
    [
        (a_pod(annotations=OWN), True),
        (a_pod(), False),
        (a_pod(annotations=OWN, phase="Succeeded"), False),
        (a_pod(labels=JOBS, annotations={labels.GROUP: "none"}), False),
        (a_pod(labels={labels.KUEUE_GROUP: "g"}), False),
    ],
    ids=["ours", "no mark", "done", "taken out", "of an unstated size"],
)
def test_who_is_a_member_while_a_drain_sees_one_node(pod: Pod, is_one: bool) -> None:
    assert is_member(pod) == is_one


def test_groups_are_named_by_who_sees_one_node_only() -> None:
    """The size is what all members state, or what the claim was launched for; our minimum may be less than all."""
    counted = a_pod("k", labels={labels.KUEUE_GROUP: "g"}, annotations={labels.KUEUE_GROUP_COUNT: "3"})
    unread = a_pod("u", labels={labels.KUEUE_GROUP: "u"}, annotations={labels.KUEUE_GROUP_COUNT: "many"})
    alone = a_pod("a", annotations={labels.GROUP: "alone", labels.GROUP_DISRUPTION: "single"})
    out = a_pod("o", annotations={labels.GROUP: "none"}, labels=JOBS)
    pods = (*members(2, annotations=OWN), counted, unread, alone, out, a_pod("s"), a_pod("d", phase="Succeeded"))
    lost = GroupFate.LOSES_THEM
    expected = (
        GroupLeaves("default/alone", GroupFate.RUNS_ON, 1),
        GroupLeaves("default/g", lost, 1, 3),
        GroupLeaves("default/train", lost, 2, 8),
        GroupLeaves("default/u", lost, 1),
    )
    assert groups_named(pods, {"Annotation/default/train": 8}, may_wait=False) == expected
