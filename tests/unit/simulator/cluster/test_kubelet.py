"""A volume in the wrong zone, or one that never detaches, would strand a pod that a plan had placed well."""

from __future__ import annotations

from core.api.objects import JsonObject
from core.manifests.wire import resources
from simulator.cluster.kubelet import EBS_VOLUMES_MAX
from tests.unit.simulator.cluster.world import ZONE, World, a_node, a_pod, a_workload


def a_class(name: str = "gp3", mode: str = "WaitForFirstConsumer", **more: object) -> JsonObject:
    metadata = {"name": name}
    provisioner = {"provisioner": "ebs.csi.aws.com", "volumeBindingMode": mode}
    return {"kind": "StorageClass", "metadata": metadata, **provisioner, **more}


def a_claim(name: str = "data", storage_class: str = "gp3", **spec: object) -> JsonObject:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    body |= {"storageClassName": storage_class, **spec}
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": body}


def a_volume(name: str, zone: str, size: str = "10Gi", storage_class: str = "") -> JsonObject:
    here = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class}
    spec |= {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name}}
    spec |= {"nodeAffinity": {"required": {"nodeSelectorTerms": [here]}}}
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def mounts(*claims: str) -> JsonObject:
    return {"volumes": [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)]}


def zone_of(volume: JsonObject) -> list[str]:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return [zone for e in terms[0]["matchExpressions"] if e["key"] == ZONE for zone in e["values"]]


def claimed(world: World, name: str = "data") -> JsonObject:
    claims = {c["metadata"]["name"]: c for c in world.cluster.objects("PersistentVolumeClaim")}
    volumes = {v["metadata"]["name"]: v for v in world.cluster.objects("PersistentVolume")}
    return volumes[claims[name]["spec"]["volumeName"]]


def test_a_waiting_volume_is_made_in_the_zone_of_its_first_node(world: World) -> None:
    world.cluster.apply([a_class(), a_claim(), a_node("na"), a_node("nb", zone="us-east-1b")])
    world.run(5)
    assert not world.cluster.objects("PersistentVolume")
    world.cluster.apply([a_pod("p", nodeSelector={ZONE: "us-east-1b"}, **mounts("data"))])
    world.run(5)
    assert zone_of(claimed(world)) == ["us-east-1b"]
    assert world.ready() == ["p"]


def test_a_pod_returns_to_the_zone_of_its_volume(world: World) -> None:
    templates = [{"metadata": {"name": "data"}, "spec": a_claim()["spec"]}]
    world.cluster.apply([a_class(), a_node("nb", zone="us-east-1b")])
    world.cluster.apply([a_workload("StatefulSet", replicas=1, volumeClaimTemplates=templates)])
    world.run(10)
    world.cluster.apply([a_node("na")])
    world.patch_node("nb", {"unschedulable": True})
    world.evict("web-0")
    world.run(30)
    assert world.where() == {"web-0": ""}
    world.cluster.apply([a_node("other-b", zone="us-east-1b")])
    world.run(60)
    assert world.ready() == ["web-0"]


def test_a_volume_moves_only_after_the_other_node_has_released_it(world: World) -> None:
    world.cluster.apply([a_class(), a_claim(), a_node("n1"), a_pod("p", **mounts("data"))])
    world.run(10)
    assert [a["spec"]["nodeName"] for a in world.cluster.objects("VolumeAttachment")] == ["n1"]
    world.patch_node("n1", {"unschedulable": True})
    world.cluster.apply([a_node("n2")])
    world.cluster.delete("Pod", "default", "p")
    world.cluster.apply([a_pod("q", **mounts("data"))])
    world.run(7)
    assert len(world.cluster.objects("VolumeAttachment")) == 2
    assert not world.ready("q")
    world.run(10)
    assert [a["spec"]["nodeName"] for a in world.cluster.objects("VolumeAttachment")] == ["n2"]
    assert world.ready() == ["q"]


