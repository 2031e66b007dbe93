"""The stored form of one decision: a header for queries, then the input and the result.

    magic | length of the header | header, compressed | snapshot and plan, compressed against a base

The snapshot is stored without its catalogue, which many decisions share and the header names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from core.errors import InvalidInputError
from core.ledger.compression import compressed, compressed_by_elements, decompressed
from core.ledger.outcome import DecisionOutcome, OutcomeState, approval_part
from core.model.plan import Command, DisruptionPlan, PlannedClaim, WaitingPod
from core.model.values.quantity import dollars
from core.model.values.quotas import names_node
from core.reasons.code import ClaimReason
from core.reasons.runs import GroupLeaves, RunReason

SCHEMA_VERSION: Final = 2
"""What new entries name; incremented whenever older code could misread them. Since 2, differences are by elements.

See docs/engineering/handbook/ledger.md.
"""

PROVISION: Final = "provision"
DISRUPT: Final = "disrupt"

_MAGIC: Final = b"FLW1"
_LENGTH_BYTES: Final = 4


class LedgerPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One effect of a decision: a node to launch, or a command.

    Attributes:
        id: The claim's name, or the command's id.
        nodes: The nodes that go.
        pods: The pods that it is for, or that it moves.
        hourly: Nano-dollars per hour that it adds to the bill.
        waits: Why it waits for a person's approval; empty if it does not. Older releases treat it as started.
    """

    id: str
    reason: str
    nodes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    replacements: tuple[str, ...] = ()
    hourly: int = 0
    waits: str = ""


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The header.

    Attributes:
        schema_version: Releases of schema 1 left it out, so 1 is the default; new entries name `SCHEMA_VERSION`.
        id: The decision's id in logs, events, annotations and tags.
        at: The snapshot's moment.
        version: The release that decided.
        code: Digest of the code that decided (`core.version.code_digest`); empty if unknown.
        improve_iterations: The bound on the steps of the search for cheaper nodes, or the steps taken if the clock ended it;
            None if only the clock bounded it, or without a search.
        elapsed: If a clock bounded the search: the elapsed share of its time at each check, in thousandths. A search that ends
            before its first check has none.
        is_greedy: Whether the search failed, so that the plan is the greedy one. Older releases ignore the field.
        catalogue: Digest of the catalogue, under which it is stored.
        base: Digest of the document that the rest is compressed against.
        plan_digest: Digest of the plan's bytes.
        what: The decision in one sentence.
        reason: Its reason code.
        parts: What it begins.
        bindings: Pods expected on existing nodes (`pod`, `node`).
        refused: Pods without a place or nodes that stay, with the reason code; only those that the previous entry did not list.
        is_observed: Whether the decision is only recorded, not carried out. Older releases ignore the field.
        is_unexplained: Whether the plan lacks the reasons of pods without a place: there was no time for all, or the run ended
            before it found them. Older releases ignore the field.
        is_unproven: Whether the plan was decided without the proof of its bound, which follows after the launches. Entries of
            `provision` that lack the field have the bound.
    """

    schema_version: int = 1
    id: str
    at: datetime
    cluster: str
    function: str
    version: str
    code: str = ""
    improve_iterations: int | None = None
    elapsed: tuple[int, ...] = ()
    is_greedy: bool = False
    catalogue: str
    base: str
    plan_digest: str
    what: str
    reason: str
    parts: tuple[LedgerPart, ...] = ()
    bindings: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    is_observed: bool = False
    is_unexplained: bool = False
    is_unproven: bool = False

    @property
    def hourly(self) -> int:
        """Nano-dollars per hour that it adds to the bill if all of it is carried out."""
        return sum(part.hourly for part in self.parts)


class LedgerDocuments(msgspec.Struct, frozen=True):
    """The inputs to repeat a decision: the snapshot without its catalogue, and the plan, as `core.codec` encodes them."""

    snapshot: bytes
    plan: bytes


def joined(documents: LedgerDocuments) -> bytes:
    """Return both as one document, which later entries are compressed against: most of a plan is as in the one before."""
    return documents.snapshot + documents.plan + len(documents.snapshot).to_bytes(_LENGTH_BYTES, "big")


def encode_entry(entry: LedgerEntry, documents: LedgerDocuments, base: bytes) -> bytes:
    """Write a decision; `base` is the document that `entry.base` names."""
    header = compressed(msgspec.json.encode(entry, order="sorted"))
    body = compressed_by_elements(joined(documents), base)
    return b"".join((_MAGIC, len(header).to_bytes(_LENGTH_BYTES, "big"), header, body))


def decode_entry(raw: bytes) -> LedgerEntry:
    """Decode only the header.

    Raises:
        InvalidInputError: If it is not an entry, or has a newer schema.
    """
    header, _ = _divided(raw)
    try:
        entry = msgspec.json.decode(decompressed(header), type=LedgerEntry)
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"cannot be read: {error}", subject="ledger entry") from error
    if entry.schema_version > SCHEMA_VERSION:
        problem = f"{entry.schema_version} is of a newer release than this one, {SCHEMA_VERSION}: update fleetwright"
        raise InvalidInputError(problem, subject=f"ledger entry {entry.id}", field="schemaVersion")
    return entry


def decode_documents(raw: bytes, base: bytes) -> LedgerDocuments:
    """Decode the rest; `base` is the document that the header names.

    Raises:
        InvalidInputError: If it is damaged, or needs another base.
    """
    _, body = _divided(raw)
    text = decompressed(body, base)
    end = len(text) - _LENGTH_BYTES
    length = int.from_bytes(text[end:], "big")
    return LedgerDocuments(snapshot=text[:length], plan=text[length:end])


def _divided(raw: bytes) -> tuple[bytes, bytes]:
    start = len(_MAGIC) + _LENGTH_BYTES
    end = start + int.from_bytes(raw[len(_MAGIC) : start], "big")
    if not raw.startswith(_MAGIC) or end > len(raw):
        raise InvalidInputError("is not an entry of a ledger, or only a part of one", subject="ledger entry")
    return raw[start:end], raw[end:]


# Presents the ledger as a log: one line per decision, with its outcome, and each saving counted once.


UNDER_WAY = "under way"
DECIDED = "decided"
PROPOSED = "waits for approval"
OBSERVED = "observed"


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One decision.

    Attributes:
        objects: What it is about, as `Kind/name` and `Pod/namespace/name`.
        moves: How many pods leave a node because of it.
        hourly: Nano-dollars per hour that it adds to the bill; negative for a saving, zero for a decision without effect.
        state: Its outcome.
    """

    id: str
    time: datetime
    function: str
    what: str
    reason: str
    objects: tuple[str, ...]
    moves: int
    hourly: int
    state: str


