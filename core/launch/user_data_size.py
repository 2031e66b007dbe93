"""Checks before any launch whether EC2 accepts the size of a NodePool's user data.

It includes the EC2NodeClass's user data and kubelet settings, the NodePool's labels and taints, and the data to join the
cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from core import labels
from core.ami_families.bootstrap import Cluster, registered_labels, registered_taints
from core.catalogue.node_class import EC2NodeClass
from core.errors import InvalidInputError
from core.launch.node_bootstrap import bootstrap_of
from core.model.node_pool import NodePool
from core.pools.pool_template import template_labels

ALWAYS_FITS: Final = 2_048
"""Up to this many bytes in a class and a NodePool, the user data is within EC2's limit in any family's format."""

_PODS: Final = 1_000
"""A number of pods with at least as many digits as any node's."""


def may_exceed(node_class: EC2NodeClass, node_pool: NodePool) -> bool:
    """Whether the user data must be rendered to check its size; nearly always it is far below the limit."""
    spec = node_class.spec
    own = (text for pair in _labels(node_pool).items() for text in pair)
    written = (spec.user_data, json.dumps(spec.kubelet), *own, *_taints(node_pool))
    return sum(len(text.encode()) for text in written) > ALWAYS_FITS


def user_data_problem(node_class: EC2NodeClass, cluster: Cluster, node_pool: NodePool) -> str:
    """Return why the user data cannot be rendered with the NodePool's part; empty if it can, or if the class alone fails."""
    try:
        _render(node_class, cluster, {}, ())
    except InvalidInputError:
        return ""  # the class fails on its own, whatever the NodePool adds
    try:
        _render(node_class, cluster, _labels(node_pool), _taints(node_pool))
    except InvalidInputError as error:
        return f"EC2NodeClass {node_class.name} with the labels and taints of this NodePool: {error}"
    return ""


def _render(node_class: EC2NodeClass, cluster: Cluster, own: Mapping[str, str], taints: Iterable[str]) -> str:
    family = node_class.family
    registered = registered_labels(own, syncs_taints=not family.registers_taints)
    bootstrap = bootstrap_of(node_class, cluster, labels=registered, taints=registered_taints(taints), max_pods=_PODS)
    return family.user_data(bootstrap)


def _labels(pool: NodePool) -> dict[str, str]:
    """Return the labels that its nodes register with: the template's, and the longest allowed value for each open label."""
    found = {**template_labels(pool), labels.CAPACITY_TYPE: labels.ON_DEMAND}
    for requirement in pool.requirements:
        if requirement.key not in labels.WELL_KNOWN and requirement.is_finite and requirement.values:
            found.setdefault(requirement.key, max(requirement.values, key=lambda value: (len(value), value)))
    return found


def _taints(pool: NodePool) -> tuple[str, ...]:
    return tuple(str(taint) for taint in (*pool.taints, *pool.startup_taints))
