"""StatefulSets, DaemonSets, Jobs and CronJobs must come and go as on a real cluster, or a scenario says nothing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from core.manifests.wire import resources
from tests.unit.simulator.cluster.world import World, a_node, a_pod, a_workload, has_condition

RUNS = "simulate.fleetwright.dev/run-seconds"


def short_lived(workload: dict[str, object], seconds: str) -> dict[str, object]:
    spec = workload["spec"]
    template = spec["jobTemplate"]["spec"]["template"] if "jobTemplate" in spec else spec["template"]  # type: ignore[index,operator]  # plain JSON
    template["metadata"]["annotations"] = {RUNS: seconds}
    return workload


def test_a_stateful_set_starts_its_pods_one_after_the_other(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("StatefulSet", replicas=3)])
    seen = []
    for _ in range(200):
        world.run(0.1)
        seen.append((len(world.pods()), len(world.ready())))
    assert all(pods <= ready + 1 for pods, ready in seen)
    assert world.ready() == ["web-0", "web-1", "web-2"]


def test_a_pending_pod_of_a_stateful_set_holds_its_successors_back(world: World) -> None:
    world.join("n1", cpu="1")
    world.cluster.apply([a_workload("StatefulSet", replicas=3)])
    world.run(60)
    assert world.where() == {"web-0": "n1", "web-1": ""}


def test_a_parallel_stateful_set_starts_all_at_once(world: World) -> None:
    world.cluster.apply([a_workload("StatefulSet", replicas=3, podManagementPolicy="Parallel")])
    world.run(1)
    assert len(world.pods()) == 3


def test_a_stateful_set_shrinks_from_its_highest_ordinal(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("StatefulSet", replicas=4)])
    world.run(60)
    world.cluster.scale("StatefulSet", "default", "web", 1)
    world.run(30)
    assert world.ready() == ["web-0"]
    assert [e["pod"] for e in world.events("podDeleted")] == ["default/web-3", "default/web-2", "default/web-1"]


def test_a_stateful_set_is_updated_from_the_last_to_the_first_one_at_a_time(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("StatefulSet", replicas=3)])
    world.run(60)
    world.cluster.apply([a_workload("StatefulSet", replicas=3, cpu="2")])
    for _ in range(400):
        world.run(0.1)
        assert len(world.ready()) >= 2
    assert [e["pod"] for e in world.events("podDeleted")] == ["default/web-2", "default/web-1", "default/web-0"]
    assert len(world.ready()) == 3


def test_a_stateful_pod_comes_back_under_its_name_after_an_eviction(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("StatefulSet", replicas=2)])
    world.run(30)
    before = world.pod("web-0")["metadata"]["uid"]
    world.evict("web-0")
    world.run(30)
    assert world.pod("web-0")["metadata"]["uid"] != before
    assert world.ready() == ["web-0", "web-1"]


def test_a_daemon_set_runs_once_on_each_node_that_it_tolerates(world: World) -> None:
    world.cluster.apply([a_workload("DaemonSet", "agent", cpu="100m")])
    world.join("n1", "n2")
    world.join("tainted", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    world.run(30)
    assert sorted(world.where("agent").values()) == ["n1", "n2"]


def test_a_daemon_set_that_tolerates_everything_starts_before_the_node_is_ready(world: World) -> None:
    world.cluster.apply([a_workload("DaemonSet", "agent", spec={"tolerations": [{"operator": "Exists"}]})])
    world.join("n1")
    world.run(1)
    assert list(world.where("agent").values()) == ["n1"]


def test_daemon_pods_get_their_room_before_others(world: World) -> None:
    world.cluster.apply([a_workload("Deployment", replicas=4), a_workload("DaemonSet", "agent", cpu="1")])
    world.join("n1", cpu="4")
    world.run(30)
    assert len(world.ready("agent")) == 1
    assert len(world.ready("web")) == 3


def test_a_new_template_reaches_daemon_pods_one_node_at_a_time(world: World) -> None:
    world.cluster.apply([a_workload("DaemonSet", "agent", cpu="100m")])
    world.join("n1", "n2", "n3")
    world.run(30)
    before = set(world.where())
    world.cluster.apply([a_workload("DaemonSet", "agent", cpu="200m")])
    for _ in range(300):
        world.run(0.1)
        assert len(world.ready()) >= 2
    assert not before & set(world.where())
    assert len(world.ready()) == 3


def test_a_job_runs_as_many_pods_as_it_needs_and_is_complete(world: World) -> None:
    world.join("n1")
    world.cluster.apply([short_lived(a_workload("Job", parallelism=2, completions=3), "10")])
    world.run(8)
    assert len(world.ready()) == 2
    world.run(30)
    assert [e["phase"] for e in world.events("podFinished")] == ["Succeeded"] * 3
    assert has_condition(world.cluster.objects("Job")[0], "Complete")


def test_a_job_replaces_an_evicted_pod(world: World) -> None:
    world.join("n1")
    world.cluster.apply([short_lived(a_workload("Job", completions=1), "60")])
    world.run(20)
    world.evict(world.ready()[0])
    world.run(90)
    assert len(world.events("podFinished")) == 1
    assert has_condition(world.cluster.objects("Job")[0], "Complete")


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
def test_a_job_counts_pods_that_went_with_their_node(world: World, mode: str) -> None:
    """Seed 540: nodes went while other pods of the Job still ran, so it never had enough of them and ran forever."""
    world.join("n1")
    job = a_workload("Job", parallelism=1, completions=2, completionMode=mode)
    world.cluster.apply([short_lived(job, "60")])
    world.run(70)
    world.cluster.lose_instance("aws:///us-east-1a/i-n1")
    world.join("n2")
    world.run(300)
    assert len(world.events("nodeDeleted")) == 1
    assert len(world.events("podFinished")) == 2
    assert has_condition(world.cluster.objects("Job")[0], "Complete")


def test_an_indexed_job_gives_each_pod_an_index(world: World) -> None:
    world.join("n1")
    job = a_workload("Job", parallelism=2, completions=2, completionMode="Indexed")
    world.cluster.apply([job])
    world.run(20)
    index = "batch.kubernetes.io/job-completion-index"
    assert sorted(pod["metadata"]["annotations"][index] for pod in world.pods()) == ["0", "1"]


def test_a_finished_job_is_deleted_after_its_time_to_live(world: World) -> None:
    world.join("n1")
    world.cluster.apply([short_lived(a_workload("Job", ttlSecondsAfterFinished=30), "5")])
    world.run(20)
    assert world.cluster.objects("Job")
    world.run(40)
    assert not world.cluster.objects("Job")
    assert not world.pods()


def a_cron_job(schedule: str, seconds: str = "5", **spec: object) -> dict[str, object]:
    template = {"spec": {"template": a_workload("Job")["spec"]["template"]}}
    body = {"schedule": schedule, "jobTemplate": template, **spec}
    metadata = {"name": "tick", "namespace": "default"}
    return short_lived({"kind": "CronJob", "metadata": metadata, "spec": body}, seconds)


def test_a_cron_job_starts_a_job_at_each_of_its_times_and_forgets_old_ones(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_cron_job("*/10 * * * *", successfulJobsHistoryLimit=2)])
    world.run(3600)
    assert len(world.events("podFinished")) == 5
    assert len(world.cluster.objects("Job")) == 3
    world.run(60)
    assert len(world.events("podFinished")) == 6
    assert len(world.cluster.objects("Job")) == 2


def test_a_cron_job_that_forbids_overlap_skips_a_time(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_cron_job("* * * * *", "100", concurrencyPolicy="Forbid")])
    world.run(310)
    assert len(world.events("podCreated")) == 3


def test_a_replication_controller_keeps_its_pods(world: World) -> None:
    world.join("n1")
    workload = a_workload("ReplicationController", replicas=2)
    workload["spec"]["selector"] = {"app": "web"}
    world.cluster.apply([workload])
    world.run(20)
    assert len(world.ready()) == 2


def test_a_bare_pod_finishes_after_its_run_seconds_and_others_run_on(world: World) -> None:
    ends, stays = a_pod("ends"), a_pod("stays")
    ends["metadata"]["annotations"] = {RUNS: "30"}
    world.cluster.apply([ends, stays, a_node("n1")])
    world.run(20)
    assert world.ready() == ["ends", "stays"]
    world.run(3600)
    assert world.ready() == ["stays"]
    assert world.events("podFinished") == [{"pod": "default/ends", "phase": "Succeeded"}]


def test_a_namespace_takes_its_contents_along(world: World) -> None:
    world.cluster.apply([a_workload("Deployment", replicas=2)])
    world.run(5)
    world.cluster.delete("Namespace", "", "default")
    world.run(5)
    assert not world.pods()
    assert not world.cluster.objects("Deployment")


class FewLetters(Random):
    """Draws of two letters only, so that 32 names are all there are with one prefix."""

    def choices(self, population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> list[Any]:
        return super().choices(population[:2], weights, cum_weights=cum_weights, k=k)


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "Job"])
def test_no_name_is_given_twice(world: World, kind: str) -> None:
    """If two pods had one, the simulation would end; if one had the name of one that is gone, its record would be both's."""
    world.cluster._store.rng = FewLetters(1)
    world.join("n1", "n2")
    world.cluster.apply([a_workload(kind, replicas=2) if kind == "Deployment" else a_workload(kind)])
    world.run(5)
    for _ in range(12):
        for pod in world.pods("web"):
            world.cluster.delete("Pod", "default", pod["metadata"]["name"])
        world.run(60)
    created = [event["pod"] for event in world.events("podCreated")]
    assert len(created) > 12
    assert len(set(created)) == len(created)


