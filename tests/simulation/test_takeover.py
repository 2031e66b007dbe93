"""Nodes change hands between the functions and Karpenter in the embedded world: nothing ends, nothing moves."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adapters.aws.dynamodb.table import Cancelled, DynamoTable, Item
from adapters.aws.services import AwsService
from adapters.ports import DeniedError, LostReplyError
from cli.__main__ import main
from cli.schemas.periods import ANSWERS
from cli.takeover import environment
from cli.takeover.environment import TakeoverEnvironment, adoption_table, release_table
from cli.takeover.steps import hand_over
from core import labels
from core.lifecycle.deletion import leaving, tainted
from core.manifests.wire import resources
from core.reasons.code import TerminationReason
from simulator.world import Result, World, run
from tests.shown import is_told, shown
from tests.simulation.karpenter import Karpenter, beside_karpenter
from tests.simulation.operated import WorldOperator, operated
from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play

# A person who hands nodes to Karpenter and takes them back, and what the objects must say afterwards.


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

    def run(self, handover: str, *more: str) -> None:
        """Run `adopt` or `release` as the program does, and keep its answer."""
        arguments = Namespace(
            cluster="fleetwright", region=None, profile=None, stack=None, yes="--yes" in more, output="json"
        )
        self.answer(lambda: hand_over(arguments, handover), handover)

    def observe_with(self, handover: str) -> Callable[[], None]:
        return lambda: self.run(handover)

    def act(self, handover: str) -> Callable[[], None]:
        return lambda: self.run(handover, "--yes")

    def states(self, answer: int) -> list[str]:
        return [item["state"] for item in self.answers[answer][0]["items"]]

    def start_karpenter(self) -> None:
        spec = {"holderIdentity": "karpenter-1", "renewTime": "2030-01-01T00:00:00.000000Z"}
        lease = {"metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"}, "spec": spec}
        self.store.create(resources.LEASES, lease)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        return list(self.world.cluster.objects(kind))

    def instances(self) -> list[Any]:
        return [instance for instance in self.world.account.instances.all() if instance.state == "running"]

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
    ours, theirs = (obj["metadata"].get("annotations") or {} for obj in (claim, other))
    has_all = all(key in annotations for key in keys for annotations in (ours, theirs))
    return has_all and ours[keys[1]] == theirs[keys[1]] and ours[keys[0]] != theirs[keys[0]]


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
        instance = next(instance for instance in operator.instances() if status["providerID"].endswith(instance.id))
        assert instance.tags[labels.NODECLAIM] == name
        assert instance.tags[labels.CLUSTER_TAG] == "fleetwright"
        assert not {labels.CLAIM, labels.NODEPOOL_HASH} & instance.tags.keys()


def assert_ours(operator: Operator) -> None:
    claims, nodes = operator.objects("NodeClaim"), operator.objects("Node")
    assert len(claims) == len(nodes) == len(operator.claims()) == 3
    for obj in (*claims, *nodes):
        assert (obj["metadata"]["finalizers"], owners(obj)) == ([OURS], [])
        assert obj["metadata"]["annotations"][labels.CLAIM] in operator.claims()
    assert {instance.tags[labels.CLAIM] for instance in operator.instances()} == set(operator.claims())


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
        operator.at(7, operator.observe_with("release"))
        operator.at(7.1, lambda: assert_ours(operator))
        operator.at(7.2, operator.act("release"))
        operator.at(7.3, lambda: assert_karpenters(operator))
        operator.at(7.3, lambda: reserved.append(operator.reserved()))
        operator.at(8, operator.switch("run"))
        operator.at(18, lambda: assert_karpenters(operator))
        operator.at(18.1, operator.switch("stop"))
        operator.at(19, lambda: as_after_karpenter(operator))
        operator.at(20, operator.observe_with("adopt"))
        operator.at(20.1, lambda: assert_karpenters(operator))
        operator.at(20.2, operator.act("adopt"))
        operator.at(20.3, lambda: assert_ours(operator))
        operator.at(20.3, lambda: seen.extend(operator.objects("EC2NodeClass")))
        operator.at(20.3, lambda: reserved.append(operator.reserved()))
        operator.at(20.4, operator.observe_with("adopt"))
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
    assert [reservation.get("nodes", 0) for reservation in reserved] == [3, 0, 3]
    assert reserved[0] == reserved[2]
    assert [obj["metadata"].get("finalizers") or [] for obj in seen] == [[]]
    ended = [*happened(result, "podEvicted"), *happened(result, "instanceTerminated"), *happened(result, "nodeTainted")]
    assert ended
    assert min(event.t for event in ended) > "2026-11-20T00:32:00Z"
    assert (result.summary["nodesLaunched"], result.summary["nodesAtEnd"]) == (3, 1)
    assert_lawful(result)
    assert {"ec2:CreateTags", "ec2:DeleteTags", "dynamodb:TransactWriteItems"} <= operator.called
    assert operator.called - {"dynamodb:TransactWriteItems"} <= {
        name if ":" in name else f"dynamodb:{name}" for name in documented("in AWS:")
    }


@pytest.mark.ci
def test_what_commands_ask_of_the_cluster_is_documented(played: Any) -> None:
    def script(operator: Operator) -> None:
        operator.at(5, operator.switch("stop"))
        operator.at(7, operator.act("release"))
        operator.at(7.5, operator.act("adopt"))

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
        operator.at(5, operator.act("release"))
        operator.at(5.1, operator.switch("stop"))
        operator.at(7, operator.start_karpenter)
        operator.at(7.1, operator.act("release"))
        operator.at(7.2, operator.act("adopt"))
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
            calls_left = [allowed]

            def breaks(call: str, calls_left: list[int] = calls_left) -> None:
                if call.startswith(changing):
                    calls_left[0] -= 1
                    if calls_left[0] == -1:
                        raise error(call, "broken")

            operator.breaks = breaks
            operator.run(command, "--yes")
            operator.breaks = lambda _: None
            if operator.answers[-1][1] == 0:
                return

    def script(operator: Operator) -> None:
        operator.at(5, operator.switch("stop"))
        operator.at(7, lambda: again_and_again(operator, "release"))
        operator.at(7.1, lambda: assert_karpenters(operator))
        operator.at(7.2, lambda: again_and_again(operator, "adopt"))
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
        operator.at(7, operator.act("release"))
        operator.at(7.5, operator.act("adopt"))
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
            listed = [obj["status"]["conditions"] for obj in operator.objects("NodeClaim")]
            drifted.append(
                [c["reason"] for told in listed for c in told if (c["type"], c["status"]) == ("Drifted", "True")]
            )

        operator.at(6, operator.switch("stop"))
        operator.at(8, operator.act("release"))
        operator.at(8.1, conditions)
        operator.at(8.5, operator.observe_with("adopt"))
        operator.at(9, operator.act("adopt"))
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
        operator.at(7.5, operator.act("release"))
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
        operator.at(7, operator.act("release"))
        operator.at(7.5, lose_and_delete)
        operator.at(8, operator.act("adopt"))

    operator, _ = played(script, duration="9m")
    document, code = operator.answers[-1]
    assert code == 1
    assert sorted((item["state"], item["reason"]) for item in document["items"]) == [
        ("adopted", ""),
        ("refused", "BeingDeleted"),
        ("refused", "NoNodeClaim"),
    ]
    assert len(operator.claims()) == 1


# A whole cluster beside Karpenter: everything is decided and recorded, nothing is done, and the report plays it forward.


class Site:
    """The world with Karpenter in it, and every call that a function makes."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.karpenter = Karpenter(world)
        self.calls: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        world.account.wire.listen(self._heard)
        world.cluster.api.on_fault_point(self._seen)

    def _heard(self, call: Any, _: Any) -> None:
        self.calls[call.name] += 1

    def _seen(self, call: str, when: str) -> None:
        if when == "before":
            self.asked[call.removeprefix("kube:").partition(" ")[0]] += 1


