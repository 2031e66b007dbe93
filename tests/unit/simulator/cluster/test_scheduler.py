"""The scheduler is the judge of every plan: where it binds too much or too little, good plans fail and bad ones pass."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.manifests.wire import resources
from lambdas.controllers.audit_log import reason_to_wake
from tests.unit.simulator.cluster.world import ZONE, World, a_node, a_pod, a_workload

GPU_TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def reason(world: World, name: str) -> str:
    conditions = {c["type"]: c for c in world.pod(name)["status"].get("conditions", ())}
    return str(conditions["PodScheduled"].get("message", ""))


def affinity(kind: str, app: str, key: str = ZONE, **term: object) -> JsonObject:
    rule = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **term}
    return {"affinity": {kind: {REQUIRED: [rule]}}}


def spread(**more: object) -> JsonObject:
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**rule, "labelSelector": {"matchLabels": {"app": "web"}}, **more}]}


def zones_of(world: World, prefix: str = "web") -> list[int]:
    nodes = {n["metadata"]["name"]: n["metadata"]["labels"][ZONE][-1] for n in world.cluster.nodes()}
    zones = [nodes[node] for node in world.where(prefix).values() if node]
    return [zones.count(zone) for zone in sorted(set(nodes.values()))]


def three_zones(world: World, cpu: str = "16") -> None:
    for zone in "abc":
        world.join(f"n{zone}", zone=f"us-east-1{zone}", cpu=cpu)
    world.run(10)


def test_a_pod_that_fits_nowhere_is_called_unschedulable_after_three_tenths_of_a_second(world: World) -> None:
    world.cluster.apply([a_pod("p")])
    world.run(0.29)
    assert not world.pod("p")["status"].get("conditions")
    world.run(0.01)
    condition = world.pod("p")["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")


def test_the_verdict_follows_the_cluster(world: World) -> None:
    world.cluster.apply([a_pod("p", cpu="8")])
    world.run(1)
    assert reason(world, "p") == "0/0 nodes are available: no nodes available to schedule pods."
    world.cluster.apply([a_node("n1", cpu="4"), a_node("n2", taints=[GPU_TAINT])])
    world.run(1)
    message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {gpu: yes}."
    assert reason(world, "p") == message


def test_requests_are_held_to_what_the_node_can_allocate(world: World) -> None:
    node = a_node("n1", cpu="4")
    node["status"]["allocatable"] = {"cpu": "3900m", "memory": "8Gi", "pods": "10"}
    world.cluster.apply([a_pod("large", cpu="4"), a_pod("fits", cpu="3900m"), node])
    world.run(5)
    assert world.where() == {"fits": "n1", "large": ""}
    assert reason(world, "large") == "0/1 nodes are available: 1 Insufficient cpu."


def test_init_containers_sidecars_and_overhead_count(world: World) -> None:
    def container(cpu: str, **more: str) -> JsonObject:
        return {"name": f"c{cpu}", "resources": {"requests": {"cpu": cpu}}, **more}

    pod = a_pod("p", cpu="1", initContainers=[container("1", restartPolicy="Always"), container("3")])
    pod["spec"]["overhead"] = {"cpu": "500m"}
    world.cluster.apply([pod, a_node("small", cpu="4")])
    world.run(5)
    assert world.where() == {"p": ""}
    world.cluster.apply([a_node("right", cpu="4500m")])
    world.run(5)
    assert world.where() == {"p": "right"}


def test_limits_count_where_there_are_no_requests(world: World) -> None:
    pod = a_pod("p")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "8"}}
    world.cluster.apply([pod, a_node("n1", cpu="4")])
    world.run(5)
    assert world.where() == {"p": ""}


def test_the_number_of_pods_is_bounded(world: World) -> None:
    node = a_node("n1")
    node["status"]["capacity"]["pods"] = "2"
    world.cluster.apply([*(a_pod(f"p{i}", cpu="1m") for i in range(3)), node])
    world.run(5)
    assert sorted(world.where().values()) == ["", "n1", "n1"]


def test_a_pod_is_bound_soon_after_a_node_fits_and_only_when_that_is_ready(world: World) -> None:
    world.cluster.apply([a_pod("p")])
    world.run(10)
    world.join("n1")
    world.run(4.9)
    assert world.where() == {"p": ""}
    world.run(0.4)
    assert world.where() == {"p": "n1"}


@pytest.mark.parametrize(
    ("spec", "bound"),
    [
        ({}, False),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, True),
        ({"tolerations": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}, True),
        ({"tolerations": [{"key": "gpu", "value": "no"}]}, False),
        ({"tolerations": [{"key": "gpu", "value": "yes", "effect": "NoExecute"}]}, False),
        ({"tolerations": [{"operator": "Exists"}]}, True),
    ],
)
def test_taints_need_a_toleration(world: World, spec: JsonObject, bound: bool) -> None:
    world.cluster.apply([a_node("n1", taints=[GPU_TAINT]), a_pod("p", **spec)])
    world.run(5)
    assert bool(world.where()["p"]) == bound


def test_a_cordoned_node_takes_no_more_pods(world: World) -> None:
    world.cluster.apply([a_node("n1")])
    world.patch_node("n1", {"unschedulable": True})
    world.cluster.apply([a_pod("p")])
    world.run(5)
    assert reason(world, "p") == "0/1 nodes are available: 1 node(s) were unschedulable."
    world.patch_node("n1", {"unschedulable": None})
    world.run(5)
    assert world.where() == {"p": "n1"}


@pytest.mark.parametrize(
    ("expression", "bound"),
    [
        ({"operator": "In", "values": ["5", "7"]}, True),
        ({"operator": "NotIn", "values": ["5"]}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "DoesNotExist"}, False),
        ({"operator": "Gt", "values": ["4"]}, True),
        ({"operator": "Gt", "values": ["5"]}, False),
        ({"operator": "Lt", "values": ["6"]}, True),
    ],
)
def test_required_node_affinity(world: World, expression: JsonObject, bound: bool) -> None:
    node = a_node("n1")
    node["metadata"]["labels"]["generation"] = "5"
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "generation", **expression}]}]}
    world.cluster.apply([node, a_pod("p", affinity={"nodeAffinity": {REQUIRED: terms}})])
    world.run(5)
    assert bool(world.where()["p"]) == bound


def test_preferred_affinity_and_soft_taints_choose_among_open_nodes(world: World) -> None:
    liked = a_node("z-liked")
    liked["metadata"]["labels"]["disk"] = "ssd"
    wish = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    soft = a_node("a-soft", taints=[{"key": "x", "effect": "PreferNoSchedule"}])
    world.cluster.apply([soft, a_node("b-plain"), liked])
    world.cluster.apply([a_pod("picky", affinity={"nodeAffinity": {PREFERRED: [wish]}}), a_pod("plain", cpu="2")])
    world.run(5)
    assert world.where() == {"picky": "z-liked", "plain": "b-plain"}


def test_a_host_port_is_used_once_on_a_node(world: World) -> None:
    pods = [a_pod(name) for name in ("p", "q")]
    for pod in pods:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    world.cluster.apply([a_node("n1"), *pods])
    world.run(5)
    assert sorted(world.where().values()) == ["", "n1"]


def test_spread_keeps_the_skew_even_as_zones_fill(world: World) -> None:
    three_zones(world)
    world.cluster.apply([a_workload("Deployment", replicas=8, spec=spread())])
    world.run(10)
    assert sorted(zones_of(world)) == [2, 3, 3]


def test_spread_leaves_pods_pending_rather_than_skewed(world: World) -> None:
    three_zones(world, cpu="2")
    world.join("big", zone="us-east-1a", cpu="32")
    world.run(10)
    world.cluster.apply([a_workload("Deployment", replicas=12, spec=spread())])
    world.run(10)
    assert zones_of(world) == [3, 2, 2]


def test_too_few_domains_count_as_an_empty_one(world: World) -> None:
    world.join("n1")
    world.run(10)
    world.cluster.apply([a_workload("Deployment", replicas=4, spec=spread(minDomains=2))])
    world.run(10)
    assert zones_of(world) == [1]


def test_a_zone_that_the_pod_may_not_use_does_not_hold_the_others_down(world: World) -> None:
    three_zones(world)
    values = ["us-east-1a", "us-east-1b"]
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": values}]}]}
    rules = spread() | {"affinity": {"nodeAffinity": {REQUIRED: terms}}}
    world.cluster.apply([a_workload("Deployment", replicas=6, spec=rules)])
    world.run(10)
    assert zones_of(world) == [3, 3, 0]


def test_tainted_nodes_count_unless_the_constraint_honours_taints(world: World) -> None:
    world.cluster.apply([a_node("n1"), a_node("t", zone="us-east-1b", taints=[GPU_TAINT])])
    world.cluster.apply([a_workload("Deployment", replicas=3, spec=spread())])
    world.run(10)
    assert zones_of(world) == [1, 0]
    world.cluster.apply([a_workload("Deployment", replicas=3, spec=spread(nodeTaintsPolicy="Honor"))])
    world.run(20)
    assert zones_of(world) == [3, 0]


def test_match_label_keys_spread_each_revision_by_itself(world: World) -> None:
    three_zones(world)
    rules = spread(matchLabelKeys=["pod-template-hash"])
    world.cluster.apply([a_workload("Deployment", replicas=3, spec=rules)])
    world.run(20)
    world.cluster.apply([a_workload("Deployment", replicas=3, cpu="2", spec=rules)])
    world.run(60)
    assert zones_of(world) == [1, 1, 1]


def test_zonal_anti_affinity_gives_each_zone_one_pod(world: World) -> None:
    three_zones(world)
    world.cluster.apply([a_workload("Deployment", replicas=4, spec=affinity("podAntiAffinity", "web"))])
    world.run(10)
    assert zones_of(world) == [1, 1, 1]
    assert sorted(world.where().values()).count("") == 1


def test_anti_affinity_of_running_pods_keeps_others_away(world: World) -> None:
    world.cluster.apply([a_node("n1"), a_pod("lonely", **affinity("podAntiAffinity", "loud"))])
    world.run(5)
    world.cluster.apply([a_pod("loud", labels={"app": "loud"})])
    world.run(5)
    assert world.where() == {"lonely": "n1", "loud": ""}
    assert "existing pods anti-affinity" in reason(world, "loud")
    world.cluster.delete("Pod", "default", "lonely")
    world.run(5)
    assert world.where() == {"loud": "n1"}


def test_a_pod_that_is_going_repels_still_but_is_spread_over_no_more(world: World) -> None:
    repels = a_pod("repels", labels={"app": "web"}, **affinity("podAntiAffinity", "web"))
    world.cluster.apply([a_node("na"), a_node("nb", zone="us-east-1b"), repels])
    world.run(5)
    world.cluster.apply([a_pod("later", labels={"app": "web"}, nodeSelector={ZONE: "us-east-1a"})])
    world.cluster.delete("Pod", "default", "repels")
    world.run(1)
    assert world.where() == {"repels": "na", "later": ""}
    world.run(5)
    assert world.where() == {"later": "na"}
    world.cluster.delete("Pod", "default", "later")
    world.patch_node("nb", {"unschedulable": True})
    world.cluster.apply([a_pod("spread", labels={"app": "web"}, **spread())])
    world.run(1)
    assert world.where() == {"later": "na", "spread": "na"}


def test_affinity_to_its_own_kind_puts_all_into_the_first_pods_zone(world: World) -> None:
    three_zones(world)
    world.cluster.apply([a_workload("Deployment", replicas=6, spec=affinity("podAffinity", "web"))])
    world.run(10)
    assert sorted(zones_of(world)) == [0, 0, 6]


def test_affinity_waits_for_the_pod_that_it_follows(world: World) -> None:
    three_zones(world)
    world.cluster.apply([a_pod("follower", **affinity("podAffinity", "leader"))])
    world.run(5)
    assert world.where() == {"follower": ""}
    pinned = {"nodeSelector": {ZONE: "us-east-1b"}}
    world.cluster.apply([a_pod("leader", labels={"app": "leader"}, **pinned)])
    world.run(5)
    assert world.where() == {"follower": "nb", "leader": "nb"}


def test_affinity_looks_into_the_namespaces_that_its_selector_names(world: World) -> None:
    three_zones(world)
    labels = {"team": "blue"}
    leader = a_pod("leader", labels={"app": "leader"}, nodeSelector={ZONE: "us-east-1c"})
    leader["metadata"]["namespace"] = "blue"
    world.cluster.apply([{"kind": "Namespace", "metadata": {"name": "blue", "labels": labels}}, leader])
    world.run(5)
    elsewhere = affinity("podAffinity", "leader", namespaceSelector={"matchLabels": labels})
    world.cluster.apply([a_pod("follows", **elsewhere), a_pod("own", **affinity("podAffinity", "leader"))])
    world.run(5)
    assert world.where() == {"leader": "nc", "follows": "nc", "own": ""}


def test_the_most_important_pods_are_bound_first(world: World) -> None:
    important = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    world.cluster.apply([a_pod("early", cpu="3"), a_pod("late", cpu="3", priorityClassName="high"), important])
    world.run(5)
    world.cluster.apply([a_node("n1", cpu="4")])
    world.run(5)
    assert world.where() == {"early": "", "late": "n1"}


def test_a_gated_pod_waits_for_its_gates(world: World) -> None:
    world.cluster.apply([a_node("n1"), a_pod("p", schedulingGates=[{"name": "quota"}])])
    world.run(10)
    assert world.where() == {"p": ""}
    world.cluster.api.patch(resources.PODS, "p", {"spec": {"schedulingGates": []}}, namespace="default")
    world.run(5)
    assert world.where() == {"p": "n1"}


def test_freed_room_is_used(world: World) -> None:
    world.cluster.apply([a_node("n1", cpu="1"), a_pod("p")])
    world.run(5)
    world.cluster.apply([a_pod("q")])
    world.run(5)
    world.cluster.delete("Pod", "default", "p")
    world.run(5)
    assert world.where() == {"q": "n1"}


# `status.nominatedNodeName`, as kube-scheduler 1.35 treats what others write there: else the simulator flatters us.


CLOSED = [{"key": "closed", "effect": "NoSchedule"}]


def nominate(world: World, pod: str, node: str) -> None:
    """As a function does."""
    body = {"status": {"nominatedNodeName": node}}
    world.cluster.api.patch(resources.PODS, pod, body, namespace="default", subresource="status")


def nominated(world: World, pod: str) -> str | None:
    named: str | None = world.pod(pod)["status"].get("nominatedNodeName")
    return named


def wait_for_nodes(world: World, *pods: JsonObject) -> None:
    """Pods that wait while both nodes, ready, are closed."""
    world.join("n1", "n2", cpu="4", taints=CLOSED)
    world.cluster.apply(list(pods))
    world.run(20)


def open_nodes(world: World, *names: str) -> None:
    for name in names:
        world.patch_node(name, {"taints": []})
    world.run(5)


def test_the_nominated_node_is_tried_first(world: World) -> None:
    wait_for_nodes(world, a_pod("p"))
    nominate(world, "p", "n2")
    open_nodes(world, "n1", "n2")
    assert (world.where(), nominated(world, "p")) == ({"p": "n2"}, None)


def test_room_is_kept_from_pods_of_no_higher_priority(world: World) -> None:
    wait_for_nodes(world, a_pod("early", cpu="3"), a_pod("late", cpu="3"))
    nominate(world, "late", "n1")
    open_nodes(world, "n1")
    assert world.where() == {"early": "", "late": "n1"}


def test_a_pod_of_higher_priority_takes_the_room(world: World) -> None:
    world.cluster.apply([{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}])
    wait_for_nodes(world, a_pod("p", cpu="3"), a_pod("urgent", cpu="3", priorityClassName="high"))
    nominate(world, "p", "n1")
    open_nodes(world, "n1")
    assert world.where() == {"p": "", "urgent": "n1"}


def test_a_vain_attempt_wipes_the_nomination_off(world: World) -> None:
    wait_for_nodes(world, a_pod("p", cpu="3"), a_pod("small"))
    nominate(world, "p", "n2")
    world.cluster.api.patch(resources.NODES, "n1", {"metadata": {"labels": {"changed": "yes"}}})
    world.run(5)
    assert nominated(world, "p") is None


def test_a_pod_that_never_preempts_keeps_it(world: World) -> None:
    """The scheduler wipes it off where preemption finds nothing, and for such a pod it does not look."""
    wait_for_nodes(world, a_pod("p", cpu="3", preemptionPolicy="Never"))
    nominate(world, "p", "n2")
    world.cluster.api.patch(resources.NODES, "n1", {"metadata": {"labels": {"changed": "yes"}}})
    world.run(5)
    assert nominated(world, "p") == "n2"


def test_our_own_nomination_is_in_the_audit_log_and_wakes_nobody(world: World) -> None:
    """The server answers with the whole pod, which is unschedulable still."""
    heard: list[JsonObject] = []
    wait_for_nodes(world, a_pod("p"))
    world.cluster.on_audit_event(heard.append)
    nominate(world, "p", "n2")
    (event,) = heard
    assert event["objectRef"]["subresource"] == "status"
    assert "Unschedulable" in str(event["responseObject"])
    assert reason_to_wake(event) == ""
