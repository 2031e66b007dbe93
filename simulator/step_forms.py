"""The forms of what a scenario says of AWS and of other programs: delays, kubelets, queues, other accounts' load."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final, Literal

import msgspec

from core.errors import InvalidInputError
from core.manifests.wire import resources
from installation.wiring import QUEUES
from simulator.clock import Span, constant

# The common form of everything that a scenario writes.


class Form(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Common form: camelCase on the wire, and an unknown field is an error."""


Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Tokens(Form, frozen=True, kw_only=True):
    """A token bucket: how many tokens it holds, and how many it gains in a second."""

    burst: Count
    per_second: Annotated[float, msgspec.Meta(gt=0)]


class Chosen(Form, frozen=True, kw_only=True):
    """Some objects or instances: a share of all, or of one zone's; or one by name."""

    fraction: Share = 1.0
    zone: str | None = None
    name: str | None = None


# What processor time does.


class ClockForm(Form, frozen=True, kw_only=True):
    """What processor time does to virtual time.

    Attributes:
        cpu: `counted`: the functions' Python calls are counted, the same in every run; `measured`: their processor time.
        factor: Their time is multiplied by it.
    """

    cpu: Literal["counted", "measured", "none"] = "none"
    factor: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 1.0


# What goes wrong on nodes.


class KubeletStep(Form, frozen=True, kw_only=True):
    """Kubelets that report NotReady or nothing, are cut off, report other resources, or do not end pods.

    The kubelets of one node, of a share of the nodes (of a zone), or of the next `count` nodes that join.

    Attributes:
        ready: What they report: false is NotReady, `unknown` is silence.
        cut_off: Nothing reaches them while they are silent: their pods run on.
        capacity, allocatable: What they report from now on, instead of the truth; null is the truth again.
        stuck: Pods that they do not end; `*`: those on their nodes now.
    """

    node: str | None = None
    fraction: Share | None = None
    zone: str | None = None
    count: Count | None = None
    ready: bool | Literal["unknown"] | None = None
    cut_off: bool = False
    capacity: dict[str, str] | msgspec.UnsetType | None = msgspec.UNSET
    allocatable: dict[str, str] | msgspec.UnsetType | None = msgspec.UNSET
    stuck: list[str] = []
    lasting: timedelta | None = msgspec.field(name="for", default=None)


class CopyStep(Form, frozen=True, kw_only=True):
    """Somebody makes a second object with the same providerID, labels and annotations; `*` names one drawn by the seed."""

    kind: str
    name: str
    new_name: str = msgspec.field(name="as")
    namespace: str = "default"


class EtcdStep(Form, frozen=True, kw_only=True):
    """The API server is as it was this long ago; instances stay."""

    restore: timedelta


# What happens to messages.


class ReplayForm(Form, frozen=True, kw_only=True):
    """The messages that were dealt with in this time."""

    since: timedelta


class QueueStep(Form, frozen=True, kw_only=True):
    """Messages of a queue, or of all, become visible later; nothing passes; or past messages come once more."""

    name: str | None = None
    lag: timedelta | None = None
    down: bool = False
    replay: ReplayForm | None = None
    lasting: timedelta | None = msgspec.field(name="for", default=None)


# Other programs in the cluster, and neighbours in the account.


class ActorStep(Form, frozen=True, kw_only=True):
    """A program that does one thing again and again.

    Attributes:
        apply: Lists of objects, which it applies in turn.
    """

    name: str
    every: timedelta
    lasting: timedelta | None = msgspec.field(name="for", default=None)
    delete_nodes: Chosen | None = None
    delete_node_claims: Chosen | None = None
    cordon: Chosen | None = None
    untaint: Chosen | None = None
    terminate_instances: Chosen | None = None
    apply: list[list[Any]] | None = None


ACTS: Final = ("delete_nodes", "delete_node_claims", "cordon", "untaint", "terminate_instances", "apply")


class SchedulerStep(Form, frozen=True, kw_only=True):
    """A second scheduler, which binds pods with these labels to any node that has room, even to closed ones."""

    name: str
    binds: dict[str, str]
    lasting: timedelta | None = msgspec.field(name="for", default=None)


class WebhookStep(Form, frozen=True, kw_only=True):
    """An admission webhook: it patches objects, takes time, and fails with this chance.

    Attributes:
        on: Kind and verb: `pods/create`, `nodes/update`.
    """

    on: str
    patch: dict[str, Any] = {}
    delay: timedelta = timedelta(0)
    fail: Share = 0.0
    lasting: timedelta | None = msgspec.field(name="for", default=None)


class InstancesStep(Form, frozen=True, kw_only=True):
    """Somebody launches instances with the tags of another, or stops one.

    It is named by its id, node or claim; `*` is one drawn by the seed. New instances are terminated after `for`.
    """

    launch: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    tags_of: str = ""
    stop: str = ""
    lasting: timedelta | None = msgspec.field(name="for", default=None)


class RowStep(Form, frozen=True, kw_only=True):
    """Somebody writes an item of the shared table, in DynamoDB's form or as plain JSON."""

    put: dict[str, Any]


# What a file can say in these forms and a world cannot do.


VERBS: Final = ("create", "update", "delete")


