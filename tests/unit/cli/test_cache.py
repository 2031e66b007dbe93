"""What one run keeps for the next: the same answers, sooner, and never an old one."""

from __future__ import annotations

import hashlib
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml

from cli import cache
from cli.__main__ import main
from cli.cache import BYTES_MAX, VARIABLE, KeptReaders, Store, builtin_catalogue, user_store
from cli.manifests.inventory import Inventory, take_inventory
from cli.manifests.reading import read
from core import api
from core.manifests.wire import resources

ROOT: Final = Path(__file__).parents[3]
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
        api.node_pool(inventory.objects[resources.NODE_POOLS][0]),
        api.node_claim(inventory.objects[resources.NODE_CLAIMS][0]),
        api.node_overlay(inventory.objects[resources.NODE_OVERLAYS][0]),
    ]


def test_an_object_that_changed_is_read_again(folder: Path, inventory: Inventory) -> None:
    _readings(KeptReaders(user_store(), inventory.objects), inventory)
    inventory.objects[resources.NODE_POOLS][0]["spec"]["weight"] = 99
    assert _readings(KeptReaders(user_store(), inventory.objects), inventory)[0].weight == 99
    assert len(list(folder.iterdir())) == 2


def test_another_version_of_the_code_reads_again(
    folder: Path, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _readings(KeptReaders(user_store(), inventory.objects), inventory)
    monkeypatch.setattr(cache, "program_digest", lambda: b"another version")
    assert not KeptReaders(user_store(), inventory.objects)._kept


@pytest.mark.usefixtures("folder")
def test_the_digest_is_of_all_code_that_reads_objects_and_builds_the_catalogue() -> None:
    modules = "core.api.translation", "core.api.schemas", "core.catalogue.build"
    script = f"import sys, {', '.join(modules)}; print(*(name for name in sys.modules if name.startswith('core.')))"
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    parts = {name.split(".")[1] for name in answer.stdout.split()}
    assert parts <= {source.removesuffix(".py") for source in cache.SOURCES}
    assert all((ROOT / "core" / source).exists() for source in cache.SOURCES)


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
    """Kept are the catalogue, the objects that were read, and the fields of them that are unknown."""
    answers = [_plan(capsys), _plan(capsys)]
    assert len(list(folder.iterdir())) == 3
    monkeypatch.setenv(VARIABLE, "")
    assert answers == [_plan(capsys)] * 2


def test_an_object_that_is_set_aside_is_set_aside_each_time(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(UNUSABLE))
    arguments = ["plan", "-f", str(tmp_path / "bad.yaml"), "--now", NOW]
    said = [(main(arguments), capsys.readouterr()) for _ in range(2)]
    assert said[0] == said[1]
    assert said[0][0] == 1
    assert "NodePool/bad [CannotBeRead]" in said[0][1].out
    assert len(list(folder.iterdir())) == 2  # the catalogue's, and which of the object's fields are unknown


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
    of_ours = resources.NODE_POOLS, resources.EC2_NODE_CLASSES, resources.NODE_CLAIMS, resources.NODE_OVERLAYS
    return [obj for kind in of_ours for obj in inventory.objects[kind]]


def _readings(readers: KeptReaders, inventory: Inventory) -> list[object]:
    found = [
        *map(readers.node_pool, inventory.objects[resources.NODE_POOLS]),
        *map(readers.node_class, inventory.objects[resources.EC2_NODE_CLASSES]),
        *map(readers.node_claim, inventory.objects[resources.NODE_CLAIMS]),
        *map(readers.node_overlay, inventory.objects[resources.NODE_OVERLAYS]),
    ]
    readers.keep()
    return found


# The files of the cache: who may write them, what they hold, and how many there may be.


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
    monkeypatch.setattr(cache, "program_digest", lambda: b"")
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
    monkeypatch.setattr(cache, "BYTES_MAX", 100)
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


# What the program loads before it answers, and how long that takes beside its libraries alone.


LOADED: Final = """
import sys
from cli.__main__ import main
code = main(sys.argv[1:])
print(code, *sorted(sys.modules), file=sys.stderr)
"""
DATACLASSES: Final = """
import dataclasses, sys
from cli.__main__ import main
main(sys.argv[1:])
ours = [module for name, module in sys.modules.items() if name.startswith(("core.", "cli."))]
classes = {one for module in ours for one in vars(module).values() if dataclasses.is_dataclass(one) and isinstance(one, type)}
print(*sorted(one.__name__ for one in classes if one.__module__.startswith(("core.", "cli."))), file=sys.stderr)
"""
TASKS: Final = Path("/proc/self/task")
THREADS: Final = """
import os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "2"
from cli.__main__ import main
main(sys.argv[1:])
print("numpy" in sys.modules, len(os.listdir("/proc/self/task")), file=sys.stderr)
"""
PLAN: Final = ("plan", "-f", "examples/pools", "-f", "examples/workloads", "--now", "2026-11-20T00:00:00Z")
SCHEMAS: Final = ("pydantic", "core.api.translation")
SOLVER: Final = ("numpy", "highspy", "scipy")
AWS: Final = ("boto3", "botocore", "moto", "urllib3", "requests")
OURS_AND_LIBRARIES: Final = ("core", "msgspec", "yaml")

STARTS: Final = 5
START_RATIO_MAX: Final = 12.0
"""Processor time of a plan's start over that of its two libraries: 8 to 9 when it was set."""
SET_AT_CONSTRUCTION: Final = ["GreedyScheduler"]
"""Classes with attributes that they compute from others, which structs take as arguments."""


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("help",)])
def test_the_help_loads_nothing_that_answers(arguments: tuple[str, ...]) -> None:
    loaded = _loaded(arguments)
    answering = {name for name in loaded if name.partition(".")[0] in OURS_AND_LIBRARIES} - {"core"}
    assert answering == {"core.errors", "core.version"}
    assert not loaded & {"difflib", "traceback", "importlib.metadata"}


