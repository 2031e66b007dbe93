"""The table shows the figures of the plan, and marks a wrong plan as wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.files import Files, written
from benchmarks.flexibility import flexibility
from benchmarks.measure import Repeats, clock, measured
from benchmarks.page import figures
from benchmarks.peer import Peer, PeerError
from benchmarks.profiling import profiled
from benchmarks.table import below_bound, gives_up_more, plan_rows, table
from benchmarks.workloads.diverse import diverse
from core.model.catalogue import Catalogue
from core.model.plan import Plan, PlannedClaim
from tests.builders import CLASS_REF, ZONES, a_snapshot, a_type


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return written(diverse(60, 40), tmp_path_factory.mktemp("diverse"))


def test_one_case_is_measured_from_files_to_judged_plans(files: Files) -> None:
    found = measured(files, Repeats(2, 3), [0.05], is_judged=True)
    assert (found["pods"], found["types"], len(found["greedy"]["runs"])) == (60, 40, 2)
    assert found["greedy"]["seconds"] >= found["greedy"]["prepareSeconds"] > 0
    for plan in (found["greedy"], *found["improved"]):
        assert plan["judged"] == {"violations": [], "count": 0, "seconds": plan["judged"]["seconds"]}
        assert plan["unschedulable"] == 0
        assert 0 < plan["cost"] <= found["greedy"]["cost"]
    assert len(found["improved"][0]["costs"]) == 3
    assert found["peakBytes"] > 10_000_000


def test_the_clock_starts_with_the_first_question() -> None:
    """Preparing is not part of the budget, as on the command line."""
    share_over = clock(60.0)
    assert share_over() == 0
    assert 0 < share_over() < 1


def a_claim(*types: str, price: int) -> PlannedClaim:
    return PlannedClaim(
        name="default-0", node_pool="default", node_class=CLASS_REF, instance_types=types, price=price,
        zones=ZONES, capacity_types=("on-demand",), pods=("default/p",),
    )  # fmt: skip


def test_only_types_within_the_band_count_as_choice() -> None:
    """Types that are too expensive do not make a launch safer."""
    label = {"karpenter.k8s.aws/instance-category": "m"}
    types = tuple(a_type(f"m5.{n:02}", price=1.0 + n * 0.05, **label) for n in range(20))
    snapshot = a_snapshot(types=types)
    claims = (a_claim(*(kind.name for kind in types), price=10**9), a_claim("m5.00", price=10**9))
    plan = Plan(now=snapshot.now, claims=claims)
    found = flexibility(snapshot, plan)
    assert found == {"claims": 2, "share": 0.0, "median": 7.0, "fallback": pytest.approx(0.35)}
    expensive = msgspec.structs.replace(plan, claims=(msgspec.structs.replace(claims[0], price=2 * 10**9), claims[1]))
    found = flexibility(snapshot, expensive)
    assert found is not None
    assert (found["share"], found["median"]) == (0.5, 10.5)
    others = msgspec.structs.replace(snapshot, catalogue=Catalogue(default=(a_type("g5.xlarge"),)))
    assert flexibility(others, Plan(now=snapshot.now, claims=(a_claim("g5.xlarge", price=1),))) is None


RESULT: dict[str, Any] = {
    "name": "small", "pods": 1000, "types": 40, "decodeSeconds": 0.2, "coldSeconds": 0.5,
    "peakBytes": 5e7,
    "greedy": {"seconds": 0.05, "cpuSeconds": 0.03, "runs": [0.04, 0.05, 0.07], "prepareSeconds": 0.01, "solveSeconds": 0.04,
               "claims": 9, "cost": 12.0, "lowerBound": None, "flexibility": None, "unschedulable": 0,
               "judged": {"count": 0, "violations": []}},
    "improved": [
        {"budgetSeconds": 1.0, "seconds": 1.25, "cpuSeconds": 1.2, "runs": [1.25], "claims": 8, "unschedulable": 0,
         "cost": 10.5, "lowerBound": 10.0, "flexibility": {"share": 0.5},
         "judged": {"count": 1, "violations": ["room: default-0 needs more"]}},
    ],
    "peer": {"seconds": 5.0, "cpuSeconds": 6.0, "claims": 9, "cost": 15.0, "unschedulable": 2, "runs": [5.0], "load": 1.0},
}  # fmt: skip


def test_each_row_has_the_speed_and_the_cost_of_the_same_plan() -> None:
    """Otherwise, readers take the fast plan's speed and the cheap plan's cost for figures of one plan."""
    text = table([RESULT], "")
    greedy, improved = text.splitlines()[1:3]
    for cell in ("greedy", "20,000", "0.0400 to 0.0700", "20.0%", "100.0x", "200.0x", "15.00", " ok"):
        assert cell in greedy
    for cell in ("1 s", "800", "5.0%", "50%", "4.0x", "5.0x", "30.0%", "1 wrong"):
        assert cell in improved
    assert "100.0x" not in improved
    assert "small: room: default-0 needs more" in text
    assert "Karpenter left 2 pods without a place, we 0" in text


def test_the_page_has_the_same_rows_as_the_table() -> None:
    """Figures copied by hand would stay when the code changes."""
    run = {"quick": True, "commit": "0123456789abcdef", "cpus": 2, "peer": "v1", "cases": [{**RESULT, "load": 0.5}]}
    written = figures(run)
    for row in plan_rows([RESULT]):
        assert f"| {' | '.join(row)} |" in written
    assert "`make bench-quick` at commit 0123456789ab on 2 processors" in written


def test_a_bound_that_karpenter_undercuts_is_rejected() -> None:
    """A wrong proof would make every gap in the table look better than it is."""
    assert not below_bound(RESULT)
    cheaper = {**RESULT, "peer": {**RESULT["peer"], "cost": 9.0, "unschedulable": 0}}
    assert below_bound(cheaper)
    assert "the proof is wrong" in table([cheaper], "")


def test_plans_that_place_fewer_pods_save_nothing() -> None:
    """A plan without any placed pod costs nothing: the cheapest of the table, and wrong."""
    assert not gives_up_more(RESULT)
    nobody = {**RESULT["improved"][0], "unschedulable": 1000, "cost": 0.0}
    assert gives_up_more({**RESULT, "improved": [nobody]})
    assert gives_up_more(
        {**RESULT, "peer": {**RESULT["peer"], "unschedulable": 0}, "greedy": {**RESULT["greedy"], "unschedulable": 1}}
    )
    assert "the plans place different pods: [0, 1000]" in table([{**RESULT, "improved": [nobody]}], "")


def test_the_table_says_why_karpenter_is_absent_and_what_was_skipped() -> None:
    text = table([{"name": "openb", "skipped": "trace not found"}], "Go is not installed")
    assert "openb: trace not found" in text
    assert "Karpenter: Go is not installed" in text


def test_without_go_the_peer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop without Go must still show our half of the table."""
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(PeerError, match="Go is not installed"):
        Peer(tmp_path, None).build()


