"""`-o jsonpath=`: as in kubectl, for scripts that are written already."""

from __future__ import annotations

import json

import pytest

from cli.errors import InputError
from cli.terminal.jsonpath import filled

DOCUMENT = {
    "kind": "Plan",
    "count": 2,
    "ok": True,
    "nothing": None,
    "items": [{"name": "a", "pods": ["p", "q"]}, {"name": "b", "pods": []}],
}


WHOLE = json.dumps(DOCUMENT)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "Plan"),
        (".kind", "Plan"),
        ("kind", "Plan"),
        ("{kind}", "Plan"),
        ("{$.kind}", "Plan"),
        ("{.count} of {.ok}, {.nothing}", "2 of true, null"),
        ("{.items[*].name}", "a b"),
        ("{.items[1].name}", "b"),
        ("{.items[0].pods}", '["p", "q"]'),
        ("{['kind']}", "Plan"),
        ("{.absent}", ""),
        ("{@}", WHOLE),
        ("{.}", WHOLE),
        ("{$}", WHOLE),
        (r'{"a\tb\n\"\\\x"}', 'a\tb\n"\\\\x'),
        ("<{ .kind }>", "<Plan>"),
        (r'{range .items[*]}{.name}:{@.pods[0]}{"\n"}{end}done', "a:p\nb:\ndone"),
        ("{range .items[*]}{range .pods[*]}{@},{end};{end}", "p,q,;;"),
        ("{range .absent[*]}{.name}{end}none", "none"),
    ],
)
def test_a_template_is_filled(template: str, text: str) -> None:
    assert filled(template, DOCUMENT) == text


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{end}", "{end} without {range …}"),
        ("{range .items[*]}{end}{end}", "{end} without {range …}"),
        ("{range .items[*]}{.name}", "{range .items[*]} without {end}"),
        ("{range .items[*]}{range .pods[*]}{end}", "{range .items[*]} without {end}"),
        ('{"open}', "'\"open' is not a path"),
        ('{shut"}', "'shut\"' is not a path"),
        ("{.items[}", "'.items[' is not a path such as .nodeClaims[*].name"),
    ],
)
def test_a_template_that_cannot_be_read_is_refused(template: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        filled(template, DOCUMENT)
    assert problem in raised.value.problem
    assert raised.value.source == "-o jsonpath"
