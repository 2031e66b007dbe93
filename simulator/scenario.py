"""Reads a Scenario file and every file that it names: manifests, steps, trace."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import yaml

from core.api.objects import JsonObject
from core.api.older_versions import is_old
from core.errors import InvalidInputError
from core.manifests.wire.versions import refused_version
from core.model.values.quantity import parse_duration
from core.model.values.quotas import CODES
from installation.settings import Settings, problem_of
from installation.wiring import ALL_BY_NAME
from simulator import step_forms
from simulator.clock import Span, constant
from simulator.invocation import faults
from simulator.step_forms import (
    ActorStep,
    ClockForm,
    CopyStep,
    EtcdStep,
    Form,
    InstancesStep,
    KubeletStep,
    QueueStep,
    RowStep,
    SchedulerStep,
    Share,
    Silences,
    WebhookStep,
)

# A capacity reservation as a scenario writes it.


class CapacityReservation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A capacity reservation or capacity block of the account; one of a known id is replaced, with its instances.

    Attributes:
        total: How many instances it holds; `others` of its places are taken by somebody else.
        starts, ends: From when it is active and when it is over, counted from now; None: at once, never.
        cancel: End the one of this id now. What else is given does not count.
    """

    id: str
    instance_type: str = ""
    zone: str = ""
    total: int = 1
    others: int = 0
    type: Literal["default", "capacity-block"] = "default"
    instance_match_criteria: Literal["open", "targeted"] = "targeted"
    interruptible: bool = False
    owner_id: str = ""
    tags: dict[str, str] = {}
    starts: timedelta | None = None
    ends: timedelta | None = None
    cancel: bool = False


# A Scenario as written: its fields, and the forms of its steps.


class Reference(Form, frozen=True, kw_only=True):
    """An object by name."""

    kind: str
    name: str
    namespace: str = "default"
    api_version: str = ""


class Scale(Form, frozen=True, kw_only=True):
    """A workload's new number of replicas."""

    kind: str
    name: str
    replicas: int
    namespace: str = "default"


class Capacity(Form, frozen=True, kw_only=True):
    """How many instances may still be launched of each selected pool; null removes the bound."""

    available: int | None
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None


class Price(Form, frozen=True, kw_only=True):
    """Multiply the current prices of the selected pools."""

    factor: float
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None


class Ami(Form, frozen=True, kw_only=True):
    """What an alias resolves to from now on."""

    alias: str
    id: str


class Subnet(Form, frozen=True, kw_only=True):
    """How many addresses are left in a zone's subnet of this number; it is created if there is none."""

    zone: str
    number: Annotated[int, msgspec.Meta(ge=1, le=8)] = 1
    free_addresses: int


class Interrupt(Form, frozen=True, kw_only=True):
    """Which instances get notice, or fail their status check: a share of them (of a zone), or one node's.

    Notices of `spot` and `rebalance` come to spot instances alone.
    """

    zone: str | None = None
    node: str | None = None
    fraction: float = 1.0
    kind: str = "spot"


class DeleteShare(Form, frozen=True, kw_only=True):
    """A user deletes this share of the Nodes or NodeClaims."""

    fraction: float = 1.0


class Boot(Form, frozen=True, kw_only=True):
    """Boot problems of the next instances: `fail` of them never join, or `count` of them take `seconds`.

    Attributes:
        not_ready: That many join and never become ready.
        end_reason: EC2 ends `count` of them soon after their launch for this reason, a code of its `StateReason`.
        instance_type, zone, capacity_type, node_pool: The instances that it concerns; None: all.
    """

    fail: int = 0
    not_ready: int = 0
    end_reason: str = ""
    seconds: float | None = None
    count: int = 1
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    node_pool: str | None = None


