"""Types of two sizes, and pods that keep apart."""

from __future__ import annotations

from core import labels
from core.model.plan import PlannedClaim
from core.model.pod import PodAffinityTerm
from tests.builders import a_pod, a_selector, a_type
from tests.unit.scheduling.reading import plan_of

SMALL = a_type("small", cpu="2", memory="8Gi", price=0.1)


LARGE = a_type("large", cpu="8", memory="32Gi", price=0.4)


APART = {"labels": {"app": "a"}, "anti_affinity": (PodAffinityTerm(labels.HOSTNAME, a_selector(app="a")),)}


def some_claims(*names: str, **world: object) -> tuple[PlannedClaim, ...]:
    return plan_of(pods=tuple(a_pod(name, **APART) for name in names), **world).claims
