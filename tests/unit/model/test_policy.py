"""Which pods a PodDisruptionBudget selects."""

from __future__ import annotations

from core.model.policy import ALWAYS_ALLOW, PodDisruptionBudget
from tests.builders import a_pod, a_selector

WEB = PodDisruptionBudget(namespace="default", name="web", selector=a_selector(app="web"))


def test_a_budget_selects_in_its_own_namespace() -> None:
    assert WEB.selects(a_pod(labels={"app": "web"}))
    assert not WEB.selects(a_pod(labels={"app": "web"}, namespace="other"))
    assert not WEB.selects(a_pod())
    assert not PodDisruptionBudget(namespace="default", name="none").selects(a_pod())


def test_only_a_pod_known_to_be_unready_is_exempt() -> None:
    lenient = PodDisruptionBudget(namespace="default", name="web", unhealthy_pod_eviction_policy=ALWAYS_ALLOW)
    assert [lenient.exempts(a_pod(is_ready=ready)) for ready in (False, True, None)] == [True, False, False]
    assert not WEB.exempts(a_pod(is_ready=False))
