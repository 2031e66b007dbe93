"""Judges a settled world: no unfinished work, nothing forgotten, and correct counters.

It reads the table's rows as plain JSON, and interprets them independently of the functions' code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

import msgspec

from core import api
from core.model.node_pool import GROUP_COUNTER
from core.pools import charges_of, share_in
from simulator.checkers.disruption import Ledger, PodDisruptionBudgetJudge, PodFacts, is_protected

# Judges calls: no call is repeated without bound, and nothing is written in a world at rest.


WRITES_MAX: Final = 50
WRITES_EACH: Final = 5
"""The most writes of one kind to the cluster or to EC2 by one function within a minute, and the additional ones per instance.
Three instances took at most twenty-one (evictions that budgets refuse)."""

EVICTION: Final = "kube:create pods/eviction"
EVICTIONS_EACH: Final = 9
"""The additional evictions for each pod on a leaving node: one that a budget protects is tried nine times in its first minute,
after 1, 3, 7, 15, 25 … seconds, however many pods the same budget protects (Karpenter tries as often)."""

OTHERS_MAX: Final = 200
OTHERS_EACH: Final = 60
"""The same for reads, and for the table and the queues. An observation reads eight partitions of claims, a starting claim is
checked every second, and a command reads each of its claims. Nine booting instances took 561."""

RESTING: Final = timedelta(minutes=8)
"""How long nothing may be written in a world at rest: longer than the longest pause between two checks of one object, 6 minutes
until a failed message is delivered again."""

_OFTEN: Final = ("dynamodb", "sqs", "kube:create events")
"""Writes that count like reads. A launch writes an event on each of its pods, as kube-scheduler does when it binds them."""

_MINUTE: Final = timedelta(minutes=1)
_WRITES: Final = (
    "kube:create",
    "kube:patch",
    "kube:delete",
    "dynamodb:Put",
    "dynamodb:Delete",
    "dynamodb:Transact",
    "ec2:Create",
    "ec2:Delete",
    "ec2:Terminate",
    "ec2:Modify",
    "ec2:Run",
    "sqs:Send",
    "scheduler:Create",
    "scheduler:Update",
    "scheduler:Delete",
    "s3:Put",
    "s3:Delete",
    "iam:Create",
    "iam:Add",
    "iam:Delete",
    "iam:Remove",
)
"""Calls that write. UpdateItem is used for leases only."""

LEDGER_WRITE: Final = "s3:PutObject"
"""The call by which a function writes its ledger."""

_BEATS: Final = (
    ("refresh_catalogue", "s3:PutObject", ""),
    ("reconcile", "dynamodb:PutItem", "sweeps"),
    ("provision", "kube:create events", ""),
    ("disrupt", "s3:PutObject", "parts"),
    ("decide_part", "s3:PutObject", "parts"),
)
"""Periodic writes, by function, call and subject: the market each hour, the state of sweeps, each hour the reason why a pod
waits, and each half hour an unchanged cluster in parts."""

Report = Callable[[str, str], None]


class CallJudge:
    """Counts every attempt of every call.

    Violations go to `report(law, message)`. `instances(since)` returns how many instances ran at that time or later, and
    `leaving_pods()` how many pods run on nodes that are about to go.

    Attributes:
        written_at: The time of the last write, periodic ones excepted; None before the first.
        refused: Functions with calls whose newest attempt to write changed nothing.
    """

    def __init__(
        self,
        report: Report,
        instances: Callable[[datetime], int] = lambda _: 0,
        leaving_pods: Callable[[], int] = lambda: 0,
    ) -> None:
        self._report = report
        self._instances = instances
        self._leaving_pods = leaving_pods
        self._minute: dict[tuple[str, str], tuple[datetime, int]] = {}
        self._writes: dict[tuple[str, str, str], datetime] = {}
        self.written_at: datetime | None = None
        self.refused: set[tuple[str, str]] = set()

    def record(self, now: datetime, function: str, call: str, subject: str = "", *, changes: bool = True) -> None:
        """Count one attempt; `subject` is the kind of row that it concerns, if any.

        `changes`: whether it may change something if the call writes.
        """
        self._count(now, function, call)
        (self.refused.discard if changes else self.refused.add)((function, call))
        if changes and _is_write(call) and (function, call, subject) not in _BEATS:
            self._writes[function, call, subject] = self.written_at = now

    def finish(self, now: datetime, *, at_rest: bool) -> None:
        """Report a write in the last minutes, if the world should have been at rest."""
        late = {
            what: at
            for what, at in self._writes.items()
            if now - at < RESTING and not self._asks_again(what[0], what[1])
        }
        if at_rest and late:
            function, call, subject = min(late, key=lambda what: (late[what], what))
            moment = f"{late[function, call, subject]:%H:%M:%S}"
            others = f", and {len(late) - 1} other kinds of writes" if len(late) > 1 else ""
            what = f"{call} ({subject})" if subject else call
            self._report("writesAtRest", f"{function} makes {what} at {moment} in a world at rest{others}")

    def _asks_again(self, function: str, call: str) -> bool:
        """Whether the function only asks itself for a second look, since it cannot write its ledger."""
        return call.startswith("sqs:Send") and (function, LEDGER_WRITE) in self.refused

    def _count(self, now: datetime, function: str, call: str) -> None:
        since, count = self._minute.get((function, call), (now, 0))
        if now - since >= _MINUTE:
            since, count = now, 0
        count += 1
        self._minute[function, call] = since, count
        if count < WRITES_MAX:
            return
        is_costly_write = _is_write(call) and not call.startswith(_OFTEN)
        most, per_instance = (WRITES_MAX, WRITES_EACH) if is_costly_write else (OTHERS_MAX, OTHERS_EACH)
        evictions = EVICTIONS_EACH * self._leaving_pods() if call == EVICTION else 0
        if count > most and count > most + per_instance * self._instances(since) + evictions:
            self._minute[function, call] = since, 0
            self._report("callRates", f"{function} made {count} {call} within a minute, from {since:%H:%M:%S}")


@cache
def _is_write(call: str) -> bool:
    return call.startswith(_WRITES)


# Judges decisions beside the functions' ledger: a node goes for a reason that can be asked for, or it stays.


_DECISIONS: Final = "/decisions/"
"""A part of the names of objects in the bucket that hold decisions; each name ends with the decision's id."""

