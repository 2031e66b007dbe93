"""The course of a simulated cluster as text: what functions decide, ask of EC2, and write."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import simulator.world
from core.ledger.outcome import decode_outcomes
from core.ledger.reading import PREFIX
from simulator.aws.queues import AwsError
from simulator.invocation.faults import Call
from simulator.outcome import CLAIMS, kind_of, record_of
from simulator.record import Event
from simulator.world import Result, World, open_world
from tests.rendered import short, wrapped

_WRITTEN: Final = ("NodePool", "EC2NodeClass", "NodeClaim", "Node", "Pod")
_UNSTABLE: Final = re.compile(
    r"^(resourceVersion|generation|managedFields|uid|apiVersion|kind|amis|images)$|[tT]ime(stamp)?$|hash|launch-validation|claim-spec|simulate"
)
"""Fields that name versions and times, and those whose values other tests compare: images, hashes."""
_SHOWN: Final = (
    *(
        "pod",
        "node",
        "nodeClaim",
        "instance",
        "instanceType",
        "zone",
        "capacityType",
        "price",
        "code",
        "by",
        "reason",
        "call",
    ),
    *("kind", "function"),
)
_WORLD: Final = (
    "instanceLaunched",
    "instanceTerminated",
    "launchRefused",
    "nodeJoined",
    "nodeDeleted",
    "podEvicted",
    "fault",
)


class Course:
    """What happened, with short names for what has long ones.

    Args:
        without: A pattern of what written objects are shown without; given one, the course has no events of type Normal.
    """

    def __init__(self, result: Result, without: re.Pattern[str] | None = None) -> None:
        self._result = result
        self._without = without
        self._names: dict[str, str] = {}
        self._known: dict[tuple[str, str], dict[str, str]] = {}
        self._told: dict[tuple[str, str, str], str] = {}

    def lines(self, more: Iterable[str] = ()) -> list[str]:
        """Events of the world and writes of the functions in their order, then the decisions in theirs, then `more`."""
        told = _joined(line for event in self._result.events for line in self._event(event))
        told += [f"{self._at(str(d['at']))} {self._decision(d)}" for d in self._result.decisions]
        figures = self._result.summary
        told.append(
            f"{figures['nodesLaunched']} launched, {figures['nodesTerminated']} ended, {figures['podsPending']} pods wait"
        )
        return [wrapped(self._short(line)) for line in (*told, *more)]

    def _event(self, event: Event) -> Iterator[str]:
        fields, at = event.fields, self._at(event.t)
        if event.event == "call":
            yield f"{at} {fields['call']} {fields['outcome']} {fields['code']}".rstrip()
        elif event.event in _WORLD:
            if event.event == "nodeJoined":
                self._known["Node", fields["node"]] = self._told_of(fields["object"])
            yield f"{at} {event.event} {' '.join(str(fields[key]) for key in _SHOWN if fields.get(key) not in (None, ''))}"
        elif event.event == "objectApplied" and fields["by"] == "program" and fields["kind"] == "Event":
            obj = fields["object"]
            about = obj["involvedObject"]
            if self._without is None or obj["type"] != "Normal":
                yield f"{at} Event {obj['type']} {about['kind']} {about['name']} {obj['reason']}: {obj['message']}"
        elif event.event == "objectApplied" and fields["kind"] in _WRITTEN:
            yield from self._written(at, fields)

    def _written(self, at: str, fields: Mapping[str, Any]) -> Iterator[str]:
        """What a function changes of an object."""
        key = fields["kind"], f"{fields['namespace']}/{fields['name']}".lstrip("/")
        before, after = self._known.get(key, {}), self._told_of(fields["object"])
        self._known[key] = after
        if fields["by"] != "program":
            return
        changed = [f"{path}={value}" for path, value in sorted(after.items()) if before.get(path) != value]
        changed += [f"{path} gone" for path in sorted(before.keys() - after.keys())]
        told = "; ".join(changed).replace(fields["name"], "it")
        if told:
            like = self._told.setdefault((key[0], at, re.sub(r"i-[0-9a-f]{17}", "", told)), key[1])
            yield f"{at} {key[0]} {key[1]}: {told if like == key[1] else f'as {like}'}"

    def _told_of(self, obj: Mapping[str, Any]) -> dict[str, str]:
        told = flat(obj)
        return {path: value for path, value in told if self._without is None or not self._without.search(path)}

    def _decision(self, decision: Mapping[str, Any]) -> str:
        told = f"{decision['function']} {decision['kind']} {decision['subject']} {decision['reason']}"
        return f"{told}: {decision['message']}".rstrip(": ")

    def _at(self, moment: str) -> str:
        return moment[14:19]

    def _short(self, line: str) -> str:
        """Instances, commands and names with random parts by number, in the order in which they occur."""
        return re.sub(
            r"\b(i|fleet|lt)-[0-9a-f]{17}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b"
            r"|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{10}\b",
            lambda match: self._names.setdefault(match[0], f"{match[1] or 'id'}-{len(self._names)}"),
            line,
        )


def _joined(lines: Iterator[str]) -> list[str]:
    """The lines; of events that say the same about several pods, one with the number of pods."""
    times_by_line: dict[str, int] = {}
    for line in lines:
        told = re.sub(r"(Event \w+ Pod) \S+", r"\1", line)
        times_by_line[told] = times_by_line.get(told, 0) + 1
    return [f"{line} ({times} times)" if times > 1 else line for line, times in times_by_line.items()]


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Path → value of what an object says, without what changes by itself; a condition, requirement or taint is one value."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if not _UNSTABLE.search(str(key)):
                yield from flat(part, f"{path}.{short(str(key))}".lstrip("."))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            if not isinstance(part, Mapping):
                yield f"{path}[{number}]", str(part)
            elif "status" in part and "type" in part:
                reason, told = part.get("reason", ""), part.get("message", "")
                why = "" if reason == part["type"] and not told else f" {reason} {told}"
                yield part["type"], f"{part['status']}{why}".rstrip()
            elif "key" in part and "effect" in part:
                yield f"{path}[{short(str(part['key']))}:{part['effect']}]", str(part.get("value", ""))
            elif "key" in part:
                values = " ".join(map(str, part.get("values", ())))
                yield f"{path}[{short(str(part['key']))}]", f"{part.get('operator')} {values}".rstrip()
            else:
                yield from flat(part, f"{path}[{part.get('name', number)}]")
    else:
        yield path, str(value)


# Acts in a simulated world from outside its scenario, and what its functions say that no event of the record shows.


Acts = Mapping[str, Callable[[World], object]]
"""When, from the start (`9m`) → what somebody does who is no function."""

_MOMENT: Final = re.compile(r"\b2026-11-20T(\d\d:\d\d:\d\d)(\.\d+)?Z")
_EMPTY: Final = ("", "None", "0", "False")
_UNSAID: Final = re.compile(r"^(version|generations)$|\.clean_at$")
_SENT: Final = "sqs:SendMessageBatch"


class Watched:
    """What the functions of one world said.

    Attributes:
        counts: Function and name of a count of its answers → their sum.
        messages: Function and what it sent to a queue, with its delay → how often.
        outcomes: Ends of decisions, as the ledger has them.
        published: Subjects and texts of announcements.
        rows: The table's items at the end, as fields of a record by their kind.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.messages: Counter[str] = Counter()
        self.outcomes: list[Any] = []
        self.published: list[str] = []
        self.rows: list[tuple[str, Any]] = []

    def begin(self, world: World, acts: Acts) -> None:
        """Listen to the world, and schedule what is done in it."""
        ended = world.pump._ended

        def heard(function: Any, response: dict[str, Any] | None) -> None:
            for name, number in (response or {}).items():
                if isinstance(number, int):
                    self.counts[f"{function.name} {name}"] += number
            ended(function, response)

        world.pump._ended = heard  # type: ignore[method-assign]
        world.account.wire.listen(self._call)
        for at, act in acts.items():
            world.clock.after(timedelta(minutes=float(at.removesuffix("m"))), lambda act=act: act(world))

    def end(self, world: World) -> None:
        """Keep what is there at the end."""
        self.published = [f"{message.subject}: {message.text}" for message in world.account.topics.published]
        for item in world.account.table.all():
            kind = kind_of(item)
            if kind != CLAIMS and "body" in item:
                self.rows.append((kind, record_of(item)))

    def lines(self) -> list[str]:
        """All of it, a line for each."""
        names = sorted({name.partition(" ")[0] for name in self.counts})
        told_lines = [
            f"counts of {name}: {counted}" for name in names if (counted := _watched_joined(self.counts, name))
        ]
        messages = [f"{text} ({number} times)" for text, number in sorted(self.messages.items())]
        told_lines.append(f"messages: {'; '.join(messages)}")
        told_lines += [
            f"outcome of {o.decision}: {o.part} {o.state} at {o.at:%M:%S} {o.reason} {o.message}".rstrip()
            for o in self.outcomes
            if o.instance is None
        ]
        told_lines += [f"announced {text}" for text in self.published]
        rows = [(kind, "; ".join(_fields(row))) for kind, row in self.rows]
        return [*told_lines, *(f"row of {kind}: {told}" for kind, told in rows if told)]

    def _call(self, call: Call, answer: dict[str, Any] | AwsError) -> None:
        if call.name == _SENT and not isinstance(answer, AwsError):
            for entry in call.parameters["Entries"]:
                self.messages[f"{_said(entry['MessageBody'])} after {entry.get('DelaySeconds', 0)} s"] += 1
        key = str(call.parameters.get("Key", ""))
        if call.name == "s3:PutObject" and not isinstance(answer, AwsError) and key.startswith(f"{PREFIX}outcomes/"):
            self.outcomes += decode_outcomes(call.parameters["Body"])


