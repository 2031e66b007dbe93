"""Statuses and annotations are written where they differ."""

from __future__ import annotations

from typing import Any

import pytest

from core.manifests.wire import api_resources as kinds
from lambdas.controllers.status.user_objects import UserObjects
from tests.builders import NOW
from tests.fakes.lab import a_node_pool
from tests.fakes.world import FakeClock, FakeKubernetes


@pytest.fixture
def server() -> FakeKubernetes:
    return FakeKubernetes(FakeClock(NOW))


def manifest_of(server: FakeKubernetes) -> dict[str, Any]:
    return server.raw(kinds.NODE_POOLS, "default")


def patches(server: FakeKubernetes) -> list[str]:
    calls: list[str] = []
    server.before_call = calls.append
    return calls


def test_an_annotation_is_set_changed_and_removed(server: FakeKubernetes) -> None:
    server.put(a_node_pool(metadata={"annotations": {"kept": "k", "old": "o"}}))
    objects = UserObjects(server, FakeClock(NOW))
    objects.annotate(kinds.NODE_POOLS, manifest_of(server), {"new": "n", "old": None})
    assert manifest_of(server)["metadata"]["annotations"] == {"kept": "k", "new": "n"}


def test_annotations_that_are_there_are_not_written_again(server: FakeKubernetes) -> None:
    """Each write wakes every watcher of the object."""
    server.put(a_node_pool(metadata={"annotations": {"a": "1"}}), a_node_pool("bare"))
    objects, calls = UserObjects(server, FakeClock(NOW)), patches(server)
    objects.annotate(kinds.NODE_POOLS, manifest_of(server), {"a": "1", "gone": None})
    objects.annotate(kinds.NODE_POOLS, {"metadata": {"name": "bare"}}, {"gone": None})
    assert calls == []
    objects.annotate(kinds.NODE_POOLS, manifest_of(server), {"a": "1", "b": "2"})
    assert calls == ["patch nodepools"]


def test_an_object_that_is_gone_is_no_error(server: FakeKubernetes) -> None:
    objects = UserObjects(server, FakeClock(NOW))
    objects.annotate(kinds.NODE_POOLS, a_node_pool(), {"a": "1"})
    assert objects.write_status(kinds.NODE_POOLS, a_node_pool(), {"nodes": 1})


def test_a_status_is_written_once_and_says_of_which_generation(server: FakeKubernetes) -> None:
    server.put(a_node_pool(metadata={"generation": 7}))
    objects = UserObjects(server, FakeClock(NOW))
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "nodes": 1}
    assert objects.write_status(kinds.NODE_POOLS, manifest_of(server), ready)
    (written,) = manifest_of(server)["status"]["conditions"]
    assert (written["observedGeneration"], written["lastTransitionTime"]) == (7, "2026-11-20T00:00:00Z")
    assert not objects.write_status(kinds.NODE_POOLS, manifest_of(server), ready)
