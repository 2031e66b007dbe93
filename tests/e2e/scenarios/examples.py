"""Everything in `examples/`, applied bit by bit as users would."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import yaml

from adapters.ports import JsonObject
from tests.e2e.play import Play

FOLDER: Final = Path(__file__).parents[3] / "examples"
PODS: Final = {"zonal-affinity": 8, "zonal-anti-affinity": 3, "stateful": 20, "gpu": 2, "shop": 31}
"""What runs of each file; `daemons` is on every node and `notebook` is not meant to run."""

NOTEBOOK: Final = "research/forgot-the-toleration"


def scene(playing: Play, *, apart: float = 0.0) -> None:
    """Apply each file some seconds after the one before; all but the notebook must run, and an Event says why it waits."""
    for path in sorted((FOLDER / "pools").glob("*.yaml")):
        playing.apply(*map(_hurried, yaml.safe_load_all(path.read_text())))
    playing.apply_file(FOLDER / "workloads" / "daemons.yaml")
    playing.ready()
    playing.ignore(NOTEBOOK)
    for name in (*PODS, "notebook"):
        playing.apply_file(FOLDER / "workloads" / f"{name}.yaml")
        time.sleep(apart)
    playing.wait_until_running(sum(PODS.values()))
    playing.wait_until_none_is_empty()
    playing.wait(lambda: _told(playing), "the notebook is told why it waits")


def _hurried(manifest: JsonObject) -> JsonObject:
    """Pools that only let empty nodes go do so soon, and all at once.

    kube-scheduler may leave some empty where pods merely prefer to spread.
    """
    disruption = manifest["spec"].get("disruption") or {}
    if disruption.get("consolidationPolicy") == "WhenEmpty":
        disruption |= {"consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]}
    return manifest


def _told(playing: Play) -> list[JsonObject]:
    """Events about the notebook by our functions."""
    namespace, _, name = NOTEBOOK.partition("/")
    return [
        event
        for event in playing.world.admin.list("events", namespace)
        if event["involvedObject"]["name"] == name and "scheduler" not in str(event.get("source"))
    ]
