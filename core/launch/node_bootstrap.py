"""Gathers the boot data of a node from its EC2NodeClass."""

from __future__ import annotations

from collections.abc import Mapping

from core.ami_families.bootstrap import Bootstrap, Cluster
from core.catalogue.node_class import RAID0, EC2NodeClass
from core.model.values.taints import Taint


def bootstrap_of(
    node_class: EC2NodeClass,
    cluster: Cluster,
    *,
    labels: Mapping[str, str],
    taints: tuple[Taint, ...],
    max_pods: int = 0,
    image_name: str = "",
) -> Bootstrap:
    """Return the boot data of a node that registers with these labels and taints."""
    spec = node_class.spec
    return Bootstrap(
        cluster=cluster,
        labels=dict(labels),
        taints=taints,
        kubelet=spec.kubelet,
        max_pods=max_pods,
        user_data=spec.user_data,
        raids_instance_store=spec.instance_store_policy == RAID0,
        alias_release=node_class.alias.partition("@")[2],
        image_name=image_name,
    )
