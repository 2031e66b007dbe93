"""Defines the functions, their triggers and their bounds, once and as data.

`infra/` turns this into CloudFormation and the simulator's event pump routes by it, so the wiring that is tested in
virtual time is the wiring that is deployed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

EVENT_AGE: Final = timedelta(minutes=1)
"""Age limit of scheduled events, and of events for which a scheduled run compensates a minute later.

EventBridge and Lambda accept no less than a minute. With more than the shortest period, events would pile up during a long run,
and then start runs without a pause.
"""

NOTICE_AGE: Final = timedelta(minutes=2)
"""Age limit of notices. A spot notice is two minutes; `reconcile` finds everything else that `interrupt` handles."""


class QueueSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An SQS queue with its dead-letter queue, consumed by one function.

    Attributes:
        batch_window: How long messages are collected before the function starts; zero for immediately.
        max_receives: Deliveries before a message goes to the dead-letter queue.
    """

    name: str
    batch_size: int
    batch_window: timedelta = timedelta(0)
    visibility: timedelta
    max_receives: int = 5


class TableSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The DynamoDB table: the names of its string keys and of the attribute with an item's expiry in epoch seconds."""

    partition_key: str
    sort_key: str
    expiry: str


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A fixed period at which a function runs."""

    name: str
    every: timedelta


SCHEDULED_EVENT: Final = {
    "id": "<aws.scheduler.execution-id>",
    "detail-type": "Scheduled Event",
    "source": "aws.scheduler",
    "time": "<aws.scheduler.scheduled-time>",
    "resources": ["<aws.scheduler.schedule-arn>"],
    "detail": {},
}
"""What a schedule sends: EventBridge Scheduler replaces the words in angle brackets."""


class RuleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Events of the account's default bus; `pattern` is their event pattern. One rule matches those of all patterns."""

    name: str
    pattern: dict[str, Any]


class FunctionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One Lambda function.

    Attributes:
        memory_mb: Also sets its share of a processor, a whole one at 1,769. `make scale` measures whether both suffice.
        queue: Name of the queue it consumes, empty for none.
        reads_audit_log: Whether it is subscribed to the cluster's audit log with `AUDIT_LOG_FILTER`.
        event_age: The maximum age of a handled event; an older one is dropped, or stored among the failures.
        windows: Whether the schedules of NodePools' budget windows start it.
        concurrency: How many invocations may run at once; None for no bound.
        needs_solver: Whether its bundle contains numpy and the LP solver.
        may_loop: Whether its messages may start it again any number of times. Without that, Lambda drops the message that would
            start the 17th invocation of the same chain (docs/engineering/aws-facts.md#lambda-loops). Exactly the functions that
            can send to a queue that leads back to them have it: each chain ends by its own `until`, and by `HOPS_MAX` of
            `adapters.messages`.
    """

    name: str
    timeout: timedelta
    memory_mb: int
    queue: str = ""
    schedules: tuple[ScheduleSpec, ...] = ()
    rules: tuple[RuleSpec, ...] = ()
    reads_audit_log: bool = False
    event_age: timedelta = EVENT_AGE
    windows: bool = False
    concurrency: int | None = None
    needs_solver: bool = False
    may_loop: bool = False

    @property
    def is_repeated(self) -> bool:
        """Whether its trigger repeats, so that the next event compensates for a failed or late one."""
        return bool(self.schedules)

    @property
    def handler(self) -> str:
        """Dotted path of the handler."""
        return f"lambdas.handlers.{self.name}.handler"


TABLE: Final = TableSpec(partition_key="pk", sort_key="sk", expiry="expires_at")
"""Claims, commands, leases, usage, nominations and unavailable offerings."""

WAKE_UPS: Final = QueueSpec(name="wake-ups", batch_size=10, visibility=timedelta(minutes=6))
"""Pending pods and changed NodePools, for `provision`.

Batches are small, since larger ones need a batch window: it would add to the time for which `provision` itself waits until a
burst of pods has arrived.
"""

WORK: Final = QueueSpec(name="work", batch_size=10, visibility=timedelta(seconds=90), max_receives=20)
"""Claims and commands that have a next step, for `execute`.

Messages of an invocation that ended early are visible again soon after its time-out: a spot notice is two minutes. Its poller
takes no more batches than may run at once, so none waits while its visibility timeout runs.
"""

RUN_REQUESTS: Final = QueueSpec(
    name="looks", batch_size=1000, batch_window=timedelta(seconds=1), visibility=timedelta(minutes=6)
)
"""Pods that ended, commands that failed and nodes that are gone, for `disrupt`, and its requests for a later run.

Its name is deployed: a new name would replace the queue in every installation.

The visibility timeout is longer than the function's time-out. Messages that arrive during a run wait for its end
(docs/engineering/handbook/runs.md)."""

QUEUES: Final = (WAKE_UPS, WORK, RUN_REQUESTS)

AUDIT_LOG_FILTER: Final = (
    '{ ($.stage = "ResponseComplete") && ('
    '(($.objectRef.resource = "pods") && ($.objectRef.subresource = "status") && (($.user.username != "system:node:*") || '
    '($.requestObject.status.phase = "Succeeded") || ($.requestObject.status.phase = "Failed"))) || '
    '(($.objectRef.resource = "pods") && ($.objectRef.subresource NOT EXISTS) && ($.verb = "delete")) || '
    '(($.objectRef.resource = "nodepools") && ($.objectRef.subresource NOT EXISTS) '
    '&& ($.verb != "get") && ($.verb != "list") && ($.verb != "watch")) || '
    '((($.objectRef.resource = "nodeclaims") || ($.objectRef.resource = "provisioningrequests")) '
    "&& ($.objectRef.subresource NOT EXISTS) "
    '&& (($.verb = "delete") || ($.verb = "create")))) }'
)
"""Audit events that may mean work: marked pods, finished or deleted pods, created or deleted NodeClaims and
ProvisioningRequests, changed NodePools.

Of kubelets' frequent status reports, only those of finished pods matter (docs/engineering/handbook/runs.md).
"""

INTERRUPT_CONCURRENCY: Final = 3
"""The rules match all instances of the account: a thousand foreign instances that stop at once must not use up the account's
concurrency. An event about a foreign instance takes one read of a row, some 10 ms; other events wait meanwhile."""

REFRESH_EVERY: Final = timedelta(minutes=5)
"""Nothing is launched before the first reading of the market, so a failed one is repeated soon.

Most later runs find nothing due (`adapters.aws.market`), and make one conditional read.
"""

ENDING_STATES: Final = ("stopping", "stopped", "shutting-down", "terminated")
"""Instance states that `interrupt` acts on; each launch also reports `pending` and `running`."""


def _ec2_rule(name: str, detail_type: str, **detail: dict[str, Any]) -> RuleSpec:
    return RuleSpec(name=name, pattern={"source": ["aws.ec2"], "detail-type": [detail_type], **detail})


EC2_RULES: Final = (
    _ec2_rule("spot-interruption", "EC2 Spot Instance Interruption Warning"),
    _ec2_rule("reservation-interruption", "EC2 Capacity Reservation Instance Interruption Warning"),
    _ec2_rule("rebalance", "EC2 Instance Rebalance Recommendation"),
    _ec2_rule("instance-state", "EC2 Instance State-change Notification", detail={"state": list(ENDING_STATES)}),
)
HEALTH_RULE: Final = RuleSpec(
    name="health",
    pattern={
        "source": ["aws.health"],
        "detail-type": ["AWS Health Event"],
        "detail": {"service": ["EC2"], "eventTypeCategory": ["scheduledChange"]},
    },
)

FUNCTIONS: Final = (
    FunctionSpec(name="watch_audit_log", timeout=timedelta(seconds=30), memory_mb=256, reads_audit_log=True),
    FunctionSpec(
        name="provision",
        timeout=timedelta(minutes=1),
        memory_mb=1769,
        queue=WAKE_UPS.name,
        schedules=(ScheduleSpec(name="provision", every=timedelta(minutes=1)),),
        concurrency=2,
        needs_solver=True,
        may_loop=True,
    ),
    FunctionSpec(
        name="disrupt",
        timeout=timedelta(minutes=5),
        memory_mb=1769,
        queue=RUN_REQUESTS.name,
        schedules=(ScheduleSpec(name="disrupt", every=timedelta(minutes=1)),),
        windows=True,
        concurrency=2,  # SQS accepts no bound below two; a lease serializes runs
        needs_solver=True,
        may_loop=True,
    ),
    FunctionSpec(
        name="execute",
        timeout=timedelta(minutes=1),
        memory_mb=1024,
        queue=WORK.name,
        # The second way to every step: the table says what is due where messages are late or lost.
        schedules=(ScheduleSpec(name="execute", every=timedelta(minutes=1)),),
        concurrency=10,
        may_loop=True,
    ),
    FunctionSpec(
        name="interrupt",
        timeout=timedelta(minutes=1),
        memory_mb=512,
        rules=(*EC2_RULES, HEALTH_RULE),
        event_age=NOTICE_AGE,
        concurrency=INTERRUPT_CONCURRENCY,
    ),
    FunctionSpec(
        name="reconcile",
        timeout=timedelta(minutes=2),
        memory_mb=512,
        schedules=(ScheduleSpec(name="reconcile", every=timedelta(minutes=2)),),
        concurrency=1,
    ),
    FunctionSpec(
        name="refresh_catalogue",
        timeout=timedelta(minutes=5),
        memory_mb=1024,
        schedules=(ScheduleSpec(name="refresh-catalogue", every=REFRESH_EVERY),),
        concurrency=1,
    ),
)

PART_DECIDER: Final = FunctionSpec(
    name="decide_part",
    timeout=timedelta(minutes=10),
    memory_mb=3008,
    needs_solver=True,
)
"""Decides about one part of a cluster that is too large for one invocation of `disrupt` (setting `distributeFrom`).

Pods may couple more nodes than a part should have, so it has twice the time and more memory than `disrupt`: as much as any
account allows."""

BY_NAME: Final = {function.name: function for function in FUNCTIONS}
ALL_BY_NAME: Final = {**BY_NAME, PART_DECIDER.name: PART_DECIDER}
"""Those that only some installations have, too."""

SHADOW_FUNCTIONS: Final = tuple(BY_NAME[name] for name in ("provision", "disrupt", "refresh_catalogue"))
"""The functions that are deployed with `mode: shadow`: those that decide, and the one that reads the market.

See docs/engineering/handbook/permissions.md.
"""


def deployed_functions(*, is_shadow: bool, is_distributed: bool = False) -> tuple[FunctionSpec, ...]:
    """Return the functions of an installation.

    Args:
        is_shadow: Whether decisions are only recorded.
        is_distributed: Whether the parts of a large cluster are decided about in functions of their own.
    """
    if is_shadow:
        return SHADOW_FUNCTIONS
    if not is_distributed:
        return FUNCTIONS
    larger = msgspec.structs.replace(BY_NAME["disrupt"], memory_mb=PART_DECIDER.memory_mb)  # it observes all nodes
    return (*(larger if function.name == larger.name else function for function in FUNCTIONS), PART_DECIDER)


class MachineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A state machine of Step Functions: a Distributed Map over the parts of a cluster, then one invocation that joins them.

    Attributes:
        each: The function that decides about one part.
        then: The function that joins the decisions.
        concurrency: How many parts are decided about at once.
        timeout: When Step Functions ends an execution.
    """

    each: FunctionSpec
    then: FunctionSpec
    concurrency: int
    timeout: timedelta


PARTS_PREFIX: Final = "parts/"
"""Prefix of the bucket's keys about clusters that are decided about in parts, for its lifecycle rule."""

PARTS_MACHINE: Final = MachineSpec(
    each=PART_DECIDER, then=BY_NAME["disrupt"], concurrency=40, timeout=timedelta(minutes=30)
)
"""Forty functions at once are a twenty-fifth of what a new account may run.

Two rounds of parts that use up their time, with a start and a join, end within half an hour."""

_REFUSED: Final = (
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
)
"""Errors of Step Functions' task where Lambda did not run the function."""

_LATER: Final = timedelta(seconds=30)
"""How much longer Step Functions waits for a function than it may run."""

_PASSED: Final = "TransientError"
"""The error of a function to which another service did not answer."""


def definition(machine: MachineSpec, arn_of: Callable[[FunctionSpec], str], partition: str) -> dict[str, Any]:
    """Return the machine in Amazon States Language. `arn_of` returns the ARN by which a function is invoked.

    A part that fails costs only itself: any share of them may fail, and the others are joined. Decisions are in the bucket, and
    outputs are dropped, since they may have 256 KiB (docs/engineering/aws-facts.md#states-payload).
    """
    payload = {
        "source": "fleetwright.parts",
        **{f"{name}.$": f"$.{name}" for name in ("run", "parts", "proves", "code")},
    }
    join = _task(machine.then, payload, [_retry(("States.ALL",), 15, 4)], arn_of, partition)
    return {
        "Comment": "Fleetwright: decides about the parts of a cluster, and joins the decisions",
        "StartAt": "Parts",
        "TimeoutSeconds": int(machine.timeout.total_seconds()),
        "States": {"Parts": _map_of_parts(machine, arn_of, partition), "Join": {**join, "End": True}},
    }


def _map_of_parts(machine: MachineSpec, arn_of: Callable[[FunctionSpec], str], partition: str) -> dict[str, Any]:
    decide = _task(
        machine.each,
        {"run.$": "$.run", "part.$": "$.part", "proves.$": "$.proves"},
        [_retry(_REFUSED, 2, 6), _retry((_PASSED,), 5, 2)],
        arn_of,
        partition,
    )
    processor = {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
        "StartAt": "DecidePart",
        "States": {"DecidePart": {**decide, "End": True}},
    }
    return {
        "Type": "Map",
        "ItemsPath": "$.parts",
        "ItemSelector": {"run.$": "$.run", "proves.$": "$.proves", "part.$": "$$.Map.Item.Value"},
        "ItemProcessor": processor,
        "MaxConcurrency": machine.concurrency,
        "ToleratedFailurePercentage": 100,
        "ResultPath": None,
        "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": None, "Next": "Join"}],
        "Next": "Join",
    }


def _task(
    function: FunctionSpec,
    payload: dict[str, str],
    retries: Sequence[dict[str, Any]],
    arn_of: Callable[[FunctionSpec], str],
    partition: str,
) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": f"arn:{partition}:states:::lambda:invoke",
        "Parameters": {"FunctionName": arn_of(function), "Payload": payload},
        "ResultPath": None,
        "TimeoutSeconds": int((function.timeout + _LATER).total_seconds()),
        "Retry": list(retries),
    }


def _retry(errors: Sequence[str], seconds: int, attempts: int) -> dict[str, Any]:
    return {"ErrorEquals": list(errors), "IntervalSeconds": seconds, "MaxAttempts": attempts, "BackoffRate": 2.0}