def log_entry(entry: LedgerEntry, outcomes: Iterable[DecisionOutcome]) -> LogEntry:
    """Return the line of one decision; `outcomes` are those of the decision, in order of time."""
    ended = {outcome.part: outcome for outcome in outcomes}
    came_about = [
        part
        for part in entry.parts
        if not entry.is_observed and not _came_to_nothing(ended.get(part.id)) and not _is_waiting(part, ended)
    ]
    moving = entry.function == DISRUPT
    return LogEntry(
        id=entry.id,
        time=entry.at,
        function=entry.function,
        what=entry.what,
        reason=entry.reason,
        objects=_objects(entry),
        moves=sum(len(part.pods) for part in came_about) if moving else 0,
        hourly=sum(part.hourly for part in came_about),
        state=_state(entry, ended),
    )


def concerns(entry: LogEntry, *, pod: str = "", node: str = "") -> bool:
    """Whether a decision concerns a pod (`namespace/name`) or a node, by its name (`names_node`) or its claim's."""
    if pod and f"Pod/{pod}" not in entry.objects:
        return False
    return not node or any(
        name == f"NodeClaim/{node}" or (name.startswith("Node/") and names_node(node, name.removeprefix("Node/")))
        for name in entry.objects
    )


def by_decision(outcomes: Iterable[DecisionOutcome]) -> dict[str, list[DecisionOutcome]]:
    """Return the outcomes by the decision's id, each list in order of time."""
    grouped: dict[str, list[DecisionOutcome]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: (outcome.at, outcome)):
        grouped.setdefault(outcome.decision, []).append(outcome)
    return grouped


def _came_to_nothing(outcome: DecisionOutcome | None) -> bool:
    return outcome is not None and outcome.state is not OutcomeState.DONE


def _is_waiting(part: LedgerPart, ended: Mapping[str, DecisionOutcome]) -> bool:
    return bool(part.waits) and part.id not in ended and approval_part(part.id) not in ended