# Rollouts that take too many pods down, or leave old ones behind, would make every judgement of drains worthless.


def test_a_rolling_update_keeps_three_quarters_available_and_surges_by_a_quarter(world: World) -> None:
    world.join("n1", cpu="64")
    world.cluster.apply([a_workload("Deployment", replicas=8)])
    world.run(20)
    first = set(world.where())
    world.cluster.apply([a_workload("Deployment", replicas=8, cpu="2")])
    for _ in range(600):
        world.run(0.1)
        going = [pod for pod in world.pods() if "deletionTimestamp" in pod["metadata"]]
        assert len(world.pods()) - len(going) <= 10
        assert len(set(world.ready()) - {pod["metadata"]["name"] for pod in going}) >= 6
    assert len(world.ready()) == 8
    assert not first & set(world.where())


def test_a_rollout_that_cannot_start_leaves_the_old_pods_alone(world: World) -> None:
    world.join("n1", cpu="16")
    world.cluster.apply([a_workload("Deployment", replicas=8)])
    world.run(20)
    world.cluster.apply([a_workload("Deployment", replicas=8, cpu="100")])
    world.run(120)
    assert len(world.ready()) == 6
    assert len(world.pods()) == 10


def test_old_pods_that_never_started_make_room_only_as_far_as_new_ones_count(world: World) -> None:
    world.join("n1", cpu="4")
    world.cluster.apply([a_workload("Deployment", replicas=8)])
    world.run(20)
    world.cluster.apply([a_workload("Deployment", replicas=8, cpu="100")])
    world.run(60)
    assert len(world.ready()) == 4
    sizes = sorted(replica_set["spec"]["replicas"] for replica_set in world.cluster.objects("ReplicaSet"))
    assert sizes == [4, 6]
    old = [pod for pod in world.pods() if pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"]
    assert len(old) == 6


def test_recreate_ends_all_old_pods_before_the_first_new_one(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("Deployment", replicas=2, strategy={"type": "Recreate"})])
    world.run(20)
    old = set(world.where())
    world.cluster.apply([a_workload("Deployment", replicas=2, cpu="2", strategy={"type": "Recreate"})])
    for _ in range(200):
        world.run(0.1)
        assert not (set(world.where()) & old and set(world.where()) - old)
    assert len(world.ready()) == 2


