"""Which failures of the suite are tried again: only those by time.

A second run once hid a race of the first and deleted its logs.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.e2e.first_failure import FAILURES, KEPT, may_be_tried_again
from tests.e2e.judge import Verdict
from tests.e2e.play import Outcome

LATE = "TimeoutError: burst of 1,000 pods: 12 pods wait after 300 s"
NOT_UP = "tests.e2e.parts.processes.PartError: etcd was not ready after 60 s; read build/e2e/1/etcd.log"
NO_ANSWER = "adapters.ports.LostReplyError: kube:apply /api/v1/nodes/a: Pool(): Read timed out. (read timeout=20.0)"
CUT_OFF = "adapters.ports.LostReplyError: kube:apply /api/v1/nodes/a: ('Connection aborted.', None)"
BROKEN = "AssertionError: assert ['claim a has 2 instances'] == []"


@pytest.mark.parametrize(
    ("failures", "again"),
    [
        ({"a": LATE}, True),
        ({"a": LATE, "b": NOT_UP}, True),
        ({"a": NO_ANSWER}, True),
        ({"a": NO_ANSWER, "b": CUT_OFF}, False),
        ({"a": LATE, "b": BROKEN}, False),
        ({"complaint 0": "execute was refused: patch nodes"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_time_outs_are_tried_again(tmp_path: Path, failures: dict[str, str] | None, *, again: bool) -> None:
    """A run that was killed before it could say what failed is not tried again either."""
    if failures is not None:
        (tmp_path / FAILURES).write_text(json.dumps(failures))
    assert may_be_tried_again(tmp_path) == again


def test_the_logs_of_the_first_run_are_kept(tmp_path: Path) -> None:
    """They are all that remains of a race."""
    (tmp_path / "e2e" / "4711").mkdir(parents=True)
    (tmp_path / "e2e" / "4711" / "execute.log").write_text("doubled")
    (tmp_path / "e2e.json").write_text("{}")
    (tmp_path / KEPT).mkdir()
    (tmp_path / KEPT / "old").touch()
    may_be_tried_again(tmp_path)
    assert (tmp_path / KEPT / "e2e" / "4711" / "execute.log").read_text() == "doubled"
    assert sorted(path.name for path in (tmp_path / KEPT).iterdir()) == ["e2e", "e2e.json"]
    assert not (tmp_path / "e2e").exists()


def test_a_broken_law_is_reported_before_a_time_out() -> None:
    """Otherwise, a scene that was late and broke a law is tried again."""
    broken = Verdict(
        name="s", pods=1, bound_as_planned=1, bound_elsewhere=0, pending=0, empty_nodes=0, violations=["x"]
    )
    with pytest.raises(AssertionError, match="x"):
        Outcome(verdict=broken, error=TimeoutError("late")).assert_lawful()


@pytest.mark.parametrize("price", [99, 101])
def test_instances_that_cost_something_else_than_planned_are_wrong(price: int) -> None:
    """Otherwise, a launch that buys other places than the plan chose goes unnoticed, cheap ones that nobody planned too."""
    found = Verdict(
        name="s", pods=1, bound_as_planned=1, bound_elsewhere=0, pending=0, empty_nodes=0, planned_price=100, price=100
    )
    Outcome(verdict=found).assert_lawful()
    with pytest.raises(AssertionError, match="another price"):
        Outcome(verdict=msgspec.structs.replace(found, price=price)).assert_lawful()


@pytest.mark.parametrize(("planned", "holds"), [(1000, True), (500, True), (499, False), (0, False)])
def test_a_burst_that_is_bound_elsewhere_is_wrong(planned: int, *, holds: bool) -> None:
    found = Verdict(
        name="s", pods=1000, bound_as_planned=planned, bound_elsewhere=1000 - planned, pending=0, empty_nodes=0
    )
    if holds:
        Outcome(verdict=found).assert_as_planned()
        return
    with pytest.raises(AssertionError, match=f"{planned} of 1000"):
        Outcome(verdict=found).assert_as_planned()
