"""Which part of a pod demands a label."""

from __future__ import annotations

import pytest

from core import labels
from core.model.pod import NodeSelectorTerm, VolumeUse
from core.model.storage import PersistentVolume, PersistentVolumeClaim
from core.model.values.requirements import Requirement
from core.scheduling.explanation.demand_sources import demand_source, disagreement
from tests.builders import ZONES, a_pod, a_type
from tests.unit.scheduling.reading import context_of, group_of

HERE, THERE = (Requirement.one_of(labels.ZONE, zone) for zone in ZONES[:2])
IN_ZONE = (NodeSelectorTerm((HERE,)),)
STORAGE = {
    "volumes": (PersistentVolume(name="v", node_terms=IN_ZONE, driver="ebs.csi.aws.com"),),
    "volume_claims": (
        PersistentVolumeClaim(namespace="default", name="data", volume_name="v", phase="Bound", is_bind_completed=True),
    ),
}
OTHER = Requirement.one_of("example.com/rack", "r1")
OF_VOLUME = "PersistentVolumeClaim default/data (volume v)"


@pytest.mark.parametrize(
    ("spec", "subject"),
    [
        ({}, "the pod"),
        ({"node_selector": (HERE,)}, "the pod's nodeSelector"),
        ({"required_terms": IN_ZONE}, "the pod's node affinity"),
        ({"node_selector": (HERE,), "required_terms": IN_ZONE}, "the pod's nodeSelector with the pod's node affinity"),
        ({"volumes": (VolumeUse("data"),)}, OF_VOLUME),
    ],
)
def test_a_demand_is_of_the_field_that_makes_it(spec: dict[str, object], subject: str) -> None:
    """Otherwise, people change a field that is not the cause."""
    pod = a_pod("p", **spec)
    context = context_of(types=(a_type(),), pods=(pod,), **STORAGE)
    group = group_of(context, "p")
    assert demand_source(context, pod, group, group.steps[0], labels.ZONE) == subject
    if "volumes" in spec:
        assert demand_source(context, None, group, group.steps[0], labels.ZONE) == "a volume of the pod"


def test_a_pod_and_its_volume_disagree_about_a_zone() -> None:
    """Each demand alone can be met, so neither is the culprit by itself."""
    pods = [
        a_pod(zone, node_selector=(asked,), volumes=(VolumeUse("data"),)) for zone, asked in (("a", HERE), ("b", THERE))
    ]
    context = context_of(types=(a_type(),), pods=tuple(pods), **STORAGE)
    said = []
    for pod in pods:
        group = context.pod_groups.of(pod)
        said += [disagreement(context, pod, group, step) for step in group.steps[:1]]
    agrees, *disagrees = said
    assert agrees == ""
    assert all(
        found == f"{OF_VOLUME} is where {labels.ZONE} is another than the pod itself demands" for found in disagrees
    )


@pytest.mark.parametrize(
    ("terms", "is_of_volume"),
    [
        ((NodeSelectorTerm((HERE,)), NodeSelectorTerm((OTHER,))), True),
        ((NodeSelectorTerm((OTHER,)), NodeSelectorTerm((HERE,))), True),
        ((NodeSelectorTerm((OTHER,)),), False),
    ],
)
def test_a_volume_demands_a_label_if_one_of_its_ways_does(
    terms: tuple[NodeSelectorTerm, ...], is_of_volume: bool
) -> None:
    """A volume may be reached in several ways, and each names other labels."""
    volumes = (PersistentVolume(name="v", node_terms=terms, driver="ebs.csi.aws.com"),)
    pod = a_pod("p", volumes=(VolumeUse("data"),))
    context = context_of(types=(a_type(),), pods=(pod,), **{**STORAGE, "volumes": volumes})
    group = group_of(context, "p")
    found = demand_source(context, None, group, group.steps[0], labels.ZONE)
    assert found == ("a volume of the pod" if is_of_volume else "the pod")


def test_the_first_of_several_volumes_is_named() -> None:
    """One is enough to find the cause."""
    claims = tuple(
        PersistentVolumeClaim(namespace="default", name=name, volume_name="v", phase="Bound", is_bind_completed=True)
        for name in ("data", "logs")
    )
    pod = a_pod("p", volumes=(VolumeUse("data"), VolumeUse("logs")))
    context = context_of(types=(a_type(),), pods=(pod,), **{**STORAGE, "volume_claims": claims})
    group = group_of(context, "p")
    assert demand_source(context, pod, group, group.steps[0], labels.ZONE) == OF_VOLUME