@pytest.fixture(scope="module")
def played_in_shadow(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result, Site]:
    """Twelve pods of one CPU each get a node of four of their own; most leave, and some come again."""
    folder = tmp_path_factory.mktemp("shadow")
    scenario = beside_karpenter(folder)
    with pytest.MonkeyPatch.context() as patch:
        sites = operated(patch, Site, lambda site: site.karpenter.start())
        result = run(scenario, ledger=folder / "ledger")
    return folder / "ledger", result, sites[0]


@pytest.mark.ci
def test_nothing_but_the_ledger_and_the_catalogue_is_written(played_in_shadow: tuple[Path, Result, Site]) -> None:
    _, result, site = played_in_shadow
    assert set(site.asked) == {"list", "watch"}
    assert {name for name in site.calls if name.startswith(("ec2:", "dynamodb:", "iam:"))} <= {
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribeSpotPriceHistory",
    }
    assert {name.partition(":")[0] for name in site.calls} <= {
        "ec2",
        "pricing",
        "s3",
        "service-quotas",
        "sqs",
        "ssm",
    }
    assert happened(result, "instanceLaunched") == happened(result, "instanceTerminated") == []
    assert {event["function"] for event in named(result, "invocation")} == {"provision", "disrupt", "refresh_catalogue"}
    assert result.failures == ()
    assert len(site.karpenter.launched) >= 12


