"""The id of one decision, from the ledger through log, metric, event and tag to the node's later steps."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest
from aws_lambda_powertools import Logger

from adapters import observability
from core import labels
from core.manifests.wire import resources
from lambdas.handlers import provision
from tests.fakes.lab import a_pending_pod
from tests.integration.test_handlers import Context, Deployed, deployed

__all__ = ["deployed"]


class Written:
    """What the functions write to their log: a place that is emptied when it is read."""

    def __init__(self) -> None:
        self.stream = StringIO()

    def lines(self) -> list[dict[str, Any]]:
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Written:
    made = Written()
    monkeypatch.setattr(observability, "logger", Logger(service=request.node.name, stream=made.stream))
    return made


def decisions_in(lines: list[dict[str, Any]], kind: str) -> set[str]:
    return {line.get("decision", "") for line in lines if line.get("message") == "decision" and line["kind"] == kind}


def test_one_decision_is_followed_by_its_id(deployed: Deployed, written: Written) -> None:
    lab = deployed.lab
    lab.kubernetes.put(a_pending_pod("p"))
    with redirect_stdout(written.stream):
        provision.handler({}, Context())
    (claim,) = (instance.tags[labels.CLAIM] for instance in lab.cloud.instances())
    (decision,) = (instance.tags[labels.DECISION] for instance in lab.cloud.instances())
    lines = written.lines()
    assert decision
    assert decisions_in(lines, "launch") == {decision}
    assert [line["decisions"] for line in lines if "DecisionsLaunch" in line] == [[decision]]
    told = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
    assert {f"(decision {decision})" in event["message"] for event in told} == {True}
    lab.boot()
    with redirect_stdout(written.stream):
        deployed.execute({"claim": claim})
    assert decisions_in(written.lines(), "register") == {decision}
    (node,) = lab.kubernetes.names(resources.NODES)
    assert lab.kubernetes.raw(resources.NODES, node)["metadata"]["annotations"][labels.DECISION] == decision