class Fault(Form, frozen=True, kw_only=True):
    """A fault of calls: of those of `function` if it is named, and only the `nth` of them from then on if that is.

    Attributes:
        share: The chance that an attempt has it, drawn by the seed; None: each has it.
    """

    call: str
    kind: str
    count: int | None = None
    seconds: float = 0.0
    lasting: timedelta | None = msgspec.field(name="for", default=None)
    function: str = ""
    nth: int | None = None
    share: Share | None = None
    code: str = ""
    form: str = msgspec.field(name="as", default=faults.EXCEPTION)
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None


class MessageFault(Form, frozen=True, kw_only=True):
    """A fault of the next messages to functions."""

    kind: str
    count: int = 1
    seconds: float = 90.0


class Brake(Form, frozen=True, kw_only=True):
    """How an operator brakes the functions; omitted fields stay unchanged.

    Attributes:
        mode: Text of the kill switch's parameter.
        alarm: State of the CloudWatch alarm that pauses disruption.
        shifted_zones: The zones that traffic is shifted away from, all of them.
    """

    mode: str | None = None
    alarm: Literal["OK", "ALARM", "INSUFFICIENT_DATA"] | None = None
    shifted_zones: list[str] | None = None


class TableStep(Form, frozen=True, kw_only=True):
    """The table loses its newest items, this many or `all`; or it is restored to its state of this long ago."""

    lose: int | str | None = None
    restore: timedelta | None = None


class Step(Form, frozen=True, kw_only=True):
    """One step: when, and exactly one thing that happens. `apply` holds objects, read from files where files were named."""

    at: timedelta
    apply: list[Any] | None = None
    scale: Scale | None = None
    delete: list[Reference] | None = None
    delete_nodes: DeleteShare | None = None
    delete_node_claims: DeleteShare | None = None
    capacity: Capacity | None = None
    price: Price | None = None
    ami: Ami | None = None
    subnet: Subnet | None = None
    interrupt: Interrupt | None = None
    capacity_reservation: CapacityReservation | None = None
    boot: Boot | None = None
    fault: Fault | None = None
    events: MessageFault | None = None
    table: TableStep | None = None
    brake: Brake | None = None
    kubelet: KubeletStep | None = None
    queue: QueueStep | None = None
    actor: ActorStep | None = None
    scheduler: SchedulerStep | None = None
    webhook: WebhookStep | None = None
    etcd: EtcdStep | None = None
    copy: CopyStep | None = None
    instances: InstancesStep | None = None
    row: RowStep | None = None


ACTIONS: Final = tuple(name for name in Step.__struct_fields__ if name != "at")


class Trace(Form, frozen=True, kw_only=True):
    """Pods of a recorded cluster; `since` and `until` are in the trace's own seconds."""

    format: str
    file: str
    since: int = msgspec.field(name="from", default=0)
    until: int | None = msgspec.field(name="to", default=None)
    namespace: str = "default"


class Spec(Form, frozen=True, kw_only=True):
    """A Scenario's `spec`."""

    duration: timedelta
    start: str = "2026-11-20T00:00:00Z"
    seed: int = 1
    catalog: str | None = None
    node_boot_seconds: float = 45.0
    manifests: list[str] = []
    trace: Trace | None = None
    feature_gates: dict[str, bool] = {}
    settings: dict[str, str | int | bool] = {}
    capacity_reservations: list[CapacityReservation] = []
    vcpu_quotas: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}
    clock: ClockForm = ClockForm()
    memory_mib: Annotated[int, msgspec.Meta(ge=1)] | None = msgspec.field(name="memoryMiB", default=None)
    aws: Silences = Silences()
    steps: list[Step] = []


# Reads the manifests that a scenario names: files and folders of YAML or JSON, with several documents per file and lists.


_SUFFIXES: Final = (".yaml", ".yml", ".json")
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_MERGE: Final = "tag:yaml.org,2002:merge"


class Document(msgspec.Struct, frozen=True):
    """One object and its source."""

    path: Path
    index: int
    object: JsonObject


