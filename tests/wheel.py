"""Builds the wheel, installs it in a clean environment, and asks it what a user would: `python -m tests.wheel FOLDER`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCENARIO = """
apiVersion: fleetwright.dev/v1
kind: Scenario
metadata: {name: wheel}
spec: {start: "2026-11-20T00:00:00Z", duration: 10m, seed: 1, manifests: [pools, app.yaml]}
"""


def main(target: Path) -> int:
    """Exit 0 when the wheel adds one package and answers; what it says is printed."""
    for stale in (target, ROOT / "build" / "lib"):  # setuptools packs whatever an earlier build left there
        shutil.rmtree(stale, ignore_errors=True)
    target.mkdir(parents=True)
    python = _environment(target / "build-env")
    _run(target, python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(target), str(ROOT))
    (wheel,) = target.glob("*.whl")
    top = {
        name.split("/", 1)[0]
        for name in zipfile.ZipFile(wheel).namelist()
        if ".dist-info" not in name and ".data" not in name
    }
    if top != {"fleetwright_eks"}:
        print(f"{wheel.name} adds {sorted(top)}, not fleetwright_eks alone")  # noqa: T201
        return 1
    clean = _environment(target / "clean")
    _run(target, clean, "-m", "pip", "install", "--quiet", str(wheel))
    (target / "pools").symlink_to(ROOT / "examples" / "pools")
    (target / "app.yaml").symlink_to(ROOT / "examples" / "workloads" / "shop.yaml")
    (target / "scenario.yaml").write_text(SCENARIO)
    program = str(clean.parent / "fleetwright")
    both = ("-f", "pools", "-f", "app.yaml")
    for arguments in (
        ("--version",),
        ("validate", *both),
        ("plan", *both),
        ("diff", "--from", "pools", "--to", "pools", "app.yaml"),
    ):
        _run(target, program, *arguments)
    refused = subprocess.run([program, "simulate", "scenario.yaml"], cwd=target, capture_output=True, text=True)  # noqa: S603, PLW1510
    if refused.returncode != 2 or "fleetwright-eks[simulate]" not in refused.stderr:
        print(f"without its extra, simulate said: {refused.stderr}")  # noqa: T201
        return 1
    _first_hour(target, clean.parent)
    _run(target, clean, "-m", "pip", "install", "--quiet", f"{wheel}[simulate]")
    _run(target, program, "simulate", "scenario.yaml", "--report", "wheel.html")
    _run(target, str(clean.parent / "kubectl-fleetwright"), "plan", *both, "-o", "name")
    return 0


def _first_hour(folder: Path, programs: Path) -> None:
    """Play the commands of `examples/first-hour.sh` with the wheel alone: of the checkout it has the manifests only."""
    (folder / "examples").mkdir()
    for name in ("pools", "workloads"):
        shutil.copytree(ROOT / "examples" / name, folder / "examples" / name)
    lines = (ROOT / "examples" / "first-hour.sh").read_text(encoding="utf-8").splitlines()
    commands = [line.partition(" | ")[0] for line in lines if line.startswith("fleetwright ")]
    for command in (*commands, "fleetwright metrics -f examples/pools", "fleetwright metrics --dashboard"):
        name, *words = shlex.split(command)
        _run(folder, programs / name, *words, may_say_no=True)


def _environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def _run(folder: Path, program: Path | str, *arguments: str, may_say_no: bool = False) -> None:
    """Run a program; with `may_say_no` a negative answer is one, too."""
    print("$", Path(program).name, *arguments, flush=True)  # noqa: T201
    beside = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    beside["PATH"] = f"{Path(program).parent}:{beside.get('PATH', '')}"
    ran = subprocess.run([str(program), *arguments], cwd=folder, check=False, env=beside)  # noqa: S603
    if ran.returncode not in ((0, 1) if may_say_no else (0,)):
        raise subprocess.CalledProcessError(ran.returncode, ran.args)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
