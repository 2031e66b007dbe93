"""The screen of `top`: what keys do, and that every line fits at any size, for a few nodes and for ten thousand."""

from __future__ import annotations

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cli.answers.top import HELP, NODES, PODS, TABS, WORK, Observation, View, frame, observation, pressed, visible
from core import labels
from core.model.plan import Blocked, Command, DisruptionCost, DisruptionPlan
from core.model.snapshot import Snapshot
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_snapshot, a_type

SMALL = a_type("m5.large", price=0.1)
HEIGHT = 20


def a_cluster(count: int = 3, **changes: Any) -> Snapshot:
    """Nodes with ages of an hour and more, the first with a pod; one pod waits."""
    pairs = [
        a_node_of(SMALL, f"ip-10-0-0-{number}.eu-west-1.compute.internal", created_at=NOW - timedelta(hours=1 + number))
        for number in range(count)
    ]
    fields = {
        "node_pools": (a_pool(),),
        "node_claims": tuple(claim for claim, _ in pairs),
        "nodes": tuple(node for _, node in pairs),
        "pods": (a_pod("running", node_name=pairs[0][1].name), a_pod("waiting")),
    }
    return a_snapshot(types=(SMALL,), **{**fields, **changes})


def found(snapshot: Snapshot | None = None, plan: DisruptionPlan | None = None, own: Any = None) -> Observation:
    return observation(snapshot or a_cluster(), own, plan, cluster="prod")


def after(keys: str | list[str], seen: Observation, view: View | None = None) -> View:
    view = view or View()
    for key in keys:
        view = pressed(view, key, seen, HEIGHT)
    return view


def shown(seen: Observation | None, view: View, width: int = 120, problem: str = "") -> list[str]:
    return [line.text for line in frame(seen, view, width, HEIGHT, problem)]


def test_a_decision_says_why_nodes_stay_and_go() -> None:
    snapshot = a_cluster()
    first, second = (node.name for node in snapshot.nodes[:2])
    plan = DisruptionPlan(
        now=NOW,
        commands=(Command(reason="Empty", method="emptiness", nodes=(second,), claims=("c",)),),
        blocked=(Blocked(node=first, reason="DoNotDisrupt", message="pod shop/web-1 must not be moved"),),
        cost=DisruptionCost(before=3 * 10**8, after=2 * 10**8),
    )
    seen = found(snapshot, plan)
    lines = shown(seen, View(), 200)
    assert lines[0].endswith("1 node can go, $0.10/h less")
    assert lines[3].rstrip().endswith("DoNotDisrupt")
    assert lines[4].rstrip().endswith("goes: Empty")
    details = shown(seen, after(["enter"], seen))
    assert "DoNotDisrupt: pod shop/web-1 must not be moved" in details
    assert "default/running" in details


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 5, 24, 60])
@pytest.mark.parametrize("keys", ["", "2", "3", "4", "?", "ss", "/ip"])
def test_every_screen_has_its_size(width: int, height: int, keys: str) -> None:
    seen = found()
    view = after(keys, seen)
    for view_of in (view, msgspec.structs.replace(view, shows="details")):
        lines = frame(seen, view_of, width, height)
        assert len(lines) == height
        assert all(len(line.text) <= width for line in lines)


def test_long_names_are_cut_in_the_middle_at_eighty_columns() -> None:
    name = "ip-10-0-255-255.us-gov-west-1.compute.internal.example.com"
    claim, node = a_node_of(SMALL, name)
    line = shown(found(a_cluster(nodes=(node,), node_claims=(claim,), pods=())), View(), 80)[3]
    assert line.startswith("ip-10-0-255-255")
    assert "…" in line[:33]
    assert "example.com" in line[:33]


def test_keys_move_within_the_rows() -> None:
    seen = found(a_cluster(100))
    assert after("jj", seen).cursor == 2
    assert after(["up"], seen).cursor == 0
    assert after(["pagedown"], seen).cursor == HEIGHT - 4
    end = after("G", seen)
    assert (end.cursor, end.top) == (99, 100 - (HEIGHT - 4))
    assert after(["G", "g"], seen).top == 0
    for view in (end, after(["pagedown", "pagedown", "k"], seen)):
        lines = frame(seen, view, 120, HEIGHT)
        (marked,) = [line.text for line in lines if line.style == "reverse"]
        assert marked.startswith(visible(seen, view)[view.cursor].cells[0][:10])


