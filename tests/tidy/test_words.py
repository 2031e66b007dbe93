"""Names of classes and modules: one word has one meaning, and is the field's word or plain English."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests import prose
from tests.tidy.test_manners import FILES, ROOT, relative

METAPHORS = frozenset(
    [
        "accounts",
        "anew",
        "book",
        "books",
        "carrying",
        "census",
        "dear",
        "dearer",
        "dearest",
        "dial",
        "dials",
        "fingerprint",
        "futile",
        "garbage",
        "gist",
        "ground",
        "heap",
        "heed",
        "hindrance",
        "homeless",
        "parties",
        "party",
        "rents",
        "rivals",
        "roomy",
        "seat",
        "seating",
        "seats",
        "spared",
        "tally",
        "thought",
        "tilt",
        "vetoed",
        "vouched",
        "wishes",
    ]
)
"""Metaphors for which the field has a word (docs/reference/glossary.md)."""

OLD_WORDS = re.compile(
    r"\b(anew|befalls?|dear|hence|lest|mended|reckon(s|ed)?|thereof|upon|whence|(is|was) told)\b", re.IGNORECASE
)
"""Archaic turns: docstrings, comments and pages say it in the words of today."""

VAGUE_NAMES = frozenset({"look", "looks", "play", "played", "plays", "told", "world"})
"""A snapshot, a digest, a run, a check, an observation or a simulation: what is meant has its own name."""

OF_SCENARIOS = frozenset({"play", "played", "plays", "world"})
"""In the simulator and in benchmarks, a world is the whole that a scenario describes and a run plays."""

EMPTY_NAMES = frozenset({"asked", "found", "given", "left", "one", "own", "said"})
"""They tell how a value came about, and send the reader to the caller to learn what it is."""

PUBLISHED = frozenset({"look_queue_url", "look_seconds"})
"""Settings keep their names: installations have them."""

KUBERNETES_OWN = frozenset(
    {
        "GarbageCollector",
        "service_accounts",
        "garbage_collection",
        "test_listing_leaves_the_garbage_collector_as_it_was",
    }
)
"""Kubernetes itself has these names."""

OF_ONE_FOLDER = {
    "wave": "core/disruption/",
    "batcher": "lambdas/controllers/planning.py",
    "batches": "lambdas/controllers/execution.py",
}
"""Words that had two meanings, and the folder in which modules and classes may be named by them (see the glossary)."""

FORMS = ("core/api/schemas/", "core/catalogue/node_class.py", "core/manifests/wire/")
"""Objects as users and API servers write them: they share the name of the object that they are read into."""

TESTS = sorted((ROOT / "tests").rglob("*.py"))

GLOSSARY = ROOT / "docs/reference/glossary.md"

PLAIN_WORDS = Path(__file__).with_name("plain_words.txt")
"""Words of module names that need no definition."""


def our_files() -> list[Path]:
    ours = ("core/", "installation/", "adapters/", "lambdas/", "cli/", "infra/")
    return [p for p in FILES if relative(p).startswith(ours) and not relative(p).startswith(FORMS)]


def test_a_public_class_name_has_one_meaning() -> None:
    """Otherwise, a search for a name finds two classes."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in our_files():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(relative(path))
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}


def test_no_name_is_a_metaphor() -> None:
    """A newcomer who knows Karpenter or operations research searches for the field's word."""
    found = set()
    for path in (*FILES, *TESTS):
        nodes = ast.walk(ast.parse(path.read_text()))
        for name in (path.stem, *map(_name_of, nodes)):
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}
            if words & METAPHORS and name not in KUBERNETES_OWN:
                found.add(f"{relative(path)}: {name}")
    assert sorted(found) == []


def test_no_variable_is_vague() -> None:
    """Elsewhere a world meant a snapshot, or its digest, and a play a simulation over a recorded period."""
    found = set()
    for path in FILES:
        of_scenarios = relative(path).startswith(("simulator/", "benchmarks/"))
        vague = VAGUE_NAMES - OF_SCENARIOS if of_scenarios else VAGUE_NAMES
        for name in map(_name_of, ast.walk(ast.parse(path.read_text()))):
            if vague & set(name.lower().split("_")) and name not in PUBLISHED:
                found.add(f"{relative(path)}: {name}")
    assert sorted(found) == []


def test_a_parameter_or_local_is_named_for_what_it_holds() -> None:
    """`found: Realization` says less than `realization`."""
    empty = []
    for path in FILES:
        bound = _bound(ast.parse(path.read_text()))
        empty += [f"{relative(path)}:{line}: {name}" for line, name in bound if name in EMPTY_NAMES]
    assert not empty


