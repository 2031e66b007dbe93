"""Sessions and clients of the embedded account, with boto3's methods, answers and exceptions."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any, Final, Protocol

import botocore.session
import msgspec
from botocore import xform_name
from botocore.config import Config
from botocore.errorfactory import ClientExceptionsFactory
from botocore.exceptions import ClientError, ParamValidationError, ReadTimeoutError
from botocore.retries.standard import register_retry_handler
from botocore.session import get_session
from botocore.validate import ParamValidator
from cronsim import CronSim, CronSimError

from simulator.aws.ec2.templates import paged
from simulator.aws.queues import AwsError, UnansweredError, in_part, refusal
from simulator.clock import VirtualClock
from simulator.invocation import faults
from simulator.invocation.faults import Call, CrashError, Fault

# Checks a request as AWS would: by what botocore's service models say beyond names and types, and by EC2's rules.
#
# botocore itself checks names, types and least lengths before it sends. AWS also refuses values that are not in an enumeration,
# texts that are too long or do not match, unknown filters, and batches that are too large. Fakes that accept them hide defects.


FILTER_VALUES_MAX: Final = 200
"""EC2's limit on values of a filter (docs/engineering/aws-facts.md#filter-values)."""

_ENTRIES_MAX: Final[Mapping[tuple[str, str], int]] = {
    ("sqs:SendMessageBatch", "Entries"): 10,
    ("dynamodb:BatchWriteItem", "RequestItems"): 25,
    ("dynamodb:TransactWriteItems", "TransactItems"): 100,
    ("ssm:GetParameters", "Names"): 10,
}
"""Limits that the models do not have."""

_OPEN: Final = frozenset({"InstanceType"})
"""Enumerations that grow every week: a model that ships with the SDK never has the latest values, and AWS takes them."""

_TAG_KEY_MAX, _TAG_VALUE_MAX, _TAGS_MAX = 127, 255, 50
_MAX_BATCH_BYTES: Final = 1_048_576
_NOT_PYTHON: Final = (("\\p{L}", "\\w"), ("\\p{Z}", "\\s"), ("\\p{N}", "\\d"))


def problems_of(call: str, shape: Any, parameters: Mapping[str, Any]) -> list[str]:
    """Return what AWS would refuse of a request. `call` is `service:Operation`, `shape` the model of its input."""
    problems = list(_of_shape(shape, parameters, ""))
    problems += _of_batches(call, parameters)
    if call.startswith("ec2:"):
        problems += _of_filters(call.partition(":")[2], parameters)
        problems += _of_tags(parameters)
    return problems


def _of_shape(shape: Any, value: Any, path: str) -> Iterator[str]:
    if shape is None:
        return
    check = _BY_TYPE.get(shape.type_name)
    if check is not None:
        yield from check(shape, value, path)


def _of_structure(shape: Any, value: Any, path: str) -> Iterator[str]:
    for name, inner in (value or {}).items():
        member = shape.members.get(name)
        if member is None:
            yield f"{path}.{name} is not in the model"
        else:
            yield from _of_shape(member, inner, f"{path}.{name}")


def _of_list(shape: Any, value: Any, path: str) -> Iterator[str]:
    yield from _of_size(shape, len(value), path)
    for inner in value:
        yield from _of_shape(shape.member, inner, f"{path}[]")


def _of_map(shape: Any, value: Any, path: str) -> Iterator[str]:
    yield from _of_size(shape, len(value), path)
    for key, inner in value.items():
        yield from _of_shape(shape.key, key, f"{path}.<key>")
        yield from _of_shape(shape.value, inner, f"{path}.{key}")


def _of_text(shape: Any, value: Any, path: str) -> Iterator[str]:
    text = str(value)
    if shape.enum and shape.name not in _OPEN and value not in shape.enum:
        yield f"{path} {text[:80]!r} is not one of {', '.join(shape.enum)[:200]}"
    yield from _of_size(shape, len(text), path)
    pattern = _compiled(shape.metadata.get("pattern", ""))
    if pattern is not None and not pattern.search(text):
        yield f"{path} {text[:80]!r} does not match {pattern.pattern[:80]}"