def test_a_second_plan_reads_objects_without_their_models(tmp_path: Path) -> None:
    """What is loaded takes most of the time in which a small plan is printed (docs/engineering/handbook/command-line.md)."""
    _loaded((*PLAN, "--time-budget", "0"), tmp_path)
    loaded = _loaded((*PLAN, "--time-budget", "0"), tmp_path)
    assert not loaded & {*SCHEMAS, *AWS}
    assert "core.scheduling.planner" in loaded


@pytest.mark.ci
def test_a_small_plan_takes_few_times_the_processor_time_of_its_libraries(tmp_path: Path) -> None:
    """A start is bounded in time, not in modules; both sides are measured here, so the machine's speed cancels out."""
    plan = (sys.executable, "-c", LOADED, *PLAN, "--time-budget", "0")
    libraries = (sys.executable, "-c", "import msgspec, yaml")
    _processor_seconds(plan, tmp_path)
    pairs = [(_processor_seconds(plan, tmp_path), _processor_seconds(libraries, tmp_path)) for _ in range(STARTS)]
    assert statistics.median(start / floor for start, floor in pairs) <= START_RATIO_MAX


@pytest.mark.skipif(not TASKS.exists(), reason="the system does not list a process's threads")
def test_a_plan_takes_one_thread() -> None:
    """Threads of the array library wait for each other, and sum in an order that depends on the number of processors."""
    answer = subprocess.run(  # noqa: S603 - the program and its arguments are ours
        [sys.executable, "-c", THREADS, *PLAN], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert answer.stderr.splitlines()[-1] == "True 1"


def test_a_plan_loads_no_other_dataclasses() -> None:
    """A dataclass compiles its methods whenever it is loaded (docs/engineering/handbook/pure-core.md)."""
    answer = subprocess.run(  # noqa: S603 - the program and its arguments are ours
        [sys.executable, "-c", DATACLASSES, *PLAN], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert answer.stderr.splitlines()[-1].split() == SET_AT_CONSTRUCTION


def test_a_code_is_explained_without_models_and_solver(tmp_path: Path) -> None:
    loaded = _loaded(("explain", "LimitReached"), tmp_path)
    assert not loaded & {*SCHEMAS, *SOLVER, *AWS}


def _processor_seconds(command: tuple[str, ...], folder: Path) -> float:
    """Return the processor seconds of a child process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, env={**os.environ, VARIABLE: str(folder)}, capture_output=True, check=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _loaded(arguments: tuple[str, ...], folder: Path | None = None) -> set[str]:
    environment = {**os.environ, VARIABLE: "" if folder is None else str(folder)}
    command = [sys.executable, "-c", LOADED, *arguments]
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return set(answer.stderr.splitlines()[-1].split()[1:])
