"""What one run keeps for the next: the same answers, sooner, and never an old one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml

from cli.__main__ import main
from cli.cache import program, store
from cli.cache.catalogue import builtin_catalogue
from cli.cache.objects import KeptReaders
from cli.cache.store import BYTES_MAX, VARIABLE, Store, user_store
from cli.manifests.inventory import Inventory, take_inventory
from cli.manifests.reading import read
from core import api
from core.manifests.wire import api_resources as kinds

ROOT: Final = Path(__file__).parents[4]
EXAMPLES: Final = [str(ROOT / "examples" / name) for name in ("pools", "workloads")]
NOW: Final = "2026-11-20T00:00:00Z"

REQUIRED: Final = {
    "apiVersion": "karpenter.sh/v1",
    "spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        "resources": {"requests": {"cpu": "1"}},
        "expireAfter": "720h",
    },
}
CLAIM: Final = REQUIRED | {
    "kind": "NodeClaim",
    "metadata": {"name": "one", "creationTimestamp": "2026-11-19T00:00:00Z"},
    "status": {"capacity": {"cpu": "2"}, "conditions": [{"type": "Launched", "status": "True"}]},
}
OVERLAY: Final = {
    "apiVersion": "karpenter.sh/v1alpha1",
    "kind": "NodeOverlay",
    "metadata": {"name": "cheaper"},
    "spec": {"requirements": [], "priceAdjustment": "-10%", "capacity": {"example.com/device": "2"}},
}
UNUSABLE: Final = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "bad"},
    "spec": {"weight": "1"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of this test, empty."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    """NodePools and EC2NodeClasses of the examples, a NodeClaim and a NodeOverlay."""
    others = tmp_path / "others.yaml"
    others.write_text(yaml.safe_dump_all([CLAIM, OVERLAY]))
    return take_inventory(read([EXAMPLES[0], str(others)]))


def test_what_was_kept_is_what_was_read(folder: Path, inventory: Inventory) -> None:
    first = _readings(KeptReaders(user_store(), inventory.objects), inventory)
    kept = KeptReaders(user_store(), inventory.objects)
    assert len(list(folder.iterdir())) == 1
    assert kept._kept.keys() == {id(obj) for obj in _objects(inventory)}
    assert _readings(kept, inventory) == first
    assert [first[0], *first[-2:]] == [
        api.node_pool(inventory.objects[kinds.NODE_POOLS][0]),
        api.node_claim(inventory.objects[kinds.NODE_CLAIMS][0]),
        api.node_overlay(inventory.objects[kinds.NODE_OVERLAYS][0]),
    ]


def test_an_object_that_changed_is_read_again(folder: Path, inventory: Inventory) -> None:
    _readings(KeptReaders(user_store(), inventory.objects), inventory)
    inventory.objects[kinds.NODE_POOLS][0]["spec"]["weight"] = 99
    assert _readings(KeptReaders(user_store(), inventory.objects), inventory)[0].weight == 99
    assert len(list(folder.iterdir())) == 2


def test_another_version_of_the_code_reads_again(
    folder: Path, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _readings(KeptReaders(user_store(), inventory.objects), inventory)
    monkeypatch.setattr(store, "program_digest", lambda: b"another version")
    assert not KeptReaders(user_store(), inventory.objects)._kept


@pytest.mark.usefixtures("folder")
def test_the_digest_is_of_all_code_that_reads_objects_and_builds_the_catalogue() -> None:
    modules = "core.api.translation", "core.api.schemas", "core.catalogue.build"
    script = f"import sys, {', '.join(modules)}; print(*(name for name in sys.modules if name.startswith('core.')))"
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    parts = {name.split(".")[1] for name in answer.stdout.split()}
    assert parts <= {source.removesuffix(".py") for source in program.SOURCES}
    assert all((ROOT / "core" / source).exists() for source in program.SOURCES)


def test_a_class_that_shares_its_types_shares_them_when_they_were_kept(folder: Path) -> None:
    pools = [document.object for document in read([EXAMPLES[0]]) if document.kind == "EC2NodeClass"]
    first, second = (builtin_catalogue(user_store(), "us-east-1", pools) for _ in range(2))
    assert len(list(folder.iterdir())) == 1
    assert second == first
    shared = {name: types is first.default for name, types in first.by_node_class.items()}
    assert {name: types is second.default for name, types in second.by_node_class.items()} == shared
    assert sorted(shared.values()) == [False, True]


def test_an_answer_is_the_same_without_a_cache_with_an_empty_one_and_with_a_full_one(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [_plan(capsys), _plan(capsys)]
    assert len(list(folder.iterdir())) == 2
    monkeypatch.setenv(VARIABLE, "")
    assert answers == [_plan(capsys)] * 2


def test_an_object_that_is_refused_is_refused_each_time(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(UNUSABLE))
    arguments = ["plan", "-f", str(tmp_path / "bad.yaml"), "--now", NOW]
    said = [(main(arguments), capsys.readouterr()) for _ in range(2)]
    assert said[0] == said[1]
    assert said[0][0] == 2
    assert "NodePool bad" in said[0][1].err
    assert len(list(folder.iterdir())) == 1  # the catalogue's


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _change(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1] + b"\x00")


def _empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [_truncate, _change, _empty, Path.unlink])
def test_a_damaged_file_is_written_again(folder: Path, damage: Callable[[Path], None]) -> None:
    kept = user_store()
    key = kept.key(b"question")
    kept.put(key, b"answer")
    assert kept.get(key) == b"answer"
    damage(folder / key)
    assert kept.get(key) is None
    kept.put(key, b"answer")
    assert kept.get(key) == b"answer"


def test_content_of_another_form_is_read_again(folder: Path, inventory: Inventory) -> None:
    user_store().put(KeptReaders(user_store(), inventory.objects)._key, b"\xc1")
    assert len(_readings(KeptReaders(user_store(), inventory.objects), inventory)) == len(_objects(inventory))


def test_a_folder_that_others_may_write_to_is_not_used(folder: Path) -> None:
    kept = user_store()
    key = kept.key(b"question")
    kept.put(key, b"answer")
    folder.chmod(0o777)
    assert kept.get(key) is None
    kept.put(kept.key(b"other"), b"answer")
    assert [file.name for file in folder.iterdir()] == [key]


def test_a_folder_that_cannot_be_made_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Store(tmp_path / "file" / "below")
    kept.put(kept.key(b"question"), b"answer")
    assert kept.get(kept.key(b"question")) is None


def test_the_oldest_files_make_room(folder: Path) -> None:
    kept, half = user_store(), b"0" * (BYTES_MAX // 2 - 64)
    keys = [kept.key(bytes([number])) for number in range(3)]
    for age, key in enumerate(keys):
        kept.put(key, half)
        os.utime(folder / key, (age, age))
    assert sorted(file.name for file in folder.iterdir()) == sorted(keys[1:])


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert user_store().key(b"question") == ""


def _plan(capsys: pytest.CaptureFixture[str]) -> str:
    arguments = [word for path in EXAMPLES for word in ("-f", path)]
    main(["plan", *arguments, "--now", NOW, "--improve-iterations", "0", "-o", "json"])
    return capsys.readouterr().out


def _objects(inventory: Inventory) -> list[object]:
    of_ours = kinds.NODE_POOLS, kinds.EC2_NODE_CLASSES, kinds.NODE_CLAIMS, kinds.NODE_OVERLAYS
    return [obj for kind in of_ours for obj in inventory.objects[kind]]


def _readings(readers: KeptReaders, inventory: Inventory) -> list[object]:
    found = [
        *map(readers.node_pool, inventory.objects[kinds.NODE_POOLS]),
        *map(readers.node_class, inventory.objects[kinds.EC2_NODE_CLASSES]),
        *map(readers.node_claim, inventory.objects[kinds.NODE_CLAIMS]),
        *map(readers.node_overlay, inventory.objects[kinds.NODE_OVERLAYS]),
    ]
    readers.keep()
    return found
