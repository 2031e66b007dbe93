"""One word, one meaning: names of classes and modules."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests.tidy.test_manners import FILES, relative

METAPHORS = frozenset(
    [
        "accounts",
        "books",
        "carrying",
        "census",
        "fingerprint",
        "garbage",
        "ground",
        "heap",
        "parties",
        "party",
        "rents",
        "rivals",
        "seating",
        "tally",
        "thought",
    ]
)
"""What the field has a word for (docs/reference/glossary.md)."""

FORMS = ("core/api/schemas/", "core/catalogue/node_class.py", "core/manifests/wire/")
"""Objects as users and API servers write them: they have the name of what they become, in a package that says so."""


def our_files() -> list[Path]:
    ours = ("core/", "lambdas/", "cli/", "infra/")
    return [p for p in FILES if relative(p).startswith(ours) and not relative(p).startswith(FORMS)]


def test_a_public_class_name_has_one_meaning() -> None:
    """Whoever looks a name up finds two things."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in our_files():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(relative(path))
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}


def test_no_name_is_a_metaphor() -> None:
    """A newcomer who knows Karpenter or operations research looks for the field's word."""
    found = []
    for path in our_files():
        nodes = ast.walk(ast.parse(path.read_text()))
        names = [n.name for n in nodes if isinstance(n, ast.ClassDef | ast.FunctionDef)]
        for name in (path.stem, *names):
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}
            found += [f"{relative(path)}: {name}" for _ in words & METAPHORS]
    assert not found
