"""What the simulated API server selects."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.ports import DeniedError
from core.manifests.wire import api_resources as kinds
from simulator.cluster.list_selectors import selection

POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "shop", "labels": {"team": "x", "tier": "web"}},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running"},
}
UNBOUND: dict[str, Any] = {"metadata": {"name": "b", "namespace": "shop"}, "spec": {}, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("fields", "labels", "selected"),
    [
        ("", "", "ab"),
        ("spec.nodeName=n1", "", "a"),
        ("spec.nodeName==n1", "", "a"),
        ("spec.nodeName=", "", "b"),
        ("spec.nodeName!=", "", "a"),
        ("spec.nodeName=,status.phase=Pending", "", "b"),
        ("metadata.namespace=shop,metadata.name=a", "", "a"),
        ("", "team", "a"),
        ("", "!team", "b"),
        ("", "team=x,tier!=web", ""),
        ("", "team!=x", "b"),
        ("", "team in (x, y),tier notin (db)", "a"),
        ("", "team notin (x)", "b"),
        ("status.phase=Running", "team=y", ""),
    ],
)
def test_selectors_select_as_kubernetes_does(fields: str, labels: str, selected: str) -> None:
    """Where the simulated server selects others than the real one, all that is tried on it proves nothing."""
    is_selected = selection(kinds.PODS, fields, labels)
    assert "".join(pod["metadata"]["name"] for pod in (POD, UNBOUND) if is_selected(pod)) == selected


@pytest.mark.parametrize(("kind", "field"), [(kinds.NODES, "spec.providerID"), (kinds.PODS, "spec.priority")])
def test_a_field_that_the_server_does_not_know_is_refused(kind: kinds.Resource, field: str) -> None:
    """Taken for something that selects nothing, it would hide every object from a decision."""
    with pytest.raises(DeniedError, match=field):
        selection(kind, f"{field}=1", "")
