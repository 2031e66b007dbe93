"""Nothing in an anonymized snapshot says whose cluster it is: every field is filled with what must not be found again."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from time import process_time
from typing import Any

import pytest

from cli.cluster.lean_objects import lean
from cli.cluster.pseudonyms import Pseudonyms
from cli.manifests.document import Document
from cli.manifests.inventory import kind_read
from core import labels
from core.api.validation import problems
from core.catalogue.discovered.node_memory import SeenMemory, discovered_memory, with_seen
from core.catalogue.discovered.placement_group import placement_group_of
from core.catalogue.node_class import read_node_class
from core.manifests.wire.api_resources import CAPACITY_BUFFERS, Resource
from core.manifests.wire.buffer import ACTIVE_CAPACITY
from tests.builders import a_class_manifest
from tests.unit.cli.cluster.filled_objects import SERVED, filled

ACCOUNT, ADDRESS, IDENTIFIER = "123456789012", "10.99.0.10", "0a1b2c3d4e5f60718"
HASH = "8129873498723498"
TELLING = re.compile(f"hush|{ACCOUNT}|{re.escape(ADDRESS)}|{IDENTIFIER}|{HASH}", re.IGNORECASE)

METADATA = {"name": "hush", "namespace": "hush", "finalizers": ["hush.example/f"], "labels": {"hush.example/l": "hush"}}
OWNER = {"apiVersion": "hush.example/v1", "kind": "HushJob", "name": "hush", "uid": "hush", "controller": True}

NODE_CLASS = a_class_manifest(
    "hush",
    metadata={
        "annotations": {
            labels.NODECLASS_HASH: HASH,
            labels.LAUNCH_VALIDATION: f'{{"message":"arn:aws:iam::{ACCOUNT}:role/hush"}}',
            labels.RESERVATION_PLACES: f'{{"cr-{IDENTIFIER}":3}}',
            labels.SUBNET_ADDRESSES: f'{{"readAt":"2026-07-01T00:00:00Z","perNode":1,"free":{{"subnet-{IDENTIFIER}":3}}}}',
            labels.UPCOMING_RESERVATIONS: f'[{{"id":"cr-{IDENTIFIER}","ownerID":"{ACCOUNT}","state":"scheduled"}}]',
            labels.PLACEMENT_GROUP: f'{{"id":"pg-{IDENTIFIER}","name":"hush","strategy":"partition","partitions":3}}',
            "karpenter.sh/note": "hush",
        }
    },
    amiFamily="AL2023",
    role="hush",
    subnetSelectorTerms=[{"id": f"subnet-{IDENTIFIER}"}, {"tags": {"hush": "*", "account": ACCOUNT}}],
    securityGroupSelectorTerms=[{"id": f"sg-{IDENTIFIER}"}, {"name": "hush"}],
    amiSelectorTerms=[
        {"id": f"ami-{IDENTIFIER}"},
        {"name": "hush", "owner": ACCOUNT},
        {"ssmParameter": "/hush/ami"},
    ],
    capacityReservationSelectorTerms=[
        {"id": f"cr-{IDENTIFIER}"},
        {"ownerID": ACCOUNT, "instanceMatchCriteria": "open"},
    ],
    placementGroupSelector={"name": "hush"},
    kubelet={"clusterDNS": [ADDRESS]},
    tags={"hush": ACCOUNT},
    blockDeviceMappings=[
        {"deviceName": "/dev/xvda", "ebs": {"kmsKeyID": f"arn:aws:kms:x:{ACCOUNT}:key/hush", "volumeSize": "20Gi"}}
    ],
    userData="hush",
)
OBJECTS: list[dict[str, Any]] = [
    NODE_CLASS,
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**METADATA, "ownerReferences": [OWNER]},
        "spec": {
            "schedulerName": "hush",
            "containers": [
                {"name": "hush", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": ADDRESS}]},
            ],
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "hush.example/gate", "status": "True", "reason": "HushReason", "message": "hush"}],
        },
    },
    {"apiVersion": "v1", "kind": "Service", "metadata": METADATA, "spec": {"selector": {"app": "hush"}}},
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            **METADATA,
            "annotations": {
                "volume.beta.kubernetes.io/storage-class": "hush",
                "pv.kubernetes.io/provisioned-by": "hush.csi.example",
            },
        },
        "spec": {"volumeName": "hush"},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "hush"},
        "spec": {"csi": {"driver": "hush.csi.example", "volumeHandle": "hush"}},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "hush"},
        "provisioner": "hush.csi.example",
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "hush"},
        "spec": {
            "drivers": [{"name": "hush.csi.example", "nodeID": "hush"}, {"name": "ebs.csi.aws.com", "nodeID": "x"}]
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "hush",
            "labels": {
                "hush.example/l": "hush",
                labels.RESERVATION_ID: f"cr-{IDENTIFIER}",
                labels.PLACEMENT_GROUP_ID: f"pg-{IDENTIFIER}",
            },
            "annotations": {labels.MADE_BY_HAND: "hush", labels.CLAIM: "hush", labels.COMMITMENT: "hush"},
        },
        "spec": {"providerID": f"aws:///us-east-1a/i-{IDENTIFIER}"},
        "status": {"addresses": [{"type": "InternalIP", "address": ADDRESS}]},
    },
]


def leaned(obj: dict[str, Any]) -> dict[str, Any]:
    resource = kind_read(Document("-", 0, obj))
    assert resource is not None
    return lean(resource, obj)


def hidden(*objects: dict[str, Any]) -> list[dict[str, Any]]:
    items = [leaned(copy.deepcopy(obj)) for obj in objects]
    return [*map(Pseudonyms(items).of, items)]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: obj["kind"])
def test_nothing_tells_whose_it_is(obj: dict[str, Any]) -> None:
    """An account's id, addresses, keys, drivers and hashes of names say as much as the names do."""
    assert TELLING.search(json.dumps(obj))
    assert TELLING.findall(json.dumps(hidden(obj))) == []


