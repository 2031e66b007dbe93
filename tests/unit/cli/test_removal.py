"""What an installation made is removed, what others hold stays, and the next run continues where one failed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from adapters.ports import ConflictError, DeniedError, Instance, NotFoundError, TransientError
from cli.errors import InputError
from cli.removal import (
    FAILURES_MAX,
    ROUND,
    OwnedResources,
    RemainingResources,
    all_that_remains,
    drain_all,
    drain_document,
    drain_table,
    remaining_names,
)
from core import labels
from core.lifecycle.records import ClaimRecord, Deletion
from core.manifests.wire import resources
from core.manifests.wire.objects import WireMetadata, WireNode
from core.manifests.wire.resources import Resource
from tests.builders import NOW
from tests.contract.store.stores import claim
from tests.fakes.world import FakeClock
from tests.unit.cli.takeover.site import an_instance

# The answer of `drain` for people.


def answer(claims: int, *leftovers: str, acting: bool = False) -> dict[str, Any]:
    items = [
        {
            "subject": f"NodeClaim/default-{number}",
            "state": "running",
            "node": f"ip-10-0-0-{number}.ec2.internal",
            "instance": f"i-{number}",
            "nodePool": "default",
            "message": "",
        }
        for number in range(claims)
    ]
    own = [subject for item in items for subject in (item["subject"], f"Node/{item['node']}")]
    return {
        "cluster": "prod",
        "acting": acting,
        "begun": False,
        "hindrances": [],
        "items": items,
        "leftovers": [*own, *leftovers],
    }


def test_objects_of_the_listed_nodes_are_not_named_again() -> None:
    """Three hundred nodes had nine hundred lines."""
    document = answer(2, "NodePool/default", *(f"LaunchTemplate/fleetwright/{name}" for name in "abcde"))
    rows, others, following = drain_table(document).split("\n\n")
    assert rows.splitlines()[0].split() == ["STATE", "SUBJECT", "NODE", "NODEPOOL"]
    assert others == "NodePool: default\nLaunchTemplate: fleetwright/a, fleetwright/b, fleetwright/c +2"
    assert following.startswith("`fleetwright drain --cluster prod --all --yes` ends 2 nodes")
    assert "Node/ip-10-0-0-1.ec2.internal" in all_that_remains(document).splitlines()


def test_a_claim_that_is_all_that_remains_is_not_nothing() -> None:
    """Its launch may still bring an instance: the stack must not go before."""
    for acting in (False, True):
        text = drain_table({**answer(1, acting=acting), "leftovers": []})
        assert "NodeClaim/default-0" in text
        assert "Nothing is left" not in text
    nothing = drain_table(answer(0))
    assert nothing.startswith("Nothing is left. Now `npx --no-install cdk destroy")


def test_a_node_without_a_claim_is_named() -> None:
    text = drain_table(answer(0, "Node/ip-10-0-0-9.ec2.internal", acting=True))
    assert text.startswith("Node: ip-10-0-0-9.ec2.internal\n\nTime is up.")


def test_what_prevents_a_removal_that_was_asked_for_left_everything_as_it_was() -> None:
    """It said why and no more, where adopt says that nothing was changed."""
    document = answer(2, acting=True) | {"hindrances": ["the functions stand still"]}
    assert drain_table(document).endswith("Not now: the functions stand still.\nNothing was changed.")
    begun = drain_table(document | {"begun": True})
    assert begun.endswith(
        "Not now: the functions stand still.\nWhat is done stays done: run the command again to go on."
    )


NEXT = {
    "hindrance": "Not now: the functions stand still.",
    "gone": "Nothing is left. Now `npx --no-install cdk destroy fleetwright-prod`.",
    "late": "Time is up. The rest continues by itself; run the command again to watch it and to clean up.",
    "unchanged": "Nothing was changed.",
    "goes on": "What is done stays done: run the command again to go on.",
    "would": "`fleetwright drain --cluster prod --all --yes` ends {nodes}, all NodePools and EC2NodeClasses and what was",
}


@pytest.mark.parametrize(
    ("nodes", "leftovers", "acting", "is_hindered", "begun"), [*itertools.product((0, 1, 2), *[(False, True)] * 4)]
)
def test_what_to_do_next_depends_on_what_is_left_and_on_what_was_asked(
    nodes: int, leftovers: bool, acting: bool, is_hindered: bool, begun: bool
) -> None:
    names = ["NodePool/default"] if leftovers else []
    document = answer(nodes, *names, acting=acting) | {"begun": begun}
    document |= {"hindrances": ["the functions stand still"] if is_hindered else []}
    if not nodes and not leftovers:
        expected = "gone"
    elif not acting:
        expected = "would"
    elif not is_hindered:
        expected = "late"
    else:
        expected = "goes on" if begun else "unchanged"
    said = " ".join(drain_table(document).split("\n\n")[-1].split())
    before = f"{NEXT['hindrance']} " if is_hindered else ""
    wanted = f"{before}{NEXT[expected]}".format(nodes="1 node" if nodes == 1 else f"{nodes} nodes")
    assert said.startswith(wanted) if expected == "would" else said == wanted


def test_what_remains_is_named_as_kubectl_does() -> None:
    document = answer(2, "NodePool/default", "LaunchTemplate/fleetwright/a")
    assert remaining_names(document | {"leftovers": document["leftovers"][4:]}).splitlines() == [
        "nodeclaim/default-0",
        "nodeclaim/default-1",
        "NodePool/default",
        "LaunchTemplate/fleetwright/a",
    ]
    assert remaining_names(answer(0)) == ""


@pytest.mark.parametrize(
    ("deletion", "state", "message"),
    [
        (None, "running", ""),
        (Deletion(reason="Empty", message="2 pods left", asked_at=NOW), "draining", "2 pods left"),
        (Deletion(reason="Empty", asked_at=NOW, terminated_at=NOW), "terminating", ""),
    ],
)
def test_the_document_has_all_that_remains(deletion: Deletion | None, state: str, message: str) -> None:
    record = msgspec.structs.replace(claim("a"), deletion=deletion)
    remaining = RemainingResources(
        claims=(record,),
        instances=(record.instance_id, "i-stray"),
        objects=((resources.NODE_POOLS, {"metadata": {"name": "default"}}),),
        templates=("fleetwright/a",),
        profiles=({"InstanceProfileName": "fleetwright_prod"},),
    )
    assert drain_document("prod", remaining, ["why not"], is_acting=True, has_begun=False) == {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Drain",
        "cluster": "prod",
        "acting": True,
        "begun": False,
        "hindrances": ["why not"],
        "items": [
            {
                "subject": f"NodeClaim/{record.name}",
                "state": state,
                "node": record.node_name,
                "instance": record.instance_id,
                "nodePool": record.plan.node_pool,
                "message": message,
            }
        ],
        "leftovers": [
            "Instance/i-stray",
            "NodePool/default",
            "LaunchTemplate/fleetwright/a",
            "InstanceProfile/fleetwright_prod",
        ],
    }


def test_a_column_is_shown_if_any_node_has_something_in_it() -> None:
    document = answer(2)
    document["items"][1]["message"] = "a pod stays"
    first, second = drain_table(document).splitlines()[:2]
    assert first.split()[-1] != "NODEPOOL"
    assert "a pod stays" not in second
    assert "a pod stays" in drain_table(document).splitlines()[2]


# `drain --all` goes round by round until nothing is left, its time is up, or something cannot be asked.


POOL = RemainingResources((), (), ((resources.NODE_POOLS, {"metadata": {"name": "default"}}),), (), ())
NOTHING = RemainingResources((), (), (), (), ())


class Installation:
    """A list of observations, of which the last one stays; an exception in the list is raised."""

    def __init__(self, *looks: RemainingResources | Exception, hindrances: Iterable[str] = ()) -> None:
        self.cluster, self.clock = "prod", FakeClock(NOW)
        self.done: list[str] = []
        self._looks, self._hindrances = list(looks), list(hindrances)

    def pause(self, wait: timedelta) -> None:
        self.done.append("pause")
        self.clock.advance(seconds=wait.total_seconds())

    def hindrances(self) -> list[str]:
        return self._hindrances

    def observe(self) -> RemainingResources:
        found = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(found, Exception):
            raise found
        return found

    def delete_node_pools(self, remaining: RemainingResources) -> None:
        self.done.append("pools")

    def bound_drains(self, remaining: RemainingResources, grace: timedelta) -> None:
        self.done.append("bound")

    def clean(self, remaining: RemainingResources) -> None:
        self.done.append("clean")


def drained(installation: Installation, **more: Any) -> tuple[list[str], bool]:
    given: dict[str, Any] = {"is_acting": True, "grace": None, "timeout": timedelta(minutes=1), **more}
    _, is_done = drain_all(installation, **given)  # type: ignore[arg-type]  # the rounds need no cluster
    return installation.done, is_done


def test_rounds_end_when_nothing_is_left() -> None:
    assert drained(Installation(POOL, POOL, NOTHING)) == (["pools", "clean", "pause", "pools", "clean"], True)


def test_rounds_end_when_time_is_up_and_say_that_something_is_left() -> None:
    done, is_done = drained(Installation(POOL))
    assert (done.count("pause"), is_done) == (timedelta(minutes=1) // ROUND, False)


def test_drains_are_bounded_only_where_that_is_asked() -> None:
    assert "bound" in drained(Installation(POOL, NOTHING), grace=timedelta(0))[0]
    assert "bound" not in drained(Installation(POOL, NOTHING))[0]


def test_nothing_is_done_without_yes_or_while_something_is_in_the_way() -> None:
    assert drained(Installation(POOL), is_acting=False) == ([], False)
    assert drained(Installation(POOL, hindrances=["the functions stand still"])) == ([], False)


class Stopped(Installation):
    """The functions are switched off once the drain has begun."""

    def hindrances(self) -> list[str]:
        return ["the functions stand still"] if self.done else []


@pytest.mark.parametrize(("stops", "has_begun"), [(Stopped(POOL), True), (Installation(POOL, hindrances=["x"]), False)])
def test_the_answer_says_whether_anything_was_changed(stops: Installation, has_begun: bool) -> None:
    document, is_done = drain_all(stops, is_acting=True, grace=None, timeout=ROUND)  # type: ignore[arg-type]
    assert (document["begun"], len(document["hindrances"]), is_done) == (has_begun, 1, False)


def test_passing_errors_are_waited_out_and_refusals_are_not() -> None:
    passing = TransientError("kube:list nodes", "timeout")
    assert drained(Installation(POOL, passing, passing, NOTHING), timeout=timedelta(hours=1))[1]
    most = [passing] * FAILURES_MAX
    assert drained(Installation(POOL, *most, POOL, *most, NOTHING), timeout=timedelta(hours=1))[1]
    with pytest.raises(InputError, match="timeout"):
        drained(Installation(POOL, *most, passing, NOTHING), timeout=timedelta(hours=1))
    with pytest.raises(InputError, match="iam:ListInstanceProfiles"):
        drained(Installation(POOL, DeniedError("iam:ListInstanceProfiles", "AccessDenied")))


@pytest.mark.parametrize(("rounds", "pauses"), [(0.9, 0), (1.0, 1), (1.9, 1), (2.0, 2)])
def test_the_last_round_begins_before_time_is_up(rounds: float, pauses: int) -> None:
    """Each round that fits within the time is waited for, also one that ends with it."""
    done, is_done = drained(Installation(POOL), timeout=ROUND * rounds)
    assert (done.count("pools"), done.count("pause"), is_done) == (pauses + 1, pauses, False)


OURS, KARPENTERS, THEIRS = labels.TERMINATION_FINALIZER, labels.KARPENTER_FINALIZER, "example.com/keeps"


class Recorder:
    """Notes every write; what is in `gone` is not found."""

    def __init__(self) -> None:
        self.written: list[tuple[Any, ...]] = []
        self.gone: set[str] = set()

    def _note(self, *call: Any, name: str) -> None:
        if name in self.gone:
            raise NotFoundError(str(call[0]), "404")
        self.written.append(call)

    def delete(self, resource: Resource, name: str, *, uid: str) -> None:
        self._note("delete", resource.kind, name, uid, name=name)

    def patch(self, resource: Resource, name: str, body: dict[str, Any]) -> None:
        self._note("free", resource.kind, name, body["metadata"]["finalizers"], name=name)

    def call(self, operation: str, **given: str) -> None:
        self._note(operation, *given.values(), name=next(iter(given.values())))

    def change(self, before: ClaimRecord, after: ClaimRecord) -> None:
        if before.name in self.gone:
            raise ConflictError("dynamodb:PutItem", "changed")
        self.written.append((after.name, after.deletion))


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def owned(recorder: Recorder) -> OwnedResources:
    settings = SimpleNamespace(cluster_name="prod")
    adapters: Any = SimpleNamespace(
        clock=None, pause=None, settings=settings, kubernetes=recorder, cloud=None, brakes=None, region="us-east-1",
        stores=SimpleNamespace(claims=recorder),
    )  # fmt: skip
    ec2: Any = recorder
    return OwnedResources(adapters, ec2, ec2)


def obj(name: str, *finalizers: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "finalizers": list(finalizers), **metadata}}


def remaining(*objects: tuple[Resource, dict[str, Any]], **changes: Any) -> RemainingResources:
    nothing = RemainingResources((), (), objects, (), ())
    return msgspec.structs.replace(nothing, **changes)


EVERY = (
    (resources.NODE_POOLS, obj("pool", KARPENTERS)),
    (resources.EC2_NODE_CLASSES, obj("class", "karpenter.k8s.aws/termination", THEIRS)),
    (resources.NODE_CLAIMS, obj("claim", OURS)),
    (resources.NODES, obj("node", OURS, KARPENTERS)),
)


def test_node_pools_go_first_and_alone(owned: OwnedResources, recorder: Recorder) -> None:
    owned.delete_node_pools(remaining(*EVERY))
    assert recorder.written == [("delete", "NodePool", "pool", "uid-pool"), ("free", "NodePool", "pool", None)]


def test_what_no_node_needs_any_more_is_removed_and_finalizers_of_others_stay(
    owned: OwnedResources, recorder: Recorder
) -> None:
    owned.clean(remaining(*EVERY, templates=("fleetwright/a", "fleetwright/b")))
    assert recorder.written == [
        ("delete", "NodeClaim", "claim", "uid-claim"),
        ("free", "NodeClaim", "claim", None),
        ("delete", "EC2NodeClass", "class", "uid-class"),
        ("free", "EC2NodeClass", "class", [THEIRS]),
        ("free", "Node", "node", [KARPENTERS]),
        ("DeleteLaunchTemplate", "fleetwright/a"),
        ("DeleteLaunchTemplate", "fleetwright/b"),
    ]


def test_what_is_being_deleted_is_only_freed_and_what_nobody_of_ours_holds_is_left(
    owned: OwnedResources, recorder: Recorder
) -> None:
    going = (resources.NODE_POOLS, obj("going", OURS, deletionTimestamp="2026-11-20T00:00:00Z"))
    held = (resources.NODE_POOLS, obj("held", THEIRS, deletionTimestamp="2026-11-20T00:00:00Z"))
    owned.delete_node_pools(remaining(going, held))
    assert recorder.written == [("free", "NodePool", "going", None)]


def test_what_has_gone_meanwhile_hides_no_other(owned: OwnedResources, recorder: Recorder) -> None:
    recorder.gone = {"a", "fleetwright/a"}
    pools = [(resources.NODE_POOLS, obj(name)) for name in "ab"]
    owned.delete_node_pools(remaining(*pools))
    owned.clean(remaining(templates=("fleetwright/a", "fleetwright/b")))
    assert recorder.written == [("delete", "NodePool", "b", "uid-b"), ("DeleteLaunchTemplate", "fleetwright/b")]


def test_anything_that_remains_is_something_and_claims_or_instances_may_have_pods() -> None:
    parts: dict[str, Any] = {
        "claims": (claim("a"),),
        "instances": ("i-1",),
        "objects": EVERY[:1],
        "templates": ("fleetwright/a",),
        "profiles": ({"InstanceProfileName": "a"},),
    }
    assert (remaining().is_nothing, remaining().runs) == (True, False)
    for name, part in parts.items():
        found = remaining(**{name: part})
        assert (found.is_nothing, found.runs) == (False, name in ("claims", "instances"))


class Site:
    """A cluster and an account in which others have objects, too."""

    def __init__(self) -> None:
        self.lists: dict[Resource, list[Any]] = {
            resources.NODE_POOLS: [obj("pool")],
            resources.EC2_NODE_CLASSES: [obj("class")],
            resources.NODE_CLAIMS: [obj("ours", annotations={labels.CLAIM: "ours"}), obj("theirs", KARPENTERS)],
            resources.NODES: [
                WireNode(metadata=WireMetadata(name="n1", finalizers=(OURS, THEIRS))),
                WireNode(metadata=WireMetadata(name="n2", finalizers=(KARPENTERS,))),
            ],
        }

    def list(self, resource: Resource) -> Any:
        return SimpleNamespace(items=self.lists[resource])

    def items(self, operation: str, field: str, **given: Any) -> list[dict[str, Any]]:
        if operation == "DescribeLaunchTemplates":
            assert field == "LaunchTemplates"
            assert given["Filters"] == [{"Name": f"tag:{labels.CLUSTER_TAG}", "Values": ["prod"]}]
            return [{"LaunchTemplateName": name} for name in ("fleetwright/b", "other", "fleetwright/a")]
        return []

    def instances(self) -> list[Instance]:
        own = {labels.CLAIM: "a"}
        return [
            an_instance("i-2", tags=own),
            an_instance("i-1", tags=own),
            an_instance("i-3", tags=own, state="terminated"),
            an_instance("i-4", tags={"Name": "bastion"}),
        ]


def test_all_that_is_ours_and_nothing_else_remains(owned: OwnedResources) -> None:
    """Otherwise, the stack goes while instances run, or something of somebody else's is deleted with it."""
    site: Any = Site()
    owned._kubernetes = owned._cloud = owned._ec2 = site
    owned._stores = SimpleNamespace(claims=SimpleNamespace(all=lambda: (claim("a"),)))  # type: ignore[assignment]
    owned._profiles = SimpleNamespace(all=lambda: [{"InstanceProfileName": name} for name in "ba"])  # type: ignore[assignment]
    found = owned.observe()
    assert (found.claims, found.instances) == ((claim("a"),), ("i-1", "i-2"))
    assert found.templates == ("fleetwright/a", "fleetwright/b")
    assert [profile["InstanceProfileName"] for profile in found.profiles] == ["a", "b"]
    assert [(resource.kind, part["metadata"]["name"]) for resource, part in found.objects] == [
        ("NodePool", "pool"),
        ("EC2NodeClass", "class"),
        ("NodeClaim", "ours"),
        ("Node", "n1"),
    ]
    assert found.objects[-1][1] == {"metadata": {"name": "n1", "finalizers": [OURS, THEIRS]}}


