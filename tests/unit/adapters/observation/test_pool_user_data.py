"""NodePools whose user data is too long get no nodes, and an answer that is missing keeps none of them from it."""

from __future__ import annotations

from adapters.observation.pool_user_data import measured, without_oversized_pools
from adapters.ports import JsonObject, TransientError
from core.model.node_pool import NodePool
from tests.builders import a_class_manifest, a_pool, a_snapshot

CLASSES = {"default": a_class_manifest()}


def problem_of(manifest: JsonObject, pool: NodePool) -> str:
    if pool.name == "fails":
        raise TransientError("ssm:GetParameter", "throttled")
    return f"too long for {manifest['metadata']['name']}" if pool.name == "long" else ""


def test_a_pool_that_is_too_long_says_so() -> None:
    assert measured(a_pool("long"), CLASSES, problem_of) == a_pool("long", problem="too long for default")
    assert measured(a_pool("short"), CLASSES, problem_of) == a_pool("short")


def test_a_pool_without_its_class_and_one_that_has_a_problem_stay_as_they_are() -> None:
    broken = a_pool("long", problem="spec.limits: is invalid")
    assert measured(broken, CLASSES, problem_of) is broken
    assert measured(a_pool("long"), {}, problem_of) == a_pool("long")


def test_each_pool_of_a_snapshot_is_measured_although_one_cannot_be() -> None:
    pools = tuple(a_pool(name) for name in ("fails", "long", "short"))
    found = without_oversized_pools(a_snapshot(node_pools=pools), CLASSES, problem_of)
    assert found == a_snapshot(node_pools=(pools[0], a_pool("long", problem="too long for default"), pools[2]))
