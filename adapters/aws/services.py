"""Calls of AWS services by operation name, and small services: the EKS cluster, the SNS topic, Step Functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import blake2b
from threading import Lock
from typing import Any, Final, Generic, TypeVar

import msgspec
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.session import translate
from adapters.ports import Clock, ConflictError, DeniedError, JsonObject, NotFoundError, TransientError
from core.ami_families.family import Cluster
from core.version import VERSION

# Joins calls that take many ids: ids requested by threads during a call go together into the next one.


R = TypeVar("R")


class _Batch(Generic[R]):
    """Ids for one call, and its result."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.callers = 0
        self.answer: R | None = None
        self.error: BaseException | None = None
        self.is_done = False


class CoalescedCalls(Generic[R]):
    """Makes one call at a time. It does not wait for further requests: a single caller's call is sent at once.

    EC2 throttles describe and terminate calls of an account by calls, not by instances, so a wave of a hundred nodes takes a
    tenth of the time.
    """

    def __init__(self, call: Callable[[Sequence[str]], R]) -> None:
        self._call = call
        self._turn = Lock()
        self._lock = Lock()
        self._next: _Batch[R] = _Batch()

    def __call__(self, ids: Iterable[str]) -> R:
        """Return the call's answer for these ids, and possibly others. Raises the call's error."""
        wanted = sorted(set(ids))
        with self._lock:
            batch = self._next
            batch.ids.update(wanted)
            batch.callers += 1
        with self._turn:
            if not batch.is_done:
                self._make(batch)
        if isinstance(batch.error, DeniedError) and batch.callers > 1:
            return self._call(wanted)  # the refused id may be another caller's
        if batch.error is not None:
            raise batch.error
        answer: R = batch.answer  # type: ignore[assignment]  # it is done, and without an error
        return answer

    def _make(self, batch: _Batch[R]) -> None:
        with self._lock:
            self._next = _Batch()
        try:
            batch.answer = self._call(sorted(batch.ids))
        except BaseException as error:  # noqa: BLE001 - raised by each who asked
            batch.error = error
        batch.is_done = True


PAGES_MAX: Final = 1000
"""The most pages of one listing; EC2's largest answers have a few dozen."""

CONNECTIONS: Final = 32
"""The most open connections of a client: one for each concurrent launch. Idle ones cost nothing."""

ATTEMPTS: Final = 3
CONNECT_SECONDS: Final = 2
BACK_OFF_SECONDS: Final = 3
"""Longest wait of botocore before the second and the third attempt together: one and two seconds."""


def _config(read_seconds: int, attempts: int = ATTEMPTS) -> Config:
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=CONNECTIONS,
        user_agent_extra=f"fleetwright/{VERSION}",
    )


def longest(config: Config) -> timedelta:
    """Return how long a call may take with all its attempts."""
    settings: Any = config
    attempt_seconds = settings.connect_timeout + settings.read_timeout
    return timedelta(seconds=settings.retries["total_max_attempts"] * attempt_seconds + BACK_OFF_SECONDS)


QUICK: Final = _config(4)
"""For DynamoDB, SQS and other services that answer in milliseconds: a call fails within 21 s, less than the shortest function
timeout."""

PATIENT: Final = _config(12)
"""For EC2 and other slow services: a call fails within 45 s."""

LAUNCHING: Final = _config(23, attempts=2)
"""For CreateFleet: how long it takes for 50 instances is said nowhere (docs/engineering/aws-facts.md#fleet-duration), and what
is answered too late is lost. A call fails within 53 s."""

BRIEF: Final = _config(2, attempts=2)
"""For brakes, which are read again within seconds, and for which a missing answer is informative: a call fails within 9 s."""


_MAKING: Final = Lock()
"""Serializes the creation of clients: threads share services, and a boto3 session must not create clients concurrently."""