def _objects(entry: LedgerEntry) -> tuple[str, ...]:
    """Return the objects in the order of kinds, each kind by name."""
    disrupts = entry.function == DISRUPT
    pods = {pod for part in entry.parts for pod in part.pods} | {pod for pod, _ in entry.bindings}
    nodes = {node for part in entry.parts for node in part.nodes} | {node for _, node in entry.bindings}
    (nodes if disrupts else pods).update(subject for subject, _ in entry.refused)
    parts = {part.id for part in entry.parts}
    named = (("Command" if disrupts else "NodeClaim", parts), ("Node", nodes), ("Pod", pods))
    return tuple(f"{kind}/{name}" for kind, names in named for name in sorted(names))


def _state(entry: LedgerEntry, ended: Mapping[str, DecisionOutcome]) -> str:
    if entry.is_observed:
        return OBSERVED
    if not entry.parts:
        return DECIDED
    endings = [ended.get(part.id) for part in entry.parts]
    reasons = sorted({outcome.reason for outcome in endings if outcome is not None and _came_to_nothing(outcome)})
    if len([outcome for outcome in endings if _came_to_nothing(outcome)]) == len(endings):
        return f"came to nothing: {', '.join(reasons)}"
    if any(_is_waiting(part, ended) for part in entry.parts):
        return PROPOSED
    if any(outcome is None for outcome in endings):
        return UNDER_WAY if entry.function == DISRUPT else DECIDED
    return f"done in part: {', '.join(reasons)}" if reasons else OutcomeState.DONE


# Records the readings of a search's clock and replays them: only these readings influence the decision.


THOUSANDTHS: Final = 1000


class RecordedTime:
    """Reads a clock and stores its readings in thousandths; callers get the stored values.

    Attributes:
        elapsed: The readings so far.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.elapsed: list[int] = []

    def __call__(self) -> float:
        """Return the elapsed share of the time."""
        self.elapsed.append(int(self._clock() * THOUSANDTHS))
        return self.elapsed[-1] / THOUSANDTHS


def time_of_parts(elapsed: Iterable[Sequence[int] | None]) -> tuple[int, ...]:
    """Return the readings of one decision about all parts, in their turns, from those of each part; None: it was left alone.

    A decision reads the clock before each part. So a replay decides about the same parts, wherever they were decided.
    """
    return tuple(reading for of_part in elapsed for reading in ((THOUSANDTHS,) if of_part is None else (0, *of_part)))


def replayed_clock(elapsed: Sequence[int]) -> Callable[[], float]:
    """Return a clock that gives these readings in order, and then reports that time is over."""
    answers = iter(elapsed)
    return lambda: next(answers, THOUSANDTHS) / THOUSANDTHS


def recorded_clock(entry: LedgerEntry) -> Callable[[], float] | None:
    """Return the clock that bounded a decision's search, as it was read then; None if there was none."""
    if entry.is_greedy or (entry.improve_iterations is not None and not entry.elapsed):
        return None
    return replayed_clock(entry.elapsed)


# Summarizes a decision in one sentence, and lists its parts.


class DecisionSummary(msgspec.Struct, frozen=True):
    """The part of a ledger entry for people and queries; fields as in `LedgerEntry`."""

    what: str
    reason: str
    parts: tuple[LedgerPart, ...] = ()
    bindings: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def of_provisioning(
    claims: Sequence[PlannedClaim],
    bindings: Iterable[tuple[str, str]],
    refused: Iterable[tuple[str, str]],
    waiting: Sequence[WaitingPod] = (),
) -> DecisionSummary:
    """Summarize a plan for waiting pods.

    Args:
        claims: The claims to launch, under their final names.
        bindings: Pod and node of each pod that fits on existing capacity.
        refused: Pod and reason of each pod without a place.
        waiting: Pods that may wait, with what they cost as planned and would cost at once.
    """
    parts = tuple(
        LedgerPart(id=claim.name, reason=ClaimReason.LAUNCHED, pods=claim.pods, hourly=claim.price) for claim in claims
    )
    bound, without = tuple(bindings), tuple(refused)
    words = _provisioning_words(claims, len(bound), len(without)) + _waiting_words(waiting)
    return DecisionSummary(
        what="; ".join(words) or "nothing to do",
        reason=_provisioning_reason(parts, bound, without),
        parts=parts,
        bindings=bound,
        refused=without,
    )