def test_a_failure_of_the_peer_differs_from_an_answer(tmp_path: Path, files: Files) -> None:
    program = tmp_path / "karpenter"
    program.write_text("#!/bin/sh\necho oh no >&2\n")
    program.chmod(0o755)
    with pytest.raises(PeerError, match="oh no"):
        Peer(tmp_path, None).plan(files, 1)


def test_the_peers_answer_is_kept_for_the_same_files(tmp_path: Path, files: Files) -> None:
    """Karpenter takes minutes for large cases; a second run would double that."""
    answer = (
        '{"timing":{"solveSeconds":1,"solveCpuSeconds":2,"scheduleSeconds":1,"runs":[1],"peakBytes":1},'
        '"nodeClaims":[1,2],"bindings":[],"unschedulable":[],"cost":{"hourly":3.5}}'
    )
    program = tmp_path / "karpenter"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    program.chmod(0o755)
    memory = tmp_path / "memory.json"
    assert Peer(tmp_path, memory).plan(files, 1)["cost"] == 3.5
    program.unlink()
    assert Peer(tmp_path, memory).plan(files, 1)["claims"] == 2


def test_a_profile_names_the_parts_of_the_planner(files: Files) -> None:
    text = profiled(files, 0.05)
    for part in ("greedy", "improved", "topology", "new claims", "packing"):
        assert part in text
