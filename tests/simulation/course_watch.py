"""Acts in a simulated world from outside its scenario, and what its functions say that no event of the record shows."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import simulator.run
from core.ledger.outcome import decode_outcomes
from core.ledger.reading import PREFIX
from simulator.aws.queues import AwsError
from simulator.invocation.faults import Call
from simulator.outcome import CLAIMS, kind_of, record_of
from simulator.world import World, open_world
from tests.simulation.course import flat

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
        self.published = [f"{found.subject}: {found.text}" for found in world.account.topics.published]
        for item in world.account.table.all():
            kind = kind_of(item)
            if kind != CLAIMS and "body" in item:
                self.rows.append((kind, record_of(item)))

    def lines(self) -> list[str]:
        """All of it, a line for each."""
        names = sorted({name.partition(" ")[0] for name in self.counts})
        said = [f"counts of {name}: {counted}" for name in names if (counted := _joined(self.counts, name))]
        messages = [f"{text} ({number} times)" for text, number in sorted(self.messages.items())]
        said.append(f"messages: {'; '.join(messages)}")
        said += [
            f"outcome of {one.decision}: {one.part} {one.state} at {one.at:%M:%S} {one.reason} {one.message}".rstrip()
            for one in self.outcomes
            if one.instance is None
        ]
        said += [f"announced {text}" for text in self.published]
        rows = [(kind, "; ".join(_fields(row))) for kind, row in self.rows]
        return [*said, *(f"row of {kind}: {told}" for kind, told in rows if told)]

    def _call(self, call: Call, answer: dict[str, Any] | AwsError) -> None:
        if call.name == _SENT and not isinstance(answer, AwsError):
            for entry in call.parameters["Entries"]:
                self.messages[f"{_said(entry['MessageBody'])} after {entry.get('DelaySeconds', 0)} s"] += 1
        key = str(call.parameters.get("Key", ""))
        if call.name == "s3:PutObject" and not isinstance(answer, AwsError) and key.startswith(f"{PREFIX}outcomes/"):
            self.outcomes += decode_outcomes(call.parameters["Body"])


def _joined(counts: Mapping[str, int], function: str) -> str:
    own = {
        name.removeprefix(f"{function} "): number for name, number in counts.items() if name.startswith(f"{function} ")
    }
    return ", ".join(f"{name} {number}" for name, number in sorted(own.items()))


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
    found = Watched()

    @contextmanager
    def opened(*arguments: Any, **options: Any) -> Iterator[World]:
        with open_world(*arguments, **options) as world:
            found.begin(world, acts)
            yield world
            found.end(world)

    before, simulator.run.open_world = simulator.run.open_world, opened
    try:
        yield found
    finally:
        simulator.run.open_world = before
