"""Carries out steps about kubelets, queues, other programs in the cluster, and neighbours in the account."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from adapters.ports import NotFoundError
from core import labels
from core.api.objects import JsonObject
from core.errors import FleetwrightError, InvalidInputError
from core.manifests.wire.resources import Resource
from simulator.aws.account import Account
from simulator.aws.dynamodb.values import Item
from simulator.aws.ec2.instances import Instance
from simulator.aws.queues import AwsError
from simulator.cluster import Cluster
from simulator.cluster.kubelet import WELL, Trouble
from simulator.cluster.store import (
    CONTROLLER,
    PROGRAM,
    USER,
    AdmissionError,
    controller_of,
    full_name,
    is_deleting,
    labels_of,
    merged,
    name_of,
    spec_of,
    status_of,
)
from simulator.record import Recorder
from simulator.scenario import Step
from simulator.step_forms import (
    ANY,
    PLURALS,
    ActorStep,
    Chosen,
    CopyStep,
    InstancesStep,
    KubeletStep,
    QueueStep,
    RowStep,
    SchedulerStep,
    WebhookStep,
)

T = TypeVar("T")

# An admission webhook.


RETRY: Final = timedelta(seconds=1)
"""How soon a controller repeats what a webhook refused."""


class Webhook:
    """Patches the objects of one kind and verb, takes time, and fails with a chance.

    Controllers are told to come again, when the answer is there or after a failure; functions and users wait for it.
    A change that is only one of an object's status concerns no webhook here.
    """

    def __init__(
        self, step: WebhookStep, rng: Random, now: Callable[[], datetime], spend: Callable[[timedelta], None]
    ) -> None:
        plural, _, self._verb = step.on.partition("/")
        self._resource = PLURALS[plural]
        self._step = step
        self._rng = rng
        self._now = now
        self._spend = spend
        self._answers: dict[str, datetime] = {}

    def __call__(self, resource: Resource, verb: str, obj: JsonObject, by: str) -> JsonObject:
        """Admit an object. Raises AdmissionError."""
        if resource != self._resource or verb != self._verb:
            return obj
        if by == CONTROLLER and verb != "create":
            return obj
        call = f"kube:{verb} {resource.plural}"
        if self._step.delay:
            self._wait(call, obj, by)
        if self._rng.random() < self._step.fail:
            raise AdmissionError(call, "failed calling webhook: 500", RETRY)
        changed: JsonObject = obj if verb == "delete" else merged(obj, self._step.patch)
        return changed

    def _wait(self, call: str, obj: JsonObject, by: str) -> None:
        if by == PROGRAM:
            self._spend(self._step.delay)
        if by != CONTROLLER:
            return
        asker = (controller_of(obj) or {}).get("uid") or str((obj.get("metadata") or {}).get("name"))
        answered = self._answers.setdefault(asker, self._now() + self._step.delay)
        if self._now() < answered:
            raise AdmissionError(call, "the webhook has not answered yet", answered - self._now())
        del self._answers[asker]


# The steps.


class Disturbances:
    """Carries out the steps. `perform` raises FleetwrightError for one that cannot be done.

    Args:
        spend: Lets time pass in the function that runs.
        warn: Takes what in the scenario had no effect.
    """

    def __init__(
        self,
        account: Account,
        cluster: Cluster,
        recorder: Recorder,
        rng: Random,
        spend: Callable[[timedelta], None],
        warn: Callable[[str], None],
    ) -> None:
        self._account = account
        self._cluster = cluster
        self._recorder = recorder
        self._rng = rng
        self._spend = spend
        self.warn = warn
        self._clock = account.clock

    def perform(self, step: Step) -> None:
        """Carry out the step, if it is one of these."""
        doers: dict[str, Callable[[Any], None]] = {
            "kubelet": self._kubelet,
            "queue": self._queue,
            "actor": self._actor,
            "scheduler": self._scheduler,
            "webhook": self._webhook,
            "copy": self._copy,
            "instances": self._instances,
            "row": self._row,
        }
        for name, do in doers.items():
            disturbance = getattr(step, name)
            if disturbance is not None:
                do(disturbance)
        if step.etcd is not None:
            self._cluster.restore(self._clock.now() - step.etcd.restore, self._runs)

    def _after(self, lasting: timedelta | None, action: Callable[[], None]) -> None:
        if lasting is not None:
            self._clock.after(lasting, action)

    def _some(self, items: Sequence[T], fraction: float) -> list[T]:
        """Return this share of the items, rounded up."""
        return self._rng.sample(items, min(len(items), math.ceil(Fraction(str(fraction)) * len(items))))

    # What goes wrong on nodes.

    def _kubelet(self, step: KubeletStep) -> None:
        if step.count is not None:
            self._cluster.kubelets.trouble_next(step.count, partial(self._trouble, step))
            return
        nodes = [node for node in self._cluster.nodes() if step.zone in (None, labels_of(node).get(labels.ZONE))]
        if step.node is not None:
            nodes = [node for node in nodes if name_of(node) == step.node]
        if not nodes:
            self.warn(f"kubelet: there is no node {step.node or f'in {step.zone}' if step.zone else ''}".rstrip())
        chosen = self._some(nodes, 1.0 if step.fraction is None else step.fraction)
        for node in chosen:
            self._trouble(step, name_of(node))
        if step.stuck:
            bound = [full_name(pod) for node in chosen for pod in self._cluster.store.pods_on(name_of(node))]
            pods = bound if ANY in step.stuck else step.stuck
            self._cluster.kubelets.hold(pods)
            self._after(step.lasting, partial(self._cluster.kubelets.let_go, pods))

    def _trouble(self, step: KubeletStep, name: str) -> None:
        kubelets = self._cluster.kubelets
        if step.ready is not None:
            silent = step.ready == "unknown"
            trouble = Trouble(is_unready=step.ready is False, is_silent=silent, is_cut_off=step.cut_off)
            kubelets.trouble(name, trouble)
            if trouble != WELL:
                self._after(step.lasting, partial(kubelets.trouble, name, WELL))
        if step.capacity is not msgspec.UNSET or step.allocatable is not msgspec.UNSET:
            kubelets.report(name, _given(step.capacity), _given(step.allocatable))
            self._after(step.lasting, partial(kubelets.report, name, None, None))

    def _copy(self, step: CopyStep) -> None:
        originals = [
            obj
            for obj in self._cluster.objects(step.kind)
            if step.name in (ANY, name_of(obj)) and obj["metadata"].get("namespace", step.namespace) == step.namespace
        ]
        if not originals:
            raise InvalidInputError("there is none to copy", subject=f"{step.kind} {step.name}")
        original = self._rng.choice(originals)
        metadata = {key: original["metadata"].get(key) for key in ("labels", "annotations", "namespace")}
        kept_metadata = {key: value for key, value in metadata.items() if value}
        copied = {**original, "metadata": {**kept_metadata, "name": step.new_name}, "status": status_of(original)}
        self._cluster.apply([copied], by=USER)

    def _runs(self, provider_id: str) -> bool:
        return any(i.provider_id == provider_id and i.is_alive for i in self._account.instances.all())

    # Messages.

    def _queue(self, step: QueueStep) -> None:
        now, queues = self._clock.now(), self._account.queues
        until = datetime.max.replace(tzinfo=now.tzinfo) if step.lasting is None else now + step.lasting
        if step.lag is not None:
            queues.slow(step.name, step.lag, until)
        if step.down:
            queues.cut(step.name, until)
        if step.replay is not None:
            queues.replay(step.name, now - step.replay.since)

    # Other programs in the cluster.

    def _actor(self, step: ActorStep) -> None:
        end = None if step.lasting is None else self._clock.now() + step.lasting

        def act(turn: int) -> None:
            if end is not None and self._clock.now() >= end:
                return
            self._clock.after(step.every, partial(act, turn + 1))
            try:
                self._act(step, turn)
            except FleetwrightError as error:
                self.warn(f"actor {step.name}: {error}")

        act(0)

    def _act(self, step: ActorStep, turn: int) -> None:
        if step.apply is not None:
            self._cluster.apply(step.apply[turn % len(step.apply)], by=USER, manager=step.name)
        if step.delete_nodes is not None:
            self._each("Node", step.delete_nodes, lambda name: self._cluster.delete("Node", "", name, by=USER))
        if step.delete_node_claims is not None:
            chosen = step.delete_node_claims
            self._each("NodeClaim", chosen, lambda name: self._cluster.delete("NodeClaim", "", name, by=USER))
        if step.cordon is not None:
            self._each("Node", step.cordon, partial(self._patch_node, {"spec": {"unschedulable": True}}))
        if step.untaint is not None:
            self._each("Node", step.untaint, partial(self._patch_node, {"spec": {"taints": None}}))
        if step.terminate_instances is not None:
            chosen = step.terminate_instances
            running = [i for i in self._account.instances.all() if i.is_alive and chosen.zone in (None, i.pool.zone)]
            named = [i for i in running if chosen.name in (None, i.id, i.node_name)]
            self._account.instances.terminate([i.id for i in self._some(named, chosen.fraction)], USER)

    def _each(self, kind: str, chosen: Chosen, act: Callable[[str], None]) -> None:
        objects = [
            name_of(obj)
            for obj in self._cluster.objects(kind)
            if not is_deleting(obj)
            and chosen.zone in (None, labels_of(obj).get(labels.ZONE))
            and chosen.name in (None, name_of(obj))
        ]
        for name in self._some(objects, chosen.fraction):
            with suppress(NotFoundError):
                act(name)

    def _patch_node(self, body: JsonObject, name: str) -> None:
        self._cluster.patch("Node", "", name, body, by=USER)

    def _scheduler(self, step: SchedulerStep) -> None:
        self._after(step.lasting, self._cluster.bind_anywhere(step.binds))

    def _webhook(self, step: WebhookStep) -> None:
        webhook = Webhook(step, self._rng, self._clock.now, self._spend)
        self._after(step.lasting, self._cluster.store.admit(webhook))

    # Neighbours in the account.

    def _instances(self, step: InstancesStep) -> None:
        wanted = step.stop or step.tags_of
        alike = [
            i
            for i in self._account.instances.all()
            if wanted in (i.id, i.node_name, _claim_of(i)) or (wanted == ANY and i.is_alive)
        ]
        if not alike:
            raise InvalidInputError("is neither the id, the node nor the claim of an instance", subject=wanted)
        like = self._rng.choice(alike)
        if step.stop:
            self._stop(like)
            return
        for _ in range(step.launch or 0):
            twin = msgspec.structs.replace(
                like,
                id=self._account.instances.new_id(),
                private_ip=self._account.network.take_address(like.subnet),
                launched_at=self._clock.now(),
                token="",
                tags=dict(like.tags),
                user_data="",
                state="pending",
                ended_at=None,
                end_reason="",
                reservation="",
            )
            self._account.instances.launch(twin, by_stranger=True)
            self._after(step.lasting, partial(self._account.instances.terminate, [twin.id], USER))

    def _stop(self, instance: Instance) -> None:
        self._account.instances.stop(instance)
        for node in self._cluster.nodes():
            if spec_of(node).get("providerID") == instance.provider_id:
                self._cluster.kubelets.trouble(name_of(node), Trouble(is_silent=True, is_cut_off=True))

    def _row(self, step: RowStep) -> None:
        try:
            key = self._account.table.put_by_stranger({name: typed(value) for name, value in step.put.items()})
        except AwsError as error:
            raise InvalidInputError(str(error), field="row.put") from error
        self._recorder.emit("rowWritten", partition=key.partition, sort=key.sort)


def _claim_of(instance: Instance) -> str:
    return instance.tags.get(labels.NODECLAIM, instance.id)


def _given(amounts: Mapping[str, str] | msgspec.UnsetType | None) -> Mapping[str, str] | None:
    return None if isinstance(amounts, msgspec.UnsetType) else amounts


_KINDS: Final = frozenset(("S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"))


def typed(value: Any) -> dict[str, Any]:
    """Return a value as DynamoDB has it; one that has this form already is kept. Bytes are written in base64.

    Raises:
        InvalidInputError: If DynamoDB has no such value.
    """
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _KINDS:
        ((kind, inner),) = value.items()
        return {"B": base64.b64decode(inner)} if kind == "B" and isinstance(inner, str) else {kind: inner}
    match value:
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int() | float():
            return {"N": str(Decimal(str(value)))}
        case None:
            return {"NULL": True}
        case list():
            return {"L": [typed(item) for item in value]}
        case dict():
            inner_item: Item = {str(name): typed(item) for name, item in value.items()}
            return {"M": inner_item}
    raise InvalidInputError(f"{value!r} is no value of an item", field="row.put")
