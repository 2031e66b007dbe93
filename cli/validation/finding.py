"""A finding: one problem of one object of the input, and its position in the file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from cli.manifests.document import Document


class Severity(StrEnum):
    """Whether a finding makes the input invalid."""

    ERROR = "error"
    WARNING = "warning"


class Code(StrEnum):
    """The category of a finding: a closed list for programs."""

    INVALID_VALUE = "InvalidValue"
    UNKNOWN_FIELD = "UnknownField"
    INVALID_CRON = "InvalidCron"
    MATCHES_NOTHING = "MatchesNothing"
    NOT_FOUND = "NotFound"
    OLD_VERSION = "OldVersion"
    NO_EFFECT = "NoEffect"
    DUPLICATE = "Duplicate"


MEANINGS: Final = {
    Code.INVALID_VALUE: "A field is missing, has a value that it cannot have, or contradicts another field.",
    Code.UNKNOWN_FIELD: "There is no such field: the API server drops or refuses it. An error in a workload's pod template "
    "and where a known field is spelled alike or belongs elsewhere (a warning with `--lenient`), else a warning.",
    Code.INVALID_CRON: "A budget's schedule is not a cron schedule or never occurs; its budget then lets no node go.",
    Code.MATCHES_NOTHING: "No instance type, zone or capacity type of the catalogue has a value that a requirement demands.",
    Code.NOT_FOUND: "An object names another object that is not in the input.",
    Code.OLD_VERSION: "The object has an older version, which `fleetwright convert` writes in the present one, or uses a label "
    "or an annotation that Karpenter has given up.",
    Code.NO_EFFECT: "What is written changes nothing: a limit on a resource that no instance type has, a label that no node "
    "carries, an annotation in a place where nobody reads it, a selector that does not match the pod's own labels.",
    Code.DUPLICATE: "An object is in a file, or a key in a mapping, more than once; the last one counts here.",
}
"""Code → its meaning, for the reference page."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding.

    Attributes:
        document: The object's document.
        kind, name: The object's kind and name, as the document spells them.
        field: The field's path such as `spec.template.spec.requirements[0].operator`; of an older version its path in v1.
        message: What is wrong, as the end of a sentence that the field begins.
        suggestion: What was probably meant, empty if nothing is similar.
        line, column: The field's position in the file, from 1; None if unknown.
    """

    document: Document
    severity: Severity
    code: Code
    kind: str
    name: str
    field: str
    message: str
    suggestion: str = ""
    line: int | None = None
    column: int | None = None

    @property
    def object(self) -> str:
        """The object for programs: `NodePool/default`."""
        return f"{self.kind}/{self.name}"

    @property
    def text(self) -> str:
        """The message with the suggestion, for people."""
        return f"{self.message} (did you mean {self.suggestion!r}?)" if self.suggestion else self.message


def finding_in(
    document: Document,
    code: Code,
    field: str,
    message: str,
    *,
    severity: Severity = Severity.ERROR,
    suggestion: str = "",
    subject: tuple[str, str] | None = None,
) -> Finding:
    """Return a finding about a document's object, or about another `subject` (kind and name)."""
    kind, name = subject or document.subject.split(" ", 1)
    return Finding(
        document=document,
        severity=severity,
        code=code,
        kind=kind,
        name=name,
        field=field,
        message=message,
        suggestion=suggestion,
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word with the spelling most similar to `word`, empty if none is similar; case is ignored."""
    by_lower = {found.lower(): found for found in sorted(known, reverse=True)}
    close = difflib.get_close_matches(word.lower(), sorted(by_lower))
    return by_lower[close[0]] if close else ""
