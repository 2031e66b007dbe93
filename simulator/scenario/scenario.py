"""Reads a Scenario file, and every file that it names: how a cluster begins, and the steps that change it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.model.values.duration import parse_duration
from core.model.values.vcpu_quotas import CODES
from installation.settings import Settings, problem_of
from installation.wiring import BY_NAME
from simulator.invocation import calls, faults
from simulator.scenario.capacity_reservation import CapacityReservation
from simulator.scenario.form import ACTIONS, Spec, Step, TableStep, Trace
from simulator.scenario.manifests import Document, check_version, read_documents, read_manifests

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


_DURATIONS: Final = ("at", "duration", "for", "restore", "starts", "ends")


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario with the contents of every file that it names, except the catalogue and the trace.

    Attributes:
        settings: Settings of the functions by their environment variables, as text.
        vcpu_quotas: Code of an EC2 quota → vCPUs that the account may run, besides those of its catalogue.
    """

    name: str
    path: Path
    start: datetime
    duration: timedelta
    seed: int
    boot: timedelta
    catalogue_file: Path | None
    trace: Trace | None
    feature_gates: dict[str, bool]
    settings: dict[str, str] = {}
    capacity_reservations: tuple[CapacityReservation, ...] = ()
    vcpu_quotas: dict[str, int] = {}
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
    spec = _convert(document.get("spec") or {})
    start = _moment(spec.start)
    folder = path.parent
    return Scenario(
        name=str((document.get("metadata") or {}).get("name") or path.stem),
        path=path,
        start=start,
        duration=spec.duration,
        seed=spec.seed,
        boot=timedelta(seconds=spec.node_boot_seconds),
        catalogue_file=None if spec.catalog is None else folder / spec.catalog,
        trace=spec.trace,
        feature_gates=spec.feature_gates,
        settings=_settings(spec.settings),
        capacity_reservations=tuple(spec.capacity_reservations),
        vcpu_quotas=_quotas(spec.vcpu_quotas),
        manifests=tuple(d.object for name in spec.manifests for d in _manifests(folder / name, "spec.manifests")),
        steps=tuple(_step(folder, number, step) for number, step in enumerate(spec.steps)),
    )


def _quotas(given: Mapping[str, int]) -> dict[str, int]:
    unknown = sorted(given.keys() - CODES)
    if unknown:
        problem = f"is no vCPU quota of EC2, use one of {', '.join(sorted(CODES))}"
        raise InvalidInputError(problem, field=f"spec.vcpuQuotas.{unknown[0]}")
    return dict(given)


def _settings(given: Mapping[str, str | int | bool]) -> dict[str, str]:
    """Return settings by their environment variables; in the scenario they have the names of the deployment's context."""
    found = {}
    for name, value in given.items():
        field = re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if field not in SETTINGS:
            raise InvalidInputError("is not a setting that a scenario may have", field=f"spec.settings.{name}")
        if problem := problem_of(field, text):
            raise InvalidInputError(f"{value!r}: {problem}", field=f"spec.settings.{name}")
        found[field.upper()] = text
    return found


def _step(folder: Path, number: int, step: Step) -> Step:
    where = f"spec.steps[{number}]"
    chosen = [name for name in ACTIONS if getattr(step, name) is not None]
    if len(chosen) != 1:
        raise InvalidInputError(f"must hold exactly one of {', '.join(ACTIONS)}", field=where)
    _one_of(step.fault.kind if step.fault else None, calls.KINDS, f"{where}.fault.kind")
    _one_of(step.fault.form if step.fault else None, calls.FORMS, f"{where}.fault.as")
    _one_of(step.fault.function if step.fault else None, ("", *sorted(BY_NAME)), f"{where}.fault.function")
    _one_of(step.events.kind if step.events else None, faults.EVENT_KINDS, f"{where}.events.kind")
    _one_of(step.interrupt.kind if step.interrupt else None, INTERRUPTIONS, f"{where}.interrupt.kind")
    if step.boot is not None and not (step.boot.fail or step.boot.end_reason) and step.boot.seconds is None:
        raise InvalidInputError("needs `fail`, `seconds` or `endReason`", field=f"{where}.boot")
    if step.table is not None:
        _check_table(step.table, f"{where}.table")
    if step.apply is None:
        return step
    return msgspec.structs.replace(step, apply=list(_applied(folder, step.apply, f"{where}.apply")))


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
    if key == "apply":
        return value
    return _duration(value, where) if key in _DURATIONS else _with_durations(value, where)


def _duration(value: Any, where: str) -> timedelta:
    if isinstance(value, int | float) and not isinstance(value, bool):
        found: timedelta | None = timedelta(seconds=value)
    else:
        found = parse_duration(value) if isinstance(value, str) else None
    if found is None or found < timedelta(0):
        raise InvalidInputError(f"{value!r} is not a duration such as 90s, 10m or 48h", field=where)
    return found


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is not an RFC 3339 time", field="spec.start") from error
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _one_of(value: str | None, known: tuple[str, ...], where: str) -> None:
    if value is not None and value not in known:
        raise InvalidInputError(f"{value!r} is none of {', '.join(known)}", field=where)