class _Loader(yaml.SafeLoader):
    """A loader that keeps dates as text and refuses repeated keys: tools differ in which of the values they take."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT002 - PyYAML's signature
        """Construct a mapping. Raises yaml.constructor.ConstructorError for a key that it has twice."""
        seen_keys: set[str] = set()
        for key, _ in node.value:
            if key.tag != _MERGE and str(key.value) in seen_keys:
                problem = f"its mapping has {key.value!r} already"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen_keys.add(str(key.value))
        return super().construct_mapping(node, deep)


def read_manifests(path: Path) -> list[Document]:
    """Every object in a file, or in all files below a folder, in the order of their names.

    Raises:
        InvalidInputError: If something cannot be read or is no object; names file and document.
    """
    files = sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES) if path.is_dir() else [path]
    documents = [document for file in files for document in read_documents(file)]
    for document in documents:
        if not document.object.get("kind") or not (document.object.get("metadata") or {}).get("name"):
            raise InvalidInputError("has no kind or no name", subject=f"{document.path}, document {document.index + 1}")
        check_version(document.object, f"{document.path}, document {document.index + 1}")
    return documents


def check_version(obj: JsonObject, subject: str) -> None:
    """Raise InvalidInputError for a version that the embedded API server does not serve; none at all is the current one."""
    refused = refused_version(obj) if obj.get("apiVersion") else ""
    if is_old(obj):
        refused = f"{obj['apiVersion']} is an older version; `fleetwright convert` writes the object as v1"
    if refused:
        raise InvalidInputError(refused, subject=subject, field="apiVersion")


def read_documents(path: Path) -> list[Document]:
    """Every object in a file.

    Raises:
        InvalidInputError: If the file cannot be read or holds something else.
    """
    try:
        text = path.read_text()
        values = list(yaml.load_all(text, Loader=_Loader))
    except OSError as error:
        raise InvalidInputError(f"cannot be read: {error.strerror or error}", subject=str(path)) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(_not_yaml(error), subject=str(path)) from error
    if _expanded(values, {}) > _VALUES_FREE + len(text):
        raise InvalidInputError("has aliases that stand for far more than it holds: write it out", subject=str(path))
    documents = []
    for index, value in enumerate(values):
        if value is None:
            continue
        if not isinstance(value, dict):
            raise InvalidInputError("is not an object", subject=f"{path}, document {index + 1}")
        documents += [Document(path, index, item) for item in _unfolded(value)]
    return documents


_VALUES_FREE: Final = 1_000_000
"""Values that aliases may stand for, besides one for each character of the text."""


def _expanded(value: Any, counted: dict[int, int]) -> int:
    """Return how many values a value holds, each as often as an alias repeats it."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counted:
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        counted[id(value)] = 1 + sum(_expanded(part, counted) for part in inner)
    return counted[id(value)]


def _not_yaml(error: Exception) -> str:
    """Describe why a text is not YAML, and where."""
    mark = error.problem_mark or error.context_mark if isinstance(error, yaml.MarkedYAMLError) else None
    if mark is None:
        return f"is not YAML: {error}"
    return f"line {mark.line + 1}, column {mark.column + 1}: is not YAML: {getattr(error, 'problem', '')}"


def _unfolded(value: JsonObject) -> Iterator[JsonObject]:
    if str(value.get("kind", "")).endswith("List") and isinstance(value.get("items"), list):
        for item in value["items"]:
            yield from _unfolded(item)
    else:
        yield value


API_VERSION: Final = "fleetwright.dev/v1"


INTERRUPTIONS: Final = ("spot", "rebalance", "scheduledChange", "statusCheck")


ALL: Final = "all"


_WORLDS_OWN: Final = frozenset(
    {"feature_gates", "improve_iterations", "improve_milliseconds", "keep_ledger", "price_terms"}
)


SETTINGS: Final = (
    frozenset(
        field.name
        for field in msgspec.structs.fields(Settings)
        if field.default is not msgspec.NODEFAULT and not field.name.endswith(("_arn", "_parameter"))
    )
    - _WORLDS_OWN
)
"""Settings that a scenario may choose: the account or the world determines the others."""


