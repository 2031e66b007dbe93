"""Reads the outline of user data as the node does: names of arguments, settings and labels, without their values.

Two texts with the same outline set the same names in the same places.
"""

from __future__ import annotations

import email
import re
import shlex
import subprocess
import tomllib
from typing import Any

import yaml

from core.ami_families.family import AmiFamily

Outline = Any
_OPEN = "<powershell>"
_CLOSE = "</powershell>"
_QUOTES = "'\u2018\u2019\u201a\u201b"
_PLAIN = re.compile(r"[-A-Za-z0-9_/.=]+")
"""Characters that may stand in a command outside of quotes."""


def outline(family: AmiFamily, text: str, planted: str) -> Outline:
    """The outline of user data. A key that is the planted text counts as one of ours."""
    if family.operating_system == "windows":
        return _windows(text, planted)
    if family.name == "Bottlerocket":
        return _names(tomllib.loads(text), planted)
    documents = _documents(text)
    kinds = [kind for kind, _ in documents]
    last = documents[-1][1]
    return kinds, (_script(last, planted) if family.name == "AL2" else _node_config(last, planted))


def _documents(text: str) -> list[tuple[str, str]]:
    """The parts of a MIME archive, as cloud-init reads them: with Python's own MIME parser."""
    parsed = email.message_from_string(text)
    assert parsed.is_multipart()
    parts = [part for part in parsed.walk() if not part.is_multipart()]
    return [(part.get_content_type(), str(part.get_payload())) for part in parts]


def _node_config(text: str, planted: str) -> Outline:
    config = yaml.safe_load(text)
    flags = config["spec"]["kubelet"].pop("flags", [])
    return _names(config, planted), [_flags(flag, planted) for flag in flags]


def _script(text: str, planted: str) -> Outline:
    checked = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False)  # noqa: S607
    assert checked.returncode == 0, checked.stderr
    *fixed, call = text.replace(" \\\n", " ").rstrip("\n").split("\n")
    return fixed, _call(_bash_words(call), "--kubelet-extra-args", planted)


def _windows(text: str, planted: str) -> Outline:
    """The text between EC2Launch's tags, wherever they are."""
    assert text.startswith(_OPEN + "\n")
    assert text.lower().find("</") == len(text) - len(_CLOSE)
    *fixed, call = text.removeprefix(_OPEN + "\n").removesuffix("\n" + _CLOSE).split("\n")
    program, *words = _powershell_words(call)
    assert program == ("&", False)
    return fixed, _call(words, "-KubeletExtraArgs", planted)


def _call(words: list[tuple[str, bool]], kubelet: str, planted: str) -> Outline:
    """Names of arguments; for the kubelet's, also the keys inside them."""
    outlines: list[Outline] = []
    for position, (word, is_quoted) in enumerate(words):
        if position and words[position - 1][0] == kubelet:
            outlines.append(_flags(word, planted))
        else:
            outlines.append("*" if is_quoted else word)
    return outlines


def _flags(text: str, planted: str) -> Outline:
    """Kubelet flags after systemd has split the line, and the keys of each flag, which the kubelet splits at commas."""
    flags = []
    for word in shlex.split(text):
        name, _, value = word.partition("=")
        keys = [re.split("[=<:]", entry)[0] for entry in value.split(",")] if re.search("[=<:]", value) else []
        flags.append((name, sorted("*" if key == planted else key for key in keys)))
    return flags


def _names(part: Any, planted: str) -> Outline:
    if isinstance(part, dict):
        return sorted(("*" if key == planted else key, _names(value, planted)) for key, value in part.items())
    if isinstance(part, list):
        return [_names(value, planted) for value in part]
    return "*"


def _bash_words(line: str) -> list[tuple[str, bool]]:
    """The words of one command and whether each is quoted; only plain characters may stand outside of single quotes."""
    words, position = [], 0
    for match in re.finditer(r"((?:'[^']*'|\\'|[^\s'\\])+)\s*", line):
        assert match.start() == position, line[position:]
        position, word = match.end(), match[1]
        bare = re.sub(r"'[^']*'|\\'", "", word)
        assert not bare or _PLAIN.fullmatch(bare), bare
        words.append((shlex.split(word)[0], "'" in word))
    assert position == len(line)
    return words


def _powershell_words(line: str) -> list[tuple[str, bool]]:
    """The words of a PowerShell command, which ends a quoted text at any kind of single quote that is not doubled."""
    words, position = [], 0
    while position < len(line):
        if line[position] == " ":
            position += 1
        elif line[position] in _QUOTES:
            start, position = position + 1, position + 1
            while line[position] not in _QUOTES or (position + 1 < len(line) and line[position + 1] in _QUOTES):
                position += 1 + (line[position] in _QUOTES)
            words.append((line[start:position], True))
            position += 1
        else:
            end = line.find(" ", position) if " " in line[position:] else len(line)
            word = line[position:end]
            assert word in ("&", "$EKSBootstrapScriptFile") or _PLAIN.fullmatch(word), word
            words.append((word, False))
            position = end
    return words
