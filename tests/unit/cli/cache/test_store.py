"""The files of the cache: who may write them, what they hold, and how many there may be."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from cli.cache import store as store_module
from cli.cache.store import Store, user_store


def test_content_is_found_by_everything_that_it_was_derived_from(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    key = store.key("objects", {"a": [1, "x"]}, b"bytes")
    assert key == store.key("objects", {"a": [1, "x"]}, b"bytes")
    assert (
        len({key, store.key("objects", {"a": [1, "y"]}, b"bytes"), store.key("types", {"a": [1, "x"]}, b"bytes")}) == 3
    )
    assert store.get(key) is None
    store.put(key, b"content")
    assert store.get(key) == b"content"
    assert [found.name for found in (tmp_path / "cache").iterdir()] == [key]
    store.put(key, b"")
    assert store.get(key) == b""


def test_equal_content_has_one_key_however_it_is_shared() -> None:
    part = ["a" * 50]
    store = Store(Path("/nowhere"))
    assert store.key([part, part]) == store.key([["a" * 50], ["a" * 50]])


def test_what_cannot_be_recognized_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    key = store.key(object())
    store.put(key, b"x")
    assert (key, store.get(key), list(tmp_path.iterdir())) == ("", None, [])


def test_without_a_folder_or_the_programs_sources_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disabled = Store(None)
    disabled.put("k", b"x")
    assert (disabled.key("a"), disabled.get("k")) == ("", None)
    monkeypatch.setattr(store_module, "program_digest", lambda: b"")
    assert Store(tmp_path).key("a") == ""


def test_only_the_user_may_read_the_folder_that_is_made(tmp_path: Path) -> None:
    """Also those around it that are missing; a folder that is there already stays as it is."""
    Store(tmp_path / "a" / "b").put("k", b"x")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    Store(tmp_path / "a" / "b").put("l", b"y")
    assert Store(tmp_path / "a" / "b").get("l") == b"y"


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_files_in_a_folder_that_others_may_write_to_are_not_believed(tmp_path: Path, mode: int) -> None:
    store = Store(tmp_path)
    store.put("k", b"x")
    tmp_path.chmod(mode)
    assert store.get("k") is None
    store.put("l", b"y")
    assert not (tmp_path / "l").exists()
    tmp_path.chmod(0o755)
    assert store.get("k") == b"x"


def test_files_in_another_users_folder_are_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.put("k", b"x")
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert store.get("k") is None


def test_a_file_that_is_damaged_or_cut_is_as_good_as_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / "k").write_bytes(hashlib.sha256(b"content").digest() + b"other")
    assert store.get("k") is None
    (tmp_path / "k").write_bytes(b"short")
    assert store.get("k") is None


def test_the_oldest_files_go_until_the_new_one_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "BYTES_MAX", 100)
    for age, name, size in ((3, "oldest", 40), (2, "b-older", 30), (2, "a-older", 10), (1, "newest", 20)):
        (tmp_path / name).write_bytes(b"x" * size)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "folder").mkdir()
    store = Store(tmp_path)
    store.put("fits", b"")
    assert sorted(found.name for found in tmp_path.iterdir()) == [
        "a-older",
        "b-older",
        "fits",
        "folder",
        "newest",
        "oldest",
    ]
    (tmp_path / "fits").unlink()
    store.put("new", b"y" * 41)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["b-older", "folder", "new", "newest"]


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"FLEETWRIGHT_CACHE_DIR": "/own"}, "/own"),
        ({"FLEETWRIGHT_CACHE_DIR": ""}, None),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/u"}, "/xdg/fleetwright"),
        ({"HOME": "/home/u"}, "/home/u/.cache/fleetwright"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/u"}, "/home/u/.cache/fleetwright"),
        ({"XDG_CACHE_HOME": "relative"}, None),
    ],
)
def test_the_folder_is_the_users_own(
    environment: dict[str, str], folder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FLEETWRIGHT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert user_store()._folder == (Path(folder) if folder else None)
