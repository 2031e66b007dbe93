"""Reads a ledger: finds decisions, explains one, and reports a period."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from cli.answers.periods import BaselineSimulation, report_document, shadow_document
from cli.cluster import own_state
from cli.cluster.own_state import bounded_calls
from cli.errors import InputError
from cli.terminal.output import rfc3339
from cli.terminal.style import Steps
from core import codec
from core.api.objects import JsonObject
from core.cost_report import ReportBuilder, ReportedDecision, lives
from core.counterfactual.simulated_fleet import RecordedFleet, fleet_minimum
from core.counterfactual.simulation import SimulationRules, simulated_periods
from core.errors import InvalidInputError
from core.explain import Explanation, explain_node, explain_pod, with_missing_capacity
from core.ledger.encoding import FormReader, SnapshotForm
from core.ledger.entry import (
    DISRUPT,
    LedgerDocuments,
    LedgerEntry,
    LogEntry,
    by_decision,
    concerns,
    decode_entry,
    log_entry,
    recorded_clock,
)
from core.ledger.outcome import DecisionOutcome, decode_outcomes
from core.ledger.reading import (
    DECISIONS,
    OUTCOMES,
    PREFIX,
    DecisionKey,
    LedgerReader,
    day_prefix,
    days,
    read_decision_key,
)
from core.model.plan import DisruptionPlan
from core.model.snapshot import Snapshot
from core.model.values.quotas import names_node
from core.pool_admission import as_acting

# Storage of a ledger: a folder, or a bucket of S3 that is read with the user's own permissions.


S3_SCHEME: Final = "s3://"

_HINT: Final = "--profile says whose permissions are used: s3:ListBucket and s3:GetObject on the bucket are needed"

THREADS: Final = 16
"""Parallel reads from a bucket: each takes some 30 ms, mostly waiting."""


class LedgerStorage(Protocol):
    """Storage of objects by name."""

    @property
    def name(self) -> str:
        """The ledger's name for people: a folder, or `s3://BUCKET[/PREFIX]`."""
        ...

    def keys(self, prefix: str) -> list[str]:
        """Return every name with this prefix, in order."""
        ...

    def get(self, key: str) -> bytes:
        """Return one object. Raises InvalidInputError if there is none."""
        ...

    def get_all(self, keys: Iterable[str]) -> Iterable[bytes]:
        """Return several objects, in order."""
        ...


class FolderLedger:
    """A ledger in a folder, as `fleetwright simulate --ledger` keeps it and `aws s3 sync` copies it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)

    def keys(self, prefix: str) -> list[str]:
        """Return every name with this prefix, in order."""
        under = self._folder / prefix.rpartition("/")[0]
        files = (file.relative_to(self._folder).as_posix() for file in under.rglob("*") if file.is_file())
        return sorted(key for key in files if key.startswith(prefix))

    def get(self, key: str) -> bytes:
        """Return one object. Raises InvalidInputError if there is none."""
        if ".." in key.split("/"):  # entries name other objects, and a foreign ledger may name any file
            raise InvalidInputError("is outside of the ledger", subject=key)
        try:
            return (self._folder / key).read_bytes()
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            raise InvalidInputError(problem, subject=str(self._folder / key)) from error

    def get_all(self, keys: Iterable[str]) -> Iterable[bytes]:
        """Return several objects, in order."""
        return map(self.get, keys)


class BucketLedger:
    """A ledger in S3, which is only listed and read."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self.name = f"{S3_SCHEME}{bucket}" if prefix == PREFIX else f"{S3_SCHEME}{bucket}/{prefix.rstrip('/')}"

    def keys(self, prefix: str) -> list[str]:
        """Return every name with this prefix, in order. Raises InputError if the bucket may not be listed."""
        where = f"{S3_SCHEME}{self._bucket}/{self._prefix}{prefix}"
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix
        )
        with _s3_errors(lambda problem: InputError(problem, source=where, hint=_HINT)):
            objects = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return sorted(key.removeprefix(self._prefix) for key in objects)

    def get(self, key: str) -> bytes:
        """Return one object. Raises InvalidInputError if there is none."""
        where = f"{S3_SCHEME}{self._bucket}/{self._prefix}{key}"
        with _s3_errors(lambda problem: InvalidInputError(problem, subject=where)):
            body: bytes = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"].read()
        return body

    def get_all(self, keys: Iterable[str]) -> Iterable[bytes]:
        """Return several objects in order, with parallel reads."""
        with ThreadPoolExecutor(THREADS) as pool:
            yield from pool.map(self.get, keys)


