"""Runs Helm and Kustomize on the charts and kustomizations of a folder, where the user asked for it and has the tools."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cli.errors import InputError
from cli.manifests.documents import Kustomizations
from cli.manifests.foreign import CHART, KUSTOMIZATIONS

_SECONDS_MAX: Final = 120


class Rendered(NamedTuple):
    """What a folder holds after its charts and kustomizations are rendered.

    Attributes:
        texts: What the tools wrote: source, and its text.
        files: The other files of the folder, which are read as they are.
    """

    texts: list[tuple[str, str]]
    files: list[Path]


def rendered(root: Path, files: Sequence[Path], *, helm: bool, kustomize: bool) -> Rendered:
    """Render the charts and kustomizations of a folder.

    Args:
        root: The folder.
        files: Its files.
        helm: Whether to render charts.
        kustomize: Whether to render kustomizations.

    Raises:
        InputError: If a tool is missing or fails.
    """
    charts = _outermost([file.parent for file in files if file.name == CHART]) if helm else []
    folders = Kustomizations(files, root).folders if kustomize else []
    texts = [_output(_command(("helm",), "--helm", "template", _argument(folder)), folder) for folder in charts]
    texts += [_output(_kustomize(folder), folder) for folder in folders]
    covered = [*charts, *(_roots_of(files) if folders else ())]
    return Rendered(texts, [file for file in files if not any(folder in file.parents for folder in covered)])


def _output(command: Sequence[str], folder: Path) -> tuple[str, str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)  # noqa: S603 - no shell
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"`{' '.join(command)}` did not end: {error}", source=str(folder)) from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        problem = f"`{' '.join(command)}` failed: {lines[-1] if lines else f'exit code {done.returncode}'}"
        raise InputError(problem, source=str(folder), hint="run that command to see all of its output")
    return f"{folder} ({Path(command[0]).name})", done.stdout


def _roots_of(files: Sequence[Path]) -> list[Path]:
    """Return the folders of all kustomizations: what they include comes from the rendered output."""
    folders = sorted({file.parent for file in files})
    return [folder for folder in folders if any((folder / name).is_file() for name in KUSTOMIZATIONS)]


def _outermost(folders: Sequence[Path]) -> list[Path]:
    return sorted({folder for folder in folders if not any(other in folder.parents for other in folders)})


def _kustomize(folder: Path) -> list[str]:
    if shutil.which("kustomize"):
        return _command(("kustomize",), "--kustomize", "build", _argument(folder))
    return _command(("kubectl",), "--kustomize", "kustomize", _argument(folder))


def _argument(folder: Path) -> str:
    """Return a folder as no tool takes it for an option: `--post-renderer=x` is a name that anyone can give a folder."""
    return os.path.join(os.curdir, folder)  # noqa: PTH118 - a Path drops the dot


def _command(tools: Sequence[str], flag: str, *arguments: str) -> list[str]:
    for tool in tools:
        path = shutil.which(tool)
        if path is not None:
            return [path, *arguments]
    name = "kustomize or kubectl" if flag == "--kustomize" else tools[0]
    raise InputError(f"needs {name}, which is not on the PATH", source=flag, hint="install it, or leave the flag out")
