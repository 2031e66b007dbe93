"""Users' mistakes: each gives a clear error in the function's log and metric, and nothing is left unfinished."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adapters.ports import JsonObject, NotFoundError
from core.api import crds
from installation.metric_names import FAILED_SWEEPS
from installation.wiring import BY_NAME
from tests.e2e.cloud.server import HostedCluster
from tests.e2e.functions.sandbox import ERROR, OK
from tests.e2e.parts.admin import until
from tests.e2e.report import Report
from tests.e2e.scenarios.objects import deployment, namespace, node_class, node_pool
from tests.e2e.world import World

FUNCTIONS = ("provision", "reconcile")
POOLS = "nodepools.karpenter.sh"
SECONDS = 120.0
"""For the API server and the scheduler to take up what is new, which takes a moment."""


@pytest.fixture(scope="module")
def waiting(world: World, report: Report) -> Iterator[World]:
    """A pod waits for a node, nothing wakes the functions but the test, and each starts cold."""
    world.clean()
    world.pump.pause()
    world.admin.apply([namespace("bad"), node_class(), node_pool("bad"), deployment("bad", "web", 1)])
    until(lambda: _is_marked(world), seconds=SECONDS, what="the scheduler has given up on the pod")
    yield world
    world.reset()


@pytest.fixture(autouse=True)
def cold(waiting: World) -> None:
    """No sandbox remembers another cluster, and no token is one that the API server knows.

    A role's tokens of one second are equal, and the API server remembers for some seconds who sent one: on a quick machine a
    role without an access entry was still taken for the one before.
    """
    waiting.functions.forget()
    last = int(time.time())
    until(lambda: int(time.time()) > last, seconds=SECONDS, what="tokens of a new second")


def test_an_endpoint_that_leads_nowhere(waiting: World) -> None:
    """If this failed, a wrong endpoint would hang, or be taken for an empty cluster."""
    nowhere = HostedCluster(endpoint="https://127.0.0.1:9", ca=waiting.control_plane.ca)
    right = HostedCluster(endpoint=waiting.control_plane.url, ca=waiting.control_plane.ca)
    waiting.cloud.host_cluster(nowhere)
    try:
        assert_refused(waiting, "TransientError", "kube:list", "127.0.0.1")
    finally:
        waiting.cloud.host_cluster(right)


def test_a_token_that_rbac_refuses(waiting: World) -> None:
    """If this failed, a missing ClusterRoleBinding would be taken for an empty cluster."""
    before = Counter(waiting.read_audit_record().refused)
    with entries(waiting, ("nobody",)):
        assert_refused(waiting, "DeniedError", "kube:list", "403", "forbidden")
    waiting.read_audit_record().refused = before  # refused on purpose: no verb is missing


def test_a_role_without_an_access_entry(waiting: World) -> None:
    """If this failed, a missing access entry would be taken for an empty cluster."""
    with entries(waiting, None):
        assert_refused(waiting, "DeniedError", "kube:list", "401", "access entry")


def test_definitions_of_another_version(waiting: World) -> None:
    """If this failed, a cluster with other definitions would be taken for one without NodePools, and its nodes let go."""
    (right,) = [found for found in crds.definitions() if found["metadata"]["name"] == POOLS]
    pool = node_pool("bad")
    replace(waiting, json.loads(json.dumps(right).replace('"v1"', '"v1beta1"')))
    try:
        assert_refused(waiting, "DeniedError", "kube:list nodepools", "karpenter.sh/v1", "fleetwright crds")
    finally:
        replace(waiting, right)
        until(lambda: _applies(waiting, pool), seconds=SECONDS, what="NodePools served", forgive=(NotFoundError,))


def assert_refused(world: World, reason: str, *said: str) -> None:
    """Each function says why it could do nothing; no instance and no claim comes of it."""
    for name in FUNCTIONS:
        log = world.log_of(name)
        size = log.stat().st_size if log.exists() else 0
        invocation = world.wake(name)
        lines = [json.loads(line) for line in _new_lines(log, size) if line.startswith("{")]
        if name == "reconcile":
            assert_told_by_sweeps(invocation, lines, reason, said)
            continue
        assert (invocation.outcome, invocation.response["errorType"]) == (ERROR, reason), name
        (told,) = [line for line in lines if line.get("message") == "run failed"]
        assert told["reason"] == reason
        assert all(part in told["detail"] for part in said), told["detail"]
        assert any(line.get("FailedRuns") == [1.0] for line in lines)
    assert world.planned.current() == ()
    assert not [found for found in world.cloud.instances.all() if found.is_alive]


def assert_told_by_sweeps(invocation: Any, lines: Sequence[JsonObject], reason: str, said: Iterable[str]) -> None:
    """`reconcile` continues with what needs no cluster: it reports the observation as skipped, and counts sweeps as failed."""
    assert invocation.outcome == OK
    assert invocation.response[FAILED_SWEEPS] > 0
    (told,) = [line for line in lines if (line.get("message"), line.get("subject")) == ("decision", "observation")]
    assert told["reason"] == reason
    assert all(part in told["detail"] for part in said), told["detail"]


@contextmanager
def entries(world: World, groups: tuple[str, ...] | None) -> Iterator[None]:
    """The functions' roles have these groups, or no access entry at all."""
    held = dict(world.authenticator.entries)
    for name in FUNCTIONS:
        arn = world.cloud.identities.of_function(BY_NAME[name]).role_arn
        if groups is None:
            del world.authenticator.entries[arn]
        else:
            world.authenticator.entries[arn] = groups
    try:
        yield
    finally:
        world.authenticator.entries.update(held)


def replace(world: World, definition: JsonObject) -> None:
    """Delete the definition of NodePools, with all that there are, and put this one in its place."""
    world.admin.delete("customresourcedefinitions.apiextensions.k8s.io", POOLS)
    until(lambda: _is_gone(world), seconds=SECONDS, what="the definition is gone", forgive=(NotFoundError,))
    world.admin.apply([definition])


def _applies(world: World, one: JsonObject) -> bool:
    world.admin.apply([one])
    return True


def _is_gone(world: World) -> bool:
    return world.admin.get("customresourcedefinitions.apiextensions.k8s.io", POOLS) is None


def _new_lines(path: Path, size: int) -> list[str]:
    with path.open() as log:
        log.seek(size)
        return log.read().splitlines()


def _is_marked(world: World) -> bool:
    return any(_unschedulable(pod) for pod in world.admin.list("pods", "bad"))


def _unschedulable(pod: dict[str, Any]) -> bool:
    return any(condition.get("reason") == "Unschedulable" for condition in pod["status"].get("conditions") or ())