_WITHOUT: Final = ("Unhealthy",)
"""Reasons for which nodes go even if the ledger cannot be written: their pods may have no working node."""


class DecisionJudge:
    """Compares the commands in the table with the decisions in the bucket. Violations go to `report(law, message)`."""

    name = "commandsWithoutDecision"

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stored: set[str] = set()
        self._known: set[str] = set()

    def object_written(self, key: str) -> None:
        """Take the name of an object that is in the bucket from now on."""
        if _DECISIONS in key:
            self._stored.add(key.rpartition("-")[2])

    def command_written(self, command: Mapping[str, Any]) -> None:
        """Judge a command that a function writes for the first time."""
        name, decision, reason = command["id"], command.get("decision") or "", command["command"]["reason"]
        if name in self._known:
            return
        self._known.add(name)
        if decision not in self._stored and reason not in _WITHOUT:
            what = f"decision {decision!r} is not in the ledger" if decision else "it names no decision"
            self._report(self.name, f"command {name} ({reason}) has begun, and {what}")


UNDER_WAY_MAX: Final = timedelta(minutes=30)
"""How long one step of a claim or command may take: a launch is abandoned after 15 minutes; the rest is a margin to act."""

PENDING_MAX: Final = timedelta(minutes=12)
"""How long a pod may wait for a node, or for the reason why there is none, in a world without faults."""

_LAUNCHED_FOR: Final = "fleetwright.dev/launched-for-group"

Row = Mapping[str, Any]


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    """The state at the end of a run.

    Attributes:
        claims, commands: The table's records, as JSON.
        usage: NodePool → counter → amount. `disrupting` counts leaving nodes; names of the others begin with `r:`.
        dead_letters: Queue → the number of messages in its dead-letter queue.
        explained: Pods with an event that explains why they have no node.
        failures: Exceptions of handlers, with tracebacks.
        smallest: Resource → the least that any instance has of it; without it, caps are no excuse for a missing node.
    """

    claims: Sequence[Row]
    commands: Sequence[Row]
    usage: Mapping[str, Mapping[str, int]]
    dead_letters: Mapping[str, int]
    explained: frozenset[str]
    failures: Sequence[str]
    smallest: Mapping[str, int] = {}


def _reserved(claim: Row) -> dict[str, dict[str, int]]:
    """Return counter → what a claim holds in it: that of its NodePool, of groups that share limits, and of caps."""
    reserved = claim.get("reserved") or {}
    groups = {GROUP_COUNTER + group: reserved for group in claim.get("limit_groups") or ()}
    charges = charges_of(claim["plan"].get("annotations") or {})
    caps = {GROUP_COUNTER + cap: share_in(reserved, share) for cap, share in charges.items()}
    return {claim["plan"]["node_pool"]: reserved, **caps, **groups}


