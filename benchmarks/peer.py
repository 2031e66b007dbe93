"""Karpenter's scheduler on the same files, through the Go program in `benchmarks/karpenter`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from benchmarks.files import Files
from benchmarks.workloads.manifests import NOW

_SOURCE: Final = Path(__file__).parent / "karpenter"
_BUILD_SECONDS_MAX: Final = 900
_PLAN_SECONDS_MAX: Final = 600


class PeerError(Exception):
    """Karpenter cannot be run; the message says why."""


class Peer:
    """Runs Karpenter, or returns its stored answer for the same files.

    Args:
        build: Folder for the program.
        memory: File with stored answers; None to run it each time. It is always written.
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
        built = subprocess.run(  # noqa: S603 - the program and its arguments are ours
            command, cwd=_SOURCE, capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS_MAX
        )
        if built.returncode:
            lines = built.stderr.strip().splitlines() or ["no message"]
            raise PeerError(f"go build failed: {lines[-1]}")

    def plan(self, files: Files, repeats: int) -> dict[str, Any]:
        """Karpenter's plan: `seconds` is the median time in its scheduler, without decoding and preparing.

        Raises:
            PeerError: If it fails or takes too long.
        """
        digest = files.digest()
        if self._stores is None or digest not in self._known:
            self._known[digest] = self._asked(files, repeats) | {"load": os.getloadavg()[0], "case": files.folder.name}
            if self._stores is not None:
                self._stores.write_text(json.dumps(self._known, indent=1))
        found: dict[str, Any] = self._known[digest]
        return found

    def _asked(self, files: Files, repeats: int) -> dict[str, Any]:
        command = [str(self._program), "-catalog", str(files.catalogue), "-now", NOW, "-repeat", str(repeats)]
        for path in files.manifests:
            command += ["-f", str(path)]
        try:
            ended = subprocess.run(  # noqa: S603 - the program and its arguments are ours
                command, capture_output=True, text=True, check=False, timeout=_PLAN_SECONDS_MAX
            )
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"stopped after {_PLAN_SECONDS_MAX} s") from error
        try:
            plan = json.loads(ended.stdout)
        except json.JSONDecodeError as error:
            raise PeerError(f"no answer: {ended.stderr.strip()[-200:]}") from error
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