@pytest.mark.parametrize("resource", SERVED, ids=lambda resource: resource.kind)
def test_no_field_of_any_kind_tells_whose_it_is(resource: Resource) -> None:
    """Objects are made from the types that decode them and from the CRDs: a field that is added is filled, too."""
    obj = filled(resource)
    assert TELLING.search(json.dumps(lean(resource, obj)))
    (found,) = hidden(obj)
    assert [*told(found)] == []


def told(value: Any, path: str = "") -> Iterator[str]:
    """Where in an object a text of the user still is."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if TELLING.search(key):
                yield f"{path}.{key}"
            yield from told(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from told(inner, f"{path}[]")
    elif isinstance(value, str) and TELLING.search(value):
        yield f"{path} = {value}"


def test_settings_of_the_kubelet_that_size_nodes_are_shown() -> None:
    """The plan of the snapshot is that of the cluster; what names hosts, files and images is hidden."""
    shown = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "maxPods": 20,
        "podsPerCore": 4,
        "kubeReserved": {"cpu": "100m", "memory": "1.5Gi"},
        "evictionHard": {"memory.available": "5%", "nodefs.available": "500Mi"},
        "evictionSoftGracePeriod": {"memory.available": "1m30s"},
        "cpuCFSQuota": True,
    }
    hush = {"clusterDomain": "hush.example", "tracing": {"endpoint": "otel.hush:4317"}, "reservedSystemCPUs": "0-3"}
    secret = {"staticPodURLHeader": {"Authorization": ["hush"]}, "podCIDR": "10.99.0.0/24"}
    (found,) = hidden(a_class_manifest("hush", kubelet=shown | hush | secret))
    kubelet = found["spec"]["kubelet"]
    assert {name: kubelet[name] for name in shown} == shown
    assert kubelet.keys() == {*shown, *hush, *secret}
    assert kubelet["staticPodURLHeader"] == {}
    assert TELLING.findall(json.dumps(kubelet)) == []


@pytest.mark.parametrize(
    "text", ["0", "-1", "1.5Gi", "250m", "20%", "1h30m", "1h2m3.5s", "10ms", "100µs", "1e3", "16E", "99999Mi"]
)
def test_an_amount_is_shown(text: str) -> None:
    assert the_setting(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("9f86d081884c7d65", "0a1b2c3d4e5f60718293", "1a2b3c", "12ab", "1.2.3", "10.20s30", "4Gib"),
        *(ACCOUNT, f"+{ACCOUNT}", f"{ACCOUNT}m", f"1.{ACCOUNT}", "1" * 500, "1s" * 500),
    ],
)
def test_a_text_that_only_looks_like_an_amount_is_hidden(text: str) -> None:
    """Tokens of digits and letters were shown, and the number of an account."""
    assert the_setting(text) != text


def test_the_number_of_an_account_is_hidden_in_labels_and_in_what_selects_them_alike() -> None:
    """The label was hidden and the requirement was not: it showed the account, and selected nothing any more."""
    term = {"matchExpressions": [{"key": "hush.example/of", "operator": "In", "values": [ACCOUNT, "7"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    spec = {"nodeSelector": {"hush.example/of": ACCOUNT}, "containers": [], "affinity": affinity}
    (found,) = hidden({"apiVersion": "v1", "kind": "Pod", "metadata": METADATA, "spec": spec})
    (selected,) = found["spec"]["nodeSelector"].values()
    ((_, required),) = found["spec"]["affinity"]["nodeAffinity"].items()
    ((expression,),) = (one["matchExpressions"] for one in required["nodeSelectorTerms"])
    assert selected != ACCOUNT
    assert expression["values"] == [selected, "7"]


def the_setting(text: str) -> Any:
    """A setting of the kubelet as the snapshot has it."""
    (found,) = hidden(a_class_manifest("hush", kubelet={"setting": text}))
    return found["spec"]["kubelet"]["setting"]


def test_long_texts_take_no_time() -> None:
    """24 digits and a hyphen took four seconds, and each further digit twice as long."""
    began = process_time()
    for text in ("1" * 400 + "-", "1m" * 400 + "-", "1.1" * 400):
        assert the_setting(text) != text
    assert process_time() - began < 1


def test_the_only_strategy_of_buffers_that_is_followed_stays() -> None:
    buffer = filled(CAPACITY_BUFFERS)
    buffer["spec"]["provisioningStrategy"] = ACTIVE_CAPACITY
    assert hidden(buffer)[0]["spec"].get("provisioningStrategy", ACTIVE_CAPACITY) == ACTIVE_CAPACITY


def test_a_node_class_stays_a_valid_one() -> None:
    """A plan with an invalid class is another plan."""
    assert problems(leaned(NODE_CLASS)) == ()
    (renamed,) = hidden(NODE_CLASS)
    assert problems(renamed) == ()
    places = json.loads(renamed["metadata"]["annotations"][labels.RESERVATION_PLACES])
    assert list(places) == [renamed["spec"]["capacityReservationSelectorTerms"][0]["id"]]
    (upcoming,) = json.loads(renamed["metadata"]["annotations"][labels.UPCOMING_RESERVATIONS])
    assert upcoming["id"] == renamed["spec"]["capacityReservationSelectorTerms"][0]["id"]
    addresses = json.loads(renamed["metadata"]["annotations"][labels.SUBNET_ADDRESSES])
    assert addresses["free"] == {renamed["spec"]["subnetSelectorTerms"][0]["id"]: 3}
    assert renamed["spec"]["subnetSelectorTerms"][1]["tags"].popitem()[1] != ACCOUNT
    assert "*" in renamed["spec"]["subnetSelectorTerms"][1]["tags"].values()


def test_nodes_stay_in_their_reservation_and_placement_group() -> None:
    """If one of both names were another, the places of the nodes would count as free."""
    status = {"capacityReservations": [{"id": f"cr-{IDENTIFIER}"}]}
    found = copy.deepcopy(NODE_CLASS)
    found["status"] = status
    node_class, node = hidden(found, OBJECTS[-1])
    group = placement_group_of(read_node_class(node_class))
    assert group is not None
    assert (group.strategy, group.partitions) == ("partition", 3)
    assert node["metadata"]["labels"][labels.PLACEMENT_GROUP_ID] == group.id
    reservation = node_class["status"]["capacityReservations"][0]["id"]
    assert node["metadata"]["labels"][labels.RESERVATION_ID] == reservation


@pytest.mark.parametrize("text", ["", "hush", "[1]"])
def test_an_annotation_that_cannot_be_read_is_left_out(text: str) -> None:
    keys = (labels.PLACEMENT_GROUP, labels.RESERVATION_PLACES, labels.SUBNET_ADDRESSES, labels.UPCOMING_RESERVATIONS)
    metadata = {"annotations": dict.fromkeys(keys, text)}
    (renamed,) = hidden(a_class_manifest(metadata=metadata))
    assert not renamed["metadata"].get("annotations")


def test_a_service_selects_the_same_pods() -> None:
    """By Services pods are spread by default."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "hush"}}, "spec": {}}
    service, renamed = hidden(OBJECTS[2], pod)
    assert service["spec"]["selector"] == renamed["metadata"]["labels"]


