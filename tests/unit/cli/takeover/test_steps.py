"""A transfer goes node by node: one that fails does not hide the next, unless the next would fail as well."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.ports import DeniedError, PortError, TransientError
from cli.takeover.environment import TakeoverEnvironment
from cli.takeover.steps import in_turn


class Environment(TakeoverEnvironment):
    """Karpenter runs from so many questions on."""

    def __init__(self, runs_after: int = 99) -> None:
        self._left = runs_after

    def karpenter_runs(self) -> bool:
        self._left -= 1
        return self._left < 0


def moved(environment: Environment, **faults: PortError) -> tuple[bool, list[tuple[str, str]], list[str]]:
    """Whether all went well, state and message of each of `a`, `b` and `c`, and which were acted on."""
    acted: list[str] = []

    def act(name: str) -> None:
        acted.append(name)
        if name in faults:
            raise faults[name]

    parts: list[dict[str, Any]] = [
        {"subject": f"NodeClaim/{name}", "state": "adoptable", "message": ""} for name in "abc"
    ]
    is_well = in_turn(environment, zip(parts, "abc", strict=True), act, "adopted")
    return is_well, [(part["state"], part["message"].partition(";")[2].strip()) for part in parts], acted


DONE, LEFT = ("adopted", ""), ("adoptable", "")


def test_all_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    assert moved(Environment()) == (True, [DONE] * 3, ["a", "b", "c"])
    assert capsys.readouterr().err.splitlines() == [f"NodeClaim/{name} adopted" for name in "abc"]


def test_a_passing_fault_leaves_one_to_the_next_run() -> None:
    failed = ("failed", "run this again: it continues from here")
    fault = TransientError("kube:patch nodes", "503")
    assert moved(Environment(), b=fault) == (False, [DONE, failed, DONE], ["a", "b", "c"])


def test_a_missing_permission_ends_the_run() -> None:
    failed = ("failed", "the rest is left as it is: run this again with that permission")
    denied = DeniedError("kube:patch nodes", "403")
    assert moved(Environment(), b=denied) == (False, [DONE, failed, LEFT], ["a", "b"])


def test_karpenter_that_was_started_meanwhile_ends_the_run() -> None:
    assert moved(Environment(runs_after=1)) == (False, [DONE, ("failed", ""), LEFT], ["a"])


def test_nothing_is_due() -> None:
    assert in_turn(Environment(0), [], lambda _: None, "adopted")
