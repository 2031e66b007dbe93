"""The wording of explanations."""

from __future__ import annotations

import pytest

from core import labels
from core.model.pod import NodeSelectorTerm
from core.model.values.requirements import Requirement
from core.scheduling.explanation.wording import amount_of, limits_left, shown, unlike
from tests.builders import ZONES, a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of, plan_of


def test_requirements_and_amounts_are_written_as_in_kubernetes() -> None:
    """Otherwise, a user has to guess which field is meant."""
    assert shown(Requirement.one_of("team", "a", "b")) == "team In [a, b]"
    assert shown(Requirement.of("cpu-count", "Gt", ["4"])) == "cpu-count >= 5"
    assert shown(Requirement.of("team", "Exists")) == "team Exists"
    narrowed = Requirement.of("size", "Gt", ["4"]).intersection(Requirement.of("size", "Lt", ["9"]))
    assert shown(narrowed) == "size >= 5 and <= 8"
    assert (amount_of(2**30 + 1, "memory"), amount_of(1500, "cpu")) == ("2Gi", "1500m")
    assert (amount_of(2**30, "ephemeral-storage"), amount_of(2**29, "memory")) == ("1Gi", "512Mi")


def test_limits_are_written_with_what_is_left_and_never_below_zero() -> None:
    """A NodePool whose limit was lowered below its use has nothing left, not less than nothing."""
    said = limits_left({"cpu": 8_000, "memory": 64 * 2**30}, {"cpu": -500, "memory": 2**30})
    assert said == "cpu 0 of 8, memory 1Gi of 64Gi"


def test_the_values_of_types_are_shown_beside_the_required_ones() -> None:
    """Otherwise, a typo in a label is found by trial and error only."""
    types = tuple(a_type(f"t{n}", family=value) for n, value in enumerate(("aa", "ab", "ba", "zz")))
    (template,) = context_of(types=types).templates
    message = unlike(template, template.types.full, Requirement.one_of("family", "ac"))
    assert message == "family In [ac] is required, and its types have ab, ba, zz and 1 more"


@pytest.mark.parametrize(
    ("asked", "sizes", "message"),
    [
        (
            Requirement.of("size", "Gt", ["40"]),
            "1 2 10 20 30",
            "size >= 41 is required, and its types have 30, 20, 10 and 2 more",
        ),
        (
            Requirement.of("size", "Lt", ["1"]),
            "1 2 10 20",
            "size <= 0 is required, and its types have 1, 2, 10 and 1 more",
        ),
        (
            Requirement.one_of("size", "a"),
            "aa ab ba zz",
            "size In [a] is required, and its types have aa, ab, ba and 1 more",
        ),
        (
            Requirement.one_of("size", "zzz"),
            "aa ab ba zz",
            "size In [zzz] is required, and its types have ab, ba, zz and 1 more",
        ),
        (Requirement.one_of("size", "ac"), "aa ab ba", "size In [ac] is required, and its types have aa, ab, ba"),
        (Requirement.one_of("other", "ac"), "aa", "other In [ac] is required, and its types do not have the label"),
        (
            Requirement.one_of(labels.INSTANCE_TYPE, "t9"),
            "aa ab",
            "node.kubernetes.io/instance-type In [t9] is required, and its types have t0, t1",
        ),
    ],
)
def test_a_few_values_near_the_required_one_are_shown(asked: Requirement, sizes: str, message: str) -> None:
    """Of seven hundred values, a user looks for the neighbour of the one that was meant."""
    (template,) = context_of(types=tuple(a_type(f"t{n}", size=v) for n, v in enumerate(sizes.split()))).templates
    assert unlike(template, template.types.full, asked) == message


TEAM = Requirement.one_of("team", "a")
ARM, AMD = (Requirement.one_of(labels.ARCH, name) for name in ("arm64", "amd64"))
SPLIT = (
    a_type("a", zones=ZONES[:1], capacity_types=(labels.ON_DEMAND,)),
    a_type("b", zones=ZONES[1:2], capacity_types=(labels.SPOT,)),
)