def test_every_way_to_bind_a_name_is_seen_and_fields_are_none() -> None:
    source = (
        "class A:\n    left: int\n"
        "def a(found, /, given, *one, own, **said):\n    left = asked = lambda one: one\n"
        "def b():\n    for found in b():\n        with b() as given, b() as (one, *own): pass\n"
        "    [said for said in b()]\n    while left := b(): left += 1\n"
        "def c():\n    try:\n        match b():\n            case {'': asked, **own}: pass\n            case [*found]: pass\n"
        "    except E as one: one.left = one.found(given=1)\n"
    )
    by_line: dict[int, list[str]] = defaultdict(list)
    for line, name in _bound(ast.parse(source)):
        by_line[line].append(name)
    assert {line: sorted(set(names)) for line, names in sorted(by_line.items())} == {
        3: ["found", "given", "one", "own", "said"],
        4: ["asked", "left", "one"],
        6: ["found"],
        7: ["given", "one", "own"],
        8: ["said"],
        9: ["left"],
        13: ["asked", "own"],
        14: ["found"],
        15: ["one"],
    }


def _bound(tree: ast.AST) -> list[tuple[int, str]]:
    """Return the parameters and variables that the code binds, each with its line; fields of classes are left out."""
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {field.target for body in bodies for field in body if isinstance(field, ast.AnnAssign)}
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            names.append((node.lineno, node.id))
        elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name:
            names.append((node.lineno, node.name))
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.append((node.lineno, node.rest))
    return names


def _name_of(node: ast.AST) -> str:
    """Return the name that the node defines or uses, empty where it has none."""
    fields = {ast.arg: "arg", ast.Name: "id", ast.Attribute: "attr", ast.FunctionDef: "name", ast.ClassDef: "name"}
    return str(getattr(node, fields.get(type(node), ""), ""))


def test_a_word_that_had_two_meanings_names_things_of_one_folder() -> None:
    """Waves were commands of a target and launches of a plan; both met in one log."""
    found = set()
    for path in our_files():
        classes = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
        for name in (*path.with_suffix("").relative_to(ROOT).parts, *classes):
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name.removeprefix("_"))}
            plural = {word.removesuffix("s") for word in words} | words
            found |= {
                f"{relative(path)}: {name}"
                for word, folder in OF_ONE_FOLDER.items()
                if word in plural and not relative(path).startswith(folder)
            }
    assert sorted(found) == []


def test_prose_is_of_today() -> None:
    """A reader reads each sentence once."""
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    found = []
    for path in (*FILES, *pages):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found += [f"{relative(path)}:{number}: {word[0]}" for word in OLD_WORDS.finditer(line)]
    assert not found


def _defined_words() -> set[str]:
    """The words of the glossary's first column."""
    rows = [line.split("|")[1] for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    return set(re.findall(r"[a-z0-9]+", " ".join(rows).lower()))


def _plain_words() -> set[str]:
    lines = PLAIN_WORDS.read_text().splitlines()
    return {word for line in lines if not line.startswith("#") for word in line.split()}


def _singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def test_the_words_of_a_modules_name_are_defined_or_plain() -> None:
    """A new noun of the field needs a row in the glossary; a plain word is added to `plain_words.txt`."""
    known = {_singular(word) for word in _defined_words() | _plain_words()}
    found = set()
    for path in map(relative, FILES):
        package, *names = path.removesuffix(".py").split("/")
        if package in ("core", "installation", "adapters", "lambdas"):
            words = {word for name in names for word in name.split("_") if word and name != "__init__"}
            found |= {f"{path}: {word}" for word in words if _singular(word) not in known}
    assert sorted(found) == []


# Pages for users keep to short sentences, few clauses and plain words; `make prose` shows the figures.


@pytest.mark.parametrize("page", prose.pages(), ids=lambda page: str(page.relative_to(prose.ROOT)))
def test_a_page_keeps_within_the_bounds(page: Path) -> None:
    """A reader on call reads each sentence once."""
    assert prose.complaints(prose.shape(page.read_text(encoding="utf-8"))) == []


def test_code_outputs_and_figures_are_not_read() -> None:
    page = (
        "# A title\n\nOne short sentence stands here. A second one ends\non the next line.\n\n"
        "```text\nwhat is under way\n```\n\n    what is under way\n\n"
        "<!-- Figures: x -->\nwhat is under way\n<!-- End of the figures. -->\n"
    )
    assert prose.sentences(page) == [
        "A title",
        "One short sentence stands here.",
        "A second one ends on the next line.",
    ]


def test_items_and_cells_are_sentences_of_their_own_and_code_is_one_word() -> None:
    page = "1. Run `make two words`\n   and [wait](there.md).\n- Then go.\n\n| a cell | another one |\n| --- | --- |\n"
    assert prose.sentences(page) == ["Run `x` and wait.", "Then go.", "a cell", "another one"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (" ".join(["word"] * 41) + ".", "longest 41"),
        ("What it reads is on this page.", "noun_clauses 1"),
        ("Commands under way are listed here.", "'under way' (in progress)"),
        ("This is the price of the types of the pool.", "of_chains"),
        ("It is what one has that others lack.", "clauses 2"),
    ],
)
def test_each_habit_is_noticed(text: str, complaint: str) -> None:
    assert any(complaint in line for line in prose.complaints(prose.shape(text)))


def test_plain_sentences_pass() -> None:
    assert (
        prose.complaints(
            prose.shape(
                "Run the command. It prints the nodes that can be removed. What does it need? One file is enough."
            )
        )
        == []
    )
