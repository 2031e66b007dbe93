"""CloudWatch Logs' filter patterns for JSON: fields equal or unequal to a text, in which `*` matches anything, or absent.

Tests are joined by && and ||, with brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Test = Callable[[Mapping[str, Any]], bool]

_TOKEN: Final = re.compile(r'\s*(NOT EXISTS|\(|\)|&&|\|\||!=|=|\$(?:\.[A-Za-z0-9_-]+)+|"[^"]*")')

_ABSENT: Final = "NOT EXISTS"


def compile_filter(pattern: str) -> Test:
    """Return a predicate for log events.

    Raises:
        ValueError: If the pattern is not one of this form.
    """
    text = pattern.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"a filter pattern for JSON stands in braces: {pattern!r}")
    parser = _Parser(_tokens(text[1:-1].strip()))
    test = parser.either()
    parser.expect("")
    return test


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = [*tokens, ""]
        self._at = 0

    def either(self) -> Test:
        tests = [self._both()]
        while self._accept("||"):
            tests.append(self._both())
        return lambda event: any(test(event) for test in tests)

    def expect(self, token: str) -> None:
        if not self._accept(token):
            raise ValueError(f"{self._tokens[self._at]!r} where {token or 'the end'!r} should be")

    def _both(self) -> Test:
        tests = [self._one()]
        while self._accept("&&"):
            tests.append(self._one())
        return lambda event: all(test(event) for test in tests)

    def _one(self) -> Test:
        if self._accept("("):
            test = self.either()
            self.expect(")")
            return test
        path, operator = self._next(), self._next()
        if path.startswith("$.") and operator == _ABSENT:
            absent = path[2:].split(".")
            return lambda event: _read(event, absent) is None
        literal = self._next()
        if not path.startswith("$.") or operator not in ("=", "!=") or not literal.startswith('"'):
            raise ValueError(f"{path} {operator} {literal} is not a comparison of a field with text")
        keys, equal = path[2:].split("."), operator == "="
        wanted = re.compile(".*".join(map(re.escape, literal.strip('"').split("*"))), re.DOTALL)
        return lambda event: _is_like(wanted, _read(event, keys)) == equal

    def _accept(self, token: str) -> bool:
        if self._tokens[self._at] != token:
            return False
        self._at += 1
        return True

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token


def _is_like(wanted: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and wanted.fullmatch(value) is not None


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"cannot read a filter pattern from {text[at:]!r}")
        found.append(match.group(1))
        at = match.end()
    return found


def _read(event: Any, keys: list[str]) -> Any:
    for key in keys:
        if not isinstance(event, Mapping):
            return None
        event = event.get(key)
    return event
