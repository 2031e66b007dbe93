"""Installs the locked dependencies of a bundle for Lambda's architecture, whatever machine builds it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from infra.packaging import elf, pruning
from infra.packaging.bundles import Bundle, Platform
from infra.packaging.bytecode import replace_sources

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = ROOT / "requirements.lock"
"""Every package that the functions need, directly or indirectly, with the hashes of its files; `make lock` writes it."""

MACHINES: Final = {"arm64": "aarch64", "x86_64": "x86_64"}
"""Lambda's architectures → their names in wheels."""

GLIBCS: Final = ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34")
"""Every accepted version: with fewer, pip finds no wheel for some pins. Lambda's Python 3.13 has glibc 2.34."""


def locked(bundle: Bundle) -> Mapping[str, str]:
    """Return package name → its entry in the lock (pin and hashes), for the packages of the bundle."""
    entries: dict[str, str] = {}
    for entry in LOCK.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        name, pinned, _ = entry.partition("==")
        if pinned and not entry.startswith("#"):
            entries[name.strip()] = entry
    return {name: entry for name, entry in sorted(entries.items()) if name not in bundle.without}


def install(target: Path, bundle: Bundle, platform: Platform) -> None:
    """Put the bundle's packages into `target`, each of them checked against its hashes.

    Raises:
        subprocess.CalledProcessError: If a file has another hash, or there is no wheel for the platform.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as requirements:
        requirements.write("\n".join(locked(bundle).values()))
        requirements.flush()
        subprocess.run(  # noqa: S603 - fixed arguments
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(target)]
            + [f"--platform={glibc}_{MACHINES[platform.architecture]}" for glibc in GLIBCS]
            + ["--implementation=cp", f"--python-version={platform.python}", "--only-binary=:all:", "--no-compile"]
            + ["--require-hashes", "--no-deps", "-r", requirements.name],
            check=True,
        )


def add_dependencies(folder: Path, bundle: Bundle, platform: Platform) -> None:
    """Install the bundle's dependencies into the folder: checked by hash, pruned, without symbol tables, as bytecode."""
    folder.mkdir(parents=True, exist_ok=True)
    install(folder, bundle, platform)
    pruning.prune(folder)
    for library in elf.libraries(folder):
        library.write_bytes(elf.without_symbols(library.read_bytes()))
    replace_sources(folder, platform.python)
