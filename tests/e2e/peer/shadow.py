"""`python -m tests.e2e.peer.shadow`: our functions look on, with no right to act, while Karpenter's own controller works.

Karpenter launches and consolidates with its kwok provider on a real control plane while a workload shrinks and grows. Beside
it `provision` and `disrupt` run with `mode: shadow`, each with the ClusterRole of such an installation: the API server itself
says that they may do nothing else, and refuses what is tried. Then the command line answers from what they recorded. To the
functions kwok's node class looks like an EC2NodeClass; the market is the one that Karpenter has.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import boto3

from adapters.ports import DeniedError, PortError
from cli.__main__ import main as command_line
from core import labels
from core.api.crds import definitions
from core.api.objects import JsonObject
from core.model.catalogue import Catalogue, InstanceType
from installation.cluster_roles import SHADOW_RULES_OF
from simulator.aws.installation import builtin_region
from tests.e2e.audit_record import AuditRecord
from tests.e2e.cloud.server import ZONES, in_zones
from tests.e2e.parts import builds
from tests.e2e.parts.admin import Admin
from tests.e2e.parts.processes import PartError
from tests.e2e.peer import objects
from tests.e2e.peer.karpenter_side import KarpenterSide
from tests.e2e.peer.objects import Prices
from tests.e2e.peer.shadow_function import GROUP, ShadowFunction, install
from tests.e2e.play import save
from tests.e2e.scenarios import examples
from tests.e2e.scenarios.objects import namespace, node_class
from tests.fakes.lab import SETTINGS, aws

BUILD: Final = Path(__file__).parents[3] / "build"
LACKING: Final = 2
REPLICAS, DEPLOYMENTS = 6, 10
SECONDS: Final = 600.0
"""How long anything may take on a machine that does other things, too."""

PERIODS: Final = {"provision": 10.0, "disrupt": 20.0}
"""As often as deployed while pods wait; `disrupt` three times as often, so that the scene is short."""

QUIET: Final = 60.0
READY: Final = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-11-20T00:00:00Z"}
DOLLARS_OFF_MAX: Final = 0.15
"""Between what the report counts from snapshots and what is counted here each second, in a play of minutes."""


class Scene:
    """Karpenter's cluster, and the two functions that look on."""

    def __init__(self, side: KarpenterSide, session: boto3.Session) -> None:
        self.side = side
        market = _market()
        self.functions = [ShadowFunction(name, side, session, Catalogue(default=market)) for name in PERIODS]
        self.record = AuditRecord(side.control_plane.audit_log, frozenset({GROUP}))
        self.nano_dollars = 0.0
        self._prices = Prices(market)
        self._due = dict.fromkeys(PERIODS, 0.0)
        self._seen_at = time.monotonic()

    def watch(self, until: Callable[[], bool], what: str, *, at_least: float = 0.0) -> None:
        """Let the functions look on until something is so. Raises TimeoutError."""
        begun = time.monotonic()
        while time.monotonic() < begun + at_least or not until():
            if time.monotonic() > begun + SECONDS:
                raise TimeoutError(f"not within {SECONDS:g} s: {what}")
            self._look()
            time.sleep(0.5)
        _tell(f"{what}: {len(self.nodes())} nodes, {self.running()} pods run")

    def nodes(self) -> list[JsonObject]:
        """Karpenter's nodes."""
        return self.side.admin.list("nodes", labels=labels.NODEPOOL)

    def running(self) -> int:
        """How many of the workload's pods run."""
        pods = self.side.admin.list("pods", objects.NAMESPACE)
        return sum(pod.get("status", {}).get("phase") == "Running" for pod in pods)

    def scale(self, deployments: Iterable[JsonObject], replicas: int) -> None:
        """Scale some of the workload."""
        for one in deployments:
            body = {"spec": {"replicas": replicas}}
            self.side.admin.patch("deployments.apps", one["metadata"]["name"], body, objects.NAMESPACE)

    def _look(self) -> None:
        now = time.monotonic()
        self.nano_dollars += self._prices.per_hour(self.nodes()) * (now - self._seen_at) / 3600
        self._seen_at = now
        for function in self.functions:
            if now >= self._due[function.name]:
                self._due[function.name] = now + PERIODS[function.name]
                function.run()


