"""One scenario: what a test does to the world, waits for, and has judged at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from core import labels
from lambdas.ports import JsonObject
from tests.e2e.functions.sandbox import OK, Invocation
from tests.e2e.judge import Elsewhere, Verdict, judge
from tests.e2e.latency import seconds_to_launch
from tests.e2e.parts.admin import until
from tests.e2e.report import Report
from tests.e2e.world import World

SECONDS: Final = 60.0
"""What a scenario waits for at most, unless it says more."""


class Play:
    """A scenario being played.

    Attributes:
        violations: What must never be; tests add their own.
        forgiven: Outcomes of functions that this scenario brings about on purpose, as `function outcome`.
        elsewhere: Pods that are not where they were planned, after the judging.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.violations: list[str] = []
        self.forgiven: set[str] = set()
        self.elsewhere: list[Elsewhere] = []
        self.verdict: Verdict | None = None
        self._began = len(world.functions.invocations)
        self._ignored: set[str] = set()

    def apply(self, *objects: JsonObject) -> None:
        """Apply manifests; namespaces that they name are made."""
        known = {found["metadata"]["name"] for found in self.world.admin.list("namespaces")}
        named = {found["metadata"].get("namespace") or "default" for found in objects}
        spaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(named - known)
        ]
        self.world.admin.apply([*spaces, *objects])

    def apply_file(self, path: Path) -> None:
        """Apply what a file holds."""
        self.apply(*[found for found in yaml.safe_load_all(path.read_text()) if found])

    def ready(self, *pools: str) -> None:
        """Have `reconcile` look at the new objects now, and wait until these NodePools say that they can be used."""
        self.world.wake("reconcile")
        self.wait(lambda: all(self._is_ready(pool) for pool in pools), f"NodePools ready: {', '.join(pools)}")

    def scale(self, namespace: str, name: str, replicas: int) -> None:
        """Scale a Deployment."""
        self.world.admin.patch("deployments.apps", name, {"spec": {"replicas": replicas}}, namespace)

    def wait(self, check: Callable[[], Any], what: str, seconds: float = SECONDS) -> None:
        """Wait until `check` gives something true. Raises TimeoutError."""
        until(check, seconds=seconds, what=f"{self.name}: {what}")

    def wait_until_running(self, pods: int, seconds: float = SECONDS) -> None:
        """Wait until so many pods run, daemons not counted, and none is pending."""
        self.wait(lambda: self._running() == (pods, 0), f"{pods} pods running", seconds)

    def wait_until_settled(self, seconds: float = SECONDS) -> None:
        """Wait until no claim and no command has a next step."""
        self.wait(self._is_settled, "every claim rests", seconds)

    def pods(self, namespace: str = "") -> list[JsonObject]:
        """The pods."""
        return self.world.admin.list("pods", namespace)

    def nodes(self) -> list[JsonObject]:
        """The nodes that are not being deleted."""
        return [node for node in self.world.admin.list("nodes") if "deletionTimestamp" not in node["metadata"]]

    def invocations(self, function: str = "") -> list[Invocation]:
        """What ran since the scenario began, of one function or of all."""
        mine = self.world.functions.invocations[self._began :]
        return [invocation for invocation in mine if function in ("", invocation.function)]

    def ignore(self, pods: Iterable[str]) -> None:
        """These pods (`namespace/name`) are not meant to run."""
        self._ignored |= set(pods)

    def finish(self) -> Verdict:
        """Judge the scenario."""
        self.world.planned.look()
        pods = [
            pod
            for pod in self.pods()
            if f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" not in self._ignored
        ]
        verdict, self.elsewhere = judge(self.name, pods, self.nodes(), self.world.planned)
        verdict.violations = [*self.violations, *self._failures(), *self._orphans()]
        self.verdict = verdict
        return verdict

    def _running(self) -> tuple[int, int]:
        verdict, _ = judge(self.name, self.pods(), (), self.world.planned)
        return verdict.pods - verdict.pending, verdict.pending - len(self._ignored)

    def _is_ready(self, pool: str) -> bool:
        found = self.world.admin.get("nodepools.karpenter.sh", pool) or {}
        conditions = found.get("status", {}).get("conditions", [])
        return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)

    def _is_settled(self) -> bool:
        self.world.planned.look()
        claims = self.world.planned.current()
        return all(record.is_resting for record in claims) and not self.world.commands()

    def _failures(self) -> Iterator[str]:
        """Invocations that did not end well, and what broke in the parts themselves."""
        for invocation in self.invocations():
            if invocation.outcome != OK and f"{invocation.function} {invocation.outcome}" not in self.forgiven:
                yield f"{invocation.function} ({invocation.trigger}): {invocation.outcome}: {str(invocation.response)[:300]}"
        yield from self.world.cloud.http.failures
        yield from map(repr, self.world.cloud.clock.failures)

    def _orphans(self) -> Iterator[str]:
        """Instances without a claim, claims without an instance, and more than one instance for a claim."""
        claims = {record.instance_id: record.name for record in self.world.planned.current() if record.instance_id}
        with self.world.cloud.clock.lock:
            alive = [instance for instance in self.world.cloud.instances.all() if instance.is_alive]
        for instance in alive:
            if instance.id not in claims:
                yield f"instance {instance.id} has no claim"
        for found in sorted(claims.keys() - {instance.id for instance in alive}):
            yield f"claim {claims[found]} has no instance"
        names = [instance.tags.get(labels.NODECLAIM, "") for instance in alive]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"claim {name} has {names.count(name)} instances"


@contextmanager
def play(world: World, report: Report, name: str, *, audit: bool = True) -> Iterator[Play]:
    """Play a scenario, with the audit trigger or by polling alone; it is judged and reported at the end of the block."""
    world.audit.turn(on=audit)
    playing = Play(world, name)
    began = time.monotonic()
    try:
        yield playing
        playing.wait_until_settled()
        report.scenarios.append(playing.finish())
        world.book.read()
        latencies = seconds_to_launch(world.planned.launches.values(), world.book.pods_created)
        (report.audit if audit else report.poll).extend(latencies)
    finally:
        world.reset()
        print(f"{name}: {time.monotonic() - began:.1f} s, {msgspec.to_builtins(playing.verdict)}")


def assert_lawful(verdict: Verdict | None, *, elsewhere: Sequence[Elsewhere] = ()) -> None:
    """Nothing pending, nothing empty, no violation."""
    assert verdict is not None
    assert verdict.violations == []
    assert (verdict.pending, verdict.empty_nodes) == (0, 0), elsewhere
