"""A person who hands nodes to Karpenter and takes them back, and what the objects must say afterwards."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from adapters.aws.dynamodb.table import Cancelled, DynamoTable, Item
from adapters.aws.services import AwsService
from cli.takeover.environment import TakeoverEnvironment
from core import labels
from core.manifests.wire import resources
from simulator.world import World
from tests.simulation.operated import WorldOperator

KARPENTER = labels.KARPENTER_FINALIZER
OURS = labels.TERMINATION_FINALIZER


class Operator(WorldOperator):
    """A person at the command line, at chosen moments of a world.

    Attributes:
        asked: What the commands asked of the cluster, as `verb plural`.
        breaks: Called with each call before it is done; may raise.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.store: Any = world.cluster._store
        self.asked: set[str] = set()
        self.breaks: Callable[[str], None] = lambda _: None
        world.cluster.api.on_fault_point(self._seen)

    def environment(self) -> TakeoverEnvironment:
        session, adapters = self.world.account.session, self.adapters()
        table = self.world._settings().table_name
        adapters.__dict__["table"] = BreakingTable(session.client("dynamodb"), table, self)
        return TakeoverEnvironment(
            adapters, BreakingService(session.client("ec2"), self), AwsService(session.client("ssm"))
        )

    def run(self, command: Any, *more: str) -> None:
        """Run a command as the program does, and keep its answer."""
        name = command.__name__.rpartition(".")[2]
        given = Namespace(
            cluster="fleetwright", region=None, profile=None, stack=None, yes="--yes" in more, output="json"
        )
        self.answer(lambda: command.run(given), name)

    def observe_with(self, command: Any) -> Callable[[], None]:
        return lambda: self.run(command)

    def act(self, command: Any) -> Callable[[], None]:
        return lambda: self.run(command, "--yes")

    def states(self, answer: int) -> list[str]:
        return [item["state"] for item in self.answers[answer][0]["items"]]

    def start_karpenter(self) -> None:
        spec = {"holderIdentity": "karpenter-1", "renewTime": "2030-01-01T00:00:00.000000Z"}
        lease = {"metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"}, "spec": spec}
        self.store.create(resources.LEASES, lease)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        return list(self.world.cluster.objects(kind))

    def instances(self) -> list[Any]:
        return [found for found in self.world.account.instances.all() if found.state == "running"]

    def claims(self) -> list[str]:
        return [record.name for record in self.environment().stores.claims.all()]

    def reserved(self) -> dict[str, int]:
        return {
            key: amount for usage in self.environment().stores.claims.usage() for key, amount in usage.reserved.items()
        }

    def _seen(self, call: str, when: str) -> None:
        if self._is_running and when == "before":
            verb = call.removeprefix("kube:")
            self.asked.add(verb)
            self.breaks(verb)


class BreakingTable(DynamoTable):
    """The table, with an operator whose calls may break."""

    def __init__(self, client: Any, name: str, operator: Operator) -> None:
        super().__init__(client, name, lambda _: None)
        self._operator = operator

    def transact(self, operations: Sequence[tuple[str, Item]]) -> Cancelled | None:
        self._operator.breaks("dynamodb:TransactWriteItems")
        return super().transact(operations)


class BreakingService(AwsService):
    """EC2, with an operator whose calls may break."""

    def __init__(self, client: Any, operator: Operator) -> None:
        super().__init__(client)
        self._operator = operator

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        self._operator.breaks(f"ec2:{operation}")
        return super().call(operation, **arguments)


def owners(obj: dict[str, Any]) -> list[str]:
    return [ref["kind"] for ref in obj["metadata"].get("ownerReferences") or ()]


def is_drifted_to_karpenter(claim: dict[str, Any], other: dict[str, Any], keys: tuple[str, str]) -> bool:
    """Its comparison: hashes that differ under the same version; where one is missing it compares nothing."""
    own, theirs = (found["metadata"].get("annotations") or {} for found in (claim, other))
    has_all = all(key in found for key in keys for found in (own, theirs))
    return has_all and own[keys[1]] == theirs[keys[1]] and own[keys[0]] != theirs[keys[0]]


def assert_karpenters(operator: Operator) -> None:
    """What Karpenter's controllers need: otherwise they end the instances, or ignore the nodes."""
    claims = {obj["metadata"]["name"]: obj for obj in operator.objects("NodeClaim")}
    nodes = {obj["metadata"]["name"]: obj for obj in operator.objects("Node")}
    assert len(claims) == len(nodes) == len(operator.instances()) == 3
    assert operator.claims() == []
    for name, obj in claims.items():
        metadata, status = obj["metadata"], obj["status"]
        assert (metadata["finalizers"], owners(obj)) == ([KARPENTER], ["NodePool"])
        assert labels.CLAIM not in metadata["annotations"]
        assert metadata["labels"][labels.NODEPOOL] == "default"
        told = {c["type"]: c["status"] for c in status["conditions"]}
        assert {told[kind] for kind in ("Launched", "Registered", "Initialized", "Ready")} == {"True"}
        (pool,), (node_class,) = operator.objects("NodePool"), operator.objects("EC2NodeClass")
        if "Drifted" not in told:
            assert not is_drifted_to_karpenter(obj, pool, (labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION))
            assert not is_drifted_to_karpenter(obj, node_class, (labels.NODECLASS_HASH, labels.NODECLASS_HASH_VERSION))
        node = nodes[status["nodeName"]]
        assert node["metadata"]["finalizers"] == [KARPENTER]
        assert node["metadata"]["ownerReferences"][0]["uid"] == metadata["uid"]
        assert labels.CLAIM not in node["metadata"]["annotations"]
        assert (node["spec"].get("taints") or []) == []
        instance = next(found for found in operator.instances() if status["providerID"].endswith(found.id))
        assert instance.tags[labels.NODECLAIM] == name
        assert instance.tags[labels.CLUSTER_TAG] == "fleetwright"
        assert not {labels.CLAIM, labels.NODEPOOL_HASH} & instance.tags.keys()


def assert_ours(operator: Operator) -> None:
    claims, nodes = operator.objects("NodeClaim"), operator.objects("Node")
    assert len(claims) == len(nodes) == len(operator.claims()) == 3
    for obj in (*claims, *nodes):
        assert (obj["metadata"]["finalizers"], owners(obj)) == ([OURS], [])
        assert obj["metadata"]["annotations"][labels.CLAIM] in operator.claims()
    assert {found.tags[labels.CLAIM] for found in operator.instances()} == set(operator.claims())


def as_after_karpenter(operator: Operator) -> None:
    """What Karpenter's controllers write once they have the objects: hashes of their own, and a finalizer on the class."""
    stamps = {
        resources.NODE_POOLS: ("NodePool", {labels.NODEPOOL_HASH: "41", labels.NODEPOOL_HASH_VERSION: "v3"}),
        resources.EC2_NODE_CLASSES: (
            "EC2NodeClass",
            {labels.NODECLASS_HASH: "42", labels.NODECLASS_HASH_VERSION: "v6"},
        ),
    }
    both = {key: value for _, hashes in stamps.values() for key, value in hashes.items()}
    stamps[resources.NODE_CLAIMS] = ("NodeClaim", {**both, "karpenter.k8s.aws/tagged": "true"})
    for resource, (kind, hashes) in stamps.items():
        for obj in operator.objects(kind):
            operator.store.patch(resource, obj["metadata"]["name"], {"metadata": {"annotations": hashes}})
    kept = {"metadata": {"finalizers": [labels.KARPENTER_CLASS_FINALIZER]}}
    operator.store.patch(resources.EC2_NODE_CLASSES, "default", kept)