def main() -> int:
    """Exit code 2: a tool is missing; 1: a part did not come up, or something did not go as it must."""
    if lacking := builds.missing():
        print("Karpenter and the real parts cannot be had here:", *lacking, sep="\n  ", file=sys.stderr)
        return LACKING
    folder = BUILD / "e2e-shadow" / str(os.getpid())
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with KarpenterSide(folder) as side, aws() as session:
            session.client("s3").create_bucket(Bucket=SETTINGS.bucket_name)
            _prepare(side)
            scene = Scene(side, session)
            _play(scene)
            _only_lists(scene)
            for function in scene.functions:
                _may_only_list(function)
                _is_refused(function.admin, scene)
            save(session.client("s3"), SETTINGS.bucket_name, folder / "ledger")
            failures = side.failures()
            assert not failures, failures
        _ask(folder / "ledger", scene.nano_dollars / 1e9)
    except (PartError, PortError, TimeoutError, AssertionError) as error:
        print(f"FAILED: {error!r}", file=sys.stderr)
        return 1
    return 0


def _prepare(side: KarpenterSide) -> None:
    own = [one for one in definitions() if one["spec"]["names"]["kind"] == "EC2NodeClass"]
    side.admin.apply([*own, namespace(objects.NAMESPACE)])
    side.admin.apply([node_class()])
    zones = in_zones(builtin_region(), ZONES).zone_ids
    status = {
        "amis": [{"id": "ami-1", "name": "al2023", "requirements": []}],
        "subnets": [{"id": f"subnet-{zone[-1]}", "zone": zone, "zoneID": found} for zone, found in zones.items()],
        "securityGroups": [{"id": "sg-1"}],
        "conditions": [{**READY, "message": ""}],
    }
    side.admin.patch("ec2nodeclasses.karpenter.k8s.aws", objects.NODE_CLASS, {"status": status}, subresource="status")
    install(side.admin)
    side.apply_pools(objects.pools())
    for pool in objects.pools():
        side.admin.patch("nodepools.karpenter.sh", pool["metadata"]["name"], objects.consolidating())


def _play(scene: Scene) -> None:
    """A workload comes, half of it goes, Karpenter consolidates, and it comes again."""
    workload = examples.workload(objects.NAMESPACE, REPLICAS, DEPLOYMENTS)
    pods, half = REPLICAS * DEPLOYMENTS, workload[::2]
    scene.side.admin.apply(workload)
    scene.watch(lambda: scene.running() == pods, "the workload runs")
    scene.watch(lambda: True, "a quiet minute", at_least=QUIET)
    before = {node["metadata"]["uid"] for node in scene.nodes()}
    scene.scale(half, 0)
    scene.watch(lambda: scene.running() <= pods - REPLICAS * len(half), "half of it has gone")
    scene.watch(lambda: bool(before - {node["metadata"]["uid"] for node in scene.nodes()}), "Karpenter lets nodes go")
    scene.watch(lambda: True, "a quiet minute", at_least=QUIET)
    scene.scale(half, REPLICAS)
    scene.watch(lambda: scene.running() == pods, "all of it runs again")
    scene.watch(lambda: True, "a quiet minute", at_least=QUIET)


def _only_lists(scene: Scene) -> None:
    """By the API server's own record."""
    scene.record.read()
    assert scene.record.used, "the functions asked nothing"
    assert {found.verb for found in scene.record.used} <= {"list", "watch"}, scene.record.used
    assert not scene.record.refused, scene.record.refused
    kinds = sorted({found.resource for found in scene.record.used})
    _tell(f"the functions listed {', '.join(kinds)}, {sum(scene.record.used.values())} times in all, and nothing else")