@contextmanager
def _s3_errors(as_error: Callable[[str], Exception]) -> Iterator[None]:
    """Translate errors of the SDK: `as_error` makes one of ours from the problem."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise as_error(f"cannot be read: {error}") from error


def open_ledger(where: str, *, region: str | None = None, profile: str | None = None) -> LedgerStorage:
    """Return the ledger in a folder, or at `s3://BUCKET[/PREFIX]`.

    Raises:
        InputError: If there is no such folder, or no session of AWS can be made.
    """
    if where.startswith(S3_SCHEME):
        bucket, _, prefix = where.removeprefix(S3_SCHEME).partition("/")
        if not bucket:
            raise InputError("names no bucket", source=where, hint="a bucket is given as s3://BUCKET")
        return BucketLedger(_s3(region, profile), bucket, f"{prefix.rstrip('/')}/" if prefix.strip("/") else PREFIX)
    folder = Path(where)
    if not folder.is_dir():
        raise InputError("there is no such folder", source=where, hint="a bucket is given as s3://BUCKET")
    return FolderLedger(folder)


def ledger_of_bucket(session: Any, bucket: str) -> LedgerStorage:
    """Return the ledger in the bucket of an installation, read with the session's permissions."""
    return BucketLedger(session.client("s3", config=bounded_calls(THREADS)), bucket, PREFIX)


def _s3(region: str | None, profile: str | None) -> Any:
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        session = boto3.Session(profile_name=profile, region_name=region)
        return session.client("s3", config=bounded_calls(THREADS))
    except BotoCoreError as error:
        raise InputError(
            f"AWS cannot be reached: {error}", hint="--profile and --region say whose and where"
        ) from error


# Finds decisions in a ledger: by id, by time, by the objects concerned.


_ID_SHOWN_MIN: Final = 4

DAYS_LISTED: Final = timedelta(days=40)
"""Beyond this many days, all objects are listed at once: one request per day would take longer, and buckets keep 30 days."""


def find(place: LedgerStorage, arguments: argparse.Namespace, ids: Sequence[str] = ()) -> list[DecisionKey]:
    """Return the selected decisions, in order of time.

    Raises:
        InputError: If an id matches none or several, or there is no decision at all.
    """
    keys = sorted(key for prefix in _prefixes(arguments) for key in _keys(place, prefix))
    keys = [key for key in keys if arguments.since is None or key.at >= arguments.since]
    if ids:
        keys = sorted({_named(keys, wanted) for wanted in ids})
    return keys


def refuse_none(selected: Sequence[DecisionKey], place: LedgerStorage, arguments: argparse.Namespace) -> None:
    """Stop if no decision is selected: a successful answer about nothing would mislead.

    Raises:
        InputError: If there is none; the message names the clusters and the period of the ledger.
    """
    if selected:
        return
    kept = _keys(place, f"{DECISIONS}/")
    if not kept:
        hint = "it is the folder of `fleetwright simulate --ledger`, or the bucket of the functions, which keep 30 days"
        raise InputError("there is no decision in the ledger", source=place.name, hint=hint)
    clusters = sorted({key.cluster for key in kept})
    if arguments.cluster and arguments.cluster not in clusters:
        problem = f"there is no decision of cluster {arguments.cluster!r} in the ledger"
        raise InputError(problem, source=place.name, hint=f"it has those of {', '.join(clusters)}")
    times = [key.at for key in kept if arguments.cluster in (None, key.cluster)]
    hint = f"it has those from {rfc3339(min(times))} to {rfc3339(max(times))}"
    raise InputError("there is no decision of that time in the ledger", source=place.name, hint=hint)


