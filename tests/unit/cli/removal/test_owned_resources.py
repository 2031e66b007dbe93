"""What an installation made is removed, what others hold stays, and the next run continues where one failed."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from adapters.ports import ConflictError, Instance, NotFoundError
from cli.removal.owned_resources import OwnedResources, RemainingResources
from core import labels
from core.lifecycle.records import ClaimRecord, Deletion
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from core.manifests.wire.cluster import WireNode
from core.manifests.wire.object_metadata import WireMetadata
from tests.builders import NOW
from tests.contract.store.stores import claim
from tests.unit.cli.takeover.site import an_instance

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
    (kinds.NODE_POOLS, obj("pool", KARPENTERS)),
    (kinds.EC2_NODE_CLASSES, obj("class", "karpenter.k8s.aws/termination", THEIRS)),
    (kinds.NODE_CLAIMS, obj("claim", OURS)),
    (kinds.NODES, obj("node", OURS, KARPENTERS)),
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
    going = (kinds.NODE_POOLS, obj("going", OURS, deletionTimestamp="2026-11-20T00:00:00Z"))
    held = (kinds.NODE_POOLS, obj("held", THEIRS, deletionTimestamp="2026-11-20T00:00:00Z"))
    owned.delete_node_pools(remaining(going, held))
    assert recorder.written == [("free", "NodePool", "going", None)]


def test_what_has_gone_meanwhile_hides_no_other(owned: OwnedResources, recorder: Recorder) -> None:
    recorder.gone = {"a", "fleetwright/a"}
    pools = [(kinds.NODE_POOLS, obj(name)) for name in "ab"]
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
            kinds.NODE_POOLS: [obj("pool")],
            kinds.EC2_NODE_CLASSES: [obj("class")],
            kinds.NODE_CLAIMS: [obj("ours", annotations={labels.CLAIM: "ours"}), obj("theirs", KARPENTERS)],
            kinds.NODES: [
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
    owned.delete_node_pools(remaining(*((kinds.NODE_POOLS, one) for one in bare)))
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
