"""Scenes played together in one world: each in its own namespaces and NodePools, each judged for itself."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from adapters.ports import JsonObject, PortError
from core import labels
from core.ledger.reading import PREFIX
from core.lifecycle.launching import is_unnamed
from simulator.aws.ec2.instances import Instance
from tests.e2e.functions.sandbox import OK, Invocation
from tests.e2e.judge import Elsewhere, Verdict, empty_nodes, judge, launched_when_woken
from tests.e2e.parts.admin import until
from tests.e2e.report import Report, seconds_to_launch
from tests.e2e.scenarios.objects import is_ready
from tests.e2e.world import World
from tests.replay import replayed

SECONDS: Final = 600.0
"""What a scene waits for one thing at most: what happens ends a wait, and this only one that has no end."""

POLL_INTERVAL: Final = 1.0
RESTS: Final = 2.0
"""So many times as long as it looked: a thousand pods are a large answer, and those who work need the cores."""

NODE_POOLS: Final = "nodepools.karpenter.sh"


class Play:
    """A scene being played.

    Attributes:
        world: What it is played on, together with others.
        forgiven: Outcomes of functions that it brings about on purpose, as `function outcome`.
        violations: What must never be; the scene adds what it finds.
        trigger: Whose latency it shows.
    """

    def __init__(self, world: World, name: str, trigger: str) -> None:
        self.world = world
        self.name = name
        self.trigger = trigger
        self.forgiven: set[str] = set()
        self.violations: list[str] = []
        self._namespaces: set[str] = set()
        self._pools: set[str] = set()
        self._ignored: set[str] = set()
        self._unmeasured: set[str] = set()
        self._ran: Verdict | None = None

    def apply(self, *objects: JsonObject) -> None:
        """Apply manifests; namespaces that they name are made, and they and the NodePools are this scene's from now on."""
        known = {found["metadata"]["name"] for found in self.world.admin.list("namespaces")}
        named = {found["metadata"]["namespace"] for found in objects if "namespace" in found["metadata"]}
        spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in named - known]
        self._namespaces |= named - {"kube-system"}
        self._pools |= {found["metadata"]["name"] for found in objects if found["kind"] == "NodePool"}
        self.world.admin.apply([*spaces, *objects])

    def apply_file(self, path: Path) -> None:
        """Apply what a file holds."""
        self.apply(*[found for found in yaml.safe_load_all(path.read_text()) if found])

    def ready(self) -> None:
        """Have `reconcile` observe the new objects now, and wait until this scene's NodePools say that they can be used."""
        self.world.wake("reconcile")
        pools = sorted(self._pools)
        self.wait(lambda: all(is_ready(self.world.admin.get(NODE_POOLS, pool)) for pool in pools), "NodePools ready")

    def scale(self, namespace: str, name: str, replicas: int) -> None:
        """Scale a Deployment."""
        self.world.admin.patch("deployments.apps", name, {"spec": {"replicas": replicas}}, namespace)

    def wait(self, check: Callable[[], Any], what: str) -> None:
        """Wait until `check` gives something true, also while the API server is away. Raises TimeoutError."""
        what = f"{self.name}: {what}"
        until(check, seconds=SECONDS, what=what, forgive=(PortError,), every=POLL_INTERVAL, rests=RESTS)

    def wait_until_running(self, pods: int) -> None:
        """Wait until this many pods run, daemons not counted, and none is pending."""
        self.wait(lambda: not self._waiting() and self._counts() == (pods, 0), f"{pods} pods running")
        self._ran = until(self.judge, seconds=SECONDS, what=self.name, forgive=(PortError,))[0]

    def wait_until_settled(self) -> None:
        """Wait until no claim of this scene has a next step, no command any, and no pod waits.

        A pod that was evicted for a command may still wait for kube-scheduler when the last claim rests.
        """
        self.wait(lambda: self._is_settled() and not self._waiting(), "every claim rests and no pod waits")

    def wait_until_none_is_empty(self) -> None:
        """Wait until each node has a pod: kube-scheduler may have left one without."""
        suspects: list[str] = []

        def none() -> bool:
            if any(self._is_empty(name) for name in suspects):
                return False
            suspects[:] = empty_nodes(self.nodes(), self.pods())
            return not suspects

        self.wait(none, "no node is empty")

    def pods(self) -> list[JsonObject]:
        """The scene's pods that are meant to run."""
        found = [pod for name in sorted(self._namespaces) for pod in self.world.admin.list("pods", name)]
        return [
            pod for pod in found if f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" not in self._ignored
        ]

    def nodes(self) -> list[JsonObject]:
        """The nodes of the scene's NodePools that are not being deleted."""
        return [
            node
            for node in self.world.admin.list("nodes")
            if node["metadata"]["labels"].get(labels.NODEPOOL) in self._pools
            and "deletionTimestamp" not in node["metadata"]
        ]

    def claims(self) -> list[Any]:
        """The scene's claims as the table has them."""
        return [record for record in self.world.planned.current() if record.plan.node_pool in self._pools]

    def ignore(self, *pods: str) -> None:
        """These pods (`namespace/name`) are not meant to run."""
        self._ignored |= set(pods)

    def leave_unmeasured(self, *prefixes: str) -> None:
        """Pods whose key begins like this wait for something else than the trigger; they are no sample of its latency."""
        self._unmeasured |= set(prefixes)

    def judge(self) -> tuple[Verdict, list[Elsewhere]]:
        """Return the present state of the scene."""
        self.world.planned.read_table()
        verdict, elsewhere = judge(self.name, self.pods(), self.nodes(), self.world.planned)
        if not verdict.pods and self._ran is not None:  # a scene that ends with nothing: what came of its pods counts
            ran = self._ran
            verdict = msgspec.structs.replace(ran, pending=0, empty_nodes=verdict.empty_nodes)
        verdict.planned_price, verdict.price = self._prices()
        verdict.violations = [*self.violations, *self._orphans()]
        return verdict, elsewhere

    def latencies(self) -> list[float]:
        """Seconds from each pod's creation to the launch that was for it."""
        mine = [
            launch
            for launch in self.world.planned.launches.values()
            if any(pod.partition("/")[0] in self._namespaces for pod in launch.pods)
        ]
        created = self.world.audit_record.pods_created
        measured = {pod: at for pod, at in created.items() if not pod.startswith(tuple(self._unmeasured))}
        return seconds_to_launch(mine, measured)

    def _waiting(self) -> bool:
        """Whether any of its pods waits; a small question, as the judge's is not."""
        waiting = [
            f"{name}/{pod['metadata']['name']}"
            for name in sorted(self._namespaces)
            for pod in self.world.admin.some("pods", len(self._ignored) + 1, name, fields="status.phase=Pending")
        ]
        return bool(set(waiting) - self._ignored)

    def _is_empty(self, name: str) -> bool:
        """Whether the node is there and has no pod; a small question too."""
        node = self.world.admin.get("nodes", name)
        if node is None or "deletionTimestamp" in node["metadata"]:
            return False
        return bool(empty_nodes([node], self.world.admin.list("pods", fields=f"spec.nodeName={name}")))

    def _counts(self) -> tuple[int, int]:
        verdict, _ = judge(self.name, self.pods(), (), self.world.planned)
        return verdict.pods - verdict.pending, verdict.pending

    def _is_settled(self) -> bool:
        return all(record.is_settled for record in self.claims()) and not self.world.commands()

    def _alive(self) -> list[Instance]:
        """The instances of the scene's NodePools that EC2 takes money for."""
        with self.world.cloud.clock.lock:
            return [
                instance
                for instance in self.world.cloud.instances.all()
                if instance.is_alive and instance.tags.get(labels.NODEPOOL) in self._pools
            ]

    def _prices(self) -> tuple[int, int]:
        """What the running instances cost by their claims' plans, and by EC2; nano-dollars per hour."""
        planned = {record.instance_id: record.plan.price for record in self.claims()}
        running = self._alive()
        return sum(planned.get(instance.id, 0) for instance in running), sum(instance.price for instance in running)

    def _orphans(self) -> Iterator[str]:
        """Instances without a claim, claims without an instance, and more than one instance for a claim."""
        claims = {record.instance_id: record.name for record in self.claims() if record.instance_id}
        alive = self._alive()
        for instance in alive:
            if instance.id not in claims:
                yield f"instance {instance.id} has no claim"
        for pod, one, other in self.world.planned.doubles():
            if pod.partition("/")[0] in self._namespaces:
                yield f"pod {pod} was planned for {one} and for {other} at once"
        for found in sorted(claims.keys() - {instance.id for instance in alive}):
            yield f"claim {claims[found]} has no instance"
        names = [instance.tags.get(labels.NODECLAIM, "") for instance in alive if not is_unnamed(instance.tags)]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"claim {name} has {names.count(name)} instances"