def test_what_would_be_done_is_recorded_and_repeats(
    played_in_shadow: tuple[Path, Result, Site], capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, _, _ = played_in_shadow
    assert main(["log", "--ledger", str(ledger), "-o", "json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert {entry["state"] for entry in entries} == {"observed"}
    assert {entry["function"] for entry in entries} == {"provision", "disrupt"}
    told = " ".join(entry["what"] for entry in entries)
    consolidated = [entry["time"] for entry in entries if "only observed: replace" in entry["what"]]
    assert min(consolidated) < "2026-11-20T00:10:00", "nothing changes, but consolidateAfter has run out"
    assert "only observed: launch" in told
    assert "only observed: remove karpenter-" in told or "only observed: replace karpenter-" in told
    assert main(["replay", "--ledger", str(ledger)]) == 0


PERIOD = ("--since", "2026-11-20T00:05:00Z", "--until", "2026-11-20T00:42:00Z")


def report(ledger: Path, capsys: pytest.CaptureFixture[str], form: str) -> str:
    capsys.readouterr()
    assert main(["shadow", "report", "--ledger", str(ledger), *PERIOD, "-o", form]) == 0
    return capsys.readouterr().out


def test_the_report_tells_both_sides(
    played_in_shadow: tuple[Path, Result, Site], capsys: pytest.CaptureFixture[str]
) -> None:
    """Karpenter keeps a node for each pod here; ours is far cheaper and moves pods for it, each saving counted once."""
    document = json.loads(report(played_in_shadow[0], capsys, "json"))
    msgspec.convert(document, type=ANSWERS["shadow"])
    did, would, minimum = document["recorded"], document["simulated"], document["provenMinimum"]
    assert document["from"] == "2026-11-20T00:05:00Z"
    # Twelve nodes of 0.20 an hour; eight are empty after 15 minutes and gone five later; six come in the last minute.
    assert did["dollars"] == pytest.approx(0.2 * (12 * 20.5 + 4 * 16.5 + 6) / 60, rel=0.03)
    assert (did["evictions"], did["nodesLaunched"], did["waits"]["withoutPlace"]) == (0, 6, [])
    assert 60 <= did["waits"]["max"] <= 90
    assert document["bootSeconds"] == 50
    assert would["dollars"] < did["dollars"] / 3
    assert would["evictions"] == 12
    assert minimum["dollars"] < minimum["spentMeanwhile"]
    assert minimum["dollars"] / minimum["hours"] <= would["dollars"] / (37 / 60) * 1.1
    assert document["violations"] == []
    assert {difference["what"] for difference in document["worse"]} == {"evictions", "waits"}
    assert document["difference"]["dollars"] == pytest.approx(would["dollars"] - did["dollars"], abs=1e-5)


def test_the_page_shows_such_a_report(
    played_in_shadow: tuple[Path, Result, Site], capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_told(shown("beside-karpenter", "shadow report --since 7d"), report(played_in_shadow[0], capsys, "table"))


@pytest.mark.parametrize("form", ["table", "markdown", "html"])
def test_the_report_is_for_people_too(
    played_in_shadow: tuple[Path, Result, Site], capsys: pytest.CaptureFixture[str], form: str
) -> None:
    text = report(played_in_shadow[0], capsys, form)
    assert "evictions: 12 instead of 0" in text
    assert "the median of the recorded ones" in text
    assert text.startswith("<!doctype html>") == (form == "html")
