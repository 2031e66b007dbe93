"""An update and a roll-back in the middle of nodes' lives: each step finds rows that another release has written."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from adapters.aws.dynamodb import table
from core.manifests.wire import resources
from lambdas.handlers import disrupt, provision, reconcile
from tests.contract.stored_news import with_news
from tests.fakes.lab import a_pending_pod
from tests.integration.test_handlers import Context, Deployed, decided, deployed

__all__ = ["deployed"]

STEPS = 20
"""An empty node is gone sooner: a look, a check 15 s later, the drain, the instance."""


def of_tomorrow(record: Any) -> bytes:
    """The row as a later release writes it: each of its objects has a field that this one does not know."""
    return json.dumps(with_news(json.loads(msgspec.json.encode(record)), type(record))).encode()


def of_yesterday(record: Any) -> bytes:
    """The row as an earlier release writes it: fields that are at their default did not exist yet."""
    body = json.loads(msgspec.json.encode(record))
    defaults = {field.name: field for field in msgspec.structs.fields(record) if not field.required}
    return json.dumps({k: v for k, v in body.items() if k not in defaults or v != defaults[k].default}).encode()


@pytest.fixture(params=[of_tomorrow, of_yesterday], ids=["after a roll-back", "after an update"])
def written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Every row is rewritten as the other release has it when it is stored; type of those that were → their keys."""
    seen: dict[str, set[str]] = {}
    item = table.RecordItems.item

    def rewritten(self: Any, sort: str, record: Any) -> Any:
        seen.setdefault(type(record).__name__, set()).add(sort)
        return {**item(self, sort, record), "body": table.packed(request.param(record))}

    monkeypatch.setattr(table.RecordItems, "item", rewritten)
    return seen


def test_a_node_lives_through_an_update_and_a_roll_back(deployed: Deployed, written: dict[str, set[str]]) -> None:
    """Otherwise, its claim cannot be read: the node is ended, or nobody knows that it is to go."""
    lab, context = deployed.lab, Context()
    lab.kubernetes.put(a_pending_pod("p"))
    assert decided(provision.handler({}, context)) == [("launch", "Launched")]
    lab.boot()
    claim = lab.cloud.instances()[0].tags["fleetwright.dev/claim"]
    assert decided(deployed.execute({"claim": claim})) == [("register", "NodeJoined")]
    lab.clock.advance(seconds=3)
    assert deployed.execute({"claim": claim})["boundPods"] == 1
    lab.clock.advance(seconds=3)
    assert decided(deployed.execute({"claim": claim})) == [("initialize", "NodeReady")]
    assert decided(reconcile.handler({}, context)) == []
    lab.kubernetes.drop(resources.PODS, "p", "default")
    for _ in range(STEPS):
        lab.clock.advance(seconds=15)
        disrupt.handler({}, context)
        deployed.execute(
            *({"command": command} for command in sorted(written.get("CommandRecord", ()))), {"claim": claim}
        )
        if not lab.kubernetes.names(resources.NODES):
            break
    assert lab.kubernetes.names(resources.NODES) == []
    assert lab.cloud.instances() == ()
    assert {"ClaimRecord", "CommandRecord"} <= set(written)