def test_the_parts_of_a_volume_stay_together() -> None:
    """The driver of a claim's class limits how many volumes a node takes."""
    claim, volume, storage_class, node = hidden(*OBJECTS[3:7])
    driver = volume["spec"]["csi"]["driver"]
    assert claim["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == driver
    assert (
        claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] == storage_class["metadata"]["name"]
    )
    assert [storage_class["provisioner"], "ebs.csi.aws.com"] == [driver, node["spec"]["drivers"][1]["name"]]
    assert node["spec"]["drivers"][0]["name"] == driver


def test_memory_that_nodes_have_shown_counts_for_the_renamed_images() -> None:
    """It is kept under a digest of the images' ids."""
    status = {"amis": [{"id": f"ami-{IDENTIFIER}", "name": "hush"}]}
    seen = with_seen(
        read_node_class(a_class_manifest(status=status)), [SeenMemory("m5.large", f"ami-{IDENTIFIER}", 7 << 30)]
    )
    for written, known in ((seen, (("m5.large", 7168),)), ('{"images":"other","mib":{"m5.large":1}}', ())):
        (renamed,) = hidden(a_class_manifest(status=status, metadata={"annotations": {labels.NODE_MEMORY: written}}))
        assert not TELLING.search(json.dumps(renamed))
        assert discovered_memory(read_node_class(renamed)) == known
