"""The judge of decisions: a command begins only if its decision is in the bucket."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checkers.decisions import DecisionJudge

KEY = "ledger/decisions/simulated/2026/11/20/000500.000000Z-disrupt-{}"


def command(decision: str, *, name: str = "c", reason: str = "Underutilized") -> dict[str, Any]:
    """A command's row."""
    return {"id": name, "decision": decision, "command": {"reason": reason}}


@pytest.fixture
def found() -> list[tuple[str, str]]:
    """The violations."""
    return []


@pytest.fixture
def judge(found: list[tuple[str, str]]) -> DecisionJudge:
    """A judge that writes to `found`."""
    return DecisionJudge(lambda law, message: found.append((law, message)))


def test_a_command_whose_decision_was_stored_before_is_lawful(judge: DecisionJudge, found: list[Any]) -> None:
    judge.object_written(KEY.format("9f"))
    judge.command_written(command("9f"))
    assert found == []


@pytest.mark.parametrize(
    ("decision", "words"), [("9f", "decision '9f' is not in the ledger"), ("", "it names no decision")]
)
def test_a_command_whose_decision_was_not_stored_is_told_of_once(
    judge: DecisionJudge, found: list[Any], decision: str, words: str
) -> None:
    """Later is too late: what is written after the act is lost with a crash between them."""
    judge.object_written("ledger/bases/simulated/of-9f")
    judge.object_written(KEY.format("aa"))
    judge.command_written(command(decision))
    judge.object_written(KEY.format("9f"))
    judge.command_written(command(decision))
    assert found == [("commandsWithoutDecision", f"command c (Underutilized) has begun, and {words}")]


def test_an_unhealthy_node_is_replaced_without(judge: DecisionJudge, found: list[Any]) -> None:
    judge.command_written(command("9f", reason="Unhealthy"))
    assert found == []