class AwsService:
    """A client of one service."""

    def __init__(self, client: Any = None, *, make: Callable[[], Any] = lambda: None) -> None:
        """Without a client, one is created at the first call; creation takes tens of milliseconds, longer for EC2."""
        self._made = client
        self._make = make

    @property
    def _client(self) -> Any:
        if self._made is None:
            with _MAKING:
                if self._made is None:
                    self._made = self._make()
        return self._made

    def call(self, operation: str, **arguments: Any) -> JsonObject:
        """Call `operation`, by the service's name for it. Raises PortError."""
        try:
            answer: JsonObject = getattr(self._client, xform_name(operation))(**arguments)
        except (ClientError, BotoCoreError) as error:
            raise translate(f"{self._name}:{operation}", error) from error
        return answer

    @property
    def _name(self) -> str:
        return str(self._client.meta.service_model.service_name)

    def items(self, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
        """Yield every item of a paged listing. Raises PortError."""
        token: dict[str, str] = {}
        for _ in range(PAGES_MAX):
            page = self.call(operation, **arguments, **token)
            yield from page.get(key) or ()
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}
        raise TransientError(f"{self._name}:{operation}", f"more than {PAGES_MAX} pages")


# Describes the EKS cluster: its endpoint and Kubernetes version. Read once per sandbox and day.


FRESH_FOR: Final = timedelta(hours=1)
"""How long a description is used. The endpoint never changes; the version changes with an upgrade and decides about images."""


class ClusterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """EKS's description of the cluster. `version` is the control plane's, such as `1.34`."""

    cluster: Cluster
    version: str


class EksCluster:
    """Describes one cluster."""

    def __init__(self, eks: AwsService, name: str, clock: Clock) -> None:
        self._eks = eks
        self._name = name
        self._clock = clock
        self._read: tuple[datetime, ClusterDescription] | None = None

    def describe(self) -> ClusterDescription:
        """Return the description. Raises PortError."""
        now = self._clock.now()
        read = self._read
        if read is None or now - read[0] >= FRESH_FOR:
            described = self._eks.call("DescribeCluster", name=self._name).get("cluster") or {}
            if not described.get("endpoint"):
                raise NotFoundError("eks:DescribeCluster", f"cluster {self._name} has no endpoint yet")
            read = self._read = (now, _description(described, self._name))
        return read[1]


def _description(described: JsonObject, name: str) -> ClusterDescription:
    network = described.get("kubernetesNetworkConfig") or {}
    cluster = Cluster(
        name=name,
        endpoint=described["endpoint"],
        certificate_authority=(described.get("certificateAuthority") or {}).get("data") or "",
        service_cidr=network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr") or "",
    )
    return ClusterDescription(cluster=cluster, version=str(described.get("version") or ""))


# The topics for announcements of commands.


class SnsTopic:
    """`adapters.ports.Topic` in SNS."""

    def __init__(self, sns: AwsService, arn: str) -> None:
        self._sns = sns
        self._arn = arn

    def publish(self, subject: str, text: str) -> None:
        """Send one message to all subscribers. Raises PortError."""
        message = {"TopicArn": self._arn, "Subject": subject, "Message": text}
        if self._arn.endswith(".fifo"):
            # Without a group and an id, SNS refuses it; with an equal id, it delivers one of two within five minutes.
            digest = blake2b(f"{subject}\n{text}".encode(), digest_size=16).hexdigest()
            message |= {"MessageGroupId": "commands", "MessageDeduplicationId": digest}
        self._sns.call("Publish", **message)


# The state machine that has functions decide about a cluster's parts.


_ENDED: Final = frozenset({"SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"})
"""States of an execution that has ended. One that is redriven is RUNNING again, or PENDING_REDRIVE."""


class StepFunctionsMachine:
    """`adapters.ports.StateMachine` in Step Functions."""

    def __init__(self, states: AwsService, arn: str) -> None:
        self._states = states
        self._arn = arn

    def start(self, name: str, execution_input: JsonObject) -> None:
        """Start an execution of this name; nothing happens if there is one already. Raises PortError."""
        with suppress(ConflictError):
            self._states.call("StartExecution", stateMachineArn=self._arn, name=name, input=json.dumps(execution_input))

    def has_ended(self, name: str) -> bool:
        """Whether the execution of this name has ended, well or badly. Raises PortError."""
        execution = f"{self._arn.replace(':stateMachine:', ':execution:')}:{name}"
        try:
            return self._states.call("DescribeExecution", executionArn=execution).get("status") in _ENDED
        except NotFoundError:
            return False  # answers may be older than its start