@pytest.mark.parametrize(
    ("pool", "spec", "message"),
    [
        (
            {},
            {"node_selector": (TEAM,)},
            "the pod's nodeSelector demands team In [a], but its nodes do not have the label",
        ),
        (
            {"labels": {"team": "b"}},
            {"node_selector": (TEAM,)},
            "the pod's nodeSelector demands team In [a], but it offers team In [b]",
        ),
        (
            {},
            {"required_terms": (NodeSelectorTerm((TEAM,)),)},
            "the pod's node affinity demands team In [a], but its nodes do not have the label",
        ),
        (
            {"labels": {"team": "b"}},
            {"node_selector": (TEAM,), "required_terms": (NodeSelectorTerm((TEAM,)),)},
            "the pod's nodeSelector with the pod's node affinity demands team In [a], but it offers team In [b]",
        ),
        (
            {},
            {"node_selector": (Requirement.one_of(labels.ZONE_ID, "use1-az1"),)},
            (
                f"the pod's nodeSelector demands {labels.ZONE_ID} In [use1-az1], but its nodes do not have the label; "
                f"no EC2NodeClass's subnets and no node tell which zone that is, use {labels.ZONE}"
            ),
        ),
        (
            {},
            {"node_selector": (TEAM, Requirement.one_of("team", "b"))},
            "the pod's requirements contradict each other: they allow no value of team",
        ),
        (
            {},
            {"node_selector": (AMD,), "required_terms": (NodeSelectorTerm((ARM,)),)},
            f"the pod's requirements contradict each other: they allow no value of {labels.ARCH}",
        ),
    ],
)
def test_a_conflict_names_who_demands_what_and_what_the_pool_has(
    pool: dict[str, object], spec: dict[str, object], message: str
) -> None:
    """Otherwise, a user compares every label of the pod with every label of the NodePool."""
    (entry,) = plan_of(types=(a_type(),), node_pools=(a_pool(**pool),), pods=(a_pod("p", **spec),)).unschedulable
    assert entry.message == f"NodePool default: {message}"


@pytest.mark.parametrize(
    ("requirements", "types", "message"),
    [
        (
            (Requirement.one_of(labels.ZONE, "z"),),
            SPLIT,
            f"no instance type meets its own requirements: none is on offer with {labels.ZONE} In [z]",
        ),
        (
            (ARM,),
            SPLIT,
            f"no instance type meets its own requirements: {labels.ARCH} In [arm64] is required, and its types have amd64",
        ),
        (
            (Requirement.one_of(labels.ZONE, ZONES[0]), Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT)),
            SPLIT,
            (
                f"no instance type meets its own requirements: {labels.CAPACITY_TYPE} In [spot] leaves none of the 1 "
                "that those before it allow"
            ),
        ),
        ((), (), "its EC2NodeClass has no instance type"),
    ],
)
def test_a_pool_without_types_names_its_own_requirement(
    requirements: tuple[Requirement, ...], types: tuple[object, ...], message: str
) -> None:
    """Otherwise, users change pods, of which none could run there."""
    (entry,) = plan_of(types=types, node_pools=(a_pool("default", *requirements),), pods=(a_pod("p"),)).unschedulable
    assert entry.message == f"NodePool default: {message}"


def test_labels_that_a_pool_lacks_are_named_and_those_that_it_has_are_not() -> None:
    """A pod that demands any value but one demands the label as well."""
    asked = tuple(
        one for key in ("team", "rack") for one in (Requirement.of(key, "Exists"), Requirement.of(key, "NotIn", ["x"]))
    )
    term = NodeSelectorTerm(asked)
    pool = a_pool("default", Requirement.one_of("team", "a"))
    (entry,) = plan_of(types=(a_type(),), node_pools=(pool,), pods=(a_pod("p", required_terms=(term,)),)).unschedulable
    assert entry.message == "NodePool default: its nodes do not have rack"
