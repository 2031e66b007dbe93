"""An object that no API server would take must be refused by name, with nothing applied, not crash a run hours later."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.errors import InvalidInputError
from tests.unit.simulator.cluster.world import World, a_node, a_pod, a_workload


def annotated(pod: JsonObject, seconds: str) -> JsonObject:
    pod["metadata"]["annotations"] = {"simulate.fleetwright.dev/run-seconds": seconds}
    return pod


def a_cron_job(schedule: str) -> JsonObject:
    template = {"spec": {"template": a_workload("Job")["spec"]["template"]}}
    return {"kind": "CronJob", "metadata": {"name": "tick"}, "spec": {"schedule": schedule, "jobTemplate": template}}


def nameless() -> JsonObject:
    pod = a_pod("p")
    del pod["metadata"]["name"]
    return pod


@pytest.mark.parametrize(
    ("obj", "subject", "field"),
    [
        (nameless(), "Pod default", "metadata.name"),
        (a_pod("p", cpu="-1"), "Pod default/p", "spec.containers[0].resources.requests.cpu"),
        (a_workload("Deployment", cpu="much"), "Deployment default/web", "spec.template.spec.containers[0]"),
        (
            {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {}},
            "Deployment d",
            "spec.template.spec.containers",
        ),
        (a_pod("p", tolerations="all"), "Pod default/p", "spec.tolerations"),
        (annotated(a_pod("p"), "soon"), "Pod default/p", "run-seconds"),
        (a_cron_job("at noon"), "CronJob tick", "spec.schedule"),
        (a_cron_job("0 0 31 2 *"), "CronJob tick", "spec.schedule"),
        (a_node("n", cpu="-4"), "Node n", "status.capacity.cpu"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_applied(world: World, obj: JsonObject, subject: str, field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        world.cluster.apply([a_pod("fine"), obj])
    assert subject in str(caught.value)
    assert field in str(caught.value)
    assert not world.pods()