def _watched_joined(counts: Mapping[str, int], function: str) -> str:
    counts_of_function = {
        name.removeprefix(f"{function} "): number for name, number in counts.items() if name.startswith(f"{function} ")
    }
    return ", ".join(f"{name} {number}" for name, number in sorted(counts_of_function.items()))


def _fields(row: Any) -> list[str]:
    """What a row has, without versions, moments' parts of seconds, and what is empty."""
    told = [(path, _MOMENT.sub(r"\1", value)) for path, value in sorted(flat(row))]
    return [f"{path}={value}" for path, value in told if value not in _EMPTY and not _UNSAID.search(path)]


def _said(body: str) -> str:
    """A message without names and times."""
    if not body.startswith("{"):
        return body
    message = json.loads(body)
    if "wakeUp" in message:
        return f"wake-up: {message['wakeUp']}{' until' if 'until' in message else ''}"
    return " ".join(sorted(key if key != "failures" else f"failures {value}" for key, value in message.items()))


@contextmanager
def watched(acts: Acts) -> Iterator[Watched]:
    """Watch the world that is opened next."""
    observer = Watched()

    @contextmanager
    def opened(*arguments: Any, **options: Any) -> Iterator[World]:
        with open_world(*arguments, **options) as world:
            observer.begin(world, acts)
            yield world
            observer.end(world)

    before, simulator.world.open_world = simulator.world.open_world, opened
    try:
        yield observer
    finally:
        simulator.world.open_world = before
