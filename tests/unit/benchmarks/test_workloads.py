"""Workloads are what the table says: Go's random draws, complete, and the same bytes each time."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.cases import CASES, SEEDS, budgets_of, selected
from benchmarks.files import PAGE_PODS, written
from benchmarks.measure import decoded
from benchmarks.workloads.api_objects import as_sent
from benchmarks.workloads.clusters import existing
from benchmarks.workloads.diverse import diverse, fake_catalogue
from benchmarks.workloads.ec2 import ec2_catalogue
from benchmarks.workloads.go_random import GoRandom
from benchmarks.workloads.manifests import Workload
from benchmarks.workloads.services import available, lognormal, ruled, skewed
from core.model.snapshot import Snapshot

NO_DATA = Path("there-is-no-such-folder")


def snapshot_of(workload: Workload, folder: Path) -> Snapshot:
    return decoded(written(workload, folder))


def test_draws_are_those_of_go() -> None:
    """With one draw off, the pods are not those of Karpenter's benchmark, and costs cannot be compared."""
    draws = GoRandom()
    assert [draws.intn(n) for _ in range(4) for n in (7, 5, 8)] == [5, 2, 4, 1, 3, 1, 6, 1, 0, 3, 4, 7]


def test_draws_stay_those_of_go_far_beyond_the_words_on_file() -> None:
    draws = GoRandom()
    for _ in range(20):
        for n in (7, 5, 8):
            draws.intn(n)
    for _ in range(100_000):
        draws.intn(6)
    assert [draws.intn(1_000_000), draws.intn(1_000_000)] == [910_678, 457_688]


def test_the_diverse_benchmark_has_its_five_fifths(tmp_path: Path) -> None:
    """Without one of its rules, the benchmark would be easier than Karpenter's."""
    pods = snapshot_of(diverse(503, 400), tmp_path).pods
    kinds = Counter((len(pod.spec.spreads), len(pod.spec.affinity), len(pod.spec.anti_affinity)) for pod in pods)
    assert kinds == {(0, 0, 0): 103, (1, 0, 0): 200, (0, 1, 0): 100, (0, 0, 1): 100}


def test_fake_types_cost_what_karpenters_cost() -> None:
    third = fake_catalogue(400)["instanceTypes"][2]
    assert third["name"] == "fake-it-2"
    assert third["offerings"][0]["price"] == pytest.approx(0.3 + 0.1 * 6 * 2**30 / 1e9)


@pytest.mark.parametrize("make", [lognormal, ruled, available])
def test_services_have_as_many_pods_as_asked_for(make: object, tmp_path: Path) -> None:
    assert callable(make)
    assert len(snapshot_of(make(500, 40, ec2_catalogue(NO_DATA)), tmp_path).pods) == 500


def test_skewed_pods_come_in_two_kinds(tmp_path: Path) -> None:
    pods = snapshot_of(skewed(400, ec2_catalogue(NO_DATA)), tmp_path).pods
    ratios = [pod.spec.requests["memory"] / pod.spec.requests["cpu"] for pod in pods]
    assert sum(ratio > 4 * 2**20 for ratio in ratios) == pytest.approx(200, abs=20)


def test_existing_nodes_are_ours_and_hold_their_pods(tmp_path: Path) -> None:
    """Pods lost between the file and the snapshot would make nodes emptier, and the case easier."""
    snapshot = snapshot_of(existing(12, 10, ec2_catalogue(NO_DATA)), tmp_path)
    assert len(snapshot.nodes) == len(snapshot.node_claims) == 12
    names = {node.name for node in snapshot.nodes}
    assert {pod.node_name for pod in snapshot.pods} == names | {""}
    assert sum(not pod.node_name for pod in snapshot.pods) == 10


def test_pods_as_an_api_server_sends_them_have_real_sizes(tmp_path: Path) -> None:
    """Decoding is timed with them; small pods would make it look faster."""
    workload = as_sent(40, 5, ec2_catalogue(NO_DATA))
    assert 6_000 < len(json.dumps(workload.pods[0], separators=(",", ":"))) < 8_000
    assert len(snapshot_of(workload, tmp_path).pods) == 40


def test_the_same_workload_is_the_same_bytes_and_another_is_not(tmp_path: Path) -> None:
    """The digest decides whether Karpenter's stored answer belongs to the files."""
    first = written(diverse(2 * PAGE_PODS + 1, 5), tmp_path / "one")
    assert len(first.pages) == 3
    assert first.digest() == written(diverse(2 * PAGE_PODS + 1, 5), tmp_path / "two").digest()
    assert first.digest() != written(diverse(2 * PAGE_PODS, 5), tmp_path / "three").digest()


def test_a_smaller_workload_removes_the_pages_of_a_larger_one(tmp_path: Path) -> None:
    written(diverse(2 * PAGE_PODS, 5), tmp_path)
    assert len(written(diverse(10, 5), tmp_path).pages) == 1


def test_cases_are_picked_by_name_by_beginning_and_for_two_minutes() -> None:
    assert [case.name for case in selected("skewed-1k,openb-*", quick=False)] == ["skewed-1k", "openb-cpu", "openb-gpu"]
    assert {case.name for case in selected("", quick=True)} < {case.name for case in CASES}
    with pytest.raises(ValueError, match="there are diverse-1"):
        selected("diverse-7", quick=False)


def test_a_workload_can_be_drawn_again_with_another_seed(tmp_path: Path) -> None:
    """One draw of a dozen nodes says little; many draws in every run would take an hour."""
    cases = selected("again-lognormal-1k-1*", quick=False)
    assert len(cases) == len(SEEDS)
    assert len({written(case.make(NO_DATA), tmp_path).digest() for case in cases[:2]}) == 2
    assert not set(cases) & set(selected("", quick=False))


def test_the_quick_selection_leaves_long_searches_out() -> None:
    case = next(case for case in CASES if case.name == "diverse-10k")
    assert budgets_of(case, quick=False) == [1.5, 20.0]
    assert budgets_of(case, quick=True) == [1.5]


def test_cases_on_the_public_trace_say_which_files_they_lack() -> None:
    """Without the trace, the rest of the benchmark must still run."""
    case = next(case for case in CASES if case.needs_trace)
    assert "openb-pods" in case.missing(NO_DATA)
    assert not next(case for case in CASES if not case.needs_trace).missing(NO_DATA)