Scene = Callable[[Play], None]


@dataclass
class Outcome:
    """What came of a scene; `error` is what stopped it, `woken` its claims that were launched once the audit log had told."""

    verdict: Verdict | None = None
    elsewhere: list[Elsewhere] = field(default_factory=list)
    error: Exception | None = None
    seconds: float = 0.0
    woken: list[str] = field(default_factory=list)

    def assert_lawful(self) -> None:
        """It came to its end, nothing is pending, nothing empty, and nothing was that must not be."""
        if self.verdict is not None:
            # First: a second run is given to what took too long, not to these.
            assert not self.verdict.violations, "\n".join(self.verdict.violations)
        if self.error is not None:
            raise self.error
        assert self.verdict is not None
        assert (self.verdict.pending, self.verdict.empty_nodes) == (0, 0)
        assert self.verdict.price == self.verdict.planned_price, "EC2 takes another price than the plans have"

    def assert_as_planned(self) -> None:
        """At least half of its pods are where they were planned: the rest may have found room that the scheduler had left."""
        assert self.verdict is not None
        found = self.verdict
        assert 2 * found.bound_as_planned >= found.pods, f"{found.bound_as_planned} of {found.pods} bound as planned"

    def assert_woken(self) -> None:
        """At least one of its launches was brought about by the audit log: all others the schedule may have made."""
        assert self.woken, "no launch follows a wake-up of the audit log"


