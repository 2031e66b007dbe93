"""When a greedy plan is searched, and what the search saves."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from msgspec import structs

from core.codec import encode_plan
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling import schedule
from core.scheduling.optimization.optimizer import default_steps, improved
from core.scheduling.planner import Planner
from tests.builders import a_pod, a_pool, a_type
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedily_solved, greedy

ROOT = Path(__file__).parents[4]


def test_new_nodes_become_cheaper_and_the_gap_is_known() -> None:
    """The greedy planner chooses the wrong mix of CPU and memory; the gap shows how much it costs."""
    cluster = a_cluster()
    before, after = greedy(cluster), schedule(cluster)
    assert after.cost.hourly < before.cost.hourly * 0.95
    assert after.cost.lower_bound is not None
    assert after.cost.lower_bound <= after.cost.hourly <= after.cost.lower_bound * 1.08
    assert before.cost.lower_bound is None


def test_without_a_bound_the_size_of_the_plan_limits_the_search() -> None:
    """Otherwise, plans in a pull request vary with the speed of the machine."""
    cluster = a_cluster(steps=None)
    plans = {encode_plan(schedule(cluster, clock)) for clock in (lambda: 0.0, iter_clock(0.001), iter_clock(0.003))}
    assert len(plans) == 1
    assert schedule(cluster, lambda: 0.0).cost.hourly < greedy(cluster).cost.hourly


def test_a_plan_whose_bound_nobody_reads_is_the_same_plan() -> None:
    """A simulation of a week reads no bound; its nodes must be those of the functions."""
    proven, unproven = (Planner(a_cluster()).plan(proves=proves) for proves in (True, False))
    assert (proven.claims, proven.bindings) == (unproven.claims, unproven.bindings)
    assert proven.cost.hourly == unproven.cost.hourly
    assert (unproven.cost.lower_bound or 0) < (proven.cost.lower_bound or 0)


def iter_clock(tick: float) -> Callable[[], float]:
    """A clock that advances with each question and never reaches the end."""
    passed = itertools.count()
    return lambda: min(0.99, next(passed) * tick)


def test_a_caller_out_of_time_still_gets_a_complete_plan() -> None:
    """Otherwise, a tight deadline leaves pods without a node."""
    cluster = a_cluster(steps=None)
    plan = schedule(cluster, lambda: True)
    assert sum(len(claim.pods) for claim in plan.claims) == 60
    assert plan.cost.hourly <= greedy(cluster).cost.hourly


def test_two_pods_on_a_node_far_too_large_are_worth_the_solver() -> None:
    """Otherwise, one large GPU machine is launched where two small ones cost a quarter."""
    one, eight = (
        a_type(f"gpu-{n}", cpu=str(4 * n), memory=f"{16 * n}Gi", price=price, extra={"nvidia.com/gpu": str(n)})
        for n, price in ((1, 0.5), (8, 4.0))
    )
    jobs = tuple(a_pod(f"job{i}", cpu="3", memory="12Gi", extra={"nvidia.com/gpu": "1"}) for i in range(2))
    pool = a_pool("gpu", ON_DEMAND, limits={"nvidia.com/gpu": 8})
    plan = schedule(a_cluster(types=(one, eight), node_pools=(pool,), pods=jobs))
    assert [claim.instance_types for claim in plan.claims] == [("gpu-1",), ("gpu-1",)]


def test_one_node_never_costs_more_than_a_node_for_each_pod() -> None:
    """If the cost was within a fifth of the arithmetic bound, no search was made."""
    types = (a_type("small", cpu="1", memory="4Gi", price=0.04), a_type("large", cpu="8", memory="32Gi", price=0.23))
    pods = tuple(a_pod(f"p{number}", cpu="1", memory="1Gi") for number in range(5))
    plan = schedule(a_cluster(types=types, node_pools=(a_pool("default", ON_DEMAND),), pods=pods))
    assert plan.cost.hourly == 5 * 40_000_000


def test_a_handful_of_pods_needs_no_solver() -> None:
    """Loading numpy and HiGHS takes longer than planning for one pod, and little can be saved."""
    program = (
        "import sys; from tests.unit.scheduling.optimization.test_optimizer import *\n"
        "for name in [n for n in sys.modules if n.partition('.')[0] in ('numpy', 'highspy')]: sys.modules[name] = None\n"
        "small = tuple(a_pod(f'p{i}', cpu='500m', memory='2Gi') for i in range(3))\n"
        "plan = schedule(a_cluster(pods=small))\n"
        "assert len(plan.claims) == 1 and 0 < plan.cost.lower_bound <= plan.cost.hourly\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)  # noqa: S603 - our own interpreter and program


def test_without_a_budget_nothing_is_searched() -> None:
    """Otherwise, a caller that only asks for a plan waits for the solver."""
    context, solution = greedily_solved(a_cluster())
    for budget in (None, SearchBudget(0)):
        found, cost = improved(context, solution, budget, DEFAULT_SETTINGS)
        assert found is solution
        assert cost.hourly == sum(claim.price for claim in solution.claims)


def test_the_larger_a_plan_the_fewer_steps_it_gets() -> None:
    limits = structs.replace(
        DEFAULT_SETTINGS.optimizer, default_steps_offset=10, default_steps_machines=1000, default_steps_min=7
    )
    settings = structs.replace(DEFAULT_SETTINGS, optimizer=limits)
    steps = [default_steps(SimpleNamespace(claims=[None] * claims), settings) for claims in (0, 1, 90, 132, 133, 999)]
    assert steps == [100, 90, 10, 7, 7, 7]