def entries(place: LedgerStorage, keys: Sequence[DecisionKey]) -> Iterator[tuple[DecisionKey, LedgerEntry]]:
    """Yield the headers of entries.

    Raises:
        InvalidInputError: If one cannot be read.
    """
    yield from zip(keys, map(decode_entry, place.get_all(key.key for key in keys)), strict=True)


def outcomes(place: LedgerStorage, arguments: argparse.Namespace) -> list[DecisionOutcome]:
    """Return the outcomes that were written in that time.

    Raises:
        InvalidInputError: If an object of the ledger is not a list of outcomes.
    """
    keys = [key for prefix in _prefixes(arguments, OUTCOMES) for key in place.keys(prefix)]
    return [outcome for raw in place.get_all(keys) for outcome in decode_outcomes(raw)]


def _prefixes(arguments: argparse.Namespace, folder: str = DECISIONS) -> list[str]:
    """Return a prefix for each day of the cluster; without cluster or start, or for many days, one prefix for everything."""
    cluster, start = arguments.cluster, arguments.since
    if not cluster or start is None or datetime.now(UTC) - start > DAYS_LISTED:
        return [f"{folder}/{cluster}/" if cluster else f"{folder}/"]
    return [day_prefix(folder, cluster, day) for day in days(start, datetime.now(UTC) + timedelta(days=1))]


def _keys(place: LedgerStorage, prefix: str) -> list[DecisionKey]:
    return [decision_key for key in place.keys(prefix) if (decision_key := read_decision_key(key)) is not None]


def _named(keys: Sequence[DecisionKey], wanted: str) -> DecisionKey:
    """Return the decision with that id, or the only one whose id begins with it."""
    alike = [key for key in keys if key.id == wanted] or [key for key in keys if key.id.startswith(wanted)]
    if len(wanted) < _ID_SHOWN_MIN:
        raise InputError(
            f"{wanted!r} is too short to name a decision", hint=f"give {_ID_SHOWN_MIN} characters of its id"
        )
    if len(alike) == 1:
        return alike[0]
    problem = f"{len(alike)} decisions begin with {wanted!r}" if alike else f"there is no decision {wanted!r}"
    raise InputError(problem, hint="`fleetwright log --ledger …` lists them")


# Opens the ledger that a command's arguments name.


def opened_ledger(arguments: argparse.Namespace) -> LedgerStorage:
    """Return the ledger of `--ledger`, without it the one that the functions of `--cluster` keep.

    Raises:
        InputError: If neither is given, or it cannot be found with these credentials.
    """
    region, profile = arguments.region, arguments.profile
    if arguments.ledger:
        return open_ledger(arguments.ledger, region=region, profile=profile)
    if not arguments.cluster:
        raise InputError(
            "whose decisions?", hint="--cluster NAME or --ledger FOLDER|s3://BUCKET; `log` also takes --all"
        )
    installation = own_state.find_installation(arguments.cluster, region=region, profile=profile, stack=arguments.stack)
    return ledger_of_bucket(installation.session, installation.settings.bucket_name)


_NODE_KINDS: Final = ("node", "nodes", "nodeclaim", "nodeclaims")
_POD_KINDS: Final = ("po", "pod", "pods")

PAGE: Final = 32
"""How many decisions are read together while searching back in time."""


class PastExplanation(msgspec.Struct, frozen=True):
    """The explanation, and its decision."""

    explanation: Explanation
    entry: LedgerEntry


class PastTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A name as typed, in the forms that decisions have: `NAMESPACE/NAME` of a pod, the name of a node or claim; or empty."""

    pod: str = ""
    node: str = ""

    def __str__(self) -> str:
        return repr(self.pod or self.node)

    def is_in(self, entry: LedgerEntry) -> bool:
        """Whether a decision is about it."""
        line = log_entry(entry, ())
        of_pod = bool(self.pod) and concerns(line, pod=self.pod)
        return of_pod or (bool(self.node) and concerns(line, node=self.node))


def explain_past(arguments: argparse.Namespace) -> PastExplanation:
    """Explain the target by the decision of `--decision`, or by the last one about it before `--at`.

    Raises:
        InputError: If there is none.
    """
    place, target = opened_ledger(arguments), _target(arguments)
    if arguments.decision:
        (key,) = find(place, arguments, [arguments.decision])
    else:
        key = _last_about(place, find(place, arguments), arguments, target)
    reader = LedgerReader(place.get)
    entry, raw = reader.entry(key.key)
    documents = reader.documents(entry, raw)
    snapshot = reader.snapshot(entry, documents)
    if entry.function == DISRUPT:
        disruption = _disruption(codec.decode_disruption_plan(documents.plan), snapshot, target)
    else:
        disruption = _provisioning(entry, snapshot, target)
    if disruption is None:
        hint = f"`fleetwright log --ledger {place.name}` lists what decisions are about"
        raise InputError(f"decision {entry.id} saw no {target}", hint=hint)
    return PastExplanation(_with_origin(disruption, entry), entry)


def _target(arguments: argparse.Namespace) -> PastTarget:
    kind, _, name = arguments.target.rpartition("/")
    if kind.lower() in _NODE_KINDS:
        return PastTarget(node=name)
    if arguments.namespace and kind.lower() in ("", *_POD_KINDS):
        return PastTarget(pod=f"{arguments.namespace}/{name}", node="" if kind else name)
    return PastTarget(pod=arguments.target, node=arguments.target)


def _last_about(
    place: LedgerStorage, keys: Sequence[DecisionKey], arguments: argparse.Namespace, target: PastTarget
) -> DecisionKey:
    refuse_none(keys, place, arguments)
    earlier = [key for key in keys if arguments.at is None or key.at <= arguments.at]
    while earlier:
        page, earlier = earlier[-PAGE:], earlier[:-PAGE]
        for key, entry in reversed(list(entries(place, page))):
            if target.is_in(entry):
                return key
    hint = f"`fleetwright log --ledger {place.name}` lists what decisions are about; a pod is named NAMESPACE/NAME"
    raise InputError(f"no decision of that time is about {target}", hint=hint)


def _disruption(plan: DisruptionPlan, snapshot: Snapshot, target: PastTarget) -> Explanation | None:
    nodes = {claim.name: claim.node_name or claim.name for claim in snapshot.node_claims}
    names = {node.name for node in snapshot.nodes} | set(nodes.values())
    name = next((name for name in sorted(names) if names_node(target.node, name)), nodes.get(target.node, ""))
    if name:
        return explain_node(plan, name)
    for command in plan.commands:
        for move in command.moves:
            if move.pod == target.pod:
                outcome = f"leaves {', '.join(command.nodes)} for {move.to}"
                return Explanation(subject=f"pod {move.pod}", outcome=outcome, reason=command.reason)
    return None


def _provisioning(entry: LedgerEntry, snapshot: Snapshot, target: PastTarget) -> Explanation | None:
    """Return the explanation of a decision of `provision`; None if it is not about the target.

    A pod is planned for again, under the recorded bounds on steps and time; a node's pods are read from the entry.
    """
    options = msgspec.structs.replace(snapshot.options, improve_iterations=entry.improve_iterations)
    bounded = msgspec.structs.replace(snapshot, options=options)
    pod = next((pod for pod in snapshot.pods if pod.key == target.pod), None)
    if pod is not None:
        explained = explain_pod(bounded, pod, recorded_clock(entry))
        if explained.has_no_place:
            explained = with_missing_capacity(explained, bounded, pod)
        return _as_decided(explained, entry, pod.key)
    for part in entry.parts:
        if part.id == target.node:
            outcome = f"was launched for {', '.join(part.pods)}"
            return Explanation(subject=f"node {part.id}", outcome=outcome, reason=part.reason)
    expected: dict[str, list[str]] = {}
    for key, node in entry.bindings:
        expected.setdefault(node, []).append(key)
    node = next((name for name in sorted(expected) if names_node(target.node, name)), "")
    return Explanation(subject=f"node {node}", outcome=f"takes {', '.join(expected[node])}") if node else None


def _as_decided(explanation: Explanation, entry: LedgerEntry, pod: str) -> Explanation:
    """Return the explanation with the place that the pod got then, by its real name."""
    places = {key: f"needs a new node, {part.id}" for part in entry.parts for key in part.pods}
    places |= {key: f"fits on existing node {node}" for key, node in entry.bindings}
    if pod not in places:
        return explanation
    return msgspec.structs.replace(explanation, outcome=places[pod], reason="", has_no_place=False)


def _with_origin(explanation: Explanation, entry: LedgerEntry) -> Explanation:
    origin = f"decision {entry.id} of {entry.function}, {rfc3339(entry.at)}, version {entry.version}: {entry.what}"
    return msgspec.structs.replace(explanation, details=(*explanation.details, origin))


# The recorded observations of a period in a ledger, in order of time.


class RecordedDecision(NamedTuple):
    """One decision; `plan` is set for those of `disrupt`."""

    entry: LedgerEntry
    snapshot: Snapshot
    plan: DisruptionPlan | None


READ_AHEAD: Final = 64
"""How many entries are read at a time: a bucket takes 30 ms for one, and for sixteen in parallel."""

REACHED_BACK: Final = timedelta(days=1)
"""How long before the period the snapshot that was current at its start may have been recorded."""


class PeriodReader:
    """The selected observations.

    With `reaches_back` it begins with the snapshot that was current at the requested time: an unchanged cluster is not
    recorded.

    Attributes:
        since: When the first observation was made.
        until: When the period ends: as requested, or with the last observation.
        place: Where the ledger is.

    Raises:
        InputError: If there are none, or they are of several clusters.
    """

    def __init__(self, place: LedgerStorage, arguments: argparse.Namespace, *, reaches_back: bool = False) -> None:
        keys = find(place, arguments)
        if reaches_back and arguments.since is not None:
            earlier = find(place, argparse.Namespace(**{**vars(arguments), "since": arguments.since - REACHED_BACK}))
            keys = [*[key for key in earlier if key.at < arguments.since][-1:], *keys]
        self._keys = [key for key in keys if arguments.until is None or key.at <= arguments.until]
        refuse_none(self._keys, place, arguments)
        clusters = {key.cluster for key in self._keys}
        if len(clusters) > 1:
            raise InputError(
                f"the ledger has several clusters: {', '.join(sorted(clusters))}", hint="--cluster says which"
            )
        self.place = place
        self._reader = LedgerReader(place.get)
        self.since: datetime = max(self._keys[0].at, arguments.since or self._keys[0].at)
        self.until: datetime = arguments.until or self._keys[-1].at

    def __len__(self) -> int:
        return len(self._keys)

    def read_from(self, place: LedgerStorage) -> PeriodReader:
        """Return a reader of the same period in a copy of the ledger. It has read nothing yet."""
        other = copy(self)
        other.place, other._reader = place, LedgerReader(place.get)  # noqa: SLF001 - a copy of our own kind
        return other

    def __iter__(self) -> Iterator[Snapshot]:
        """Yield the observations. Raises InvalidInputError if one cannot be read."""
        reader = FormReader()
        return (self.within(reader.read(form)) for form in self.forms())

    def forms(self) -> Iterator[SnapshotForm]:
        """Yield the observations as they are stored. Raises InvalidInputError if one cannot be read."""
        for entry, documents in self._stored():
            yield self._reader.form(entry, documents)

    def decisions(self) -> Iterator[RecordedDecision]:
        """Yield the snapshots with the decisions. Raises InvalidInputError if one cannot be read."""
        reader = FormReader()
        for entry, documents in self._stored():
            plan = codec.decode_disruption_plan(documents.plan) if entry.function == DISRUPT else None
            yield RecordedDecision(entry, self.within(reader.read(self._reader.form(entry, documents))), plan)

    def within(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot, not older than the period."""
        return msgspec.structs.replace(snapshot, now=self.since) if snapshot.now < self.since else snapshot

    def _stored(self) -> Iterator[tuple[LedgerEntry, LedgerDocuments]]:
        """Yield entries with their documents; those of a bucket are read several at a time."""
        for keys in _batched(self._keys, READ_AHEAD):
            for raw in self.place.get_all(key.key for key in keys):
                entry = decode_entry(raw)
                yield entry, self._reader.documents(entry, raw)