def test_a_text_filters_rows_and_escape_ends_it() -> None:
    seen = found(a_cluster(30))
    typed = after("/0-7.", seen)
    assert [row.cells[0] for row in visible(seen, typed)] == ["ip-10-0-0-7.eu-west-1.compute.internal"]
    assert "q" in after("/q", seen).text
    assert after(["/", "7", "backspace"], seen).text == ""
    kept = pressed(typed, "enter", seen, HEIGHT)
    assert (kept.text, kept.is_typing) == ("0-7.", False)
    assert pressed(kept, "escape", seen, HEIGHT).text == ""


def test_rows_are_sorted_by_what_a_cell_means_and_not_by_its_letters() -> None:
    """11h is older than 2h."""
    seen = found(a_cluster(12))
    view = after("sssss", seen)
    assert seen.tables[NODES].headings[view.sort or 0] == "AGE"
    ages = [row.cells[4] for row in visible(seen, view)]
    assert (ages[0], ages[-1]) == ("1h", "12h")
    assert [row.cells[4] for row in visible(seen, after("S", seen, view))] == ages[::-1]
    assert "AGE▼" in shown(seen, view)[2]


def test_tabs_show_pools_pods_and_work() -> None:
    seen = found()
    assert [after(str(number), seen).tab for number in range(1, 5)] == list(TABS)
    assert after(["tab"] * 4, seen).tab == NODES
    assert [row.cells[0] for row in seen.tables[PODS].rows] == ["default/waiting"]
    assert "known with --cluster NAME" in seen.tables[WORK].rows[0].cells[0]


def test_work_of_the_functions_is_listed() -> None:
    command = SimpleNamespace(
        id="c-1",
        decision="",
        phase="draining",
        command=Command(reason="Drifted", method="drift", nodes=("n",), claims=("c",)),
        replacements=(),
        created_at=NOW,
        phase_since=NOW - timedelta(minutes=3),
    )
    own = SimpleNamespace(
        view=SimpleNamespace(claims={}, commands=(command,)),
        proposals=None,
        brakes=SimpleNamespace(brakes=()),
        breakers=(),
        sweeps={},
        forecast=None,
    )
    (row,) = found(own=own).tables[WORK].rows
    assert row.cells == ("command c-1 draining", "Drifted", "3m", "n")


def test_help_names_each_key_and_any_way_back_works() -> None:
    seen = found()
    assert shown(seen, after("?", seen))[2:4] == list(HELP[:2])
    for key in ("escape", "enter", "?"):
        assert after(["?", key], seen).shows == "table"
    assert after("q", seen).is_over
    assert after("r", seen).wants_reading
    assert after("x", seen) == View()


def test_before_the_first_reading_and_after_a_failed_one_the_screen_says_so() -> None:
    assert shown(None, View())[0] == "reading the cluster …"
    assert shown(None, View(), problem="no such context")[0] == "no such context"
    lines = shown(found(), View(), problem="the API server does not answer")
    assert lines[-1].startswith("the API server does not answer")
    assert "m5.large" in lines[3]


def test_what_a_cluster_without_nodes_shows() -> None:
    seen = found(a_cluster(nodes=(), node_claims=(), pods=()))
    view = after(["j", "G", "enter"], seen)
    assert shown(seen, view)[0].startswith("prod: 0 nodes; $0.00/h")


def test_ten_thousand_nodes_cost_a_key_little() -> None:
    """A frame formats the rows on the screen only."""
    seen = found(a_cluster(10_000))
    view = after("G", seen)
    began = time.process_time()
    for _ in range(20):
        view = pressed(view, "up", seen, HEIGHT)
        assert len(frame(seen, view, 160, HEIGHT)) == HEIGHT
    assert (time.process_time() - began) / 20 < 0.05


def test_a_node_that_leaves_says_why() -> None:
    whole = a_cluster(1)
    claims = tuple(msgspec.structs.replace(claim, deleted_at=NOW) for claim in whole.node_claims)
    (row,) = found(msgspec.structs.replace(whole, node_claims=claims)).tables[NODES].rows
    assert row.cells[9].startswith("leaving")
    nodes = tuple(msgspec.structs.replace(node, is_ready=False) for node in whole.nodes)
    (row,) = found(msgspec.structs.replace(whole, nodes=nodes)).tables[NODES].rows
    assert row.cells[9] == "NotReady"
    assert labels.NODEPOOL not in row.cells
