"""Reports how the user documents read: words a sentence, clauses, chains of "of", and words with a plainer one (`make prose`).

Grammar checkers find little in these pages; length and shape of sentences are what makes them hard. A page that was rewritten
stays within `BOUNDS` (tests/tidy/test_words.py).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("docs/tutorials", "docs/how-to", "docs/explanation")
REFERENCE: Final = (
    *("brakes", "catalogue", "cli", "compatibility", "context", "glossary", "json", "karpenter-metrics", "metrics"),
    *("reason-codes", "settings", "template-findings"),
)
"""Reference pages for users: most are written from the code, so that the messages of the program are measured with them."""

LONG: Final = 25
"""A sentence with more words is read twice."""

SENTENCE_WORDS_MIN: Final = 4
"""Shorter ones are labels and values of tables, which would flatter the mean."""

PLAINER: Final[Mapping[str, str]] = {
    r"under way": "in progress",
    r"rights": "permissions",
    r"(?:let|lets|letting) (?:\w+ )?go": "remove",
    r"nodes? (?:\w+ )?goe?s?": "leave, or be removed",
    r"(?:our|the|four|these|its|Karpenter's) definitions": "CustomResourceDefinitions",
    r"way[- ]out": "route to AWS",
    r"of (?:ours|yours|theirs)": "our, your, their",
    r"come to wait": "is pending",
    r"in vain": "without success",
    r"in the midst of": "during",
    r"whoever|whatever|whichever": "name who or what",
    r"is told|are told": "is notified, or: the page says",
    r"(?:so do|so does|neither do|neither does)": "also, or a sentence of its own",
    r"some (?:forty|twenty|ten|five|two|seconds|minutes|days|\d+)": "about, a few",
    r"nobody need": "no action is needed",
    r"at work": "running",
    r"looks? on": "observes",
    r"each one that": "each",
    r"no longer need": "unused",
    r"learned of": "history of",
    r"go together": "leave at the same time, or: contradict",
    r"it is there|is not there": "exists, is missing",
    r"take it along": "export",
    r"despite of|thereof|therein|hereof": "drop it",
}
"""Habits of these pages, each with what to write instead. Commands and outputs are not read, so they may keep theirs."""

_MARKERS: Final = re.compile(
    r"\b(?:which|that|who|whom|whose|what|whether|where|when|whenever|while|because|although|though|unless|until|since|if)\b",
    re.IGNORECASE,
)
_OF_CHAIN: Final = re.compile(r"\bof (?:[\w'`-]+ ){1,4}of\b", re.IGNORECASE)
_NOUN_CLAUSE: Final = re.compile(r"^(?:What|Whatever|Whoever|Who|That which|Whether) (?!.*\?$)")
_ENDS: Final = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`\[]*[A-Z`])| · ")
_BLOCK: Final = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")


class Shape(msgspec.Struct, frozen=True):
    """How one page reads.

    Attributes:
        sentences: How many have at least `SENTENCE_WORDS_MIN` words.
        words: Words a sentence, the mean.
        long_percent: Sentences of more than `LONG` words.
        longest: Words of the longest one.
        clauses: Markers of subordinate clauses a sentence, the mean; a question has none.
        of_chains: Places with two "of" within a few words, for a hundred sentences.
        noun_clauses: Statements that begin with a clause ("What it reads is…").
        plainer: Each word or phrase of `PLAINER` that occurs.
    """

    sentences: int
    words: float
    long_percent: float
    longest: int
    clauses: float
    of_chains: float
    noun_clauses: int
    plainer: tuple[str, ...]


class Bounds(msgspec.Struct, frozen=True):
    """The most that a page may have of each; an empty word list."""

    words: float = 15.0
    long_percent: float = 6.0
    longest: int = 40
    clauses: float = 0.55
    of_chains: float = 6.0
    noun_clauses: int = 0


BOUNDS: Final = Bounds()


def sentences(page: str) -> list[str]:
    """Return the sentences of a page: its text without code, outputs, figures and comments, with cells of tables."""
    return [sentence for block in _blocks(page) for sentence in _ENDS.split(block) if sentence.strip()]


def shape(page: str) -> Shape:
    """Measure a page."""
    read = [sentence for sentence in sentences(page) if len(sentence.split()) >= SENTENCE_WORDS_MIN]
    lengths = [len(sentence.split()) for sentence in read] or [0]
    text = "\n".join(sentences(page))
    return Shape(
        sentences=len(read),
        words=sum(lengths) / len(lengths),
        long_percent=100 * sum(length > LONG for length in lengths) / len(lengths),
        longest=max(lengths),
        clauses=sum(len(_MARKERS.findall(sentence)) for sentence in read if not sentence.endswith("?")) / len(lengths),
        of_chains=100 * len(_OF_CHAIN.findall(text)) / len(lengths),
        noun_clauses=sum(bool(_NOUN_CLAUSE.match(sentence)) for sentence in read),
        plainer=tuple(_plainer(text)),
    )


def complaints(measured: Shape, bounds: Bounds = BOUNDS) -> list[str]:
    """Return what exceeds its bound, in words; nothing for a page that reads well."""
    over = [
        f"{name} {getattr(measured, name):.4g}, at most {bound:.4g}"
        for name, bound in msgspec.structs.asdict(bounds).items()
        if getattr(measured, name) > bound
    ]
    return over + [f"say it plainly: {word}" for word in measured.plainer]


def pages() -> list[Path]:
    """Return the pages for users, by path."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).glob("*.md"))
    reference = (ROOT / "docs" / "reference" / f"{name}.md" for name in REFERENCE)
    return [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *sorted(found), *reference]


