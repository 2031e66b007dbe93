"""Somebody deletes Node objects whose instances run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import simulator.run
from core.manifests.wire import resources
from simulator.world import World, open_world
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

HALF = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
}


def test_all_nodes_are_deleted_at_once_and_the_budget_of_pods_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this failed, `kubectl delete nodes --all` would take a service down; with it pods move within their budget."""

    @contextmanager
    def with_deletion(*arguments: Any, **options: Any) -> Iterator[World]:
        with open_world(*arguments, **options) as world:

            def delete_all() -> None:
                for node in world.cluster.api.list(resources.NODES).items:
                    world.cluster.api.delete(resources.NODES, node.metadata.name)

            world.clock.after(timedelta(minutes=8), delete_all)
            yield world

    monkeypatch.setattr(simulator.run, "open_world", with_deletion)
    result = play(tmp_path, node_pool(), HALF, deployment(4, cpu="12"), duration="25m")
    assert len(named(result, "podEvicted")) == 4
    assert (result.summary["nodesTerminated"], result.summary["nodesAtEnd"]) == (4, 4)
    assert result.summary["podsPending"] == 0
    assert_lawful(result)
