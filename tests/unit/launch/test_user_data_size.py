"""Whether EC2 takes the user data of a NodePool's nodes is known before anything is launched."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.ami_families.bootstrap import Cluster
from core.ami_families.registry import FAMILIES
from core.catalogue.node_class import EC2NodeClass
from core.errors import InvalidInputError
from core.launch.user_data_size import may_exceed, user_data_problem
from core.model.node_pool import NodePool
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from core.pools.pool_template import template_labels
from tests.builders import a_pool, a_type
from tests.unit.launch.orders import CLUSTER, a_node_class, rendered

LARGE = Cluster(
    name="a" * 100,
    endpoint=f"https://{'0' * 32}.gr7.ap-southeast-1.eks.amazonaws.com",
    certificate_authority="Q" * 3000,
    service_cidr="172.20.0.0/16",
)
"""Longer than EKS gives them."""


def of_family(name: str, **spec: Any) -> EC2NodeClass:
    """A class of this family; TOML for Bottlerocket, a script for others."""
    return a_node_class({"amiFamily": name, "amiSelectorTerms": [{"id": "ami-1"}], **spec})


def text(size: int, family: str) -> str:
    """User data of so many bytes."""
    return f'[settings]\nmotd = "{"x" * (size - 20)}"\n' if family == "Bottlerocket" else "#" * size


@pytest.mark.parametrize("family", sorted(FAMILIES))
@given(
    own=st.dictionaries(st.from_regex(r"[a-z]{1,20}", fullmatch=True), st.from_regex(r"[a-z]{0,40}", fullmatch=True)),
    taints=st.lists(st.from_regex(r"[a-z]{1,20}", fullmatch=True)),
    reserved=st.dictionaries(st.sampled_from(["cpu", "memory", "pid"]), st.sampled_from(["1", "100Mi"])),
    size=st.integers(20, 2048),
)
def test_what_is_short_by_far_always_fits(
    family: str, own: dict[str, str], taints: list[str], reserved: dict[str, str], size: int
) -> None:
    """Otherwise, a NodePool that is too large is not measured, and launched."""
    node_class = of_family(family, userData=text(size, family), kubelet={"kubeReserved": reserved})
    pool = a_pool("a", labels=own, taints=tuple(Taint(key, "NoSchedule") for key in taints))
    if not may_exceed(node_class, pool):
        assert user_data_problem(node_class, LARGE, pool) == ""


def test_the_labels_of_a_node_pool_can_be_too_long() -> None:
    """EC2 would refuse each launch, and the class would pause for its other NodePools."""
    node_class = a_node_class({"userData": text(12_000, "")})
    small, large = a_pool("small"), a_pool("large", labels={f"team-{n:02d}": "x" * 50 for n in range(80)})
    assert user_data_problem(node_class, CLUSTER, small) == ""
    problem = user_data_problem(node_class, CLUSTER, large)
    assert re.search(r"EC2NodeClass default with the labels .*has \d{5} bytes, EC2 accepts 16384", problem)


def test_a_class_that_is_too_long_by_itself_is_no_fault_of_a_node_pool() -> None:
    """Its own condition says so."""
    assert user_data_problem(a_node_class({"userData": text(17_000, "")}), CLUSTER, a_pool()) == ""


def test_the_size_is_that_of_a_launch() -> None:
    """Otherwise, a NodePool at the edge is refused here, or by EC2."""
    team = Requirement.one_of("team", "a", "bcd")
    pool = NodePool(name="general", requirements=(team,), taints=(Taint("t", "NoSchedule"),))
    order = {"node_labels": {labels.NODEPOOL: "general", "team": "bcd"}, "taints": ("t:NoSchedule",)}
    outcomes = []
    for size in range(15_500, 16_384, 8):
        node_class = a_node_class({"userData": text(size, "")})
        try:
            rendered(a_type(pods="1000"), node_class=node_class, **order)
        except InvalidInputError:
            outcomes.append((size, user_data_problem(node_class, CLUSTER, pool)))
        else:
            assert user_data_problem(node_class, CLUSTER, pool) == ""
    assert outcomes[0][1], "the first size that cannot be launched is too long because of the labels"


def test_exactly_what_always_fits_need_not_be_measured() -> None:
    """Two bytes are the empty settings of the kubelet; the rest is what class and NodePool have written."""
    used = sum(map(len, (labels.CAPACITY_TYPE, labels.ON_DEMAND, "{}")))
    pool = NodePool(name="general")
    assert template_labels(pool) == {labels.NODEPOOL: "general"}
    left = 2048 - used - len(labels.NODEPOOL) - len("general")
    found = [may_exceed(a_node_class({"userData": "#" * (left + more)}), pool) for more in (0, 1)]
    assert found == [False, True]


@pytest.mark.parametrize(
    ("requirement", "counts"),
    [
        (Requirement.one_of("team", "x" * 2000), True),
        (Requirement.of("team", "NotIn", ["x" * 2000]), False),
        (Requirement.one_of(labels.ZONE, "x" * 2000), False),
    ],
)
def test_a_label_that_a_pod_may_choose_counts_with_its_longest_value(requirement: Requirement, *, counts: bool) -> None:
    """One that it may not have, and one that does not come from the user data, do not."""
    pool = NodePool(name="general", requirements=(requirement,))
    assert may_exceed(a_node_class({}), pool) is counts


def test_a_label_has_the_longest_value_that_a_pod_may_choose() -> None:
    """And none where no value is left; the number of pods counts with as many digits as any node's."""
    few = NodePool(name="general", requirements=(Requirement.one_of("team", "x" * 2000, "zz"),))
    none = NodePool(name="general", requirements=(Requirement.of("team", "In", []),))
    assert (may_exceed(a_node_class({}), few), may_exceed(a_node_class({}), none)) == (True, False)


def test_the_number_of_pods_counts_with_its_digits() -> None:
    """What is said to fit must fit with a type of many pods, too, though none is known yet."""
    pool, sizes = NodePool(name="general"), range(15_500, 16_384)
    first = next(n for n in sizes if user_data_problem(a_node_class({"userData": text(n, "")}), CLUSTER, pool))
    assert first > sizes[0]
    rendered(a_type(pods="1000"), node_class=a_node_class({"userData": text(first - 1, "")}))
