"""What `snapshot` writes, where, and in which order."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.__main__ import main
from cli.commands import snapshot
from cli.errors import InputError
from cli.manifests.inventory import Document
from core.ledger.compression import compressed


def named(kind: str, name: str, **metadata: Any) -> Document:
    return Document("-", 0, {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}})


def test_objects_are_in_order_and_of_repeated_ones_the_last_counts() -> None:
    given = [
        named("Pod", "b", namespace="x"),
        named("Pod", "a", namespace="y", labels={"n": "1"}),
        named("Pod", "a", namespace="y", labels={"n": "2"}),
        named("Node", "n", namespace="ignored"),
        named("Node", "n"),
        named("Secret", "s"),
        named("Pod", "a", namespace="x"),
        named("Namespace", "x"),
    ]
    items = snapshot._items(given)
    found = [(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in items]
    assert found == [
        ("Namespace", "", "x"),
        ("Node", "", "n"),
        ("Pod", "x", "a"),
        ("Pod", "x", "b"),
        ("Pod", "y", "a"),
    ]
    assert items[-1]["metadata"]["labels"] == {"n": "2"}


def written(text: str, to: Path | None, monkeypatch: pytest.MonkeyPatch, *, compress: bool) -> tuple[str, bytes]:
    """What is written to standard output, as text and as bytes."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(snapshot, "sys", SimpleNamespace(stdout=out))
    snapshot._write(text, to, compress=compress)
    out.flush()
    raw = out.buffer.getvalue()  # type: ignore[attr-defined]
    return raw.decode(errors="replace"), raw


def test_what_is_written_is_compressed_where_it_is_asked_for_or_named_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, packed = "{}\n", compressed(b"{}\n")
    assert written(text, None, monkeypatch, compress=False)[0] == text
    assert written(text, None, monkeypatch, compress=True)[1] == packed
    for name, compress, expected in (
        ("a.json", False, b"{}\n"),
        ("b.json", True, packed),
        ("c.json.zst", False, packed),
        ("d.json.zst", True, packed),
    ):
        assert written(text, tmp_path / name, monkeypatch, compress=compress)[0] == ""
        assert (tmp_path / name).read_bytes() == expected
    with pytest.raises(InputError, match="cannot be written: No such file"):
        snapshot._write(text, tmp_path / "no" / "a.json", compress=False)


@pytest.mark.parametrize(
    ("words", "is_terminal", "is_refused"),
    [
        (("--compress",), True, True),
        (("--compress",), False, False),
        ((), True, False),
        (("--compress", "--to", "x"), True, False),
    ],
)
def test_compressed_bytes_are_not_for_a_terminal(
    words: tuple[str, ...], is_terminal: bool, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(named("Pod", "p\u00e9", namespace="x").object))
    monkeypatch.chdir(tmp_path)
    raw = io.BytesIO()
    out = SimpleNamespace(isatty=lambda: is_terminal, write=lambda text: raw.write(text.encode()), buffer=raw)
    monkeypatch.setattr(snapshot, "sys", SimpleNamespace(stdout=out))
    assert main(["snapshot", "-f", "a.json", *words]) == (2 if is_refused else 0)
    told = (tmp_path / "x").read_bytes() if "--to" in words else raw.getvalue()
    assert bool(told) is not is_refused
    if not words:
        item = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p\u00e9", "namespace": "x"}}
        document = {"apiVersion": "v1", "items": [item], "kind": "List"}
        assert told.decode() == json.dumps(document, indent=1, ensure_ascii=False) + "\n"