def _batched(keys: Sequence[DecisionKey], size: int) -> Iterator[Sequence[DecisionKey]]:
    """Yield the keys in parts of this size."""
    return (keys[start : start + size] for start in range(0, len(keys), size))


# Reads a period of a ledger once and makes its report.


def report_of_period(arguments: argparse.Namespace, steps: Steps) -> JsonObject:
    """Return the requested report; `steps` counts the decisions.

    Raises:
        InputError: If the ledger has nothing of that time.
        InvalidInputError: If something in it cannot be read.
    """
    place = opened_ledger(arguments)
    period = PeriodReader(place, arguments)
    steps.total = len(period)
    ended_instances = outcomes(place, arguments)
    ended = by_decision(ended_instances)
    since: datetime = arguments.since or period.since
    builder = ReportBuilder(lives(ended_instances), since, period.until)
    log: list[LogEntry] = []

    def seen() -> Iterator[Snapshot]:
        for decision in steps.over(period.decisions()):
            builder.see(ReportedDecision(decision.snapshot, decision.plan))
            log.append(log_entry(decision.entry, ended.get(decision.entry.id, ())))
            yield decision.snapshot

    rules = () if arguments.no_baseline else (SimulationRules(), SimulationRules(consolidates=False))
    recorded, simulated = simulated_periods(seen(), rules, period.until)
    baseline = None
    if simulated:
        with_moves, kept = simulated
        baseline = BaselineSimulation(with_moves.cost, kept.cost, recorded.until - recorded.since)
    return report_document(builder.report(), log, baseline, period=(since, period.until), by=arguments.by)


