"""Reads the API server's audit log: when pods were created, and what the functions requested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from installation.cluster_roles import Rule, verbs

FORBIDDEN: Final = 403


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class _Reference(msgspec.Struct, frozen=True):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = msgspec.field(name="apiGroup", default="")
    subresource: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Response(msgspec.Struct, frozen=True):
    metadata: _Metadata | None = None


class _Event(msgspec.Struct, frozen=True):
    verb: str = ""
    stage: str = ""
    user: _User = _User()
    reference: _Reference = msgspec.field(name="objectRef", default_factory=_Reference)
    status: _Status = msgspec.field(name="responseStatus", default_factory=_Status)
    response: _Response | None = msgspec.field(name="responseObject", default=None)
    received: datetime | None = msgspec.field(name="requestReceivedTimestamp", default=None)


class Verb(msgspec.Struct, frozen=True, order=True):
    """One thing that a role can allow: `resource` with its subresource, as in `pods/eviction`."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


WRITES_EVENTS: Final = Verb("", "events", "create")
"""EKS' audit policy omits events, so tests that see one of ours record it here."""


class AuditRecord:
    """Reads on where it stopped before, at each `read`.

    Attributes:
        pods_created: When each pod was asked for, by `namespace/name`; the latest of a name.
        used: How often the functions asked for what and were let.
        refused: How often they asked for what and were not (403).
        evictions: Evictions that the functions asked for, by answer: 201 they went, 429 a budget said no.
    """

    def __init__(self, log: Path, groups: frozenset[str]) -> None:
        self._log = log
        self._groups = groups
        self._at = 0
        self._decoder = msgspec.json.Decoder(_Event)
        self.pods_created: dict[str, datetime] = {}
        self.used: Counter[Verb] = Counter()
        self.refused: Counter[Verb] = Counter()
        self.evictions: Counter[int] = Counter()

    def read(self) -> None:
        """Take in what was written since."""
        with self._log.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._at += len(line)
                self._take(self._decoder.decode(line))

    def _take(self, event: _Event) -> None:
        if event.stage != "ResponseComplete":
            return
        reference, code = event.reference, event.status.code
        if event.verb == "create" and reference.resource == "pods" and not reference.subresource and code < 300:
            self._created(event)
        if self._groups.intersection(event.user.groups):
            resource = "/".join(filter(None, (reference.resource, reference.subresource)))
            verb = Verb(reference.api_group, resource, event.verb)
            (self.refused if code == FORBIDDEN else self.used)[verb] += 1
            if resource == "pods/eviction":
                self.evictions[code] += 1

    def _created(self, event: _Event) -> None:
        made = event.response.metadata if event.response is not None else None
        name = event.reference.name or (made.name if made is not None else "")
        if event.received is not None:
            self.pods_created[f"{event.reference.namespace}/{name}"] = event.received


def unused(used: Iterable[Verb], roles: Iterable[Iterable[Rule]]) -> list[Verb]:
    """What the rules of these roles allow and no function ever used."""
    allowed = {Verb(*found) for rules in roles for found in verbs(rules)}
    return sorted(allowed - set(used))