def check_kubelet(step: KubeletStep, where: str) -> None:
    """Raise InvalidInputError if the step says nothing, or of no kubelet."""
    named = [step.node is not None, step.count is not None, step.fraction is not None or step.zone is not None]
    if sum(named) != 1:
        raise InvalidInputError("must name `node`, `count`, or `fraction` and `zone`", field=where)
    reports = step.capacity is not msgspec.UNSET or step.allocatable is not msgspec.UNSET
    if step.ready is None and not reports and not step.stuck:
        raise InvalidInputError("needs `ready`, `capacity`, `allocatable` or `stuck`", field=where)
    if step.cut_off and step.ready != "unknown":
        raise InvalidInputError("is for kubelets that are silent (`ready: unknown`)", field=f"{where}.cutOff")


def check_queue(step: QueueStep, where: str) -> None:
    """Raise InvalidInputError for an unknown queue, or unless the step says exactly one thing."""
    names = [queue.name for queue in QUEUES]
    if step.name is not None and step.name not in names:
        raise InvalidInputError(f"{step.name!r} is none of {', '.join(names)}", field=f"{where}.name")
    if sum((step.lag is not None, step.down, step.replay is not None)) != 1:
        raise InvalidInputError("must hold exactly one of `lag`, `down`, `replay`", field=where)


def check_actor(step: ActorStep, where: str) -> None:
    """Raise InvalidInputError unless it does exactly one thing, now and then."""
    if sum(getattr(step, act) is not None for act in ACTS) != 1:
        names = dict(zip(ActorStep.__struct_fields__, ActorStep.__struct_encode_fields__, strict=True))
        raise InvalidInputError(f"must hold exactly one of {', '.join(names[act] for act in ACTS)}", field=where)
    if step.every <= timedelta(0):
        raise InvalidInputError("must be longer than nothing", field=f"{where}.every")
    if step.apply is not None and not step.apply:
        raise InvalidInputError("must hold at least one list", field=f"{where}.apply")


def check_webhook(step: WebhookStep, where: str) -> None:
    """Raise InvalidInputError for a kind or verb that there is not."""
    plural, _, verb = step.on.partition("/")
    if plural not in PLURALS or verb not in VERBS:
        problem = f"{step.on!r} is no kind and verb such as pods/create; verbs are {', '.join(VERBS)}"
        raise InvalidInputError(problem, field=f"{where}.on")


def check_instances(step: InstancesStep, where: str) -> None:
    """Raise InvalidInputError unless it launches or stops."""
    if (step.launch is None) == (not step.stop):
        raise InvalidInputError("must hold either `launch` or `stop`", field=where)
    if step.launch is not None and not step.tags_of:
        raise InvalidInputError("is required: the instance or node whose tags they get", field=f"{where}.tagsOf")


def check_copy(step: CopyStep, where: str) -> None:
    """Raise InvalidInputError for an unknown kind, or a copy of the same name."""
    if step.kind not in resources.BY_KIND:
        raise InvalidInputError(f"{step.kind!r} is not a kind that the simulated cluster knows", field=f"{where}.kind")
    if step.name == step.new_name:
        raise InvalidInputError("is the name of the object itself", field=f"{where}.as")


ANY: Final = "*"
"""Names one of those that there are, drawn by the seed."""

PLURALS: Final = {resource.plural: resource for resource in resources.ALL}


# Reads keys as their authors mean them.


def with_text_keys(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with `on` as the key of webhooks: YAML 1.1 reads it as a truth value unless it is quoted."""
    steps = spec.get("steps")
    if not isinstance(steps, list):
        return spec
    return {**spec, "steps": [_with_text_key(step) for step in steps]}


def _with_text_key(step: Any) -> Any:
    webhook = step.get("webhook") if isinstance(step, dict) else None
    if not isinstance(webhook, dict) or True not in webhook:
        return step
    return {**step, "webhook": {"on" if key is True else key: value for key, value in webhook.items()}}


# What AWS does not promise.


AUDIT_LOG_LAG: Final = constant(timedelta(seconds=8))
"""From the API server to the function by default. EKS says "within a few minutes", best effort
(docs/engineering/aws-facts.md#audit-log-lag)."""

NO_TIME: Final = constant(timedelta(0))


class Silences(Form, frozen=True, kw_only=True):
    """What AWS does not promise: constants, or drawn by the seed.

    Attributes:
        audit_log_lag: From the API server's audit log to the function.
        boot: From launch until the node joins; None: `nodeBootSeconds`.
        describe_lag: How old DescribeInstances' list is.
        schedule_jitter: How late a schedule invokes its function.
        repeated_launch: What EC2 answers to a CreateFleet with a token that it knows: the whole answer again, or nothing but
            the fleet's id (`silent`).
        tag_lag: How old the tags in DescribeInstances are.
        partial_lists: The chance that DescribeInstances leaves out an instance of the last minute.
        request_tokens: What other programs of the account leave of each of EC2's buckets of requests; None: all.
        instance_tokens: The bucket from which each launched instance takes a token; None: launches take none.
        termination_tokens: The bucket from which each instance to be terminated takes one; None: terminations take none.
        event_lag: How late EventBridge is.
        repeats: The chance that EventBridge or SQS delivers a message twice.
        unordered: Whether SQS delivers messages in any order.
        health_updates: Whether Health sends its events again, and names instances that they no longer concern.
    """

    audit_log_lag: Span = AUDIT_LOG_LAG
    boot: Span | None = None
    describe_lag: Span = NO_TIME
    schedule_jitter: Span = NO_TIME
    repeated_launch: Literal["whole", "silent"] = "whole"
    tag_lag: Span = NO_TIME
    partial_lists: Share = 0.0
    request_tokens: Tokens | None = None
    instance_tokens: Tokens | None = None
    termination_tokens: Tokens | None = None
    event_lag: Span = NO_TIME
    repeats: Share = 0.0
    unordered: bool = False
    health_updates: bool = False
