"""A launch order, its EC2NodeClass, and the requests rendered from them."""

from __future__ import annotations

from typing import Any

from core import labels
from core.ami_families.family import Cluster
from core.catalogue.node_class import EC2NodeClass, read_node_class
from core.launch.request import RenderedLaunch, render_launch
from core.model.catalogue import InstanceType
from core.model.plan import LaunchOrder

CLUSTER = Cluster(name="shop", endpoint="https://api.example", certificate_authority="Q0E=", service_cidr="10.1.0.0/16")
GPU_COUNT = f"{labels.AWS_GROUP}/instance-gpu-count"


def a_node_class(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> EC2NodeClass:
    resolved = {
        "subnets": [
            {"id": "subnet-a2", "zone": "us-east-1a"},
            {"id": "subnet-a1", "zone": "us-east-1a"},
            {"id": "subnet-b1", "zone": "us-east-1b"},
        ],
        "securityGroups": [{"id": "sg-1", "name": "nodes"}],
        "amis": [
            {"id": "ami-gpu", "requirements": [requires_arch("amd64"), {"key": GPU_COUNT, "operator": "Exists"}]},
            {"id": "ami-x86", "requirements": [requires_arch("amd64")]},
            {"id": "ami-arm", "requirements": [requires_arch("arm64")]},
        ],
        "instanceProfile": "shop-nodes",
    }
    own = {"amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "r", **(spec or {})}
    return read_node_class({"metadata": {"name": "default"}, "spec": own, "status": resolved | (status or {})})


def requires_arch(arch: str) -> dict[str, Any]:
    return {"key": labels.ARCH, "operator": "In", "values": [arch]}


def an_order(*types: InstanceType, **changes: Any) -> LaunchOrder:
    fields: dict[str, Any] = {
        "claim": "general-1",
        "token": "t-1",
        "node_class": {},
        "node_pool": "general",
        "offerings": tuple(o for t in types for o in t.offerings),
        "instance_types": types,
        "node_labels": {labels.NODEPOOL: "general"},
        "taints": (),
        "tags": {"karpenter.sh/nodeclaim": "general-1"},
        **changes,
    }
    return LaunchOrder(**fields)


def rendered(*types: InstanceType, node_class: EC2NodeClass | None = None, **changes: Any) -> RenderedLaunch:
    return render_launch(an_order(*types, **changes), node_class or a_node_class(), CLUSTER)


def overrides(launch: RenderedLaunch) -> list[tuple[str, str, str]]:
    return [
        (o["InstanceType"], o["SubnetId"], o["ImageId"])
        for config in launch.request["LaunchTemplateConfigs"]
        for o in config["Overrides"]
    ]


def template_data(launch: RenderedLaunch) -> dict[str, Any]:
    (template,) = launch.templates
    return template.data