def test_profiles_are_deleted_even_if_one_has_gone(owned: OwnedResources) -> None:
    deleted: list[str] = []

    def delete(profile: dict[str, Any]) -> None:
        deleted.append(profile["InstanceProfileName"])
        if len(deleted) == 1:
            raise NotFoundError("iam:DeleteInstanceProfile", "404")

    owned._profiles = SimpleNamespace(delete=delete)  # type: ignore[assignment]
    owned.clean(remaining(profiles=tuple({"InstanceProfileName": name} for name in "ab")))
    assert deleted == ["a", "b"]


def test_an_object_without_uid_or_finalizers_is_deleted_by_its_name(owned: OwnedResources, recorder: Recorder) -> None:
    bare = [{"metadata": {"name": "bare"}}, {"metadata": {"name": "null", "uid": None, "finalizers": None}}]
    owned.delete_node_pools(remaining(*((resources.NODE_POOLS, one) for one in bare)))
    assert recorder.written == [("delete", "NodePool", "bare", ""), ("delete", "NodePool", "null", "")]


GRACE = timedelta(minutes=10)


@pytest.mark.parametrize(
    ("deletion", "is_bounded"),
    [
        (None, False),
        ({"deadline": None}, True),
        ({"deadline": NOW + GRACE + timedelta(seconds=1)}, True),
        ({"deadline": NOW + GRACE}, False),
        ({"deadline": None, "terminated_at": NOW}, False),
    ],
)
def test_drains_are_bounded_from_their_beginning_and_never_prolonged(
    deletion: dict[str, Any] | None, is_bounded: bool, owned: OwnedResources, recorder: Recorder
) -> None:
    known = None if deletion is None else Deletion(reason="Empty", asked_at=NOW, **deletion)
    leaving = msgspec.structs.replace(claim("kept"), deletion=None)  # runs on: what follows is bounded all the same
    records = [leaving, *(msgspec.structs.replace(claim(name), deletion=known) for name in ("changed", "a"))]
    recorder.gone = {"changed"}  # a function has just written it
    owned.bound_drains(remaining(claims=tuple(records)), GRACE)
    bounded = Deletion(reason="Empty", asked_at=NOW, deadline=NOW + GRACE, is_final=True)
    assert recorder.written == ([("a", bounded)] if is_bounded else [])
