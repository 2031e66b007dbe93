"""Every code is an enumeration member with a sentence on a page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from adapters.run_report import Decision
from core.brakes import Action, BrakeKind, action_of
from core.lifecycle.deletion import VOLUNTARY
from core.reasons.code import (
    BUDGETED,
    ClaimReason,
    DecisionKind,
    DocumentedCode,
    ReasonCode,
    TargetReason,
    TerminationReason,
)
from core.reasons.nodes import DrainReason, DriftReason, EvictionReason, HeldPodReason, NodeReason
from core.reasons.pods import BindingReason, PodReason, RequestReason
from core.reasons.runs import CommandReason, FailureReason, RunReason
from core.reasons.takeover import AdoptionReason, ReleaseReason
from tests import reference

ROOT = Path(__file__).parents[3]
ENUMERATIONS: tuple[type[DocumentedCode], ...] = (
    AdoptionReason,
    BrakeKind,
    ClaimReason,
    CommandReason,
    DecisionKind,
    DrainReason,
    DriftReason,
    EvictionReason,
    FailureReason,
    HeldPodReason,
    NodeReason,
    PodReason,
    BindingReason,
    ReleaseReason,
    RequestReason,
    RunReason,
    TargetReason,
    TerminationReason,
)


@pytest.mark.parametrize("codes", ENUMERATIONS)
def test_every_code_has_a_sentence_and_is_on_the_page(codes: type[DocumentedCode]) -> None:
    page = reference.reason_codes()
    for code in codes:
        assert code.isalpha()
        assert code.meaning.endswith(".")
        assert not code.advice or code.advice.endswith(".")
        assert re.search(rf"\| (<a [^|]*></a>)?`{code}` \| {re.escape(code.meaning)} \|", page), code


def test_no_enumeration_is_forgotten() -> None:
    defined = {found.__name__ for base in (DocumentedCode, ReasonCode) for found in base.__subclasses__()}
    elsewhere = {"Remembered"}  # on the page of launch errors
    assert defined - elsewhere == {"ReasonCode", *(codes.__name__ for codes in ENUMERATIONS)}


def test_a_code_is_written_as_its_text() -> None:
    """Logs, rows and plans contain the code, never the member's name."""
    decision = Decision(DecisionKind.SKIP, "test", RunReason.PLANNER_BUSY)
    written = b'{"kind":"skip","subject":"test","reason":"PlannerBusy","message":"","decision_id":""}'
    assert msgspec.json.encode(decision) == written
    assert f"{PodReason.LIMIT_REACHED}" == "LimitReached"


def test_codes_stored_by_another_version_can_be_read() -> None:
    """A renamed code must not make a row unreadable."""
    assert TerminationReason.stored("Expired") is TerminationReason.EXPIRED
    assert TerminationReason.stored("FromTheFuture") is TerminationReason.OTHER
    with pytest.raises(ValueError, match="'Nonsense' is not a PodReason"):
        PodReason.of("Nonsense")


FILES = sorted(path for package in ("core", "adapters", "lambdas", "cli") for path in (ROOT / package).rglob("*.py"))

CODE = re.compile(r"[A-Z][a-z]+([A-Z][a-z]*)*")
TAKES_A_CODE = re.compile(
    r"^(decide|leave|refuse|begin|begin_within|leaving|expedited|count_failure|end_outcome|_drop|_has_begun|"
    r"Refusal|EvictionRefusal|Blocked|Blocker|Unschedulable|PodFinding|PoolFinding|"
    r"BeginTermination|Forget|Abandon|CancelDrain|ReportNode|Deletion|Interruption)$"
)


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if TAKES_A_CODE.match(name):
                yield node


def literals_of(tree: ast.AST) -> Iterator[ast.Constant]:
    """String literals in place of a code: passed as a reason, or compared with a `reason`."""
    for call in calls(tree):
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            if isinstance(given, ast.Constant) and isinstance(given.value, str) and CODE.fullmatch(given.value):
                yield given
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "reason":
            for side in node.comparators:
                if isinstance(side, ast.Constant) and isinstance(side.value, str) and CODE.fullmatch(side.value):
                    yield side


@pytest.mark.ci
def test_a_code_is_never_a_literal() -> None:
    """A literal is on no page, and nothing finds a typo in it."""
    found = [
        f"{path.relative_to(ROOT)}:{literal.lineno} {literal.value}"
        for path in FILES
        if "manifests" not in path.parts  # reads Kubernetes' own reasons
        for literal in literals_of(ast.parse(path.read_text()))
    ]
    assert not found


def test_the_search_for_literals_finds_them() -> None:
    source = (
        "decide(kind, name, 'PlannerBusy')\nif step.reason == 'Timeout':\n    Refusal(reason='NotTried', message='no')"
    )
    assert [found.value for found in literals_of(ast.parse(source))] == ["PlannerBusy", "NotTried", "Timeout"]


def test_a_clause_begins_in_lower_case_unless_it_begins_with_a_name() -> None:
    """Pods were told that "eC2 has no capacity"."""
    assert ClaimReason.INSUFFICIENT_CAPACITY.clause.startswith("EC2 has")
    assert TerminationReason.SCHEDULED_CHANGE.clause.startswith("AWS will")
    assert NodeReason.BUDGET.meaning[0].isupper()
    assert NodeReason.BUDGET.clause[0].islower()
    assert not any(code.clause.startswith("karpenter") for enum in ENUMERATIONS for code in enum)


# Codes for the state of a target begin with the object that they are about.


def test_each_code_begins_with_its_subject() -> None:
    assert all(code.startswith("Target") for code in TargetReason)


# Termination reasons in rows of other versions.


def test_an_unknown_reason_is_mandatory() -> None:
    """Only voluntary disruptions wait for brakes and budgets."""
    assert TerminationReason.OTHER not in VOLUNTARY
    assert action_of(TerminationReason.OTHER) is Action.EVACUATE
    assert all(action_of(reason) is Action.DISRUPT for reason in BUDGETED)
