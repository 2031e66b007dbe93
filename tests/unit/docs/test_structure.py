"""The page of the structure lists the modules that place a pod."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from core.scheduling.planner import schedule
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/engineering/structure.md"
FOLDER = f"{ROOT}/core/scheduling/"


def listed() -> list[str]:
    section = PAGE.read_text().partition("## The way of a pod")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([a-z_/]+\.py)` \|", section, re.MULTILINE)


def test_a_pod_takes_the_way_that_the_page_lists() -> None:
    """Otherwise, a newcomer reads modules that decide nothing about the pod, or misses one."""
    claim, node = a_node_of(a_type("m"), "full")
    running = a_pod("running", cpu="100", node_name="full", phase="Running")
    pods = (running, a_pod("a"), a_pod("b"))
    snapshot = a_snapshot(pods=pods, nodes=(node,), node_claims=(claim,), node_pools=(a_pool(),), types=(a_type("m"),))
    ways = listed()
    first: dict[str, int] = {}

    def see(frame: FrameType, event: str, _: Any) -> None:
        where = frame.f_code.co_filename.removeprefix(FOLDER)
        if event == "call" and where in ways and frame.f_code.co_name not in ("__init__", "__post_init__"):
            first.setdefault(where, len(first))

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        plan = schedule(snapshot)
    finally:
        sys.setprofile(before)
    assert plan.claims
    assert len(ways) == 5
    assert sorted(first, key=first.__getitem__) == ways
