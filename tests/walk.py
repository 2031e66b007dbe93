"""Walks through the code as a reader would: `python -m tests.walk` lists the files that one decision enters, in order.

Two simulated clusters are profiled: one in which a Deployment of one pod appears, and one that grows to forty pods and shrinks
to nine, so that nodes are consolidated. Beside them: the files of a `plan` of one pod, the modules that a function loads at its
start, and the longest chain of imports. All of it goes to build/walk.json.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import yaml

from cli.__main__ import main as command_line
from installation.wiring import BY_NAME, FunctionSpec
from simulator.invocation.sandbox import Sandboxes
from tests.infra.test_snap_start import loaded_by
from tests.simulation.worlds import catalogue, deployment, node_pool, play

ROOT: Final = Path(__file__).parents[1]
RUNTIME: Final = ("core", "installation", "adapters", "lambdas")
OWN: Final = (*RUNTIME, "cli")
ALL: Final = (*OWN, "simulator")

FILES_MAX: Final = {"provision": 140, "plan": 75, "consolidation": 185}
"""The most own files on a route; a process that has loaded nothing before enters a few more than another."""
START_FILES_MAX: Final = 170
"""The most own files that a cold start of a function loads, without package markers."""
CHAIN_MAX: Final = 40
"""The most files of a chain of imports, lazy ones included."""


class Route:
    """The own files in which functions were called, in the order in which they were entered first.

    Attributes:
        files: The files, from the root of the repository; the values mean nothing.
    """

    def __init__(self, packages: tuple[str, ...]) -> None:
        self._prefixes = tuple(f"{ROOT}/{package}/" for package in packages)
        self.files: dict[str, None] = {}

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow what runs meanwhile in this thread and in those that it starts."""
        before = sys.getprofile()
        sys.setprofile(self._see)
        threading.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(before)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(self._prefixes):
            self.files.setdefault(code.co_filename.removeprefix(f"{ROOT}/"))


def routes_of(steps: list[dict[str, Any]], folder: Path, **spec: Any) -> dict[str, Route]:
    """Play a scenario, and return the route of each function's invocations."""
    routes = {name: Route(RUNTIME) for name in BY_NAME}
    call = Sandboxes._call

    def followed(self: Sandboxes, function: FunctionSpec, *arguments: Any) -> Any:
        with routes[function.name].followed():
            return call(self, function, *arguments)

    Sandboxes._call = followed  # type: ignore[method-assign,assignment]
    try:
        play(folder, node_pool(), steps=steps, **spec)
    finally:
        Sandboxes._call = call  # type: ignore[method-assign]
    return routes


def pod_route(folder: Path) -> list[str]:
    """The files that one pod enters in `provision`."""
    (folder / "web.yaml").write_text(yaml.safe_dump(deployment(1)))
    route = routes_of([{"at": "5m", "apply": ["web.yaml"]}], folder, duration="20m")["provision"]
    return list(route.files)


def consolidation_route(folder: Path) -> list[str]:
    """The files that a consolidation enters in `disrupt` and `execute`."""
    (folder / "web.yaml").write_text(yaml.safe_dump(deployment(40)))
    steps: list[dict[str, Any]] = [
        {"at": "5m", "apply": ["web.yaml"]},
        {"at": "20m", "scale": {"kind": "Deployment", "namespace": "default", "name": "web", "replicas": 9}},
    ]
    routes = routes_of(steps, folder, duration="1h")
    return list(routes["disrupt"].files | routes["execute"].files)


def plan_route(folder: Path) -> list[str]:
    """The files that one pod enters in the command `plan`."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
    pod["spec"] = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}  # type: ignore[assignment]
    (folder / "pod.yaml").write_text(yaml.safe_dump(pod))
    (folder / "catalogue.json").write_text(json.dumps(catalogue()))
    (folder / "pool.yaml").write_text(yaml.safe_dump(node_pool()))
    arguments = ["plan", "-f", str(folder / "pod.yaml"), "-f", str(folder / "pool.yaml")]
    arguments += ["--catalog", str(folder / "catalogue.json"), "--now", "2026-11-20T00:00:00Z", "-o", "json"]
    route = Route(OWN)
    with contextlib.redirect_stdout(io.StringIO()), route.followed():
        command_line(arguments)
    return list(route.files)


def start_modules(function: str) -> list[str]:
    """The own modules that a cold start of the function loads, without package markers."""
    own = (name for name in loaded_by(function) if name.partition(".")[0] in RUNTIME)
    return sorted(name for name in own if ROOT.joinpath(*name.split(".")).with_suffix(".py").exists())


def imports(packages: tuple[str, ...] = ALL) -> dict[str, frozenset[str]]:
    """File → the files of these packages that it imports, at its top or later."""
    files = sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}
    return {
        str(path.relative_to(ROOT)): frozenset(
            str(modules[name].relative_to(ROOT)) for name in _imported(path, modules) if modules[name] != path
        )
        for path in files
    }


def _imported(path: Path, modules: Mapping[str, Path]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {
                whole if (whole := f"{node.module}.{alias.name}") in modules else node.module for alias in node.names
            }
    return {name for name in names if name in modules and modules[name].name != "__init__.py"}


def longest_chain(graph: Mapping[str, frozenset[str]]) -> list[str]:
    """The longest chain of files of which each imports the next. The graph has no cycle: a contract forbids it."""
    longest: dict[str, tuple[str, ...]] = {}

    def below(file: str) -> tuple[str, ...]:
        if file not in longest:
            longest[file] = (file, *max((below(other) for other in sorted(graph[file])), key=len, default=()))
        return longest[file]

    return list(max((below(file) for file in graph), key=len))


def measured() -> dict[str, Any]:
    """All that build/walk.json has."""
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / part for part in ("pod", "consolidation", "plan")]
        for folder in folders:
            folder.mkdir()
        routes = {
            "pod": pod_route(folders[0]),
            "consolidation": consolidation_route(folders[1]),
            "plan": plan_route(folders[2]),
        }
    chain = longest_chain(imports())
    return {
        **{name: {"files": files, "count": len(files)} for name, files in routes.items()},
        "starts": {name: len(start_modules(name)) for name in BY_NAME},
        "importChain": {"count": len(chain), "files": chain},
    }


def main() -> int:
    """Write build/walk.json, and print the counts."""
    walk = measured()
    target = ROOT / "build" / "walk.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(walk, indent=1) + "\n")
    for name in ("pod", "consolidation", "plan", "importChain"):
        sys.stdout.write(f"{name}: {walk[name]['count']} files\n")
    starts = ", ".join(f"{name} {count}" for name, count in walk["starts"].items())
    sys.stdout.write(f"own files that a start loads: {starts}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
