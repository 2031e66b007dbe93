"""The command line as a wheel, and as a single file that needs Python alone."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from email.parser import Parser
from pathlib import Path
from typing import Final

from infra.packaging.dependencies import ROOT
from infra.release import requirements
from infra.release.version import Version

SHIV: Final = "shiv==1.0.8"
"""Packs site-packages with compiled modules, which `zipapp` cannot load: the file unpacks itself once, below ~/.shiv."""

TOOLS: Final = ("setuptools>=77", "wheel", SHIV)


def environment(epoch: int) -> dict[str, str]:
    """Return the environment of the tools: the same sources give the same bytes."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {**kept, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}


def build_tools(folder: Path) -> Path:
    """Return the interpreter of a fresh environment with the tools that build both."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *TOOLS], {})
    return python


def wheel(python: Path, target: Path, epoch: int) -> Path:
    """Build the wheel of the sources in ROOT.

    Raises:
        subprocess.CalledProcessError: If it cannot be built.
    """
    command = [str(python), "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([*command, "--no-build-isolation", "--wheel-dir", str(target), str(ROOT)], environment(epoch))
    (built,) = target.glob("*.whl")
    return built


def required(built: Path) -> list[str]:
    """Return what a wheel asks for without extras."""
    with zipfile.ZipFile(built) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        stated = Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", [])
    return [line for line in stated if "extra ==" not in line]


def file_name(version: Version) -> str:
    """Return the single file's name: it holds compiled modules of one system and one minor version of Python."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"fleetwright-{version.text}-{python}-{platform.system().lower()}_{platform.machine()}.pyz"


def single_file(python: Path, built: Path, target: Path, work: Path, epoch: int) -> Path:
    """Pack the wheel with its locked packages, each checked against its hashes, into one file; return their folder.

    Raises:
        subprocess.CalledProcessError: If a package has another hash or no wheel, or the file cannot be packed.
    """
    site, listed = work / "site", work / "locked.txt"
    entries = requirements.entries()
    listed.write_text("\n".join(entries[name] for name in requirements.closure(required(built))), encoding="utf-8")
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
        "--no-deps",
    ]
    install += ["--target", str(site), "--only-binary=:all:"]
    _run([*install, "--require-hashes", "-r", str(listed)], environment(epoch))
    _run([*install, "--upgrade", str(built)], environment(epoch))
    command = [str(python.parent / "shiv"), "--site-packages", str(site), "--reproducible", "--compressed"]
    command += ["--entry-point", "fleetwright_eks.__main__:main", "--output-file", str(target)]
    _run([*command, "--python", f"/usr/bin/env python{sysconfig.get_python_version()}"], environment(epoch))
    return site


def _run(command: list[str], variables: Mapping[str, str]) -> None:
    subprocess.run(command, check=True, env={**os.environ, **variables})  # noqa: S603 - our own tools
