"""Nodes change hands between the functions and Karpenter in the embedded world: nothing ends, nothing moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import simulator.run
from cli.takeover.directions import adoption, release
from cli.takeover.site import Site
from core import labels
from core.manifests.wire import api_resources as kinds
from lambdas.adapters.aws.service import AwsService
from lambdas.application.adapters import Adapters
from lambdas.side_by_side import TaskRunners, in_turn
from simulator.run import Result
from simulator.world import World, open_world
from tests.simulation.worlds import assert_lawful, deployment, happened, node_pool, play

KARPENTERS_HASHES = {labels.NODEPOOL_HASH: "77", labels.NODEPOOL_HASH_VERSION: "v3"}


class Operator:
    """A person at the command line, at chosen moments of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store: Any = world.cluster._store
        self.answers: list[tuple[dict[str, Any], bool]] = []

    def at(self, minutes: float, act: Callable[[], None]) -> None:
        self.world.clock.after(timedelta(minutes=minutes), act)

    def switch(self, mode: str) -> Callable[[], None]:
        def turn() -> None:
            self.world.account.brakes.mode = mode

        return turn

    def site(self) -> Site:
        world = self.world
        adapters = Adapters(
            world._settings(),
            world.account.session,
            world.clock,
            kubernetes=world.cluster.api,
            catalogues=world._catalogues,
            pause=lambda _: None,
            run_tasks=TaskRunners(messages=in_turn, launches=in_turn),
        )
        session = world.account.session
        return Site(adapters, AwsService(session.client("ec2")), AwsService(session.client("ssm")))

    def adopt(self, *, is_acting: bool = True) -> None:
        self.answers.append(adoption(self.site(), is_acting=is_acting))

    def release(self, *, is_acting: bool = True) -> None:
        self.answers.append(release(self.site(), is_acting=is_acting))

    def states(self, answer: int) -> list[str]:
        return [item["state"] for item in self.answers[answer][0]["items"]]

    def start_karpenter(self) -> None:
        spec = {"holderIdentity": "karpenter-1", "renewTime": "2030-01-01T00:00:00.000000Z"}
        lease = {"metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"}, "spec": spec}
        self.store.create(kinds.LEASES, lease)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        return list(self.world.cluster.objects(kind))

    def instances(self) -> list[Any]:
        return [found for found in self.world.account.instances.all() if found.state == "running"]

    def claims(self) -> list[str]:
        return [record.name for record in self.site().stores.claims.all()]


def played(
    monkeypatch: pytest.MonkeyPatch, folder: Path, script: Callable[[Operator], None], **more: Any
) -> tuple[Operator, Result]:
    operators = []

    @contextmanager
    def hooked(*arguments: Any, **options: Any) -> Iterator[World]:
        with open_world(*arguments, **options) as world:
            operators.append(Operator(world))
            script(operators[0])
            yield world

    monkeypatch.setattr(simulator.run, "open_world", hooked)
    result = play(folder, node_pool(), deployment(3, cpu="12"), **more)
    return operators[0], result


def owners(obj: dict[str, Any]) -> list[str]:
    return [ref["kind"] for ref in obj["metadata"].get("ownerReferences") or ()]


def assert_karpenters(operator: Operator) -> None:
    """What Karpenter's controllers look for: else they end the instances, or never touch the nodes again."""
    claims = {obj["metadata"]["name"]: obj for obj in operator.objects("NodeClaim")}
    nodes = {obj["metadata"]["name"]: obj for obj in operator.objects("Node")}
    assert len(claims) == len(nodes) == len(operator.instances()) == 3
    for name, obj in claims.items():
        metadata, status = obj["metadata"], obj["status"]
        assert metadata["finalizers"] == ["karpenter.sh/termination"]
        assert owners(obj) == ["NodePool"]
        assert labels.CLAIM not in metadata["annotations"]
        assert metadata["labels"][labels.NODEPOOL] == "default"
        told = {c["type"]: c["status"] for c in status["conditions"]}
        assert {told[kind] for kind in ("Launched", "Registered", "Initialized", "Ready")} == {"True"}
        assert "Drifted" not in told
        node = nodes[status["nodeName"]]
        assert node["metadata"]["finalizers"] == ["karpenter.sh/termination"]
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
        assert obj["metadata"]["finalizers"] == ["fleetwright.dev/termination"]
        assert owners(obj) == []
        assert obj["metadata"]["annotations"][labels.CLAIM] in operator.claims()
    assert {found.tags[labels.CLAIM] for found in operator.instances()} == set(operator.claims())


def test_nodes_go_to_karpenter_and_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways, no node is replaced and no pod moves; then consolidation acts on what came back."""
    seen: dict[str, Any] = {}

    def script(operator: Operator) -> None:
        operator.at(5, operator.switch("stop"))
        operator.at(7, lambda: operator.release(is_acting=False))
        operator.at(7.1, lambda: seen.update(claims=len(operator.claims())))
        operator.at(7.2, operator.release)
        operator.at(7.3, lambda: assert_karpenters(operator))
        operator.at(7.4, lambda: seen.update(given=operator.claims()))
        operator.at(8, operator.switch("run"))
        operator.at(20, lambda: assert_karpenters(operator))
        operator.at(20.1, operator.switch("stop"))
        operator.at(22, lambda: operator.adopt(is_acting=False))
        operator.at(22.1, lambda: assert_karpenters(operator))
        operator.at(22.2, operator.adopt)
        operator.at(22.3, lambda: assert_ours(operator))
        operator.at(22.4, operator.adopt)
        operator.at(23, operator.switch("run"))
        operator.at(35, lambda: assert_ours(operator))

    steps = [{"at": "36m", "scale": {"kind": "Deployment", "name": "web", "replicas": 1}}]
    operator, result = played(monkeypatch, tmp_path, script, steps=steps, duration="50m")
    assert (seen["claims"], seen["given"]) == (3, [])
    assert [operator.states(n) for n in range(5)] == [
        ["releasable"] * 3,
        ["released"] * 3,
        ["adoptable"] * 3,
        ["adopted"] * 3,
        ["ours"] * 3,
    ]
    assert all(is_complete for _, is_complete in operator.answers)
    ended = [*happened(result, "podEvicted"), *happened(result, "instanceTerminated"), *happened(result, "nodeTainted")]
    assert ended
    assert min(event.t for event in ended) > "2026-11-20T00:36:00Z"
    assert result.summary["nodesAtEnd"] == 1
    assert result.summary["nodesLaunched"] == 3
    assert_lawful(result)