def test_scaling_down_takes_pods_that_wait_before_pods_that_run(world: World) -> None:
    world.join("n1", cpu="4")
    world.cluster.apply([a_workload("Deployment", replicas=6)])
    world.run(20)
    running = set(world.ready())
    assert len(running) == 4
    world.cluster.scale("Deployment", "default", "web", 4)
    world.run(10)
    assert set(world.where()) == running


def test_the_cheapest_to_delete_goes_first(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("ReplicaSet", replicas=3)])
    world.run(20)
    chosen = world.ready()[1]
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}
    world.cluster.api.patch(resources.PODS, chosen, cost, namespace="default")
    world.cluster.scale("ReplicaSet", "default", "web", 2)
    world.run(10)
    assert chosen not in world.where()


def test_an_evicted_pod_is_replaced_and_its_owner_named(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("Deployment", replicas=1)])
    world.run(20)
    world.evict(world.ready()[0])
    world.run(20)
    assert len(world.ready()) == 1
    owners = {event["owner"].partition("/")[0] for event in world.events("podCreated")}
    assert owners == {"ReplicaSet"}


def test_deleting_a_deployment_takes_its_pods_along(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("Deployment", replicas=2)])
    world.run(20)
    world.cluster.delete("Deployment", "default", "web")
    world.run(10)
    assert not world.pods()
    assert not world.cluster.objects("ReplicaSet")
    assert [event["by"] for event in world.events("podDeleted")] == ["controller", "controller"]


def test_a_field_that_the_new_manifest_lacks_is_removed_and_a_scaled_size_stays(world: World) -> None:
    world.join("n1")
    workload = a_workload("Deployment", spec={"nodeSelector": {"disk": "ssd"}})
    world.cluster.apply([workload])
    world.cluster.scale("Deployment", "default", "web", 3)
    world.run(20)
    assert not world.ready()
    world.cluster.apply([a_workload("Deployment")])
    world.run(20)
    assert len(world.ready()) == 3


def test_old_replica_sets_are_kept_up_to_the_history_limit(world: World) -> None:
    world.join("n1")
    for millicores in range(100, 600, 100):
        world.cluster.apply([a_workload("Deployment", cpu=f"{millicores}m", revisionHistoryLimit=2)])
        world.run(20)
    assert len(world.cluster.objects("ReplicaSet")) == 3
