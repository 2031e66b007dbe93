"""`adopt` and `release`: what prevents them is said first, and classes are freed once every node is ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from adapters.ports import TransientError
from cli.takeover import directions
from cli.takeover.adoption_survey import AdoptionCandidate, AdoptionSurvey
from cli.takeover.releaser import Releasable, ReleaseSurvey
from core.lifecycle.takeover.adoption import AdoptionState
from core.lifecycle.takeover.release import ReleaseObjection
from core.reasons.takeover import ReleaseReason

FAULT = TransientError("dynamodb:PutItem", "503")


class Adopter:
    """Notes what it is asked; what is in `faults` fails."""

    done: list[str]
    faults: tuple[str, ...]
    states: tuple[AdoptionState, ...]

    def __init__(self, environment: object) -> None:
        pass

    def survey(self) -> AdoptionSurvey:
        found = [AdoptionCandidate(subject=f"NodeClaim/{n}", state=state) for n, state in enumerate(self.states)]
        return AdoptionSurvey(candidates=tuple(found), classes=("default",))

    def _act(self, name: str) -> None:
        self.done.append(name)
        if name in self.faults:
            raise FAULT

    def adopt(self, candidate: AdoptionCandidate) -> None:
        self._act(candidate.subject)

    def free_class(self, name: str) -> None:
        self._act(name)

    def finish(self) -> None:
        self._act("finish")


@pytest.fixture
def adopter(monkeypatch: pytest.MonkeyPatch) -> type[Adopter]:
    """Two nodes of Karpenter's, one of them begun, and one of ours."""
    Adopter.done, Adopter.faults = [], ()
    Adopter.states = (AdoptionState.ADOPTABLE, AdoptionState.BEGUN, AdoptionState.OURS)
    monkeypatch.setattr(directions, "Adopter", Adopter)
    return Adopter


def adopted(*hindrances: str, is_acting: bool = True) -> tuple[dict[str, Any], bool]:
    environment: Any = SimpleNamespace(
        cluster="prod", hindrances=lambda: list(hindrances), karpenter_runs=lambda: False
    )
    return directions.adoption(environment, is_acting=is_acting)


NODES = ["NodeClaim/0", "NodeClaim/1"]


def test_without_yes_nothing_is_changed(adopter: type[Adopter]) -> None:
    document, is_complete = adopted(is_acting=False)
    assert (is_complete, document["acting"], adopter.done) == (True, False, [])
    assert [item["state"] for item in document["items"]] == ["adoptable", "begun", "ours"]


def test_what_prevents_it_is_said_and_nothing_is_changed(adopter: type[Adopter]) -> None:
    document, is_complete = adopted("Karpenter runs")
    assert (is_complete, document["hindrances"], adopter.done) == (False, ["Karpenter runs"], [])


def test_nodes_are_adopted_then_classes_freed_and_a_change_is_recorded(adopter: type[Adopter]) -> None:
    document, is_complete = adopted()
    assert (is_complete, adopter.done) == (True, [*NODES, "default", "finish"])
    assert [item["state"] for item in document["items"]] == ["adopted", "adopted", "ours"]
    assert document["nodeClasses"] == [{"subject": "EC2NodeClass/default", "state": "adopted"}]


@pytest.mark.parametrize(
    ("fault", "done"),
    [
        ("NodeClaim/0", [*NODES, "finish"]),
        ("default", [*NODES, "default", "finish"]),
        ("finish", [*NODES, "default", "finish"]),
    ],
)
def test_after_a_fault_classes_stay_karpenters_and_the_answer_is_negative(
    fault: str, done: list[str], adopter: type[Adopter]
) -> None:
    adopter.faults = (fault,)
    document, is_complete = adopted()
    assert (is_complete, adopter.done) == (False, done)
    assert bool(document["hindrances"]) is (fault == "finish")


def test_a_node_that_cannot_be_adopted_makes_the_answer_negative(adopter: type[Adopter]) -> None:
    adopter.states = (AdoptionState.REFUSED, AdoptionState.ADOPTABLE)
    assert adopted()[1] is False
    assert adopter.done == ["NodeClaim/1", "default", "finish"]
    assert adopted(is_acting=False)[1] is False


class Releaser:
    """Notes what it is asked; what is in `faults` fails, and what is in `kept` stays ours."""

    done: list[str]
    faults: tuple[str, ...]
    kept: tuple[str, ...]

    def __init__(self, environment: object) -> None:
        pass

    def survey(self) -> ReleaseSurvey:
        objection = ReleaseObjection(ReleaseReason.GONE, "its node is gone")
        found = [Releasable(subject=name, objection=objection if name in self.kept else None) for name in NODES]
        return ReleaseSurvey(claims=tuple(found), commands=2)

    def begin(self) -> None:
        self._act("begin")

    def release(self, found: Releasable) -> None:
        self._act(found.subject)

    def _act(self, name: str) -> None:
        self.done.append(name)
        if name in self.faults:
            raise FAULT


@pytest.mark.parametrize(
    ("hindrances", "is_acting", "kept", "faults", "done", "states", "is_complete"),
    [
        ((), False, (), (), [], ["releasable", "releasable"], True),
        ((), True, (), (), ["begin", *NODES], ["released", "released"], True),
        (("Karpenter runs",), False, (), (), [], ["releasable", "releasable"], False),
        (("Karpenter runs",), True, (), (), [], ["releasable", "releasable"], False),
        ((), False, NODES[:1], (), [], ["kept", "releasable"], False),
        ((), True, NODES[:1], (), ["begin", NODES[1]], ["kept", "released"], False),
        ((), True, (), ("begin",), ["begin"], ["releasable", "releasable"], False),
        ((), True, (), NODES[:1], ["begin", *NODES], ["failed", "released"], False),
    ],
)
def test_nodes_are_released_in_turn_after_what_all_need(
    hindrances: tuple[str, ...],
    is_acting: bool,
    kept: tuple[str, ...],
    faults: tuple[str, ...],
    done: list[str],
    states: list[str],
    is_complete: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Releaser.done, Releaser.faults, Releaser.kept = [], tuple(faults), tuple(kept)
    monkeypatch.setattr(directions, "Releaser", Releaser)
    environment: Any = SimpleNamespace(
        cluster="prod", hindrances=lambda: list(hindrances), karpenter_runs=lambda: False
    )
    document, found = directions.release(environment, is_acting=is_acting)
    assert (found, Releaser.done) == (is_complete, done)
    assert [item["state"] for item in document["items"]] == states
    told = [f"{FAULT}; run this again: it continues from here"] if "begin" in faults else []
    assert document["hindrances"] == [*hindrances, *told]