def _of_number(shape: Any, value: Any, path: str) -> Iterator[str]:
    yield from _of_size(shape, value, path)


_BY_TYPE: Final[Mapping[str, Callable[[Any, Any, str], Iterator[str]]]] = {
    "structure": _of_structure,
    "list": _of_list,
    "map": _of_map,
    "string": _of_text,
    "integer": _of_number,
    "long": _of_number,
}


def _of_size(shape: Any, size: int, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if most is not None and size > most:
        yield f"{path} has {size}, at most {most}"
    if least is not None and size < least:
        yield f"{path} has {size}, at least {least}"


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return a model's pattern for Python; None where it has none, or one that Python cannot read."""
    for theirs, ours in _NOT_PYTHON:
        pattern = pattern.replace(theirs, ours)
    try:
        return re.compile(pattern) if pattern else None
    except re.error:
        return None


def _of_batches(call: str, parameters: Mapping[str, Any]) -> Iterator[str]:
    for (name, member), most in _ENTRIES_MAX.items():
        if name == call and member in parameters:
            value = parameters[member]
            number = sum(map(len, value.values())) if isinstance(value, Mapping) else len(value)
            if number > most:
                yield f"{member} has {number}, at most {most}"
    if call == "sqs:SendMessageBatch":
        size = sum(len(str(entry["MessageBody"]).encode()) for entry in parameters["Entries"])
        if size > _MAX_BATCH_BYTES:
            yield f"the messages have {size} bytes together, at most {_MAX_BATCH_BYTES}"


@cache
def listed_filters(operation: str) -> frozenset[str]:
    """Return the filters that EC2's model lists in the text of `Filters`; empty where it lists none."""
    model = get_session().get_service_model("ec2").operation_model(operation)
    shape = model.input_shape.members.get("Filters") if model.input_shape is not None else None
    text = shape.documentation if shape is not None else ""
    return frozenset(re.findall(r"<li>\s*<p>\s*<code>([^<]+)</code>", text))


_UNLISTED: Final = frozenset({("DescribeCapacityReservations", "tag:"), ("DescribeCapacityReservations", "tag-key")})
"""Filters that EC2 takes although its text does not list them: Karpenter sends them."""


def _of_filters(operation: str, parameters: Mapping[str, Any]) -> Iterator[str]:
    for wanted in parameters.get("Filters") or ():
        name, values = str(wanted.get("Name")), wanted.get("Values") or ()
        if not _takes(operation, name):
            yield f"The filter '{name}' is invalid"
        if len(values) > FILTER_VALUES_MAX:
            yield f"The maximum number of filter values specified on a single call is {FILTER_VALUES_MAX}"


def _takes(operation: str, name: str) -> bool:
    listed = listed_filters(operation)
    general = "tag:" if name.startswith("tag:") else name
    if not listed or name in listed or (operation, general) in _UNLISTED:
        return True
    return general == "tag:" and any(listed_name == "tag" or listed_name.startswith("tag:") for listed_name in listed)


def too_many_tags(parameters: Mapping[str, Any]) -> list[str]:
    """Return the kinds of resources to which an EC2 request gives more tags than EC2 takes; it has a code of its own for it."""
    return [
        f"{specification.get('ResourceType')} has {len(specification.get('Tags') or ())} tags, at most {_TAGS_MAX}"
        for specification in _tagged(parameters)
        if len(specification.get("Tags") or ()) > _TAGS_MAX
    ]


def _tagged(parameters: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    data = parameters.get("LaunchTemplateData") or {}
    return (*(parameters.get("TagSpecifications") or ()), *(data.get("TagSpecifications") or ()))


def _of_tags(parameters: Mapping[str, Any]) -> Iterator[str]:
    yield from too_many_tags(parameters)
    for specification in _tagged(parameters):
        for tag in specification.get("Tags") or ():
            key, value = str(tag.get("Key")), str(tag.get("Value", ""))
            if key.lower().startswith("aws:") or len(key) > _TAG_KEY_MAX or len(value) > _TAG_VALUE_MAX:
                yield f"the tag {key[:80]} is reserved or too long"


# EventBridge's schedule expressions: `cron(…)` with its six fields, `at(…)`, `rate(…)`; times are UTC.


_UNITS: Final = {"minute": 60, "hour": 3600, "day": 86400}
_WEEKDAY: Final = re.compile(r"(?<![#\d])\d")


def next_fire(expression: str, after: datetime) -> datetime | None:
    """Return when the schedule next fires, strictly after `after`; None if never.

    Raises:
        ValueError: If EventBridge Scheduler would refuse the expression.
    """
    match = re.fullmatch(r"(cron|at|rate)\((.*)\)", expression.strip())
    if match is None:
        raise ValueError(f"{expression!r} is not cron(…), at(…) or rate(…)")
    kind, inner = match.groups()
    if kind == "at":
        moment = datetime.fromisoformat(inner).replace(tzinfo=UTC)
        return moment if moment > after else None
    if kind == "rate":
        number, unit = inner.split()
        return after + timedelta(seconds=int(number) * _UNITS[unit.rstrip("s")])
    return _next_cron(inner, after)


def _next_cron(fields: str, after: datetime) -> datetime | None:
    parts = fields.split()
    if len(parts) != 6:
        raise ValueError(f"cron({fields}) has {len(parts)} fields, not six")
    minute, hour, day, month, weekday, years = parts
    # EventBridge counts Sunday as 1, cron as 0, and wants `?` in one of the two day fields.
    weekday = _WEEKDAY.sub(lambda digit: str(int(digit.group()) - 1), weekday)
    five = [part.replace("?", "*") for part in (minute, hour, day, month, weekday)]
    try:
        next_at = next(CronSim(" ".join(five), after))
    except CronSimError as error:
        raise ValueError(f"cron({fields}): {error}") from error
    except StopIteration:
        return None
    return next_at if years == "*" or str(next_at.year) in years.split(",") else None


# Computes whether and when the SDK retries: botocore's own standard mode, called without its events and requests.


class Try(msgspec.Struct):
    """A call in progress: the number of its attempt, and botocore's state from earlier ones."""

    operation: Any
    attempt: int = 1
    context: dict[str, Any] = {}


class Retries:
    """The retries of one client, with the quota that all its calls share."""

    def __init__(self, service_model: Any, attempts: int) -> None:
        registered: dict[str, Callable[..., Any]] = {}

        def register(event: str, handler: Callable[..., Any], **_: Any) -> None:
            registered[event.partition(".")[0]] = handler

        meta = SimpleNamespace(service_model=service_model, events=SimpleNamespace(register=register))
        register_retry_handler(SimpleNamespace(meta=meta), attempts)
        self._needs_retry = registered["needs-retry"]
        self._release = registered["after-call"]

    def succeeded(self, tried: Try) -> None:
        """Record that the call was answered."""
        self._release(context=tried.context, http_response=_ANSWERED)

    def wait_after(self, tried: Try, error: Exception) -> float | None:
        """Return the seconds until the next attempt, None for no retry. botocore draws them from Python's global generator."""
        response = None
        if isinstance(error, ClientError):
            response = (_response(error.response["ResponseMetadata"]["HTTPStatusCode"]), error.response)
        wait: float | None = self._needs_retry(
            response=response,
            attempts=tried.attempt,
            operation=tried.operation,
            caught_exception=None if response else error,
            request_dict={"context": tried.context},
        )
        return wait


def _response(status: int) -> Any:
    return SimpleNamespace(status_code=status, headers={})


_ANSWERED: Final = _response(200)


# EventBridge Scheduler: the schedules that functions create for budget windows, each fired at its times.


Fire = Callable[[str, str, dict[str, Any]], None]
"""Called with a schedule's name, its target's ARN and its input."""

_PAGE: Final = 100
_ENABLED: Final = "ENABLED"


class _Schedule(msgspec.Struct, frozen=True):
    request: dict[str, Any]
    created_at: datetime


class Schedules:
    """Answers the Scheduler's calls for one group, and fires enabled schedules."""

    def __init__(self, clock: VirtualClock, group: str) -> None:
        self._clock = clock
        self._group = group
        self._schedules: dict[str, _Schedule] = {}
        self._fire: Fire = lambda *_: None

    def on_fire(self, fire: Fire) -> None:
        """Call `fire` at each time of each enabled schedule."""
        self._fire = fire

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer scheduler:CreateSchedule. Raises AwsError if it exists."""
        self._check(request)
        existing = self._schedules.get(request["Name"])
        if existing is None:
            self._put(request, self._clock.now())
        elif existing.request.get("ClientToken") != request.get("ClientToken"):
            raise AwsError("ConflictException", f"Schedule {request['Name']} already exists.", 409)
        return self._arn(request["Name"])

    def update(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer scheduler:UpdateSchedule. Raises AwsError if there is none."""
        self._check(request)
        self._put(request, self._find(request).created_at)
        return self._arn(request["Name"])

    def delete(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer scheduler:DeleteSchedule. Raises AwsError if there is none."""
        self._check(request)
        self._find(request)
        del self._schedules[request["Name"]]
        return {}

    def get(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer scheduler:GetSchedule. Raises AwsError if there is none."""
        self._check(request)
        schedule = self._find(request)
        kept = {key: value for key, value in schedule.request.items() if key != "ClientToken"}
        return {"State": _ENABLED, **kept, "CreationDate": schedule.created_at, "Arn": self._arn_of(request["Name"])}

    def list(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer scheduler:ListSchedules."""
        self._check(request)
        schedules = [
            {"Name": name, "GroupName": self._group, "State": self._schedules[name].request.get("State", _ENABLED)}
            for name in sorted(self._schedules)
            if name.startswith(request.get("NamePrefix", ""))
        ]
        return paged("Schedules", schedules, request, _PAGE)

    def _put(self, request: dict[str, Any], created_at: datetime) -> None:
        schedule = _Schedule(dict(request), created_at)
        self._schedules[request["Name"]] = schedule
        if request.get("State", _ENABLED) == _ENABLED:
            self._await(schedule, self._clock.now())

    def _await(self, schedule: _Schedule, after: datetime) -> None:
        due = next_fire(schedule.request["ScheduleExpression"], after)
        if due is not None:
            self._clock.at(due, lambda: self._due(schedule, due))

    def _due(self, schedule: _Schedule, due: datetime) -> None:
        name, target = schedule.request["Name"], schedule.request["Target"]
        if self._schedules.get(name) is schedule:
            self._await(schedule, due)
            self._fire(name, target["Arn"], json.loads(target.get("Input") or "{}"))

    def _find(self, request: dict[str, Any]) -> _Schedule:
        schedule = self._schedules.get(request["Name"])
        if schedule is None:
            raise AwsError("ResourceNotFoundException", f"Schedule {request['Name']} does not exist.", 404)
        return schedule

    def _check(self, request: dict[str, Any]) -> None:
        group = request.get("GroupName", "default")
        if group != self._group:
            raise AwsError("ResourceNotFoundException", f"Schedule group {group} does not exist.", 404)

    def _arn(self, name: str) -> dict[str, Any]:
        return {"ScheduleArn": self._arn_of(name)}

    def _arn_of(self, name: str) -> str:
        return f"arn:aws:scheduler:::schedule/{self._group}/{name}"


# Connects the functions' SDK clients with the embedded account: every attempt of every call passes here.
#
# No HTTP is written or parsed. Faults in transit strike here, and the client retries as the SDK does (`simulator.aws.session`).


Responder = Callable[[dict[str, Any]], dict[str, Any]]

Listener = Callable[[Call, dict[str, Any] | AwsError], None]
"""Called with each attempt that arrived and its answer, even if the caller crashed before it could read the answer."""

_ANSWERS: Final = "simulator.aws.account"


class FaultPlan(Protocol):
    """Decides which fault strikes a call."""

    def take(self, call: str) -> Fault | None:
        """Return the fault that strikes the present attempt, and use it up."""
        ...


class Wire:
    """Carries calls to the embedded account's answers.

    Attributes:
        fault: The fault on the attempt that is being answered, for answers that depend on it.

    Args:
        faults: The faults of calls.
        spend: Advances virtual time; called with each attempt's duration and with the client's own waits.
        latency: How long an attempt takes.
        take_turn: Raises AwsError for a call that comes too fast.
    """

    def __init__(
        self,
        faults: FaultPlan,
        spend: Callable[[timedelta], None],
        latency: Callable[[str], timedelta],
        take_turn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._take_turn = take_turn
        self._faults = faults
        self._latency = latency
        self._responders: dict[str, Responder] = {}
        self._listeners: list[Listener] = []
        self._on_call: Callable[[], None] = lambda: None
        self._elsewhere: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.fault: Fault | None = None
        self.spend = spend

    def answer_with(self, responders: Mapping[str, Responder]) -> None:
        """Answer calls of these names (`ec2:CreateFleet`) with `responder(parameters)`."""
        self._responders.update(responders)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each attempt that arrives from now on."""
        self._listeners.append(listener)

    def on_call(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a function makes a call, before its first attempt."""
        self._on_call = listener

    def answer_in(self, elsewhere: Callable[[], AbstractContextManager[Any]]) -> None:
        """Answer each attempt within such a context: another machine does it."""
        self._elsewhere = elsewhere

    def begin(self) -> None:
        """Begin a call; its attempts follow."""
        self._on_call()

    def attempt(self, call: Call) -> dict[str, Any]:
        """One attempt of a call.

        Raises:
            AwsError: If the service answers with an error.
            ReadTimeoutError: If no answer comes.
            CrashError: If the function crashes here.
        """
        self.spend(self._latency(call.name))
        fault = self._faults.take(call.name)
        return self._perform(call) if fault is None else self._perform_with_fault(call, fault)

    def _perform_with_fault(self, call: Call, fault: Fault) -> dict[str, Any]:
        refused = refusal(call, fault)
        if refused is not None:
            error = AwsError(refused.code, refused.message, refused.status, fields=refused.more)
            self._notify(call, error)
            raise error
        if fault.kind == faults.CRASH_BEFORE:
            raise CrashError(call.name)
        if fault.kind == faults.DELAY:
            self.spend(fault.delay)
        if fault.kind not in (faults.CRASH_AFTER, faults.LOST_REPLY):
            return self._perform(call, fault)
        with suppress(AwsError):
            self._perform(call, fault)
        if fault.kind == faults.CRASH_AFTER:
            raise CrashError(call.name)
        if fault.delay:
            self.spend(fault.delay)
        raise ReadTimeoutError(endpoint_url=call.name)

    def _perform(self, call: Call, fault: Fault | None = None) -> dict[str, Any]:
        self.fault = fault
        responder = self._responders.get(call.name)
        self._throttle(call)
        if responder is None:
            raise UnansweredError(f"{call.name} is not answered by the embedded account: add it to {_ANSWERS}")
        with self._elsewhere():
            try:
                answer = responder(call.parameters) if fault is None else in_part(call, fault, responder)
            except AwsError as error:
                self._notify(call, error)
                raise
            finally:
                self.fault = None
            self._notify(call, answer)
        return answer

    def _throttle(self, call: Call) -> None:
        """Refuse a call that exceeds the service's request rate."""
        try:
            self._take_turn(call.name)
        except AwsError as error:
            self._notify(call, error)
            raise

    def _notify(self, call: Call, outcome: dict[str, Any] | AwsError) -> None:
        for listener in self._listeners:
            listener(call, outcome)


_ATTEMPTS: Final = 3
"""The SDK's default, for clients without a configuration."""


class Session:
    """Replaces a `boto3.Session`. There is one shared client per service, whose only state is its quota of retries.

    Args:
        rng: Draws the tokens that the SDK makes for calls that may be repeated.
        validates: Whether parameters are checked against the services' descriptions before they are sent, as boto3 does.
    """

    def __init__(self, wire: Wire, region: str, rng: Random, *, validates: bool = True) -> None:
        self.region_name = region
        self._wire = wire
        self._rng = rng
        self._validates = validates
        self._made: dict[str, Client] = {}
        self.events = None  # nothing is signed

    def get_credentials(self) -> None:
        """Return no credentials: the simulated account needs none."""

    def client(self, service_name: str, *, config: Config | None = None, **_: Any) -> Client:
        """Return the client of a service; the configuration of the first call counts."""
        if service_name not in self._made:
            retries = (config.retries if config else None) or {}
            attempts = retries.get("total_max_attempts", _ATTEMPTS)
            self._made[service_name] = Client(
                service_name, self._wire, attempts, self._new_token, validates=self._validates
            )
        return self._made[service_name]

    def _new_token(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))


class Client:
    """Replaces a boto3 client.

    Attributes:
        meta: Its `service_model`, as botocore describes it.
        exceptions: Its exceptions by name.
    """

    def __init__(
        self, service: str, wire: Wire, attempts: int, new_token: Callable[[], str], *, validates: bool
    ) -> None:
        model = service_model(service)
        self.meta = SimpleNamespace(service_model=model)
        self.exceptions = _exceptions(service)
        self._service = service
        self._wire = wire
        self._new_token = new_token
        self._validates = validates
        self._retries = Retries(model, attempts)

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        operation = _operations(self._service).get(name)
        if operation is None:
            raise AttributeError(f"{self._service} has no operation {name}")
        model = self.meta.service_model.operation_model(operation)

        def call(**parameters: Any) -> dict[str, Any]:
            return self._call(model, parameters)

        # Found without `__getattr__` from now on.
        setattr(self, name, call)
        return call

    def _call(self, operation: Any, parameters: dict[str, Any]) -> dict[str, Any]:
        for member in operation.idempotent_members:
            parameters.setdefault(member, self._new_token())
        if self._validates:
            _validate(operation, parameters)
            problems = problems_of(f"{self._service}:{operation.name}", operation.input_shape, parameters)
            if problems:
                code = "TagLimitExceeded" if too_many_tags(parameters) else "InvalidParameterValue"
                raise self._client_error(AwsError(code, "; ".join(problems)), operation.name, 0)
        call = Call(service=self._service, operation=operation.name, parameters=parameters)
        tried = Try(operation)
        self._wire.begin()
        while True:
            try:
                answer = self._wire.attempt(call)
            except AwsError as error:
                failure: Exception = self._client_error(error, operation.name, tried.attempt - 1)
            except ReadTimeoutError as error:
                failure = error
            else:
                self._retries.succeeded(tried)
                return {**answer, "ResponseMetadata": _metadata(200, tried.attempt - 1)}
            wait = self._retries.wait_after(tried, failure)
            if wait is None:
                raise failure
            self._wire.spend(timedelta(seconds=wait))
            tried.attempt += 1

    def _client_error(self, error: AwsError, operation: str, retries: int) -> Exception:
        response = {
            "Error": {"Code": error.code, "Message": error.message},
            "ResponseMetadata": _metadata(error.status, retries),
            **error.fields,
        }
        failure: Exception = self.exceptions.from_code(error.code)(response, operation)
        return failure


@cache
def service_model(service: str) -> Any:
    """A service's description: megabytes of JSON, so it is read once in a process."""
    return botocore.session.get_session().get_service_model(service)


@cache
def _exceptions(service: str) -> Any:
    return ClientExceptionsFactory().create_client_exceptions(service_model(service))


@cache
def _operations(service: str) -> Mapping[str, str]:
    return {xform_name(name): name for name in service_model(service).operation_names}


def _validate(operation: Any, parameters: dict[str, Any]) -> None:
    report = ParamValidator().validate(parameters, operation.input_shape)
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())


def _metadata(status: int, retries: int) -> dict[str, Any]:
    return {"HTTPStatusCode": status, "RetryAttempts": retries}
