"""Thousands of terms of many pods cost honest pods neither their turn nor a run's processor time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from adapters.ports import JsonObject
from core.lifecycle.records import ClaimPhase
from tests.fakes.lab import Lab, a_pending_pod

pytestmark = pytest.mark.slow

HONEST = 300
SECONDS = 30
"""Half of the processor time that a run of `provision` has."""


def anti(number: int, terms: int) -> JsonObject:
    """Preferred anti-affinity to all pods of the kind, by labels of its own."""
    preferred = [
        {
            "weight": 1 + k,
            "podAffinityTerm": {
                "topologyKey": ("topology.kubernetes.io/zone", "kubernetes.io/hostname")[k % 2],
                "labelSelector": {
                    "matchExpressions": [{"key": f"k{k}", "operator": "In", "values": ["w", f"v{number}"]}]
                },
            },
        }
        for k in range(terms)
    ]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def selectors(number: int, terms: int) -> JsonObject:
    """Terms of twenty expressions, of which only the last is satisfied by any node."""
    required = [
        {
            "matchExpressions": [
                *({"key": f"e{e}-{t}", "operator": "NotIn", "values": [f"v{number}"]} for e in range(19)),
                {"key": "pool", "operator": "NotIn" if t == terms - 1 else "In", "values": [f"no-{number}-{t}"]},
            ]
        }
        for t in range(terms)
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}}}


def preferences(number: int, terms: int) -> JsonObject:
    """Preferences of nodes by labels that none has."""
    preferred = [
        {
            "weight": 1 + t % 100,
            "preference": {"matchExpressions": [{"key": f"p{t}", "operator": "In", "values": [f"v{number}"]}]},
        }
        for t in range(terms)
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


Kind = tuple[Callable[[int, int], JsonObject], int, int]

BEYOND: tuple[Kind, ...] = ((anti, 1250, 50), (selectors, 600, 50), (preferences, 120, 500))
WITHIN: tuple[Kind, ...] = ((anti, 1250, 32), (selectors, 600, 12), (preferences, 120, 32))
"""The same at the bounds of what a plan takes from one pod."""


def mixed(kinds: tuple[Kind, ...]) -> Lab:
    lab = Lab()
    for make, count, terms in kinds:
        labels = {f"k{k}": "w" for k in range(terms)}
        for n in range(count):
            name = f"{make.__name__}-{n}"
            odd = a_pending_pod(
                name, cpu="100m", affinity=make(n, terms), metadata={"namespace": "odd", "labels": labels}
            )
            lab.kubernetes.put(odd)
    lab.kubernetes.put(*(a_pending_pod(f"honest-{n}", cpu="500m") for n in range(HONEST)))
    return lab


@pytest.mark.parametrize("kinds", [pytest.param(BEYOND, id="beyond"), pytest.param(WITHIN, id="within")])
def test_honest_pods_are_bought_in_the_first_run(kinds: tuple[Kind, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    lab = mixed(kinds)
    bought: set[str] = set()

    def requested(_: str) -> None:
        bought.update(pod for claim in lab.rows.claims.values() for pod in claim.plan.pods)

    lab.cloud.before_call = requested
    began = time.process_time()
    monkeypatch.setattr(lab.clock, "worked", lambda: timedelta(seconds=time.process_time() - began))
    lab.provision()
    spent = time.process_time() - began
    honest = {pod for pod in bought if pod.startswith("default/honest-")}
    assert len(honest) == HONEST
    assert all(claim.phase is ClaimPhase.LAUNCHED for claim in lab.claims)
    assert spent <= SECONDS
