"""Runs Karpenter's scheduler and disruption methods on the same files, through the Go program in `benchmarks/karpenter`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.files import Files
from benchmarks.workloads.manifests import NOW

_SOURCE: Final = Path(__file__).parent / "karpenter"
_BUILD_SECONDS_MAX: Final = 900
_PLAN_SECONDS_MAX: Final = 600
_WALL_PER_CPU: Final = 8
"""On a busy machine a CPU second takes several seconds."""
_PINNED: Final = re.compile(r"sigs\.k8s\.io/karpenter (v\S+)")


class PeerError(Exception):
    """Karpenter cannot be run; the message says why."""


def karpenter_version() -> str:
    """The release of Karpenter that the program is built from, as `benchmarks/karpenter/go.mod` pins it."""
    pinned = _PINNED.search((_SOURCE / "go.mod").read_text())
    if pinned is None:
        raise PeerError(f"{_SOURCE / 'go.mod'} requires no sigs.k8s.io/karpenter")
    return pinned.group(1)


class Peer:
    """Runs Karpenter, or returns its stored answer for the same files.

    Args:
        build: Folder for the program.
        memory: File with stored answers, which is also written; None to run Karpenter each time.
    """

    def __init__(self, build: Path, memory: Path | None) -> None:
        self._program = build / "karpenter"
        self._stores = memory
        self._known: dict[str, Any] = json.loads(memory.read_text()) if memory and memory.is_file() else {}

    def build(self) -> None:
        """Compile the program; a second time takes a second.

        Raises:
            PeerError: If there is no Go, or it cannot fetch the modules.
        """
        go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
        if go is None:
            raise PeerError("Go is not installed")
        self._program.parent.mkdir(parents=True, exist_ok=True)
        command = [go, "build", "-o", str(self._program.resolve()), "."]
        environment = {**os.environ, "GOTOOLCHAIN": go_toolchain()}
        built = subprocess.run(  # noqa: S603 - the program and its arguments are ours
            command,
            cwd=_SOURCE,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_BUILD_SECONDS_MAX,
        )
        if built.returncode:
            lines = built.stderr.strip().splitlines() or ["no message"]
            raise PeerError(f"go build failed: {lines[-1]}")

    def plan(self, files: Files, repeats: int) -> dict[str, Any]:
        """Return Karpenter's plan; `seconds` is the median time in its scheduler, without decoding and preparation.

        Raises:
            PeerError: If it fails or takes too long.
        """
        arguments = ("-repeat", str(repeats))
        return self._stored(
            files.digest(), files, lambda: _plan_figures(self._asked(files, arguments, _PLAN_SECONDS_MAX))
        )

    def disruption(self, files: Files, *, spot_to_spot: bool, cpu_seconds: int) -> dict[str, Any]:
        """Return the result of Karpenter's own moves: each command is carried out, within budgets, before the next is searched.

        Args:
            files: The cluster.
            spot_to_spot: Whether the feature gate SpotToSpotConsolidation is on.
            cpu_seconds: The time limit of its methods; `ended` is false if the limit stopped them.

        Raises:
            PeerError: If it fails.
        """
        arguments = ("-disrupt-seconds", str(cpu_seconds), *(["-spot-to-spot"] if spot_to_spot else []))
        gate = "spot-to-spot" if spot_to_spot else "strict"
        return self._stored(
            f"{files.digest()}-{gate}-{cpu_seconds}",
            files,
            lambda: self._asked(files, arguments, cpu_seconds * _WALL_PER_CPU),
        )

    def _stored(self, key: str, files: Files, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return Karpenter's answer, or the stored answer of this key."""
        if self._stores is None or key not in self._known:
            self._known[key] = ask() | {"load": os.getloadavg()[0], "case": files.folder.name}
            if self._stores is not None:
                self._stores.parent.mkdir(parents=True, exist_ok=True)
                self._stores.write_text(json.dumps(self._known, indent=1))
        stored: dict[str, Any] = self._known[key]
        return stored

    def _asked(self, files: Files, arguments: Sequence[str], seconds_max: int) -> dict[str, Any]:
        command = [str(self._program), "-catalog", str(files.catalogue), "-now", NOW, *arguments]
        for path in files.manifests:
            command += ["-f", str(path)]
        try:
            ended = subprocess.run(  # noqa: S603 - the program and its arguments are ours
                command, capture_output=True, text=True, check=False, timeout=seconds_max
            )
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"stopped after {seconds_max} s") from error
        try:
            answer: dict[str, Any] = json.loads(ended.stdout)
        except json.JSONDecodeError as error:
            raise PeerError(f"no answer: {ended.stderr.strip()[-200:]}") from error
        return answer


def _plan_figures(plan: dict[str, Any]) -> dict[str, Any]:
    return {
        "seconds": plan["timing"]["solveSeconds"],
        "cpuSeconds": plan["timing"]["solveCpuSeconds"],
        "scheduleSeconds": plan["timing"]["scheduleSeconds"],
        "runs": plan["timing"]["runs"],
        "peakBytes": plan["timing"]["peakBytes"],
        "claims": len(plan["nodeClaims"]),
        "bindings": len(plan["bindings"]),
        "unschedulable": len(plan["unschedulable"]),
        "cost": plan["cost"]["hourly"],
    }


def go_toolchain() -> str:
    """Return the setting that lets Go fetch the release which a module asks for; images with Go in them forbid it (`local`)."""
    wanted = os.environ.get("GOTOOLCHAIN", "")
    return "auto" if wanted in ("", "local") else wanted


def built_peer(build: Path, memory: Path | None, *, is_wanted: bool) -> tuple[Peer | None, str]:
    """Return Karpenter, ready to run, or the reason why it is left out."""
    if not is_wanted:
        return None, "not asked"
    peer = Peer(build, memory)
    try:
        peer.build()
    except PeerError as error:
        return None, str(error)
    return peer, ""
