"""Structural rules of WCAG 2.2 (A and AA) for our pages: those of axe-core's rules that a parser can check.

Rules that need a layout (text over a picture, the size of a target) are not checked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Final

VOID: Final = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
UNSEEN: Final = frozenset(("script", "style", "template", "title"))
HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
NAMED: Final = ("a", "button", "summary")
LABELLED: Final = ("input", "select", "textarea")
LISTS: Final = {"li": ("ul", "ol"), "dt": ("dl", "div"), "dd": ("dl", "div"), "figcaption": ("figure",)}

TEXT_CONTRAST: Final = 4.5
"""WCAG 1.4.3, for text below 24 pixels."""

SHAPE_CONTRAST: Final = 3.0
"""WCAG 1.4.11, for lines and bars that carry meaning."""


class Element:
    """One element of a page; `text` is what it shows itself, without its children."""

    def __init__(self, tag: str, attributes: Mapping[str, str], parent: Element | None) -> None:
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.children: list[Element] = []
        self.text = ""

    def all(self) -> Iterator[Element]:
        """The element and everything in it, in the order of the page."""
        yield self
        for child in self.children:
            yield from child.all()

    def shown(self) -> str:
        """The text of the element with everything in it."""
        if self.tag in UNSEEN:
            return ""
        return " ".join(filter(None, (self.text.strip(), *(child.shown() for child in self.children))))

    def within(self, *tags: str) -> bool:
        """Whether it lies in one of these elements."""
        return self.parent is not None and (self.parent.tag in tags or self.parent.within(*tags))

    def __str__(self) -> str:
        name = f" id={self.attributes['id']}" if self.attributes.get("id") else ""
        return f"<{self.tag}{name}>"


class _Tree(HTMLParser):
    """Builds the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.root = self._open = Element("", {}, None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs}, self._open)
        self._open.children.append(made)
        if tag not in VOID:
            self._open = made

    def handle_endtag(self, tag: str) -> None:
        found: Element | None = self._open
        while found is not None and found.tag != tag:
            found = found.parent
        if found is not None and found.parent is not None:
            self._open = found.parent

    def handle_data(self, data: str) -> None:
        self._open.text += data


def barriers(page: str) -> list[str]:
    """Obstacles to reading or using the page, each with the violated rule."""
    tree = _Tree()
    tree.feed(page)
    found = list(tree.root.all())
    return [*_of_the_document(found), *_of_headings(found), *_of_names(found), *_of_structure(found)]


def _of_the_document(found: list[Element]) -> Iterator[str]:
    tags = Counter(one.tag for one in found)
    roots = [one for one in found if one.tag == "html"]
    if not roots or not roots[0].attributes.get("lang"):
        yield "3.1.1 the page has no language"
    if not any(one.tag == "title" and one.text.strip() for one in found):
        yield "2.4.2 the page has no title"
    if tags["main"] != 1:
        yield f"1.3.1 there are {tags['main']} main landmarks, one is needed"
    for one in found:
        is_text = one.shown() and one.within("body") and not one.within("main", "header", "footer", "nav", "aside")
        if is_text and one.tag not in ("main", "header", "footer", "nav", "aside"):
            yield f"1.3.1 {one} shows text outside of every landmark"
        if one.attributes.get("name") == "viewport" and re.search(
            "user-scalable=no|maximum-scale", str(one.attributes)
        ):
            yield "1.4.4 the page cannot be enlarged"
    doubled = Counter(one.attributes["id"] for one in found if one.attributes.get("id"))
    yield from (f"4.1.1 the id {name} is there {count} times" for name, count in doubled.items() if count > 1)


def _of_headings(found: list[Element]) -> Iterator[str]:
    levels = [(HEADINGS.index(one.tag) + 1, one) for one in found if one.tag in HEADINGS]
    if sum(level == 1 for level, _ in levels) != 1:
        yield "1.3.1 there is not exactly one h1"
    for (before, _), (level, one) in zip([(0, None), *levels], levels, strict=False):
        if level > before + 1:
            yield f"1.3.1 {one} skips a level after h{before}"
        if not one.shown():
            yield f"2.4.6 {one} is empty"


def _of_names(found: list[Element]) -> Iterator[str]:
    """Everything that is used or looked at has a name for those who hear the page."""
    ids = {one.attributes.get("id") for one in found}
    labels = {one.attributes.get("for") for one in found if one.tag == "label"}
    for one in found:
        given = one.attributes
        named = given.get("aria-label") or given.get("aria-labelledby")
        for reference in f"{given.get('aria-labelledby', '')} {given.get('for', '')}".split():
            if reference not in ids:
                yield f"1.3.1 {one} refers to {reference}, which is not there"
        if one.tag in NAMED and not (named or one.shown()):
            yield f"4.1.2 {one} has no name"
        if one.tag in LABELLED and not (named or one.within("label") or given.get("id") in labels):
            yield f"1.3.1 {one} has no label"
        if one.tag == "img" and "alt" not in given:
            yield f"1.1.1 {one} has no alternative text"
        if given.get("role") in ("img", "group", "region") and not named:
            yield f"1.1.1 {one} of role {given['role']} has no name"
        if one.tag == "th" and not one.shown():
            yield "1.3.1 a heading of a table is empty"
        if one.tag == "th" and given.get("scope") not in ("col", "row", "colgroup", "rowgroup"):
            yield f"1.3.1 a heading of a table, {one.shown()!r}, does not say whether it is of a column or a row"


def _of_structure(found: list[Element]) -> Iterator[str]:
    for one in found:
        parent = one.parent.tag if one.parent is not None else ""
        if one.tag in LISTS and parent not in LISTS[one.tag]:
            yield f"1.3.1 {one} lies in <{parent}>"
        if one.tag == "table" and not any(part.tag == "th" for part in one.all()):
            yield "1.3.1 a table has no headings"
        if one.attributes.get("tabindex", "0") not in ("0", "-1"):
            yield f"2.4.3 {one} changes the order of the keyboard"
        is_scrolled = "scroll" in one.attributes.get("class", "").split() and one.shown()
        has_focus = any("tabindex" in part.attributes or part.tag in NAMED for part in one.all())
        if is_scrolled and not has_focus:
            yield f"2.1.1 {one} cannot be scrolled by keyboard"


def palettes(style: str) -> dict[str, dict[str, str]]:
    """Colours of six digits by name, `light` and `dark`; `dark` has those of `light` that it does not change."""
    blocks = re.findall(r":root\s*{(.*?)}", style, re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+):\s*(#[0-9a-fA-F]{3,6})\b", block)) for block in blocks[:2])
    return {"light": light, "dark": light | dark}


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours, from 1 to 21."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    digits = colour.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    channels = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