_DURATIONS: Final = (
    *("at", "duration", "for", "restore", "starts", "ends"),
    *("every", "lag", "since", "delay", "p50", "p99"),
)
_SPANS: Final = ("auditLogLag", "boot", "describeLag", "scheduleJitter", "tagLag", "eventLag")
_VERBATIM: Final = ("apply", "put", "patch", "binds", "capacity", "allocatable")
"""Fields of steps that are taken as they are written; `capacity` is a step, too, and holds no durations."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario with the contents of every file that it names, except the catalogue and the trace.

    Attributes:
        settings: Settings of the functions by their environment variables, as text.
        vcpu_quotas: Code of an EC2 quota → vCPUs that the account may run, besides those of its catalogue.
        processor: What processor time does to virtual time.
        memory_mib: What a function may use before it crashes; None: no limit.
    """

    name: str
    path: Path
    start: datetime
    duration: timedelta
    seed: int
    boot: Span
    aws: Silences = Silences()
    catalogue_file: Path | None
    trace: Trace | None
    feature_gates: dict[str, bool]
    settings: dict[str, str] = {}
    capacity_reservations: tuple[CapacityReservation, ...] = ()
    vcpu_quotas: dict[str, int] = {}
    processor: ClockForm = ClockForm()
    memory_mib: int | None = None
    manifests: tuple[JsonObject, ...]
    steps: tuple[Step, ...]

    def file(self, name: str) -> Path:
        """A file that the scenario names, relative to itself."""
        return self.path.parent / name


def read_scenario(path: Path) -> Scenario:
    """Read a scenario with the manifests that it names.

    Raises:
        InvalidInputError: If it or one of those files cannot be read; names the file and the field.
    """
    documents = [d.object for d in read_documents(path)]
    if len(documents) != 1 or documents[0].get("kind") != "Scenario":
        raise InvalidInputError("must hold exactly one object, of kind Scenario", subject=str(path))
    document = documents[0]
    if document.get("apiVersion") != API_VERSION:
        problem = f"is {document.get('apiVersion')!r}, not {API_VERSION}"
        raise InvalidInputError(problem, subject=str(path), field="apiVersion")
    try:
        return scenario_of(path, document)
    except InvalidInputError as error:
        raise error.within(subject=str(path)) from error


def scenario_of(path: Path, document: Mapping[str, Any]) -> Scenario:
    """The scenario that a document describes, whose files are beside `path`. Raises InvalidInputError."""
    spec = _convert(step_forms.with_text_keys(document.get("spec") or {}))
    start = _moment(spec.start)
    folder = path.parent
    return Scenario(
        name=str((document.get("metadata") or {}).get("name") or path.stem),
        path=path,
        start=start,
        duration=spec.duration,
        seed=spec.seed,
        boot=spec.aws.boot or constant(timedelta(seconds=spec.node_boot_seconds)),
        aws=spec.aws,
        catalogue_file=None if spec.catalog is None else folder / spec.catalog,
        trace=spec.trace,
        feature_gates=spec.feature_gates,
        settings=_settings(spec.settings),
        capacity_reservations=tuple(spec.capacity_reservations),
        vcpu_quotas=_quotas(spec.vcpu_quotas),
        processor=spec.clock,
        memory_mib=spec.memory_mib,
        manifests=tuple(d.object for name in spec.manifests for d in _manifests(folder / name, "spec.manifests")),
        steps=tuple(_step(folder, number, step) for number, step in enumerate(spec.steps)),
    )


def _quotas(quotas: Mapping[str, int]) -> dict[str, int]:
    unknown = sorted(quotas.keys() - CODES)
    if unknown:
        problem = f"is no vCPU quota of EC2, use one of {', '.join(sorted(CODES))}"
        raise InvalidInputError(problem, field=f"spec.vcpuQuotas.{unknown[0]}")
    return dict(quotas)


