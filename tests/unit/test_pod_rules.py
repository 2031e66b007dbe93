"""Rules between pods, as kube-scheduler reads them; paths are below pkg/scheduler/framework/plugins of Kubernetes."""

from __future__ import annotations

import pytest

from core import labels
from core.model.pod import LabelSelector, TopologySpread
from core.model.values.requirements import Requirement
from core.pod_rules import AFFINITIES_COUNT_TERMINATING, SPREADS_COUNT_TERMINATING, spread_selector, with_label_keys
from tests.builders import a_selector

OWN = {"app": "web", "version": "1"}
WEB = a_selector(app="web")
ALL = LabelSelector()

OTHERS = {
    "alike": {"app": "web", "version": "1"},
    "next version": {"app": "web", "version": "2"},
    "no version": {"app": "web"},
    "other app": {"app": "db", "version": "1"},
}


def selected(selector: LabelSelector | None) -> list[str]:
    return [name for name, values in OTHERS.items() if selector is not None and selector.matches(values)]


@pytest.mark.parametrize(
    ("selector", "same", "other", "expected"),
    [
        (WEB, (), (), ["alike", "next version", "no version"]),
        (WEB, ("version",), (), ["alike"]),
        (WEB, (), ("version",), ["next version", "no version"]),
        (WEB, ("absent",), ("absent",), ["alike", "next version", "no version"]),
        (ALL, (), (), list(OTHERS)),
        (ALL, ("app",), ("version",), ["next version", "no version"]),
        (None, ("app",), ("version",), []),
    ],
    ids=["none", "same", "other", "keys that the pod lacks", "everything", "both", "nothing"],
)
def test_label_keys_narrow_what_a_term_selects(
    selector: LabelSelector | None, same: tuple[str, ...], other: tuple[str, ...], expected: list[str]
) -> None:
    """The API server adds `In` and `NotIn` with the pod's own values; keys without a value add nothing."""
    assert selected(with_label_keys(selector, OWN, same, other)) == expected


def test_the_order_and_number_of_label_keys_do_not_matter() -> None:
    """Two writings of one rule would be two groups of the topology, which are counted apart."""
    once = with_label_keys(ALL, OWN, ("app", "version"))
    assert with_label_keys(ALL, OWN, ("version", "app", "version")) == once
    stated = LabelSelector((Requirement.one_of("app", "web"),))
    assert with_label_keys(stated, OWN, ("app",)) == stated


@pytest.mark.parametrize(
    ("selector", "keys", "expected"),
    [
        (WEB, (), ["alike", "next version", "no version"]),
        (WEB, ("version",), ["alike"]),
        (ALL, (), []),
        (ALL, ("version",), ["alike", "other app"]),
        (ALL, ("absent",), []),
        (None, (), []),
        (None, ("version",), []),
    ],
    ids=[
        "labels",
        "and keys",
        "empty",
        "empty with keys",
        "empty with keys that the pod lacks",
        "nil",
        "nil with keys",
    ],
)
def test_an_empty_selector_of_a_spread_selects_nothing(
    selector: LabelSelector | None, keys: tuple[str, ...], expected: list[str]
) -> None:
    """`countPodsMatchSelector` returns 0 for it (podtopologyspread/common.go), unlike an affinity's, which selects all."""
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=selector, match_label_keys=keys)
    assert selected(spread_selector(spread, OWN)) == expected


def test_terminating_pods_count_for_affinities_alone() -> None:
    """podtopologyspread/common.go skips pods with a deletion time; interpodaffinity/filtering.go counts every pod."""
    assert (SPREADS_COUNT_TERMINATING, AFFINITIES_COUNT_TERMINATING) == (False, True)