# Reads a period of a ledger once, and simulates our fleet beside the recorded one.


BOUND_EVERY: Final = timedelta(minutes=15)
"""The shortest time between snapshots with a bound: a proof takes as long as a plan for all pods."""


class _Bounds:
    """The proven minimum at some of the snapshots."""

    def __init__(self) -> None:
        self._last: datetime | None = None

    def of(self, snapshot: Snapshot) -> int | None:
        """Return the bound, None for a skipped snapshot."""
        if self._last is not None and snapshot.now - self._last < BOUND_EVERY:
            return None
        self._last = snapshot.now
        return fleet_minimum(as_acting(snapshot))


def shadow_report(arguments: argparse.Namespace, steps: Steps) -> JsonObject:
    """Return the requested report; `steps` counts the snapshots.

    Raises:
        InputError: If the ledger has nothing of that time.
        InvalidInputError: If something in it cannot be read.
    """
    period = PeriodReader(opened_ledger(arguments), arguments, reaches_back=True)
    fleet, bounds = RecordedFleet(), _Bounds()
    steps.total = len(period)

    def seen() -> Iterator[Snapshot]:
        for decision in steps.over(period.decisions()):
            snapshot = decision.snapshot
            fleet.see(snapshot, bounds.of(snapshot))
            yield snapshot

    recorded, (simulated,) = simulated_periods(seen(), (SimulationRules(change=as_acting),), period.until)
    return shadow_document(recorded, fleet.finish(period.until), simulated)
