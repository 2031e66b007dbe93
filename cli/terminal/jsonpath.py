"""`-o jsonpath=TEMPLATE`: text with expressions in braces, as in kubectl, with `range` and `end`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from cli.errors import InputError

_PARTS: Final = re.compile(r"\{([^{}]*)\}")
_ESCAPES: Final = {r"\n": "\n", r"\t": "\t", r"\"": '"', r"\\": "\\"}
_RANGE: Final = "range "
_END: Final = "end"
_SOURCE: Final = "-o jsonpath"


def filled(template: str, document: Any) -> str:
    """Return the template with each expression replaced by its values, several of them joined.

    Raises:
        InputError: If an expression cannot be read, or `range` and `end` do not match.
    """
    parts = _split(template)
    if len(parts) == 1 and not parts[0][1]:
        return _values(template.strip(), document)
    text, rest = _rendered(parts, document)
    if rest:
        raise InputError("{end} without {range …}", source=_SOURCE)
    return text


def _split(template: str) -> list[tuple[str, bool]]:
    """Split the template into pieces, with whether each is an expression."""
    pieces, end = list[tuple[str, bool]](), 0
    for match in _PARTS.finditer(template):
        pieces += [(template[end : match.start()], False), (match.group(1).strip(), True)]
        end = match.end()
    return [*pieces, (template[end:], False)]


def _rendered(parts: list[tuple[str, bool]], document: Any) -> tuple[str, list[tuple[str, bool]]]:
    """Return the text up to the matching `end`, and the parts after it."""
    text = list[str]()
    while parts:
        (piece, is_expression), *rest = parts
        if is_expression and piece == _END:
            return "".join(text), parts
        if is_expression and piece.startswith(_RANGE):
            items = list(_found(piece.removeprefix(_RANGE).strip(), document))
            _, after = _rendered(rest, document)
            if not after:
                raise InputError(f"{{{piece}}} without {{end}}", source=_SOURCE)
            text += [_rendered(rest, item)[0] for item in items]
            rest = after[1:]
        else:
            text.append(_values(piece, document) if is_expression else piece)
        parts = rest
    return "".join(text), []


def _values(expression: str, document: Any) -> str:
    if expression.startswith('"') and expression.endswith('"'):
        return re.sub(r"\\.", lambda found: _ESCAPES.get(found.group(), found.group()), expression[1:-1])
    return " ".join(value if isinstance(value, str) else json.dumps(value) for value in _found(expression, document))


def _found(expression: str, document: Any) -> Iterator[Any]:
    """Return the values at a path; `@` is the item of a range."""
    from jsonpath_ng.exceptions import JSONPathError
    from jsonpath_ng.ext.parser import parse

    path = expression.removeprefix("@")
    path = path if path.startswith("$") else f"${path if path[:1] in '.[' else f'.{path}'}"
    try:
        found = parse("$" if path == "$." else path).find(document)
    except (JSONPathError, AttributeError) as error:
        problem = " ".join(str(error).split())
        raise InputError(
            f"{expression!r} is not a path such as .nodeClaims[*].name: {problem}", source=_SOURCE
        ) from error
    return (entry.value for entry in found)