def _may_only_list(function: ShadowFunction) -> None:
    """The server is asked what it would allow: lists, and what every service account may, with 1.37 trust bundles, too."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    asked = {**review, "spec": {"namespace": objects.NAMESPACE}}
    status = function.admin.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", asked)["status"]
    assert not status.get("incomplete"), status
    for_everyone = {"authorization.k8s.io", "authentication.k8s.io", "certificates.k8s.io"}
    rules = [rule for rule in status["resourceRules"] if not for_everyone.issuperset(rule["apiGroups"])]
    assert len(rules) == len(SHADOW_RULES_OF[function.name]), rules
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list", "watch"}, rules
    assert {verb for rule in status["nonResourceRules"] for verb in rule["verbs"]} == {"get"}, status


def _is_refused(admin: Admin, scene: Scene) -> None:
    """What an installation that acts does is tried with the function's own token."""
    pod = next(iter(scene.side.admin.some("pods", 1, objects.NAMESPACE)))["metadata"]["name"]
    node, taint = scene.nodes()[0]["metadata"]["name"], {"spec": {"taints": []}}
    claim = scene.side.admin.list("nodeclaims.karpenter.sh")[0]
    pool = objects.pools()[0]["metadata"]["name"]
    attempts: dict[str, Callable[[], object]] = {
        "evict a pod": lambda: admin.evict(objects.NAMESPACE, pod),
        "delete a pod": lambda: admin.delete("pods", pod, objects.NAMESPACE),
        "taint a node": lambda: admin.patch("nodes", node, taint),
        "delete a node": lambda: admin.delete("nodes", node),
        "delete a NodeClaim": lambda: admin.delete("nodeclaims.karpenter.sh", claim["metadata"]["name"]),
        "change a NodePool": lambda: admin.patch("nodepools.karpenter.sh", pool, objects.consolidating()),
        "write a NodePool's status": lambda: admin.patch(
            "nodepools.karpenter.sh", pool, {"status": {}}, subresource="status"
        ),
        "read secrets": lambda: admin.list("secrets", objects.NAMESPACE),
    }
    for what, attempt in attempts.items():
        try:
            attempt()
        except DeniedError:
            continue
        raise AssertionError(f"the API server let a shadow {what}")
    _tell(f"refused by the API server: {', '.join(attempts)}")


def _ask(ledger: Path, dollars: float) -> None:
    """The command line answers from the record, repeats it byte for byte, and counts what was counted here."""
    log = json.loads(_answer("log", "--ledger", str(ledger), "-o", "json"))
    assert {entry["state"] for entry in log["entries"]} == {"observed"}, log
    assert {entry["function"] for entry in log["entries"]} == set(PERIODS), log
    replayed = json.loads(_answer("replay", "--ledger", str(ledger), "-o", "json"))
    assert replayed["equal"] == replayed["decisions"] > 0, replayed
    report = json.loads(_answer("shadow", "report", "--ledger", str(ledger), "-o", "json"))
    print(_answer("shadow", "report", "--ledger", str(ledger)))
    assert report["violations"] == [], report["violations"]
    did = report["recorded"]
    assert did["nodesLaunched"] > 0, did
    assert did["evictions"] > 0, "Karpenter's own consolidation is not seen as such"
    assert abs(did["dollars"] - dollars) <= DOLLARS_OFF_MAX * dollars, (did["dollars"], dollars)
    _tell(f"{replayed['equal']} of {replayed['decisions']} decisions are the same, byte for byte")
    _tell(f"Karpenter's nodes cost ${did['dollars']:.4f} by the record, ${dollars:.4f} by the clock here")


def _answer(*words: str) -> str:
    """What a command prints. Raises AssertionError where it fails."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = command_line(list(words))
    assert code == 0, (words, code)
    return said.getvalue()


def _market() -> tuple[InstanceType, ...]:
    """The types that Karpenter is given."""
    pool = objects.admitted(objects.pools()[0])
    return tuple(one for one in in_zones(builtin_region(), ZONES).types if one.requirements().compatible(pool))


def _tell(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
