"""A release: commands and versions of hashes first; of each claim its NodeClaim first and its row last."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from adapters.ports import ConflictError, NotFoundError
from cli.takeover.releaser import Releasable, Releaser
from core import labels
from core.errors import InvariantError
from core.lifecycle.records import ClaimPhase
from core.lifecycle.takeover import ownership
from core.lifecycle.takeover.release import OwnedClaim, karpenters_object, karpenters_status
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.cluster import NodeSpec, WireNode, WireTaint
from core.manifests.wire.object_metadata import OwnerReference, WireMetadata
from tests.unit.cli.takeover.site import an_instance
from tests.unit.lifecycle.records_for_tests import a_node, a_record

NODE_CLAIM = {"metadata": {"name": "c", "uid": "uid-c", "finalizers": [labels.TERMINATION_FINALIZER]}}


class Environment:
    """Notes what is written, in order."""

    cluster = "prod"

    def __init__(self, *, fault: Exception | None = None, lists: dict[Any, list[Any]] | None = None) -> None:
        self.done: list[Any] = []
        self.patches: dict[str, Any] = {}
        self._fault, self._lists = fault, lists or {}
        self.kubernetes = SimpleNamespace(
            list=lambda resource: SimpleNamespace(items=self._lists[resource]),
            create=self._create,
            patch=self._write,
            delete=lambda resource, name: self.done.append(("delete", resource.kind, name)),
            get=lambda resource, name: NODE_CLAIM if (resource, name) == (kinds.NODE_CLAIMS, "c") else None,
        )
        commands = SimpleNamespace(all=lambda: ("one", "two"), remove=lambda one: self.done.append(("drop", one)))
        claims = SimpleNamespace(forget=lambda record: self.done.append(("forget", record.name)))
        self.stores = SimpleNamespace(commands=commands, claims=claims)

    def _create(self, resource: Any, body: Any) -> None:
        self.done.append(("create", resource.kind, body))
        if self._fault is not None:
            raise self._fault

    def _write(self, resource: Any, name: str, body: Any, subresource: str = "") -> None:
        if isinstance(self._fault, NotFoundError):
            raise self._fault
        self.done.append(("write", resource.kind, name, body, subresource))

    def patch(self, resource: Any, name: str, patch_of: Any) -> None:
        self.done.append(("patch", resource.kind, name))
        self.patches[resource.kind] = patch_of

    def tag(self, instance: Any, tags: Any) -> None:
        self.done.append(("tag", instance.instance_id, tags))

    def untag(self, instance: Any, keys: Any) -> None:
        self.done.append(("untag", instance.instance_id, keys))


def owned(**changes: Any) -> OwnedClaim:
    fields = {"record": a_record(), "node_claim": NODE_CLAIM, "node": a_node(), "tagged": ("i-1",), "pool_uid": "u"}
    return OwnedClaim(**{**fields, **changes})


def released(environment: Any, claim: OwnedClaim, *, is_there: bool = True, drift: str = "") -> list[Any]:
    instance = an_instance("i-1") if is_there else None
    Releaser(environment).release(Releasable(subject="NodeClaim/c", owned=claim, instance=instance, drift=drift))
    done: list[Any] = environment.done
    return done


STATUS = ("write", "NodeClaim", "c", {"status": karpenters_status(a_record(), "NodePoolDrifted")}, "status")
CREATED = ("create", "NodeClaim", karpenters_object(a_record()))
MARKED = ("patch", "NodeClaim", "c")
TAGGED = (
    ("tag", "i-1", ownership.karpenters_tags(a_record(), "prod")),
    ("untag", "i-1", ownership.OURS_ALONE),
)
NODE = ("patch", "Node", a_node().name)
FORGOTTEN = ("forget", "c")


def test_the_node_claim_comes_first_and_the_row_goes_last() -> None:
    environment: Any = Environment()
    assert released(environment, owned(), drift="NodePoolDrifted") == [STATUS, MARKED, NODE, *TAGGED, FORGOTTEN]
    assert environment.patches["NodeClaim"](NODE_CLAIM) == {
        "metadata": ownership.node_claim_made_karpenters(a_record(), NODE_CLAIM, (a_record().plan.node_pool, "u"))
    }
    bare = released(Environment(), owned(node=None), is_there=False, drift="NodePoolDrifted")
    assert bare == [STATUS, MARKED, FORGOTTEN]


@pytest.mark.parametrize("fault", [None, ConflictError("kube:create", "409")])
def test_a_node_claim_that_is_missing_is_created_unless_somebody_has(fault: Exception | None) -> None:
    done = released(Environment(fault=fault), owned(node_claim=None), drift="NodePoolDrifted")
    assert done == [CREATED, STATUS, MARKED, NODE, *TAGGED, FORGOTTEN]


@pytest.mark.parametrize("fault", [None, NotFoundError("kube:patch", "404")])
def test_a_claim_that_was_never_launched_is_given_up(fault: Exception | None) -> None:
    """Its NodeClaim would be an order to Karpenter."""
    done = released(Environment(fault=fault), owned(record=a_record(ClaimPhase.REQUESTED), node_claim=None))
    gone = [("write", "NodeClaim", "c", {"metadata": {"finalizers": None}}, ""), ("delete", "NodeClaim", "c")]
    assert done == [*([] if fault else gone), FORGOTTEN]


def test_what_is_not_ours_is_not_released() -> None:
    environment: Any = Environment()
    with pytest.raises(InvariantError, match="Instance/i-2 is not to be released"):
        Releaser(environment).release(Releasable(subject="Instance/i-2", instance=an_instance("i-2")))
    assert environment.done == []


def test_commands_are_dropped_and_versions_of_hashes_removed_where_there_are_any() -> None:
    """Until Karpenter has written its own, hashes of different versions would make all nodes count as drifted."""

    def obj(name: str, annotations: dict[str, str] | None) -> dict[str, Any]:
        return {"metadata": {"name": name, "annotations": annotations}}

    pool, node_class = labels.NODEPOOL_HASH_VERSION, labels.NODECLASS_HASH_VERSION
    lists: dict[Any, list[Any]] = {
        kinds.NODE_POOLS: [obj("a", {pool: "v4"}), obj("b", None), obj("c", {"other": "x"})],
        kinds.EC2_NODE_CLASSES: [obj("d", {node_class: "v4", "other": "x"})],
    }
    environment: Any = Environment(lists=lists)
    Releaser(environment).begin()
    assert environment.done == [
        ("drop", "one"),
        ("drop", "two"),
        ("write", "NodePool", "a", {"metadata": {"annotations": {pool: None}}}, ""),
        ("write", "EC2NodeClass", "d", {"metadata": {"annotations": {node_class: None}}}, ""),
    ]


@pytest.mark.parametrize("has_ours", [False, True])
def test_a_node_gets_its_node_claim_as_owner_and_loses_our_taints(has_ours: bool) -> None:
    environment: Any = Environment()
    released(environment, owned())
    theirs, ours = WireTaint("team", "NoSchedule", "a"), WireTaint(labels.DISRUPTED_TAINT, "NoSchedule")
    metadata = WireMetadata(
        name="n",
        labels={"team": "a"},
        finalizers=(labels.TERMINATION_FINALIZER,),
        owner_references=(OwnerReference("Other", "o", "v1", "u"),),
    )
    written = WireNode(metadata=metadata, spec=NodeSpec(taints=(theirs, ours) if has_ours else (theirs,)))
    patch = environment.patches["Node"](written)
    owner = {"kind": "Other", "name": "o", "apiVersion": "v1", "uid": "u", "controller": False}
    assert patch["metadata"] == ownership.node_made_karpenters(
        metadata.finalizers, [owner], metadata.labels, ("c", "uid-c")
    )
    kept = [{"key": "team", "effect": "NoSchedule", "value": "a"}]
    assert patch.get("spec") == ({"taints": kept} if has_ours else None)
