"""`drain --all` in the embedded world: every node goes, and everything that was made for them is removed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.aws.services import AwsService
from cli import removal
from cli.commands import drain
from cli.removal import OwnedResources, drain_table
from core import labels
from core.manifests.wire import resources
from simulator.run import Result
from tests.shown import is_told, shown
from tests.simulation.operated import WorldOperator, operated
from tests.simulation.worlds import assert_lawful, deployment, happened, node_pool, play

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "remove.md"
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
}


class Operator(WorldOperator):
    """A person who drains at chosen minutes of a world."""

    def resources(self) -> OwnedResources:
        session = self.world.account.session
        return OwnedResources(self.adapters(), AwsService(session.client("ec2")), AwsService(session.client("iam")))

    def drain(self, *, acts: bool = True, grace: str | None = None) -> Callable[[], None]:
        """One round, as of a person who interrupts the command."""
        given = Namespace(
            cluster="fleetwright", region=None, profile=None, stack=None, yes=acts, output="json", timeout="0s"
        )
        given.all, given.grace_period = True, grace
        return lambda: self.answer(lambda: drain.run(given), "drain")

    def left(self) -> dict[str, list[Any]]:
        """What the functions made and what is left of it, read from the world itself."""
        session, nodes = self.world.account.session, list(self.world.cluster.objects("Node"))
        found = {kind: list(self.world.cluster.objects(kind)) for kind in ("NodePool", "EC2NodeClass", "NodeClaim")}
        templates = session.client("ec2").describe_launch_templates()["LaunchTemplates"]
        profiles = session.client("iam").list_instance_profiles()["InstanceProfiles"]
        schedules = session.client("scheduler").list_schedules(GroupName=self.world._settings().schedule_group)
        running = [one for one in self.world.account.instances.all() if one.state == "running"]
        claims = self.resources().observe().claims
        of_account = {"templates": templates, "profiles": profiles, "schedules": schedules["Schedules"]}
        return {**found, **of_account, "nodes": nodes, "instances": running, "claims": list(claims)}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Operator, Result]]:
    def playing(script: Callable[[Operator], None], *objects: dict[str, Any]) -> tuple[Operator, Result]:
        operators = operated(monkeypatch, Operator, script)
        monkeypatch.setattr(removal, "open_owned_resources", lambda _: operators[0].resources())
        window = {"nodes": "0", "schedule": "0 8 * * sun", "duration": "2h"}
        pool = node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}, window]})
        result = play(tmp_path, pool, deployment(3, cpu="12"), *objects, duration="40m")
        return operators[0], result

    return playing


def test_every_node_goes_and_nothing_is_left(played: Any) -> None:
    """A role with a profile cannot be deleted, a node with our finalizer neither, and an instance without functions runs on."""
    before: list[dict[str, list[Any]]] = []
    left: list[dict[str, list[Any]]] = []

    def script(operator: Operator) -> None:
        operator.at(8, lambda: before.append(operator.left()))
        operator.at(8.1, operator.drain(acts=False))
        operator.at(8.2, operator.drain())
        operator.at(8.3, operator.drain())
        operator.at(25, operator.drain())
        operator.at(30, operator.drain(acts=False))
        operator.at(31, lambda: left.append(operator.left()))

    operator, result = played(script)
    assert {kind: len(found) for kind, found in before[0].items()} == {
        "NodePool": 1,
        "EC2NodeClass": 1,
        "NodeClaim": 3,
        "nodes": 3,
        "instances": 3,
        "claims": 3,
        "templates": len(before[0]["templates"]),
        "profiles": 1,
        "schedules": 2,
    }
    assert before[0]["templates"]
    assert {kind: found for kind, found in left[0].items() if found} == {}
    first, *_, drained, last = operator.answers
    for (answer, _), command in ((first, "drain --cluster prod --all"), (drained, "drain --cluster prod --all --yes")):
        printed = drain_table(answer | {"cluster": "prod"})
        assert is_told(shown("remove", command), printed), printed
    assert [item["state"] for item in first[0]["items"]] == ["running"] * 3
    assert {found.partition("/")[0] for found in first[0]["leftovers"]} == {
        *("NodePool", "EC2NodeClass", "NodeClaim", "Node", "LaunchTemplate", "InstanceProfile")
    }
    assert (last[0]["items"], last[0]["leftovers"], last[1]) == ([], [], 0)
    assert [code for _, code in operator.answers] == [1, 1, 1, 0, 0]
    assert len(happened(result, "podEvicted")) == 3
    page = PAGE.read_text(encoding="utf-8")
    assert {call for call in operator.called if call.startswith(("ec2:", "iam:")) and f"`{call}`" not in page} == set()
    assert len({call for call in operator.called if call.startswith("iam:")}) == 3
    assert_lawful(result)


def test_a_budget_that_never_opens_holds_its_node_until_the_grace_period_is_over(played: Any) -> None:
    left: list[int] = []

    def script(operator: Operator) -> None:
        operator.at(8, operator.drain())
        operator.at(20, lambda: left.append(len(operator.left()["nodes"])))
        operator.at(20.1, operator.drain(grace="15m"))
        operator.at(35, operator.drain(grace="15m"))
        operator.at(36, lambda: left.append(len(operator.left()["nodes"])))

    operator, _ = played(script, BUDGET)
    assert left == [3, 0]
    assert [code for _, code in operator.answers] == [1, 1, 0]


def test_nothing_begins_while_the_functions_stand_still_or_karpenter_has_nodes(played: Any) -> None:
    """Deleted NodePools would end Karpenter's nodes, or wait for functions that do nothing."""
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [],
    }
    theirs = {"labels": {labels.NODEPOOL: "default"}, "finalizers": [labels.KARPENTER_FINALIZER]}
    foreign = {"metadata": {"name": "theirs", **theirs}, "spec": spec}

    def script(operator: Operator) -> None:
        operator.at(8, operator.switch("stop"))
        operator.at(9, operator.drain())
        operator.at(10, operator.switch("run"))
        store: Any = operator.world.cluster._store
        operator.at(11, lambda: store.create(resources.NODE_CLAIMS, foreign))
        operator.at(11.5, operator.drain())

    operator, _ = played(script)
    stopped, beside = (document["hindrances"] for document, _ in operator.answers)
    assert "resume" in stopped[0]
    assert "NodeClaims" in beside[0]
    assert len(operator.left()["instances"]) == 3
    assert [item["state"] for item in operator.answers[-1][0]["items"]] == ["running"] * 3
