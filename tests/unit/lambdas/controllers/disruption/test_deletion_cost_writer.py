"""Pods of nodes that go next are marked in the cluster, as far as it takes the marks."""

from __future__ import annotations

import pytest

from adapters.ports import ConflictError, DeniedError, NotFoundError, PortError
from adapters.run_report import RunReport
from core import labels
from core.disruption.candidates.deletion_costs import LEAVES_FIRST
from core.manifests.wire import api_resources as kinds
from core.model.plan import StoredTarget
from lambdas.controllers.disruption.deletion_cost_writer import FAILURES, DeletionCostWriter
from tests.builders import NOW, a_snapshot, a_stored_target
from tests.fakes.lab import a_pending_pod
from tests.fakes.world import FakeClock, FakeKubernetes
from tests.unit.disruption.nodes_for_tests import pod_on

PODS = tuple(f"p{number}" for number in range(5))
TARGET = a_stored_target("a")


def steered(server: FakeKubernetes, *, is_on: bool = True, target: StoredTarget | None = TARGET) -> dict[str, int]:
    """Steer with five pods on a node that goes and one on another; the counts of the run."""
    report = RunReport()
    pods = (*(pod_on("a", name) for name in PODS), pod_on("b", "stays"))
    DeletionCostWriter(server, is_on=is_on).write(a_snapshot(pods=pods), target, report)
    return report.counts


def costs(server: FakeKubernetes) -> list[str]:
    found = (
        server.raw(kinds.PODS, name, "default")["metadata"].get("annotations", {}) for name in server.names(kinds.PODS)
    )
    return [annotations.get(labels.POD_DELETION_COST, "") for annotations in found]


@pytest.fixture
def server() -> FakeKubernetes:
    found = FakeKubernetes(FakeClock(NOW))
    found.put(*(a_pending_pod(name) for name in (*PODS, "stays")))
    return found


def failing(server: FakeKubernetes, errors: list[PortError | None]) -> None:
    left = iter(errors)

    def fail(call: str) -> None:
        error = next(left, None) if call.startswith("patch") else None
        if error is not None:
            raise error

    server.before_call = fail


def test_pods_of_nodes_that_go_next_are_marked(server: FakeKubernetes) -> None:
    assert steered(server) == {"steeredPods": 5, "failedSteering": 0}
    assert costs(server) == [LEAVES_FIRST] * 5 + [""]


def test_where_it_is_off_nothing_is_written(server: FakeKubernetes) -> None:
    assert steered(server, is_on=False) == {}
    assert costs(server) == [""] * 6


def test_without_a_target_nothing_is_marked(server: FakeKubernetes) -> None:
    assert steered(server, target=None) == {"steeredPods": 0, "failedSteering": 0}


def test_pods_that_are_gone_or_have_changed_are_no_failure(server: FakeKubernetes) -> None:
    failing(server, [NotFoundError("kube:patch pods", "gone"), ConflictError("kube:patch pods", "another uid")])
    assert steered(server) == {"steeredPods": 3, "failedSteering": 0}


def test_a_server_that_refuses_is_asked_three_times(server: FakeKubernetes) -> None:
    """A cost is a hint: it does not hold up the run."""
    failing(server, [None, *(DeniedError("kube:patch pods", "forbidden") for _ in range(9))])
    assert steered(server) == {"steeredPods": 1, "failedSteering": FAILURES}
    assert costs(server).count(LEAVES_FIRST) == 1