class RemainsJudge:
    """Judges the final state. Violations go to `report(law, message)`; `patience` is how long a step may take.

    `disrupts`: whether nodes may go by choice: empty ones stay as long as no decision about them can be written.
    """

    def __init__(
        self,
        ledger: Ledger,
        remains: Remains,
        report: Report,
        *,
        patience: timedelta = UNDER_WAY_MAX,
        disrupts: bool = True,
    ) -> None:
        self._ledger = ledger
        self._remains = remains
        self._report = report
        self._patience = patience
        self._disrupts = disrupts

    def finish(self, now: datetime) -> None:
        """Judge the current state."""
        self._claims(now)
        self._commands(now)
        self._counters()
        self._instances(now)
        self._taints(now)
        self._pods(now)
        self._replicas()
        if self._disrupts:
            self._groups(now)
        for queue, count in sorted(self._remains.dead_letters.items()):
            if count:
                self._report("deadLetters", f"{count} messages of the queue {queue} were given up")
        for failure in sorted({failure.rstrip().rpartition("\n")[2] for failure in self._remains.failures}):
            if not failure.startswith("adapters.ports."):
                self._report("handlerErrors", failure)

    def is_at_rest(self, now: datetime) -> bool:
        """Whether no drain waits for a pod that may not be evicted, which would be retried."""
        return not any(claim.get("deletion") and self._is_held(claim, now) for claim in self._remains.claims)

    def _claims(self, now: datetime) -> None:
        for claim in self._remains.claims:
            deletion = claim.get("deletion")
            if deletion is None and claim.get("phase", "requested") == "initialized":
                continue
            since = _moment(claim["phase_since"] if deletion is None else deletion["asked_at"])
            if now - since > self._patience and not self._is_held(claim, now):
                state = f"going for {deletion['reason']}" if deletion else claim.get("phase", "requested")
                self._report("stuckClaims", f"claim {claim['name']} is {state} since {since:%H:%M:%S}")

    def _is_held(self, claim: Row, now: datetime) -> bool:
        """Whether a pod on the claim's node may not be evicted, or is leaving: then the claim may wait."""
        budgets = PodDisruptionBudgetJudge(self._ledger, lambda _: None)
        return any(
            is_protected(pod, now) or budgets.forbids(pod) or pod.is_leaving
            for _, pod in self._ledger.pods_on(str(claim.get("node_name", "")))
        )

    def _commands(self, now: datetime) -> None:
        for command in self._remains.commands:
            since = _moment(command["created_at"])
            if now - since > self._patience:
                self._report(
                    "stuckCommands", f"command {command['id']} is {command.get('phase')} since {since:%H:%M:%S}"
                )

    def _counters(self) -> None:
        """Check that each counter is the sum over the claims; those without a NodePool are counted nowhere."""
        wanted: dict[str, dict[str, int]] = {}
        for claim in self._remains.claims:
            for counter, reserved in _reserved(claim).items():
                sums = wanted.setdefault(counter, {})
                for name, amount in reserved.items():
                    sums[f"r:{name}"] = sums.get(f"r:{name}", 0) + amount
            of_pool = wanted[claim["plan"]["node_pool"]]
            of_pool["disrupting"] = of_pool.get("disrupting", 0) + bool(claim.get("is_disrupting"))
        for pool in sorted({*wanted, *self._remains.usage} - {""}):
            counted, summed = self._remains.usage.get(pool, {}), wanted.get(pool, {})
            for name in sorted({*counted, *summed}):
                if counted.get(name, 0) != summed.get(name, 0):
                    message = (
                        f"NodePool {pool}: {name} counts {counted.get(name, 0)}, its claims hold {summed.get(name, 0)}"
                    )
                    self._report("usageCounters", message)

    def _instances(self, now: datetime) -> None:
        """Check that every instance has a claim, and that every claim and every node has an instance."""
        alive = {name for name, facts in self._ledger.instances.items() if facts.ended_at is None}
        claimed = {(claim.get("machine") or {}).get("instance_id", "") for claim in self._remains.claims} - {""}
        old = {name for name in alive if now - self._ledger.instances[name].launched_at > self._patience}
        for name in sorted(old - claimed):
            self._report("instancesWithoutClaim", f"{name} runs, and no claim knows of it")
        for claim in self._remains.claims:
            instance = (claim.get("machine") or {}).get("instance_id", "")
            ended = self._ledger.instances[instance].ended_at if instance in self._ledger.instances else None
            if ended is not None and now - ended > self._patience:
                self._report(
                    "claimsWithoutInstance", f"claim {claim['name']} stands for {instance}, ended {ended:%H:%M:%S}"
                )
        for name, node in sorted(self._ledger.nodes.items()):
            facts = self._ledger.instances.get(node.instance)
            if facts is not None and facts.ended_at is not None and now - facts.ended_at > self._patience:
                self._report(
                    "nodesWithoutInstance", f"node {name} is there, its instance ended {facts.ended_at:%H:%M:%S}"
                )

    def _taints(self, now: datetime) -> None:
        going = {claim.get("node_name", "") for claim in self._remains.claims if claim.get("deletion") is not None}
        going |= {node for command in self._remains.commands for node in _nodes_of(command)}
        for name, node in sorted(self._ledger.nodes.items()):
            since = node.disrupted_at
            if since is not None and name not in going and now - since > self._patience:
                self._report("strayTaints", f"node {name} is tainted for {node.disrupted_for} since {since:%H:%M:%S}")

    def _replicas(self) -> None:
        """Check that a static NodePool has its replicas, as far as limits and caps allow; leaving nodes do not count."""
        for pool in self._ledger.of_kind("NodePool"):
            name, spec = pool["metadata"]["name"], pool.get("spec") or {}
            if spec.get("replicas") is None:
                continue
            wanted = min(spec["replicas"], int((spec.get("limits") or {}).get("nodes", spec["replicas"])))
            going = {node.instance for node in self._ledger.nodes.values() if node.disrupted_for is not None}
            staying = sum(
                facts.pool == name and facts.ended_at is None and instance not in going
                for instance, facts in self._ledger.instances.items()
            )
            if staying != wanted and not (staying < wanted and self._is_capped(name)):
                self._report("staticReplicas", f"NodePool {name} has {staying} nodes that stay, wanted {wanted}")

    def _is_capped(self, pool: str) -> bool:
        """Whether a cap that counts all nodes of the pool has no room for the smallest instance."""
        calendars = (api.calendar(dict(written)) for written in self._ledger.of_kind("Calendar"))
        for calendar in calendars:
            if calendar.node_pools and pool not in calendar.node_pools:
                continue
            for cap in calendar.caps:
                used = self._remains.usage.get(GROUP_COUNTER + cap.name, {})
                room = {name: limit - used.get(f"r:{name}", 0) for name, limit in cap.limits.items()}
                if cap.is_for_all_pods and any(room[name] < self._remains.smallest.get(name, 0) for name in room):
                    return True
        return False

    def _groups(self, now: datetime) -> None:
        """Check that no node stays that was bought for a group or a ProvisioningRequest, and has no pods, or a part of a group.

        Buffers may use one without pods. A group that once was whole may have lost members since, and one of which fewer exist
        than start together is a user's.
        """
        has_buffers = any(True for _ in self._ledger.of_kind("CapacityBuffer"))
        for claim in self._remains.claims:
            group = (claim["plan"].get("annotations") or {}).get(_LAUNCHED_FOR)
            if group is None or claim.get("deletion") is not None or claim.get("phase") != "initialized":
                continue
            since = _moment(claim["phase_since"])
            pods = [pod for _, pod in self._ledger.pods_on(str(claim.get("node_name", "")))]
            is_empty = all(pod.owner.startswith("DaemonSet/") for pod in pods)
            if now - since <= self._patience:
                continue
            if is_empty and not has_buffers:
                self._report("halfBoughtGroups", f"claim {claim['name']} was bought for {group} and has no pods")
            for name in sorted({pod.group for pod in pods} - {"", *self._ledger.whole_groups}):
                there, placed, minimum = self._ledger.members(name)
                if placed < minimum <= there:
                    parts = f"{placed} of {minimum} members of {name}"
                    self._report("halfBoughtGroups", f"claim {claim['name']} was bought for {group} and runs {parts}")

    def _pods(self, now: datetime) -> None:
        for name, pod in sorted(self._ledger.pods.items()):
            waited = now - pod.created_at
            if _is_pending(pod) and waited > min(PENDING_MAX, self._patience) and name not in self._remains.explained:
                self._report("unexplainedPending", f"{name} waits since {pod.created_at:%H:%M:%S} and was not told why")


def _is_pending(pod: PodFacts) -> bool:
    return not (pod.node or pod.is_finished or pod.is_leaving or pod.owner.startswith("DaemonSet/"))


def _nodes_of(command: Row) -> Iterator[str]:
    yield from (command.get("command") or {}).get("nodes") or ()


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
