"""The boot data of a node."""

from __future__ import annotations

import pytest

from core.launch.node_bootstrap import bootstrap_of
from core.model.values.taints import UNREGISTERED
from tests.unit.launch.orders import CLUSTER, a_node_class


@pytest.mark.parametrize(("policy", "raids"), [(None, False), ("RAID0", True)])
def test_a_node_boots_with_what_its_class_says(policy: str | None, raids: bool) -> None:
    """What is left out here is what users wrote and no node has."""
    spec = {
        "amiSelectorTerms": [{"alias": "al2023@v20260101"}],
        "kubelet": {"podsPerCore": 2},
        "userData": "#!/bin/sh",
        **({} if policy is None else {"instanceStorePolicy": policy}),
    }
    found = bootstrap_of(a_node_class(spec), CLUSTER, labels={"a": "1"}, taints=(UNREGISTERED,), max_pods=29)
    assert (found.cluster, dict(found.labels), found.taints, found.max_pods) == (
        CLUSTER,
        {"a": "1"},
        (UNREGISTERED,),
        29,
    )
    assert (found.kubelet, found.user_data, found.raids_instance_store) == ({"podsPerCore": 2}, "#!/bin/sh", raids)
    assert found.alias_release == "v20260101"
