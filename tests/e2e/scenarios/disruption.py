"""Nodes that go: empty ones, underutilized ones under budgets, and those of a NodePool or NodeClaim that is deleted."""

from __future__ import annotations

from typing import Final

from tests.e2e.play import Play
from tests.e2e.scenarios.objects import budget, deployment, is_ready, node_class, on, own_pool, requirement

AFTER: Final = "5s"
"""consolidateAfter; people set minutes."""

GRACE: Final = "10s"
ON_DEMAND: Final = requirement("karpenter.sh/capacity-type", "on-demand")
SIZES: Final = requirement("node.kubernetes.io/instance-type", "m5.large", "m5.xlarge", "m5.2xlarge")


def empty(playing: Play) -> None:
    """A node whose pods are gone goes too."""
    playing.apply(node_class(), own_pool("empty", consolidate_after=AFTER, policy="WhenEmpty"))
    playing.ready()
    playing.apply(deployment("empty", "web", 2, **on("empty")))
    playing.wait_until_running(2)
    playing.wait_until_settled()
    playing.scale("empty", "web", 0)
    playing.wait(lambda: not playing.nodes() and not playing.claims(), "the empty node is gone")


def underutilized(playing: Play) -> None:
    """Pods of a large, almost empty node move to a smaller one; at least two of the three are always ready."""
    pool = "underutilized"
    playing.apply(node_class(), own_pool(pool, SIZES, ON_DEMAND))
    playing.ready()
    playing.apply(
        # One pod that needs a large node: with several small ones the cheapest plan is several small nodes.
        deployment(pool, "filler", 1, cpu="4500m", **on(pool)),
        deployment(pool, "web", 3, cpu="200m", **on(pool)),
        budget(pool, "web", minAvailable=2),
    )
    playing.wait_until_running(4)
    before = _price(playing)
    playing.scale(pool, "filler", 0)
    playing.apply(own_pool(pool, SIZES, ON_DEMAND, consolidate_after=AFTER))
    least = [3]

    def is_cheaper() -> bool:
        least.append(sum(1 for pod in playing.pods() if pod["metadata"]["labels"]["app"] == "web" and is_ready(pod)))
        return _price(playing) < before and playing.judge()[0].pending == 0

    playing.wait(is_cheaper, "the pods run on less")
    playing.wait_until_running(3)
    if min(least) < 2:
        playing.violations.append(f"only {min(least)} of the pods were ready, the budget wants 2")
    if not playing.world.read_audit_record().evictions[201]:
        playing.violations.append("the pods went without the eviction API")


def pool_deleted(playing: Play) -> None:
    """`kubectl delete nodepool`: its nodes are drained and go; the pods stay pending, no NodePool takes them."""
    pool = "deleted"
    playing.apply(node_class(), own_pool(pool))
    playing.ready()
    playing.apply(deployment(pool, "web", 2, **on(pool)))
    playing.wait_until_running(2)
    playing.world.admin.delete("nodepools.karpenter.sh", pool)
    playing.wait(lambda: not playing.nodes() and not playing.claims(), "the pool's nodes are gone")
    playing.world.admin.delete("deployments.apps", "web", pool)
    playing.wait(lambda: not playing.pods(), "the pods are gone")


def claim_deleted(playing: Play) -> None:
    """`kubectl delete nodeclaim`: its node is drained and goes, and the pod gets another one."""
    pool = "claim-deleted"
    playing.apply(node_class(), own_pool(pool))
    playing.ready()
    playing.apply(deployment(pool, "web", 1, **on(pool)))
    playing.wait_until_running(1)
    playing.wait_until_settled()
    (first,) = (record.name for record in playing.claims())
    playing.world.admin.delete("nodeclaims.karpenter.sh", first)
    playing.wait(lambda: first not in {record.name for record in playing.claims()}, "the claim is gone")
    playing.wait_until_running(1)
    if playing.world.admin.get("nodeclaims.karpenter.sh", first) is not None:
        playing.violations.append(f"the NodeClaim {first} is left of a claim that is gone")


def forced(playing: Play) -> None:
    """A budget that lets no pod go holds a deleted NodePool's node until terminationGracePeriod has passed, no longer."""
    pool = "forced"
    playing.apply(node_class(), own_pool(pool, template={"terminationGracePeriod": GRACE}))
    playing.ready()
    playing.apply(deployment(pool, "web", 1, **on(pool)), budget(pool, "web", maxUnavailable=0))
    playing.wait_until_running(1)
    refused = playing.world.read_audit_record().evictions[429]
    playing.world.admin.delete("nodepools.karpenter.sh", pool)
    playing.wait(lambda: not playing.nodes() and not playing.claims(), "the pool's node is gone")
    if playing.world.read_audit_record().evictions[429] == refused:
        playing.violations.append("no eviction was tried before the pod was forced off")
    playing.world.admin.delete("deployments.apps", "web", pool)
    playing.wait(lambda: not playing.pods(), "the pod is gone")


def _price(playing: Play) -> int:
    """What the scene's instances cost, in nano-dollars per hour."""
    return sum(record.machine.offering.price for record in playing.claims() if record.machine)
