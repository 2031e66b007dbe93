"""Rollouts that take too many pods down, or leave old ones behind, would make every judgement of drains worthless."""

from __future__ import annotations

from core.manifests.wire import resources
from tests.unit.simulator.cluster.world import World, a_workload


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
