"""A cluster's input without a kind that the answer depends on is warned about, by what follows."""

from __future__ import annotations

import pytest

from cli.completeness import missing
from cli.manifests import KUBECTL
from core.manifests.wire import resources

POOLS, CLAIMS = "NodePools (nothing can be launched)", "NodeClaims (no node counts as ours)"
DAEMONS = "DaemonSets (new nodes are planned without room for them)"
PODS, BUDGETS = "Pods (every node looks empty)", "PodDisruptionBudgets (evictions look unlimited)"


@pytest.mark.parametrize(
    ("command", "lacking"),
    [
        ("plan", (POOLS, CLAIMS, DAEMONS, PODS)),
        ("explain", (POOLS, CLAIMS, DAEMONS)),
        ("consolidate", (POOLS, CLAIMS, DAEMONS, PODS, BUDGETS)),
        ("status", (POOLS, CLAIMS, PODS)),
        ("validate", ()),
    ],
)
def test_nodes_alone_are_not_a_cluster(command: str, lacking: tuple[str, ...]) -> None:
    nodes = {resources.NODES: [1]}
    text = f"the input has Nodes but no {', '.join(lacking)}; complete: {KUBECTL}" if lacking else ""
    assert missing(command, nodes, ours_by_annotation=False) == text
    assert missing(command, nodes, ours_by_annotation=True) == text.replace(f"{CLAIMS}, ", "")
    if command != "consolidate":
        assert missing(command, {}, ours_by_annotation=False) == ""


def test_what_has_no_nodes_has_none_that_could_go() -> None:
    """`no node goes; $0.0000 an hour` looked like an answer."""
    text = f"the input has no Nodes, so none can go; complete: {KUBECTL}"
    assert missing("consolidate", {resources.PODS: [1]}, ours_by_annotation=False) == text


def test_what_is_there_or_is_not_needed_is_not_missed() -> None:
    most = {resources.NODES: [1], resources.NODE_POOLS: [1], resources.DAEMON_SETS: [1], resources.PODS: [1]}
    assert missing("plan", most, ours_by_annotation=True) == ""
    assert missing("plan", most | {resources.PODS: []}, ours_by_annotation=True).startswith(
        f"the input has Nodes but no {PODS};"
    )
    assert missing("plan", most, ours_by_annotation=False).startswith(f"the input has Nodes but no {CLAIMS};")
    assert missing("plan", {resources.NODES: []}, ours_by_annotation=False) == ""
