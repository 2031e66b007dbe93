"""The results of several worlds form one report, and a finding about the ClusterRole fails the run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from installation import cluster_roles
from tests.e2e.audit_record import Verb
from tests.e2e.functions.sandbox import Invocation
from tests.e2e.judge import Verdict
from tests.e2e.report import NEEDED, Report
from tests.e2e.suite import SHOWN, Suite

ALL = [Verb(*found) for found in frozenset().union(*map(cluster_roles.verbs, cluster_roles.RULES_OF.values()))]
FIRST, *OTHERS = sorted(ALL)


def a_world(name: str, used: list[Verb], *, cold: float = 0.0, refused: tuple[Verb, ...] = ()) -> Report:
    verdict = Verdict(name=name, pods=2, bound_as_planned=1, bound_elsewhere=1, pending=0, empty_nodes=0)
    invocation = Invocation(
        function="provision",
        request_id="r",
        trigger="t",
        outcome="ok",
        started_at=0.0,
        duration_ms=1.0,
        init_ms=cold,
        billed_ms=2,
        memory_kb=3,
        response={"large": "answer"},
    )
    found = Report(scenarios=[verdict], latencies={"audit": [1.0]}, used=used, refused=list(refused))
    found.add_invocations([invocation])
    found.decisions = 3
    return found


def as_sent(*worlds: Report) -> list[dict[str, Any]]:
    """Results as they arrive from other processes."""
    sent: list[dict[str, Any]] = json.loads(json.dumps([world.to_builtins() for world in worlds]))
    return sent


def test_worlds_make_one_report(tmp_path: Path) -> None:
    """A scene, a sample or a verb that gets lost is never judged."""
    whole = Report.of(as_sent(a_world("one", [FIRST], cold=100.0), a_world("two", OTHERS, cold=300.0)))
    whole.write(tmp_path / "e2e.json")
    written = json.loads((tmp_path / "e2e.json").read_text())
    assert [scene["name"] for scene in written["scenarios"]] == ["one", "two"]
    assert set(written["scenarios"][0]) == {
        "name",
        "pods",
        "boundAsPlanned",
        "boundElsewhere",
        "pending",
        "emptyNodes",
        "plannedPrice",
        "price",
        "violations",
    }
    nothing = {"p50": None, "p99": None}
    assert written["latencySeconds"] == {"audit": {"p50": 1.0, "p99": 1.0}, "poll": nothing, "burst": nothing}
    assert written["coldStartMillis"] == {"provision": 200}
    assert written["decisionsRepeated"] == 6
    assert (written["unusedVerbs"], written["missingVerbs"]) == ([], [])
    details = json.loads((tmp_path / "e2e-details.json").read_text())
    assert details["functions"]["provision"]["billedMillis"] == 4


def test_refused_and_unneeded_verbs_are_reported() -> None:
    whole = Report.of(as_sent(a_world("one", OTHERS, refused=(Verb("", "secrets", "list"),))))
    lacks, needless = whole.complaints(NEEDED)
    assert "`list secrets`" in lacks
    assert f"`{FIRST}`" in needless


def test_needed_verbs_are_unknown_if_scenes_were_skipped() -> None:
    whole = Report.of(as_sent(a_world("one", OTHERS)))
    assert list(whole.complaints(sorted(NEEDED)[1:])) == []


@pytest.mark.parametrize(
    ("used", "status"), [(ALL, pytest.ExitCode.OK), (OTHERS, pytest.ExitCode.TESTS_FAILED)], ids=["all", "one unused"]
)
def test_the_run_fails_if_the_role_has_too_few_or_too_many_permissions(
    used: list[Verb], status: pytest.ExitCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tests may pass, each in its own process, and the role may still allow verbs that none of them used."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("signal.alarm", lambda _: 0)
    suite, session = Suite(SimpleNamespace(), tmp_path / "e2e.json"), SimpleNamespace(exitstatus=pytest.ExitCode.OK)  # type: ignore[arg-type]
    suite.pytest_testnodedown(SimpleNamespace(workeroutput={SHOWN: as_sent(a_world("one", used))}))
    for name in NEEDED:
        suite.pytest_runtest_logreport(SimpleNamespace(location=(f"tests/e2e/{name}", 1, "test"), failed=False))  # type: ignore[arg-type]
    suite.pytest_sessionfinish(session)  # type: ignore[arg-type]
    assert session.exitstatus == status
    assert (tmp_path / "e2e.json").exists()