def _settings(settings: Mapping[str, str | int | bool]) -> dict[str, str]:
    """Return settings by their environment variables; in the scenario they have the names of the deployment's context."""
    texts = {}
    for name, value in settings.items():
        field = re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if field not in SETTINGS:
            raise InvalidInputError("is not a setting that a scenario may have", field=f"spec.settings.{name}")
        if problem := problem_of(field, text):
            raise InvalidInputError(f"{value!r}: {problem}", field=f"spec.settings.{name}")
        texts[field.upper()] = text
    return texts


def _step(folder: Path, number: int, step: Step) -> Step:
    where = f"spec.steps[{number}]"
    chosen = [name for name in ACTIONS if getattr(step, name) is not None]
    if len(chosen) != 1:
        raise InvalidInputError(f"must hold exactly one of {', '.join(ACTIONS)}", field=where)
    _one_of(step.fault.kind if step.fault else None, faults.KINDS, f"{where}.fault.kind")
    _one_of(step.fault.form if step.fault else None, faults.FORMS, f"{where}.fault.as")
    _one_of(step.fault.function if step.fault else None, ("", *sorted(ALL_BY_NAME)), f"{where}.fault.function")
    _one_of(step.events.kind if step.events else None, faults.EVENT_KINDS, f"{where}.events.kind")
    _one_of(step.interrupt.kind if step.interrupt else None, INTERRUPTIONS, f"{where}.interrupt.kind")
    boot = step.boot
    if boot is not None and not (boot.fail or boot.not_ready or boot.end_reason) and boot.seconds is None:
        raise InvalidInputError("needs `fail`, `notReady`, `seconds` or `endReason`", field=f"{where}.boot")
    if step.table is not None:
        _check_table(step.table, f"{where}.table")
    for name, check in _CHECKS.items():
        if getattr(step, name) is not None:
            check(getattr(step, name), f"{where}.{name}")
    if step.actor is not None and step.actor.apply is not None:
        turns = [list(_applied(folder, turn, f"{where}.actor.apply[{n}]")) for n, turn in enumerate(step.actor.apply)]
        return msgspec.structs.replace(step, actor=msgspec.structs.replace(step.actor, apply=turns))
    if step.apply is None:
        return step
    return msgspec.structs.replace(step, apply=list(_applied(folder, step.apply, f"{where}.apply")))


_CHECKS: Final[Mapping[str, Callable[[Any, str], None]]] = {
    "kubelet": step_forms.check_kubelet,
    "queue": step_forms.check_queue,
    "actor": step_forms.check_actor,
    "webhook": step_forms.check_webhook,
    "instances": step_forms.check_instances,
    "copy": step_forms.check_copy,
}


def _check_table(table: TableStep, where: str) -> None:
    if (table.lose is None) == (table.restore is None):
        raise InvalidInputError("must hold either `lose` or `restore`", field=where)
    if isinstance(table.lose, str) and table.lose != ALL:
        raise InvalidInputError(f"{table.lose!r} is neither a number of items nor `{ALL}`", field=f"{where}.lose")


def _applied(folder: Path, entries: Iterable[Any], where: str) -> Iterable[JsonObject]:
    for number, entry in enumerate(entries):
        if isinstance(entry, str):
            yield from (d.object for d in _manifests(folder / entry, f"{where}[{number}]"))
        elif isinstance(entry, dict) and entry.get("kind") and (entry.get("metadata") or {}).get("name"):
            check_version(entry, f"{where}[{number}]")
            yield entry
        else:
            raise InvalidInputError("is neither a file nor an object with kind and name", field=f"{where}[{number}]")


def _manifests(path: Path, where: str) -> list[Document]:
    try:
        return read_manifests(path)
    except InvalidInputError as error:
        raise InvalidInputError(str(error), field=where) from error


def _convert(spec: Mapping[str, Any]) -> Spec:
    try:
        return msgspec.convert(_with_durations(spec, "spec"), Spec, str_keys=True)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        raise InvalidInputError(problem, field=f"spec{place.rstrip('`')}") from error


