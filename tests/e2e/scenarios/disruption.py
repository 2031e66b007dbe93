"""Nodes that go: empty ones, underutilized ones under budgets, and those of a NodePool or NodeClaim that is deleted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from installation.wiring import BY_NAME
from tests.e2e.cloud.aws_protocol import SignedRequest
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


# One pod after the other, each for a node of its own: what the trigger takes when nothing else is going on.


SINGLES: Final = "singles"
PODS: Final = 6
APART: Final = 1.5


def one_by_one(playing: Play, launched: Callable[[], None]) -> None:
    """Ask for the pods one by one; `launched` is called when each runs."""
    playing.apply(node_class(), own_pool(SINGLES, consolidate_after=AFTER, policy="WhenEmpty"))
    playing.ready()
    for number in range(PODS):
        playing.apply(deployment(SINGLES, f"single-{number}", 1, cpu="1500m", **on(SINGLES)))
        time.sleep(APART)
    playing.wait_until_running(PODS)
    playing.wait_until_none_is_empty()
    playing.wait_until_settled()
    launched()


# A function that is killed in the middle of a launch, and runs again.


KILLED: Final = "killed"


def killed_in_a_launch(playing: Play, was_killed: Callable[[], None]) -> None:
    """The function dies between EC2's launch and its answer: the instance is found again, and no second one is launched."""
    world, provision = playing.world, BY_NAME["provision"]
    killed: list[int] = []

    def kill(request: SignedRequest) -> None:
        if not killed and KILLED.encode() in request.body:
            killed.append(world.functions.kill(provision))
            was_killed()

    playing.forgiven.add("provision crash")
    playing.leave_unmeasured(f"{KILLED}/")
    playing.apply(node_class(), own_pool(KILLED))
    playing.ready()
    world.cloud.http.after("ec2:CreateFleet", kill)
    playing.apply(deployment(KILLED, "web", 1, **on(KILLED)))
    playing.wait_until_running(1)
    if not killed or not killed[0]:
        playing.violations.append(f"the function was to be killed: {killed}")
    launched = [found for found in world.cloud.instances.all() if found.tags.get("karpenter.sh/nodepool") == KILLED]
    if len(launched) != 1:
        playing.violations.append(f"{len(launched)} instances were launched for one pod")


# The API server is away for a minute: what runs stays, and what came in that minute is handled.


OUTAGE: Final = "outage"
OUTAGE_SECONDS: Final = 60.0
FUNCTIONS: Final = ("provision", "disrupt", "execute", "reconcile", "interrupt")


def api_server_away(playing: Play, ready: Callable[[], object]) -> None:
    """Two pods run, two more are asked for, and the server stops; `ready` is waited for first."""
    world = playing.world
    playing.forgiven |= {f"{name} error" for name in FUNCTIONS}
    playing.leave_unmeasured(f"{OUTAGE}/later")
    playing.apply(node_class(), own_pool(OUTAGE))
    playing.ready()
    playing.apply(deployment(OUTAGE, "web", 2, **on(OUTAGE)))
    playing.wait_until_running(2)
    playing.wait_until_settled()
    before = {record.instance_id for record in playing.claims()}
    ready()
    playing.apply(deployment(OUTAGE, "later", 2, cpu="3", **on(OUTAGE)))
    refused = Counter(world.read_audit_record().refused)
    world.control_plane.stop_api_server()
    time.sleep(OUTAGE_SECONDS)
    world.control_plane.start_api_server()
    world.control_plane.restart_clients()
    # Before it is ready it knows no roles; behind EKS' balancer nobody would ask it then.
    world.read_audit_record().refused = refused
    playing.wait_until_running(4)
    if lost := before - {record.instance_id for record in playing.claims()}:
        playing.violations.append(f"instances were let go during the outage: {sorted(lost)}")
    if not _complaints(playing):
        playing.violations.append("no function said that it could not reach the API server")


def _complaints(playing: Play) -> list[str]:
    """What functions logged of it; one that never ran has no log."""
    logs = [log for name in FUNCTIONS if (log := playing.world.log_of(name)).exists()]
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return [line for line in lines if "TransientError" in line and "kube:" in line]
