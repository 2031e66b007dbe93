"""`explain`: of the present or of a decision, as JSON, with the exit code that scripts read."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from cli.__main__ import main
from cli.arguments import time_limit_warning
from cli.commands import explain
from cli.terminal.output import reason_page
from core.explain import Explanation
from core.scheduling.explanation_text import PoolFinding
from tests.builders import NOW

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("subject", "named"),
    [
        ("pod shop/cart-0", {"pod": "shop/cart-0"}),
        ("node n", {"node": "n"}),
        ("NodePool web", {"nodePool": "web"}),
        ("code Empty", {"code": "Empty"}),
        ("Deployment shop/cart", {"workload": "Deployment shop/cart"}),
    ],
)
@pytest.mark.parametrize("reason", ["", "LimitReached"])
def test_the_document_names_its_object_and_the_page_of_its_reason(
    subject: str, named: dict[str, str], reason: str
) -> None:
    pools = (
        PoolFinding(node_pool="a", reason="LimitReached", message="is full", ruled_out={"limits": 2}, nearest="m5"),
        PoolFinding(node_pool="b", reason=None, message="has room"),
    )
    found = Explanation(subject=subject, outcome="waits", reason=reason, details=("first", "second"), pools=pools)
    assert explain._document(found) == {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Explanation",
        **named,
        "outcome": "waits",
        "reason": reason or None,
        "page": reason_page(reason) if reason else None,
        "details": ["first", "second"],
        "nodePools": [
            {
                "name": "a",
                "reason": "LimitReached",
                "message": "is full",
                "nearest": "m5",
                "ruledOut": {"limits": 2},
            },
            {"name": "b", "reason": None, "message": "has room", "nearest": None, "ruledOut": {}},
        ],
    }


@pytest.mark.parametrize(
    "words",
    [
        ("--ledger", "x"),
        ("--decision", "81c04f2b6d"),
        ("--at", "2026-11-20T00:00:00Z"),
        ("--since", "7d"),
    ],
)
@pytest.mark.parametrize("has_no_place", [False, True])
def test_a_decision_is_explained_from_a_ledger_alone(
    words: tuple[str, ...], has_no_place: bool, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Explanation(subject="pod a/b", outcome="waited", has_no_place=has_no_place)
    past: Any = SimpleNamespace(explanation=found, entry=SimpleNamespace(id="81c0", at=NOW))
    monkeypatch.setattr("cli.ledger.entries.explain_past", lambda _: past)
    assert main(["explain", "a/b", *words, "-o", "json"]) == int(has_no_place)
    document = json.loads(capsys.readouterr().out)
    assert document == explain._document(found) | {"decision": "81c0", "time": f"{NOW:%Y-%m-%dT%H:%M:%SZ}"}
    for present in (("-f", "x.yaml"), ("--context", "prod")) if words[0] != "--at" else ():
        assert main(["explain", "a/b", *words, *present]) == 2
        assert "leave out -f and --context" in capsys.readouterr().err


@pytest.mark.parametrize(("stopped_by", "is_told"), [("time", True), ("iterations", False), (None, False)])
def test_a_search_that_the_clock_ended_is_told(
    stopped_by: str | None, is_told: bool, cluster: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The explanation then depends on the machine."""
    limit = None if stopped_by is None else SimpleNamespace(stopped_by=stopped_by)
    asked: list[Any] = []

    def explained(out_of_time: Any) -> Explanation:
        asked.append(out_of_time)
        return Explanation(subject="pod a/b", outcome="fits")

    monkeypatch.setattr("cli.arguments.share_of_time", lambda _: limit)
    monkeypatch.setattr(explain, "NamedTarget", lambda *_: SimpleNamespace(explained=explained))
    assert main(["explain", "shop/cart-0", *cluster]) == 0
    captured = capsys.readouterr()
    assert captured.out == "pod a/b fits\n"
    assert (f"warning: {time_limit_warning('time')}\n" in captured.err) is is_told
    assert asked == [limit]