def _with_durations(value: Any, where: str) -> Any:
    """The same document with every duration (`10m`, or seconds) read."""
    if isinstance(value, Mapping):
        return {key: _field(key, item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_with_durations(item, f"{where}[{number}]") for number, item in enumerate(value)]
    return value


def _field(key: str, value: Any, where: str) -> Any:
    if key in _VERBATIM:
        return value
    if where == f"spec.aws.{key}" and key in _SPANS:
        return _span(value, where)
    return _duration(value, where) if key in _DURATIONS else _with_durations(value, where)


def _span(value: Any, where: str) -> Any:
    """Return a constant or drawn time in the form of `Span`, whose fields `_convert` reads."""
    if not isinstance(value, Mapping):
        takes = _duration(value, where)
        return {"p50": takes, "p99": takes}
    if value.keys() != {"p50", "p99"}:
        raise InvalidInputError("must be a duration, or have p50 and p99", field=where)
    percentiles = {name: _duration(item, f"{where}.{name}") for name, item in value.items()}
    if percentiles["p99"] < percentiles["p50"]:
        raise InvalidInputError("p99 is shorter than p50", field=where)
    return percentiles


def _duration(value: Any, where: str) -> timedelta:
    if isinstance(value, int | float) and not isinstance(value, bool):
        duration: timedelta | None = timedelta(seconds=value)
    else:
        duration = parse_duration(value) if isinstance(value, str) else None
    if duration is None or duration < timedelta(0):
        raise InvalidInputError(f"{value!r} is not a duration such as 90s, 10m or 48h", field=where)
    return duration


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is not an RFC 3339 time", field="spec.start") from error
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _one_of(value: str | None, allowed: tuple[str, ...], where: str) -> None:
    if value is not None and value not in allowed:
        raise InvalidInputError(f"{value!r} is none of {', '.join(allowed)}", field=where)


# Pods of the openb trace (Alibaba GPU cluster, 2023): they appear at their creation time and vanish at their deletion.


FORMAT: Final = "openb"
_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time")


class TracedPod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod; times count from the trace's `from`, which is the scenario's start."""

    manifest: dict[str, Any]
    appears: timedelta
    vanishes: timedelta


def read_trace(path: Path, trace: Trace) -> list[TracedPod]:
    """The pods that were created between `from` and `to`, in the order of the file.

    Raises:
        InvalidInputError: If the file cannot be read or is none of this format.
    """
    if trace.format != FORMAT:
        raise InvalidInputError(f"{trace.format!r} is not {FORMAT}", field="spec.trace.format")
    pods = []
    for number, row in enumerate(_rows(path), start=2):
        try:
            created, deleted = int(row["creation_time"]), int(row["deletion_time"])
            if created >= trace.since and (trace.until is None or created <= trace.until):
                pods.append(_pod(row, created - trace.since, deleted - trace.since, trace.namespace))
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"line {number}: {error}", subject=str(path)) from error
    return pods


def _rows(path: Path) -> Iterator[Mapping[str, str]]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot be read: {error}", subject=str(path)) from error
    reader = csv.DictReader(io.StringIO(text))
    missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise InvalidInputError(f"has no column {', '.join(missing)}", subject=str(path))
    yield from reader


def _pod(row: Mapping[str, str], appears: int, vanishes: int, namespace: str) -> TracedPod:
    requests = {"cpu": f"{int(row['cpu_milli'])}m", "memory": f"{int(row['memory_mib'])}Mi"}
    # A share of a GPU is given as one GPU and thousandths of it; a node's device plugin hands out whole ones.
    gpus = max(int(row["num_gpu"]), 1 if int(row["gpu_milli"]) > 0 else 0)
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return TracedPod(
        manifest={
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": row["name"], "namespace": namespace, "labels": {"app": "openb"}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "main",
                        "image": "openb",
                        "resources": {"requests": {**requests, **limits}, **({"limits": limits} if limits else {})},
                    }
                ],
            },
        },
        appears=timedelta(seconds=appears),
        vanishes=timedelta(seconds=max(vanishes, appears)),
    )