def of_disruption(
    plan: DisruptionPlan, begun: Sequence[tuple[str, Command]], proposed: Sequence[tuple[str, Command, str]] = ()
) -> DecisionSummary:
    """Summarize a disruption decision.

    Args:
        plan: The disruption plan.
        begun: The commands to store, with their ids; the plan's other commands are found again later.
        proposed: The commands that wait for approval, and why.
    """
    parts = [_command_part(command_id, command) for command_id, command in begun]
    parts += [_command_part(command_id, command, waits) for command_id, command, waits in proposed]
    refused = tuple((blocked.node, blocked.reason) for blocked in plan.blocked)
    words = [command_words(command) for _, command in begun]
    words += [f"propose to {command_words(command)}" for _, command, _ in proposed]
    commands = (*(command for _, command in begun), *(command for _, command, _ in proposed))
    groups = [group for command in commands for group in command.groups]
    return DecisionSummary(
        what=and_groups("; ".join(words), groups)
        or f"{_counted(len(refused), 'node')} {'stays' if len(refused) == 1 else 'stay'}",
        reason=parts[0].reason if parts else _most_common(reason for _, reason in refused),
        parts=tuple(parts),
        refused=refused,
    )


def observed(summary: DecisionSummary) -> DecisionSummary:
    """Return the summary of a decision that is only recorded."""
    return msgspec.structs.replace(summary, what=f"only observed: {summary.what}")


def _command_part(command_id: str, command: Command, waits: str = "") -> LedgerPart:
    return LedgerPart(
        id=command_id,
        reason=command.reason,
        nodes=command.nodes,
        pods=tuple(move.pod for move in command.moves),
        replacements=tuple(claim.name for claim in command.replacements),
        hourly=-command.savings,
        waits=waits,
    )


def command_words(command: Command) -> str:
    """Describe one command, as a part of its decision's sentence."""
    nodes = ", ".join(command.nodes)
    if not command.replacements:
        return f"remove {nodes}"
    types = Counter(claim.instance_types[0] for claim in command.replacements if claim.instance_types)
    return f"replace {nodes} by {', '.join(f'{number} x {name}' for name, number in sorted(types.items()))}"


def and_groups(words: str, groups: Sequence[GroupLeaves]) -> str:
    """Return what is said of nodes that go, and then in sentences of their own the groups of which members are there.

    In the same sentence, a group would seem to be removed.
    """
    more = len(groups) - GROUPS_NAMED_MAX
    named = [f"G{group.sentence[1:]}" for group in groups[:GROUPS_NAMED_MAX]]
    rest = f"{more} more group{'s have' if more > 1 else ' has'} members there"
    return ". ".join([words, *named, *([rest] if more > 0 else [])])


GROUPS_NAMED_MAX: Final = 5
"""How many groups a message names: it is in an event of each pod of a node."""


def _provisioning_words(claims: Sequence[PlannedClaim], bound: int, without: int) -> list[str]:
    words = []
    if claims:
        types = Counter(claim.instance_types[0] for claim in claims if claim.instance_types)
        named = ", ".join(f"{number} x {name}" for name, number in sorted(types.items()))
        pods = sum(len(claim.pods) for claim in claims)
        words.append(f"launch {_counted(len(claims), 'node')} ({named}) for {_counted(pods, 'pod')}")
    if bound:
        words.append(f"{_counted(bound, 'pod')} on nodes that exist")
    if without:
        words.append(f"{_counted(without, 'pod')} without a place")
    return words


def _waiting_words(waiting: Sequence[WaitingPod]) -> list[str]:
    if not waiting:
        return []
    saved = dollars(sum(pod.at_once - pod.cost for pod in waiting))
    return [f"{_counted(len(waiting), 'pod')} may wait: ${saved:.4f} an hour less than at once"]


def _provisioning_reason(
    parts: Sequence[LedgerPart], bound: Sequence[tuple[str, str]], without: Sequence[tuple[str, str]]
) -> str:
    if parts:
        return ClaimReason.LAUNCHED
    return _most_common(reason for _, reason in without) if without else ClaimReason.FITS_EXISTING if bound else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _most_common(reasons: Iterable[str]) -> str:
    """Return the most common reason; ties by name."""
    counts = Counter(reasons)
    return min(counts, key=lambda reason: (-counts[reason], reason), default=RunReason.NOTHING_TO_DO)