def test_an_immediate_volume_has_its_zone_before_any_pod(world: World) -> None:
    allowed = [{"matchLabelExpressions": [{"key": "topology.ebs.csi.aws.com/zone", "values": ["us-east-1c"]}]}]
    world.cluster.apply([a_class("now", "Immediate", allowedTopologies=allowed), a_claim(storage_class="now")])
    world.cluster.apply([a_node("na"), a_pod("p", **mounts("data"))])
    world.run(5)
    assert zone_of(claimed(world)) == ["us-east-1c"]
    assert world.where() == {"p": ""}


def test_a_static_volume_is_bound_by_size_and_holds_its_pod_to_its_zone(world: World) -> None:
    volumes = [a_volume("small", "us-east-1a", "1Gi"), a_volume("big", "us-east-1a", "1Ti")]
    world.cluster.apply([*volumes, a_volume("right", "us-east-1b", "20Gi"), a_claim(storage_class="")])
    world.cluster.apply([a_node("na"), a_node("nb", zone="us-east-1b"), a_pod("p", **mounts("data"))])
    world.run(5)
    assert claimed(world)["metadata"]["name"] == "right"
    assert world.where() == {"p": "nb"}


def test_a_missing_claim_keeps_its_pod_waiting(world: World) -> None:
    world.cluster.apply([a_node("n1"), a_pod("p", **mounts("nowhere"))])
    world.run(5)
    assert 'persistentvolumeclaim "nowhere" not found' in world.pod("p")["status"]["conditions"][0]["message"]


def test_a_node_attaches_only_so_many_volumes(world: World) -> None:
    claims = [a_claim(f"data-{i}") for i in range(EBS_VOLUMES_MAX + 1)]
    pods = [a_pod(f"p{i}", cpu="10m", **mounts(f"data-{i}")) for i in range(EBS_VOLUMES_MAX + 1)]
    world.cluster.apply([a_class(), a_node("n1"), *claims, *pods])
    world.run(10)
    assert sorted(world.where().values()).count("n1") == EBS_VOLUMES_MAX


def test_a_claim_without_a_class_gets_the_default_one(world: World) -> None:
    default = a_class()
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    claim = a_claim()
    del claim["spec"]["storageClassName"]
    world.cluster.apply([claim, default, a_node("n1"), a_pod("p", **mounts("data"))])
    world.run(5)
    assert world.where() == {"p": "n1"}


def test_a_deleted_claim_takes_its_volume_along(world: World) -> None:
    world.cluster.apply([a_class(), a_claim(), a_node("n1"), a_pod("p", **mounts("data"))])
    world.run(5)
    world.cluster.delete("Pod", "default", "p")
    world.run(20)
    world.cluster.delete("PersistentVolumeClaim", "default", "data")
    world.run(5)
    assert not world.cluster.objects("PersistentVolume")
    assert not world.cluster.objects("VolumeAttachment")


def test_an_ephemeral_volume_lives_as_long_as_its_pod(world: World) -> None:
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": a_claim()["spec"]}}}
    world.cluster.apply([a_class(), a_node("n1"), a_pod("p", volumes=[scratch])])
    world.run(5)
    assert world.ready() == ["p"]
    world.cluster.delete("Pod", "default", "p")
    world.run(20)
    assert not world.cluster.objects("PersistentVolumeClaim")


def test_the_program_sees_volumes_as_it_would_see_real_ones(world: World) -> None:
    world.cluster.apply([a_class(), a_claim(), a_node("n1"), a_pod("p", **mounts("data"))])
    world.run(5)
    for resource in (
        resources.PERSISTENT_VOLUMES,
        resources.PERSISTENT_VOLUME_CLAIMS,
        resources.VOLUME_ATTACHMENTS,
        resources.CSI_NODES,
    ):
        listing = world.cluster.api.list(resource)
        assert len(listing.items) == 1
        assert not listing.rejected
