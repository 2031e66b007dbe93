"""`-o jsonpath=TEMPLATE`: text with expressions in braces, as in kubectl, without its `range`."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from cli.errors import InputError

_PARTS: Final = re.compile(r"\{([^{}]*)\}")
_ESCAPES: Final = {r"\n": "\n", r"\t": "\t", r"\"": '"', r"\\": "\\"}


def filled(template: str, document: Any) -> str:
    """Return the template with each expression replaced by its values, several of them joined.

    Raises:
        InputError: If an expression cannot be read.
    """
    pieces, end = list[str](), 0
    for match in _PARTS.finditer(template):
        pieces += [template[end : match.start()], _values(match.group(1).strip(), document)]
        end = match.end()
    if not end:
        return _values(template.strip(), document)
    return "".join([*pieces, template[end:]])


def _values(expression: str, document: Any) -> str:
    if expression.startswith('"') and expression.endswith('"'):
        return re.sub(r"\\.", lambda found: _ESCAPES.get(found.group(), found.group()), expression[1:-1])
    from jsonpath_ng.exceptions import JSONPathError
    from jsonpath_ng.ext.parser import parse

    path = (
        expression if expression.startswith("$") else f"${expression if expression[:1] in '.[' else f'.{expression}'}"
    )
    try:
        found = parse(path).find(document)
    except (JSONPathError, AttributeError) as error:
        problem = " ".join(str(error).split())
        raise InputError(
            f"{expression!r} is not a path such as .nodeClaims[*].name: {problem}", source="-o jsonpath"
        ) from error
    return " ".join(value if isinstance(value := entry.value, str) else json.dumps(value) for entry in found)
