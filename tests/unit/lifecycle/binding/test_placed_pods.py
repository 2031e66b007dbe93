"""The pods on nodes, with those that the turn itself has bound."""

from __future__ import annotations

from core import labels
from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.binding.pod_selection import spread_selection
from core.model.pod import HostPort
from tests.builders import a_pod
from tests.unit.lifecycle.binding.cases import a_held_node, a_spread, a_term, web


def test_bound_pods_count_and_undone_ones_do_not() -> None:
    placed = PlacedPods([a_held_node()], [web("old", "n"), web("done", "n", phase="Succeeded")])
    selection = spread_selection(web("p"), a_spread())
    assert dict(placed.counted(selection)) == {"n": 1}
    pod = web("p", host_ports=(HostPort(80),), anti_affinity=(a_term(),))
    placed.place(pod, "n")
    assert dict(placed.counted(selection)) == {"n": 2}
    assert placed.used("n")["cpu"] == 2000
    assert [port.port for port in placed.host_ports("n")] == [80]
    assert [key for key, _ in placed.repelling(web("q"))] == [labels.ZONE]
    placed.remove(pod, "n")
    assert dict(placed.counted(selection)) == {"n": 1}
    assert placed.used("n")["cpu"] == 1000
    assert list(placed.repelling(web("q"))) == []
    placed.remove(pod, "n")
    assert placed.used("n")["cpu"] == 1000


def test_labels_are_known_for_existing_nodes() -> None:
    placed = PlacedPods([a_held_node()], [])
    assert (placed.value("n", labels.ZONE), placed.value("gone", labels.ZONE)) == ("a", None)


def test_domains_are_computed_once() -> None:
    """Otherwise, each of a thousand pods checks each of a thousand nodes."""
    placed, asked = PlacedPods([], []), list[str]()

    def domains() -> dict[str, str]:
        asked.append("once")
        return {"n": "a"}

    assert placed.remembered("k", domains) == placed.remembered("k", domains) == {"n": "a"}
    assert asked == ["once"]


def test_a_pod_that_waits_is_on_no_node() -> None:
    """Not even on one without a name."""
    placed = PlacedPods([a_held_node("")], [web("waits")])
    assert placed.used("") == {}
    assert dict(placed.counted(spread_selection(web("p"), a_spread()))) == {}


def test_only_pods_that_an_anti_affinity_selects_are_repelled() -> None:
    placed = PlacedPods([a_held_node()], [a_pod("old", node_name="n", anti_affinity=(a_term(),))])
    assert [key for key, _ in placed.repelling(web("p"))] == [labels.ZONE]
    assert list(placed.repelling(a_pod("q", labels={"app": "db"}))) == []
