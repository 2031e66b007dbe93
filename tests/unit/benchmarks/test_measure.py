"""The table shows the figures of the plan, and marks a wrong plan as wrong."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from benchmarks import __main__ as benchmarks
from benchmarks.cases import Case
from benchmarks.files import Files, written
from benchmarks.flexibility import flexibility
from benchmarks.latency import BURSTS, KARPENTER, TARGET, VARIANTS, Karpenter, percentiles, scenario, silences
from benchmarks.measure import Repeats, clock, measured
from benchmarks.operations import bill, clusters
from benchmarks.operations.cost_page import GOALS, costs, total
from benchmarks.operations.pictures import PERIOD, in_periods, with_gaps
from benchmarks.page import figures
from benchmarks.peer import Peer, PeerError
from benchmarks.profiling import profiled
from benchmarks.scale.__main__ import main
from benchmarks.scale.cluster import Cluster
from benchmarks.scale.server import World
from benchmarks.stages import STAGES
from benchmarks.stages import measured as stages_measured
from benchmarks.table import below_bound, gives_up_more, plan_rows, table
from benchmarks.workloads.diverse import diverse
from core.model.catalogue import Catalogue
from core.model.plan import Plan, PlannedClaim
from core.packing.settings import DEFAULT_SETTINGS
from simulator.invocation.faults import Call
from simulator.scenario import read_scenario
from simulator.world import World as SimulatedWorld
from simulator.world import run
from tests.builders import CLASS_REF, NOW, ZONES, a_snapshot, a_type
from tests.figures import DOCS


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return written(diverse(60, 40), tmp_path_factory.mktemp("diverse"))


def test_one_case_is_measured_from_files_to_judged_plans(files: Files) -> None:
    figures = measured(files, Repeats(2, 3), [0.05], is_judged=True)
    assert (figures["pods"], figures["types"], len(figures["greedy"]["runs"])) == (60, 40, 2)
    assert figures["greedy"]["seconds"] >= figures["greedy"]["prepareSeconds"] > 0
    for plan in (figures["greedy"], *figures["improved"]):
        assert plan["judged"] == {"violations": [], "count": 0, "seconds": plan["judged"]["seconds"]}
        assert plan["unschedulable"] == 0
        assert 0 < plan["cost"] <= figures["greedy"]["cost"]
    assert len(figures["improved"][0]["costs"]) == 3
    assert figures["peakBytes"] > 10_000_000


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
    choice = flexibility(snapshot, plan)
    assert choice == {"claims": 2, "share": 0.0, "median": 7.0, "fallback": pytest.approx(0.35)}
    expensive = msgspec.structs.replace(plan, claims=(msgspec.structs.replace(claims[0], price=2 * 10**9), claims[1]))
    choice = flexibility(snapshot, expensive)
    assert choice is not None
    assert (choice["share"], choice["median"]) == (0.5, 10.5)
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


# The worlds of the latency table: the same draws for every variant, and scenarios that can be read.


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_a_variant_changes_its_own_part_of_a_world_alone(tmp_path: Path, variant: str) -> None:
    """Otherwise, the table would compare worlds, and not provisioners or ways to be woken."""
    settings = VARIANTS[variant]
    usual, other = tmp_path / "usual", tmp_path / "other"
    usual.mkdir()
    other.mkdir()
    first, two = read_scenario(scenario(usual, 7, {})), read_scenario(scenario(other, 7, settings))
    assert [step.at for step in first.steps] == [step.at for step in two.steps]
    assert (usual / "burst-1.yaml").read_text() == (other / "burst-1.yaml").read_text()
    assert (first.settings == two.settings) is not bool(settings)
    assert first.aws == two.aws


@pytest.mark.ci
def test_karpenters_model_launches_for_every_pod_within_its_window(tmp_path: Path) -> None:
    """Its figures would be of another program: it plans a second after the last pod, and launches a batch with one request."""
    calls: list[tuple[datetime, int]] = []

    def beside(world: SimulatedWorld) -> None:
        Karpenter(world)
        world.account.wire.listen(lambda call, _: heard(world, call))

    def heard(world: SimulatedWorld, call: Call) -> None:
        if call.name == "ec2:CreateFleet":
            capacity = call.parameters["TargetCapacitySpecification"]
            calls.append((world.clock.now(), capacity["TotalTargetCapacity"]))

    result = run(scenario(tmp_path, 0, VARIANTS[KARPENTER]), beside=beside)
    waiting = [datetime.fromisoformat(event.t) for event in result.events if event.event == "podCreated"]
    bursts = [len(list(group)) for _, group in groupby(waiting, lambda at: at.replace(second=0, microsecond=0))]
    assert [count for _, count in calls] == bursts
    a_minute = timedelta(minutes=1)
    delays = [(at - min(pod for pod in waiting if at - pod < a_minute)).total_seconds() for at, _ in calls]
    # The scheduler's verdict, a second without a new pod, the gathering of requests, and the call itself.
    assert all(2.5 < delay < 5 for delay in delays)
    assert len([event for event in result.events if event.event == "podBound"]) == len(waiting)


def test_bursts_do_not_come_with_the_schedule(tmp_path: Path) -> None:
    """Pods that come on whole minutes hide what the log costs: the schedule runs then, too."""
    steps = read_scenario(scenario(tmp_path, 3, {})).steps
    assert len(steps) == BURSTS
    assert any(step.at.total_seconds() % 60 for step in steps)


def test_silences_stay_within_what_is_known_of_aws() -> None:
    drawn = [silences(Random(seed)) for seed in range(50)]  # noqa: S311 - draws of a world
    lags = {world["auditLogLag"]["p50"] for world in drawn}
    assert len(lags) > 2
    assert all(int(world["auditLogLag"]["p99"].removesuffix("s")) <= 180 for world in drawn)
    assert all(25 <= int(world["boot"]["p50"].removesuffix("s")) <= 180 for world in drawn)


def test_pages_have_the_figures_of_the_last_run() -> None:
    """Otherwise, a new run would leave the table and the README as they were."""
    waits = json.loads(TARGET.read_text(encoding="utf-8"))["waits"]
    assert waits.keys() == VARIANTS.keys()
    page = (TARGET.parent / "engineering" / "aws-facts.md").read_text(encoding="utf-8")
    for parts in waits.values():
        cells = [f"{parts[part]['p50']:.0f}, {parts[part]['p99']:.0f}" for part in ("all", "quick", "slow")]
        assert f"| {' | '.join(cells)} |" in page
    readme = (TARGET.parents[1] / "README.md").read_text(encoding="utf-8")
    for name in ("default", KARPENTER):
        assert f"{waits[name]['all']['p50']:.0f} s" in readme
        assert f"{waits[name]['all']['p99']:.0f} s" in readme


def test_percentiles_are_values_that_were_seen() -> None:
    assert percentiles([5.0, 1.0, 9.0]) == {"p50": 5.0, "p99": 5.0}
    assert percentiles([float(number) for number in range(1, 201)]) == {"p50": 100.0, "p99": 198.0}


# The benchmark of large clusters at a small scale: a fault in it would hide that functions need more memory.


@pytest.mark.ci
def test_functions_are_measured_beside_a_served_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tmp_path / "scale.json"
    options = ["--nodes=600", "--pods=1200", "--pending=2", "--only=execute,reconcile", f"--json={result}"]
    monkeypatch.setattr(sys, "argv", ["scale", *options])
    assert main() == 0
    by_function = json.loads(result.read_text())["functions"]
    requests = by_function["execute"]["requestsOfAllRuns"]
    assert (requests["get nodes"], requests["list nodes"], requests["list pods"]) == (
        10,
        2,
        3,
    )  # only the second run lists
    assert by_function["reconcile"]["counts"]["claims"] == by_function["reconcile"]["counts"]["instances"] == 600
    assert all(0 < result["share"] < 1 for result in by_function.values())


@pytest.mark.ci
def test_the_lists_of_namespaces_are_together_the_list_of_all_pods() -> None:
    """Otherwise, the measured reading of a divided list would be that of another cluster."""
    world = World(Cluster(nodes=20, pods=1_300, pending=3))
    pages = [msgspec.json.decode(gzip.decompress(world.get(f"/api/v1/pods?continue={page}")[1])) for page in range(3)]
    assert [page["metadata"].get("remainingItemCount") for page in pages] == [800, 300, None]
    pods = [pod for page in pages for pod in page["items"]]
    namespaces = sorted({pod["metadata"]["namespace"] for pod in pods})
    apart = [
        pod
        for name in namespaces
        for pod in msgspec.json.decode(gzip.decompress(world.get(f"/api/v1/namespaces/{name}/pods")[1]))["items"]
    ]
    assert len(namespaces) > 10
    assert sorted(pod["metadata"]["uid"] for pod in apart) == sorted(pod["metadata"]["uid"] for pod in pods)


# Each stage of the search can be switched off alone.


def test_each_stage_has_lines_and_settings_without_it() -> None:
    """Otherwise, two rows measure the same search, and a stage seems to earn nothing."""
    without = [stage.without(DEFAULT_SETTINGS) for stage in STAGES]
    assert all(settings != DEFAULT_SETTINGS for settings in without)
    assert len({repr(settings) for settings in without}) == len(STAGES)
    assert all(stage.lines > 5 for stage in STAGES)


@pytest.mark.slow
def test_a_case_is_measured_with_all_stages_and_without_each(tmp_path: Path) -> None:
    rows = stages_measured(Case(name="small", make=lambda _: diverse(60, 40)), tmp_path)
    assert [row["without"] for row in rows] == ["", *(stage.name for stage in STAGES)]
    assert rows[0]["dearer"] == 0
    assert all(0 < row["lowerBound"] <= row["cost"] for row in rows)


# `make bench` is red where a plan is wrong, or cheap because it places fewer pods.


GREEDY, IMPROVED = RESULT["greedy"], {**RESULT["improved"][0], "judged": {"count": 0, "violations": []}}
GOOD = {key: value for key, value in RESULT.items() if key != "peer"} | {"improved": [IMPROVED]}
WRONG = {"count": 1, "violations": ["room: default-0 needs more"]}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"improved": []}, 0),
        ({"greedy": {**GREEDY, "judged": WRONG}}, 1),
        ({"improved": [{**IMPROVED, "judged": WRONG}]}, 1),
        ({"improved": [{**IMPROVED, "unschedulable": 1000, "cost": 0.0}]}, 1),
        ({"improved": [{**IMPROVED, "cost": 9.0}]}, 1),
        (None, 1),
    ],
    ids=["right", "greedy", "greedy judged wrong", "judged wrong", "places nobody", "below the bound", "no answer"],
)
def test_its_exit_code(
    changes: dict[str, Any] | None, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = subprocess.CompletedProcess((), int(changes is None), json.dumps({**GOOD, **(changes or {})}), "it broke")
    monkeypatch.setattr("benchmarks.__main__.subprocess.run", lambda *_, **__: answer)
    words = ["--only", "diverse-100", "--no-peer", "--work", str(tmp_path), "--json", str(tmp_path / "bench.json")]
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    assert benchmarks.main() == status


# Pictures and bills agree with the metrics and usage that they are made from.


def test_sums_are_added_and_levels_are_not() -> None:
    told = [(NOW, 2.0), (NOW + timedelta(seconds=30), 3.0), (NOW + timedelta(hours=1), 7.0)]
    assert list(in_periods(told, "Sum").values()) == [5.0, 7.0]
    assert list(in_periods(told, "Maximum").values()) == [3.0, 7.0]


def test_no_line_leads_over_hours_without_data() -> None:
    """It looked as if something had been measured there."""
    times, values = with_gaps({NOW: 1.0, NOW + PERIOD: 2.0, NOW + timedelta(hours=1): 7.0})
    assert times == [NOW, NOW + PERIOD, NOW + 2 * PERIOD, NOW + timedelta(hours=1)]
    assert [math.isnan(value) for value in values] == [False, False, True, False]


def test_a_bill_is_usage_times_price() -> None:
    counts = dict.fromkeys(bill.PRICES, 0) | {"lambdaRequests": 1_000_000, "logBytes": 10**9}
    usage = SimpleNamespace(counts=counts, gigabyte_seconds={"provision": 1000.0}, metrics=lambda: 2)
    monthly = bill.monthly(cast("Any", SimpleNamespace(usage=usage, nodes=0)))
    assert monthly["functions"] == pytest.approx(730 * (0.0133334 + 0.20), abs=0.01)
    assert monthly["logs"] == 365.0
    assert monthly["metrics"] == 0.60
    assert monthly["alarms"] == pytest.approx(bill.watched() * 0.10)


def test_the_clusters_workloads_grow_and_shrink_again(tmp_path: Path) -> None:
    scenario = read_scenario(clusters.scenario(tmp_path, 100))
    assert len(scenario.steps) == 2 * (clusters.MEASURED // clusters.CHANGE_EVERY)
    assert not read_scenario(clusters.scenario(tmp_path, 0)).steps


def test_a_larger_cluster_costs_what_the_line_of_the_two_largest_says() -> None:
    measured = {
        0: {"table": 9.0, "metrics": 0.0},
        100: {"table": 1.0, "metrics": 3.0},
        1000: {"table": 10.0, "metrics": 3.0},
    }
    assert bill.calculated(5000, measured) == {"table": 50.0, "metrics": 3.0}


@pytest.mark.parametrize(
    ("nodes", "distribute_from", "dollars"), [(20_000, 0, 0.0), (15_000, 15_000, 0.0), (20_000, 15_000, 21.9)]
)
def test_transitions_are_paid_from_the_size_that_is_divided(nodes: int, distribute_from: int, dollars: float) -> None:
    """Eight parts make twenty transitions at $0.025 for a thousand, once a minute (docs/how-to/steer-a-node-pool.md)."""
    assert bill.transitions(nodes, 2_500, distribute_from) == dollars


def test_the_costs_on_the_page_are_below_their_goals() -> None:
    kept = json.loads((DOCS / "cost.json").read_text(encoding="utf-8"))
    assert {name: total(kept[name]) <= goal for name, goal in GOALS.items()} == dict.fromkeys(GOALS, True)
    assert kept["idle"]["alarms"] == pytest.approx(bill.watched() * bill.ALARM), "measured with other alarms"


def test_the_table_of_costs_has_what_costs_something() -> None:
    run = {
        "idle": {"table": 0.5, "storage": 0.0, "logs": 0.0},
        "5000 (calculated)": {"table": 9, "storage": 0.0, "logs": 1},
    }
    assert costs(run).splitlines()[2:] == [
        "| | table | logs | sum | goal |",
        "| --- | --- | --- | --- | --- |",
        "| no nodes | 0.50 | 0.00 | 0.50 | 2.5 |",
        "| 5,000 nodes, calculated | 9.00 | 1.00 | 10.00 |  |",
    ]