def _plainer(text: str) -> Iterator[str]:
    for pattern, better in PLAINER.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
            yield f"{match.group()!r} ({better})"


def _blocks(page: str) -> Iterator[str]:
    """Yield paragraphs, items of lists, headings, and what semicolons part in cells of tables, each on one line."""
    text = re.sub(r"^( *)```.*?^\1```", "", page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!-- Figures:.*?<!-- End of the figures. -->", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    held: list[str] = []
    is_in_list = False
    for line in [*text.splitlines(), ""]:
        indent = len(line) - len(line.lstrip())
        begins_item = _BLOCK.match(line) is not None
        is_in_list = begins_item or (is_in_list and (indent > 0 or not line.strip()))
        is_code = indent >= (8 if is_in_list else 4) and not begins_item
        if held and (
            not line.strip() or line.startswith("#") or is_code or line.lstrip().startswith("|") or begins_item
        ):
            yield _plain(" ".join(held))
            held = []
        if is_code or not line.strip():
            continue
        if line.lstrip().startswith("|"):
            yield from (_plain(cell) for cell in re.split(r"(?<!\\)\||; ", line) if re.search(r"\w", cell))
        else:
            held.append(_BLOCK.sub("", line.lstrip("# ")).strip())


def _plain(text: str) -> str:
    """Return the text as it is read: the words of links, one word for code."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\s+", " ", re.sub(r"`[^`]*`", "`x`", text)).strip()


def _at(revision: str, path: Path) -> str | None:
    """Return a page at a revision; None where it has none."""
    shown = ["git", "show", f"{revision}:{path.relative_to(ROOT)}"]
    done = subprocess.run(shown, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - a revision of ours
    return done.stdout if done.returncode == 0 else None


def _row(name: str, cells: Sequence[str]) -> str:
    return f"{name:<44}" + "".join(f"{cell:>16}" for cell in cells)


def _cells(measured: Shape) -> list[str]:
    return [
        str(measured.sentences),
        f"{measured.words:.1f}",
        f"{measured.long_percent:.0f}%",
        str(measured.longest),
        f"{measured.clauses:.2f}",
        f"{measured.of_chains:.0f}",
        str(measured.noun_clauses),
        str(len(measured.plainer)),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; return 1 if a page is outside of the bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", metavar="REVISION", help="show each figure there, an arrow, and the figure now")
    parser.add_argument("--words", action="store_true", help="list what exceeds a bound, with long sentences")
    parser.add_argument("page", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    heads = (
        "sentences",
        "words each",
        f"over {LONG}",
        "longest",
        "clauses each",
        "of-chains/100",
        "noun clauses",
        "word list",
    )
    print(_row("page", heads))  # noqa: T201 - the report
    outside = 0
    texts: dict[Path, str] = {path.resolve(): path.read_text(encoding="utf-8") for path in options.page or pages()}
    for path, text in texts.items():
        measured = shape(text)
        now = _cells(measured)
        earlier = _at(options.against, path) if options.against else None
        cells = (
            now if earlier is None else [f"{old} > {new}" for old, new in zip(_cells(shape(earlier)), now, strict=True)]
        )
        found = complaints(measured)
        outside += bool(found)
        print(_row(("* " if found else "  ") + str(path.relative_to(ROOT)), cells))  # noqa: T201
        if options.words:
            long = [sentence for sentence in sentences(text) if len(sentence.split()) > LONG]
            print("".join(f"      {line}\n" for line in (*found, *long)), end="")  # noqa: T201
    print(f"{len(texts)} pages, {outside} outside of the bounds (*)")  # noqa: T201
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
