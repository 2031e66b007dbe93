"""Nodes change hands between the functions and Karpenter in the embedded world: nothing ends, nothing moves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.ports import DeniedError, LostReplyError
from cli.commands import adopt, release
from cli.takeover import environment
from cli.takeover.environment import adoption_table, release_table
from core import labels
from core.lifecycle.deletion import leaving, tainted
from core.manifests.wire import resources
from core.reasons.code import TerminationReason
from simulator.run import Result
from tests.shown import is_told, shown
from tests.simulation.operated import operated
from tests.simulation.takeover_operator import (
    Operator,
    as_after_karpenter,
    assert_karpenters,
    assert_ours,
)
from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play

SHOWN = {
    "release --cluster prod": release_table,
    "release --cluster prod --yes": release_table,
    "adopt --cluster prod": adoption_table,
    "adopt --cluster prod --yes": adoption_table,
}
RIGHTS = Path(__file__).parents[2] / "docs" / "how-to" / "migrate-from-karpenter.md"


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[Operator, Result]]:
    def playing(
        script: Callable[[Operator], None], pool: dict[str, Any] | None = None, **more: Any
    ) -> tuple[Operator, Result]:
        operators = operated(monkeypatch, Operator, script)
        monkeypatch.setattr(environment, "open_environment", lambda _: operators[0].environment())
        result = play(tmp_path, pool or node_pool(), deployment(3, cpu="12"), **more)
        return operators[0], result

    return playing


def documented(heading: str) -> set[str]:
    """The words in code of the first column, or of both, of the table of rights under a sentence."""
    text = RIGHTS.read_text(encoding="utf-8").partition(heading)[2].lstrip()
    return set(re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\|[^|]*\|", text.partition("\n\n")[0], re.MULTILINE))))


def test_nodes_go_to_karpenter_and_come_back(played: Any) -> None:
    """Both ways, no node is replaced and no pod moves; then consolidation acts on what came back."""
    reserved: list[dict[str, int]] = []
    seen: list[dict[str, Any]] = []

    def script(operator: Operator) -> None:
        operator.at(5, operator.switch("stop"))
        operator.at(6.9, lambda: reserved.append(operator.reserved()))
        operator.at(7, operator.observe_with(release))
        operator.at(7.1, lambda: assert_ours(operator))
        operator.at(7.2, operator.act(release))
        operator.at(7.3, lambda: assert_karpenters(operator))
        operator.at(7.3, lambda: reserved.append(operator.reserved()))
        operator.at(8, operator.switch("run"))
        operator.at(18, lambda: assert_karpenters(operator))
        operator.at(18.1, operator.switch("stop"))
        operator.at(19, lambda: as_after_karpenter(operator))
        operator.at(20, operator.observe_with(adopt))
        operator.at(20.1, lambda: assert_karpenters(operator))
        operator.at(20.2, operator.act(adopt))
        operator.at(20.3, lambda: assert_ours(operator))
        operator.at(20.3, lambda: seen.extend(operator.objects("EC2NodeClass")))
        operator.at(20.3, lambda: reserved.append(operator.reserved()))
        operator.at(20.4, operator.observe_with(adopt))
        operator.at(21, operator.switch("run"))
        operator.at(31, lambda: assert_ours(operator))

    steps = [{"at": "32m", "scale": {"kind": "Deployment", "name": "web", "replicas": 1}}]
    operator, result = played(script, steps=steps, duration="45m")
    every = ("releasable", "released", "adoptable", "adopted", "ours")
    assert [operator.states(answer) for answer in range(5)] == [[state] * 3 for state in every]
    assert [code for _, code in operator.answers] == [0] * 5
    for (answer, _), (command, table) in zip(operator.answers, SHOWN.items(), strict=False):
        printed = table(answer).replace("--cluster fleetwright", "--cluster prod")
        assert is_told(shown("migrate-from-karpenter", command), printed), printed
    assert [found.get("nodes", 0) for found in reserved] == [3, 0, 3]
    assert reserved[0] == reserved[2]
    assert [found["metadata"].get("finalizers") or [] for found in seen] == [[]]
    ended = [*happened(result, "podEvicted"), *happened(result, "instanceTerminated"), *happened(result, "nodeTainted")]
    assert ended
    assert min(event.t for event in ended) > "2026-11-20T00:32:00Z"
    assert (result.summary["nodesLaunched"], result.summary["nodesAtEnd"]) == (3, 1)
    assert_lawful(result)
    assert {"ec2:CreateTags", "ec2:DeleteTags", "dynamodb:TransactWriteItems"} <= operator.called
    assert operator.called - {"dynamodb:TransactWriteItems"} <= {
        name if ":" in name else f"dynamodb:{name}" for name in documented("in AWS:")
    }


def test_what_commands_ask_of_the_cluster_is_documented(played: Any) -> None:
    def script(operator: Operator) -> None:
        operator.at(5, operator.switch("stop"))
        operator.at(7, operator.act(release))
        operator.at(7.5, operator.act(adopt))

    operator, _ = played(script, duration="8m")
    text = RIGHTS.read_text(encoding="utf-8").partition("In the cluster:")[2]
    rows = re.findall(r"^\| ([a-z, ]+) \| (`.*) \|$", text, re.MULTILINE)
    allowed = {
        f"{verb} {plural.partition('.')[0]}{'/status' if '/' in plural else ''}"
        for verbs, plurals in rows
        for verb in verbs.split(", ")
        for plural in re.findall(r"`([^`]+)`", plurals)
    }
    assert operator.asked <= allowed
    assert {"patch nodes", "patch nodeclaims", "patch nodeclaims/status", "list leases"} <= operator.asked


def test_nothing_changes_hands_while_somebody_acts(played: Any) -> None:
    """Otherwise, Karpenter launches for a partly adopted NodeClaim, and our functions exceed a limit."""

    def script(operator: Operator) -> None:
        operator.at(5, operator.act(release))
        operator.at(5.1, operator.switch("stop"))
        operator.at(7, operator.start_karpenter)
        operator.at(7.1, operator.act(release))
        operator.at(7.2, operator.act(adopt))
        operator.at(7.3, lambda: assert_ours(operator))

    operator, result = played(script, duration="8m")
    assert [code for _, code in operator.answers] == [1, 1, 1]
    told = [document["hindrances"] for document, _ in operator.answers]
    assert "fleetwright pause --cluster fleetwright --everything" in told[0][0]
    assert "kubectl -n kube-system scale deployment karpenter --replicas=0" in told[1][0]
    assert told[1] == told[2]
    assert len(operator.claims()) == 3
    assert_lawful(result)


@pytest.mark.parametrize("error", [LostReplyError, DeniedError])
def test_whatever_breaks_the_next_run_goes_on(played: Any, error: Any) -> None:
    """Each run dies at a later call than the one before; rows, limits and marks agree at the end."""
    changing = ("patch", "create", "delete", "ec2:", "dynamodb:")

    def again_and_again(operator: Operator, command: Any) -> None:
        for allowed in range(60):
            left = [allowed]

            def breaks(call: str, left: list[int] = left) -> None:
                if call.startswith(changing):
                    left[0] -= 1
                    if left[0] == -1:
                        raise error(call, "broken")

            operator.breaks = breaks
            operator.run(command, "--yes")
            operator.breaks = lambda _: None
            if operator.answers[-1][1] == 0:
                return

    def script(operator: Operator) -> None:
        operator.at(5, operator.switch("stop"))
        operator.at(7, lambda: again_and_again(operator, release))
        operator.at(7.1, lambda: assert_karpenters(operator))
        operator.at(7.2, lambda: again_and_again(operator, adopt))
        operator.at(7.3, lambda: assert_ours(operator))
        operator.at(7.4, operator.switch("run"))
        operator.at(15, lambda: assert_ours(operator))

    operator, result = played(script, duration="16m")
    codes = [code for _, code in operator.answers]
    assert codes.count(0) == 2
    assert codes.count(1) > 4
    assert operator.reserved()["nodes"] == 3
    failed = [item for document, _ in operator.answers for item in document["items"] if item["state"] == "failed"]
    assert failed
    assert all("run this again" in item["message"] for item in failed)
    assert result.summary["nodesTerminated"] == 0
    assert_lawful(result)


def test_limits_count_what_was_adopted(played: Any) -> None:
    """Three nodes are allowed and three exist: no fourth, whether Karpenter or we launched them."""

    def script(operator: Operator) -> None:
        operator.at(5, operator.switch("stop"))
        operator.at(7, operator.act(release))
        operator.at(7.5, operator.act(adopt))
        operator.at(8, operator.switch("run"))

    steps = [{"at": "9m", "scale": {"kind": "Deployment", "name": "web", "replicas": 5}}]
    operator, result = played(script, node_pool(limits={"nodes": 3}), steps=steps, duration="15m")
    assert operator.reserved()["nodes"] == 3
    assert (result.summary["nodesLaunched"], result.summary["podsPending"]) == (3, 2)
    assert result.summary["limitViolations"] == 0
    assert_lawful(result)


def test_a_rollout_goes_on_under_the_other(played: Any) -> None:
    """A node that has drifted stays drifted both ways, and no other becomes so."""
    spec = node_pool()["spec"]
    closed = {**spec["disruption"], "budgets": [{"nodes": "0"}]}
    changed = node_pool(disruption=closed)
    changed["spec"]["template"]["metadata"] = {"labels": {"team": "a"}}
    drifted: list[list[str]] = []

    def script(operator: Operator) -> None:
        def conditions() -> None:
            found = [obj["status"]["conditions"] for obj in operator.objects("NodeClaim")]
            drifted.append(
                [c["reason"] for told in found for c in told if (c["type"], c["status"]) == ("Drifted", "True")]
            )

        operator.at(6, operator.switch("stop"))
        operator.at(8, operator.act(release))
        operator.at(8.1, conditions)
        operator.at(8.5, operator.observe_with(adopt))
        operator.at(9, operator.act(adopt))
        operator.at(10, operator.switch("run"))
        operator.at(19, conditions)

    steps = [{"at": "5m", "apply": [changed]}]
    operator, result = played(script, node_pool(disruption=closed), steps=steps, duration="20m")
    assert drifted == [["NodePoolDrifted"] * 3] * 2
    assert [item["drift"] for item in operator.answers[1][0]["items"]] == ["NodePoolDrifted"] * 3
    assert named(result, "instanceTerminated") == []
    assert_lawful(result)


def test_a_drain_that_has_begun_is_called_off(played: Any) -> None:
    """Karpenter decides again: its node takes pods, and its NodeClaim is not marked for disruption."""

    def script(operator: Operator) -> None:
        def begin() -> None:
            claims = operator.environment().stores.claims
            record = claims.all()[0]
            going = leaving(record, TerminationReason.UNDERUTILIZED, "m", operator.world.clock.now())
            claims.change(record, tainted(going, operator.world.clock.now()))
            operator.store.patch(
                resources.NODES,
                record.node_name,
                {
                    "metadata": {"labels": {labels.EXCLUDE_FROM_BALANCERS: "karpenter"}},
                    "spec": {"taints": [{"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}]},
                },
            )

        operator.at(5, operator.switch("stop"))
        operator.at(7, begin)
        operator.at(7.5, operator.act(release))
        operator.at(7.6, lambda: assert_karpenters(operator))

    operator, result = played(script, duration="8m")
    assert operator.states(0) == ["released"] * 3
    assert operator.reserved().get("nodes", 0) == 0
    told = {c["type"] for obj in operator.objects("NodeClaim") for c in obj["status"]["conditions"]}
    assert not {"DisruptionReason", "Drained"} & told
    assert all(labels.EXCLUDE_FROM_BALANCERS not in node["metadata"]["labels"] for node in operator.objects("Node"))
    assert named(result, "podEvicted") == []


def test_what_cannot_change_hands_says_why(played: Any) -> None:
    """An instance of Karpenter's without a NodeClaim, a NodeClaim that is being deleted: the others go on."""

    def script(operator: Operator) -> None:
        def lose_and_delete() -> None:
            first, second, _ = operator.objects("NodeClaim")
            operator.store.delete(resources.NODE_CLAIMS, second["metadata"]["name"])
            name = first["metadata"]["name"]
            operator.store.patch(resources.NODE_CLAIMS, name, {"metadata": {"finalizers": None, "ownerReferences": []}})
            operator.store.delete(resources.NODE_CLAIMS, name)

        operator.at(5, operator.switch("stop"))
        operator.at(7, operator.act(release))
        operator.at(7.5, lose_and_delete)
        operator.at(8, operator.act(adopt))

    operator, _ = played(script, duration="9m")
    document, code = operator.answers[-1]
    assert code == 1
    assert sorted((item["state"], item["reason"]) for item in document["items"]) == [
        ("adopted", ""),
        ("refused", "BeingDeleted"),
        ("refused", "NoNodeClaim"),
    ]
    assert len(operator.claims()) == 1