def play_together(
    world: World, report: Report, scenes: Mapping[str, Scene], *, audit: bool = True
) -> dict[str, Outcome]:
    """Play scenes at once in a clean world, with the audit trigger or by polling alone."""
    world.clean()
    world.audit.turn(on=audit)
    began = len(world.functions.invocations)
    outcomes = {name: Outcome() for name in scenes}
    plays = {name: Play(world, name, "audit" if audit else "poll") for name in scenes}
    threads = [
        threading.Thread(target=_play, args=(plays[name], scene, outcomes[name]), daemon=True)
        for name, scene in scenes.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.read_audit_record()
    forgiven = {one for playing in plays.values() for one in playing.forgiven}
    invocations = world.functions.invocations[began:]
    failures = list(_failures(world, invocations, forgiven))
    woken = launched_when_woken(invocations)
    for name, playing in plays.items():
        verdict = outcomes[name].verdict
        if verdict is not None:
            verdict.violations += failures
            report.scenarios.append(verdict)
        outcomes[name].woken = sorted(woken & {record.name for record in playing.claims()})
        report.take_latencies(playing.trigger, playing.latencies())
        report.elsewhere[name] = outcomes[name].elsewhere
        report.take_moments(playing.claims())
        report.seconds[name] = round(outcomes[name].seconds, 1)
        print(f"{name}: {outcomes[name].seconds:.1f} s, {verdict}, {outcomes[name].error!r}")
    return outcomes


def _play(playing: Play, scene: Scene, outcome: Outcome) -> None:
    began = time.monotonic()
    try:
        scene(playing)
        playing.wait_until_settled()
    except Exception as error:  # noqa: BLE001 - told by the test of this scene, the others play on
        outcome.error = error
    try:
        what = f"{playing.name}: the API server, for the judge"
        judged = until(playing.judge, seconds=SECONDS, what=what, forgive=(PortError,), every=POLL_INTERVAL)
        outcome.verdict, outcome.elsewhere = judged
    except TimeoutError as error:
        outcome.error = outcome.error or error
    outcome.seconds = time.monotonic() - began


def _failures(world: World, invocations: Iterable[Invocation], forgiven: set[str]) -> Iterator[str]:
    """Invocations that did not end well, and what broke in the parts themselves."""
    for found in invocations:
        if found.outcome != OK and f"{found.function} {found.outcome}" not in forgiven:
            yield f"{found.function} ({found.trigger}): {found.outcome}: {str(found.response)[:300]}"
    yield from world.cloud.http.failures
    yield from map(repr, world.cloud.clock.failures)
    yield from world.kubelets.failures


# The decisions of functions that ran with real parts: read from the bucket, and repeated.


def assert_decisions_repeat(world: World, report: Report) -> None:
    """Repeat every decision of the world's functions in another process, and note how many there were."""
    folder = world.processes.logs / "ledger"
    save(world.cloud.client("s3"), world.cloud.settings.bucket_name, folder)
    found = replayed(sys.executable, folder)
    assert found["equal"] == found["decisions"] > 0, [*found["different"], *found["unreadable"]]
    report.decisions += found["decisions"]


def save(s3: Any, bucket: str, folder: Path) -> None:
    """Write the ledger from the bucket into a folder, as `aws s3 sync` does; `s3` is a client of boto3."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=PREFIX):
        for item in page.get("Contents", ()):
            file = folder / item["Key"].removeprefix(PREFIX)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read())
