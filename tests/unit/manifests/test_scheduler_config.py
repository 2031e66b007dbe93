"""The cluster's default spreads: read wrongly, pods are planned where the scheduler does not bind them."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.errors import InvalidInputError
from core.manifests.scheduler_config import default_spreads, scoring
from core.model.pod import DO_NOT_SCHEDULE, TopologySpread
from core.pods import SYSTEM_SPREADS

ZONES = {"maxSkew": 2, "topologyKey": labels.ZONE, "whenUnsatisfiable": DO_NOT_SCHEDULE}
READ = (TopologySpread(labels.ZONE, 2, DO_NOT_SCHEDULE),)


def karpenters(*constraints: Any) -> dict[str, Any]:
    return {"podTopologySpread": {"defaultConstraints": list(constraints)}}


def schedulers(**args: Any) -> dict[str, Any]:
    other = {"schedulerName": "other", "pluginConfig": []}
    own = {"schedulerName": "default-scheduler", "pluginConfig": [{"name": "PodTopologySpread", "args": args}]}
    return {"kind": "KubeSchedulerConfiguration", "profiles": [other, own]}


@pytest.mark.parametrize(
    ("document", "spreads"),
    [
        ({}, ()),
        (karpenters(ZONES), READ),
        (schedulers(defaultingType="List", defaultConstraints=[ZONES]), READ),
        (schedulers(defaultingType="List"), ()),
        (schedulers(), SYSTEM_SPREADS),
        ({"kind": "KubeSchedulerConfiguration"}, SYSTEM_SPREADS),
        (
            {
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": None}]}],
            },
            SYSTEM_SPREADS,
        ),
        ({"podTopologySpread": None}, ()),
        ({"kind": "PodTopologySpreadArgs", "defaultingType": "List", "defaultConstraints": [ZONES]}, READ),
    ],
)
def test_each_format_of_users_is_read(document: dict[str, Any], spreads: tuple[TopologySpread, ...]) -> None:
    """Users should not have to write the constraints a second time."""
    assert default_spreads(document) == spreads


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([], "scheduler configuration: is not an object"),
        ({"podTopology": {}}, "scheduler configuration: has podTopology: give podTopologySpread.defaultConstraints"),
        ({"podTopologySpread": {"constraints": []}}, "podTopologySpread: knows defaultConstraints only"),
        (karpenters({**ZONES, "maxSkew": 0}), "podTopologySpread.defaultConstraints[0].maxSkew: 0 is not one or more"),
        (karpenters({**ZONES, "topologyKey": ""}), "podTopologySpread.defaultConstraints[0].topologyKey: is missing"),
        (karpenters({**ZONES, "maxskew": 1}), "podTopologySpread.defaultConstraints[0].maxskew: is not a field"),
        (
            karpenters({**ZONES, "maxSkew": "1"}),
            "podTopologySpread.defaultConstraints[0].maxSkew: must be a number, not text",
        ),
        (karpenters({**ZONES, "labelSelector": {}}), "defaultConstraints[0].labelSelector: must be left out"),
        (karpenters({**ZONES, "whenUnsatisfiable": "Never"}), "defaultConstraints[0].whenUnsatisfiable: unknown value"),
        (karpenters(ZONES, {**ZONES, "maxSkew": 1}), "defaultConstraints[1]: repeats topologyKey"),
        (schedulers(defaultConstraints=[ZONES]), "profiles[1].pluginConfig[0].args.defaultConstraints: needs"),
        (schedulers(defaultingType="List", defaultConstraints={}), "args.defaultConstraints: is not a list"),
    ],
)
def test_a_mistake_names_the_field(document: Any, complaint: str) -> None:
    """A constraint that is silently dropped shows only when pods pile up in one zone."""
    with pytest.raises(InvalidInputError) as caught:
        default_spreads(document)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["default-scheduler", "other"], 0),
        (["other", "default-scheduler"], 1),
        (["other", "third"], 0),
        ([None, "other"], 0),
    ],
)
def test_the_default_profile_counts_else_the_first(names: list[str | None], chosen: int) -> None:
    """A profile without a name is the default one."""
    profiles = [
        {
            **({} if name is None else {"schedulerName": name}),
            "pluginConfig": [
                {
                    "name": "PodTopologySpread",
                    "args": {"defaultingType": "List", "defaultConstraints": [{**ZONES, "maxSkew": 3 + number}]},
                }
            ],
        }
        for number, name in enumerate(names)
    ]
    document = {
        "kind": "KubeSchedulerConfiguration",
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "profiles": profiles,
    }
    assert [spread.max_skew for spread in default_spreads(document)] == [3 + chosen]


def fit(**strategy: Any) -> dict[str, Any]:
    return {"scoringStrategy": strategy}


@pytest.mark.parametrize(
    ("document", "strategy"),
    [
        ({}, "LeastAllocated"),
        (karpenters(ZONES), "LeastAllocated"),
        ({"nodeResourcesFit": fit(type="MostAllocated")}, "MostAllocated"),
        ({**karpenters(ZONES), "nodeResourcesFit": fit(type="LeastAllocated")}, "LeastAllocated"),
        (
            {
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": fit(type="MostAllocated")}]}],
            },
            "MostAllocated",
        ),
        (schedulers(), "LeastAllocated"),
    ],
)
def test_the_scoring_strategy_stands_where_eks_and_kube_scheduler_write_it(
    document: dict[str, Any], strategy: str
) -> None:
    """Otherwise, announced moves name the emptiest nodes where kube-scheduler fills the fullest."""
    assert scoring(document) == strategy


def test_a_strategy_that_eks_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="LeastAllocated and MostAllocated are known") as refused:
        scoring({"nodeResourcesFit": fit(type="RequestedToCapacityRatio")})
    assert refused.value.field == "nodeResourcesFit.scoringStrategy.type"


def test_a_strategy_adds_no_spreads() -> None:
    assert default_spreads({"nodeResourcesFit": fit(type="MostAllocated")}) == ()
