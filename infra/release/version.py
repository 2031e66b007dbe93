"""A release's version: SemVer for people, files and tags; PEP 440 for the wheel."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_SEMVER: Final = re.compile(
    r"(?P<plain>(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*))(-(?P<stage>alpha|beta|rc)\.(?P<number>0|[1-9]\d*))?"
)
_STAGES: Final = {"alpha": "a", "beta": "b", "rc": "rc"}


class VersionError(Exception):
    """A version, or the address of a page, that cannot be released; the message says what is expected."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version as SemVer writes it, such as 1.2.0 or 1.2.0-rc.1."""

    text: str

    def __post_init__(self) -> None:
        """Refuse what a wheel or a chart could not carry."""
        if not _SEMVER.fullmatch(self.text):
            raise VersionError(f"{self.text!r} is not a version: expected 1.2.3, or 1.2.3-rc.1 (alpha, beta, rc)")

    @property
    def of_python(self) -> str:
        """The same as PEP 440 writes it, such as 1.2.0rc1: pip and the wheel's name use it."""
        parts = _SEMVER.fullmatch(self.text)
        if parts is None or not parts["stage"]:
            return self.text
        return f"{parts['plain']}{_STAGES[parts['stage']]}{parts['number']}"
