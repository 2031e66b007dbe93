"""Runs Helm and Kustomize on the charts and kustomizations of a folder, where the user asked for it and has the tools."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cli.errors import InputError
from cli.manifests.foreign import CHART, KUSTOMIZATIONS, Kustomizations
from cli.manifests.inventory import STANDARD_INPUT

if TYPE_CHECKING:
    from cli.manifests.reading import Input

_SECONDS_MAX: Final = 120


class Renderer:
    """Adds a folder to the input with its charts and kustomizations rendered, and its other files as they are."""

    def __init__(self, found: Input, *, helm: bool, kustomize: bool) -> None:
        self._found = found
        self._helm = helm
        self._kustomize = kustomize

    def add(self, path: str) -> None:
        """Add a path.

        Raises:
            InputError: If a tool is missing or fails, or there is no such path.
        """
        from cli.manifests.reading import files_in

        root = Path(path)
        if path == STANDARD_INPUT or not root.is_dir():
            self._found.add(path)
            return
        sources = [Path(source) for source in files_in(path)]
        charts = _outermost([file.parent for file in sources if file.name == CHART]) if self._helm else []
        folders = Kustomizations(sources, root).folders if self._kustomize else []
        for folder in charts:
            self._render(_command(("helm",), "--helm", "template", str(folder)), folder)
        for folder in folders:
            self._render(_kustomize(folder), folder)
        if not folders:
            self._found.add_folder(root, [file for file in sources if not any(c in file.parents for c in charts)])
        else:
            covered = [*charts, *_roots_of(sources)]
            self._found.add_folder(root, [file for file in sources if not any(c in file.parents for c in covered)])

    def _render(self, command: Sequence[str], folder: Path) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)  # noqa: S603 - no shell
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"`{' '.join(command)}` did not end: {error}", source=str(folder)) from error
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            problem = f"`{' '.join(command)}` failed: {lines[-1] if lines else f'exit code {done.returncode}'}"
            raise InputError(problem, source=str(folder), hint="run that command to see all of its output")
        self._found.add_text(done.stdout, f"{folder} ({Path(command[0]).name})")


def _roots_of(sources: Sequence[Path]) -> list[Path]:
    """Return the folders of all kustomizations: what they include comes from the rendered output."""
    return sorted(
        {folder for folder in {file.parent for file in sources} if any((folder / n).is_file() for n in KUSTOMIZATIONS)}
    )


def _outermost(folders: Sequence[Path]) -> list[Path]:
    return sorted({folder for folder in folders if not any(other in folder.parents for other in folders)})


def _kustomize(folder: Path) -> list[str]:
    if shutil.which("kustomize"):
        return _command(("kustomize",), "--kustomize", "build", str(folder))
    return _command(("kubectl",), "--kustomize", "kustomize", str(folder))


def _command(tools: Sequence[str], flag: str, *arguments: str) -> list[str]:
    for tool in tools:
        path = shutil.which(tool)
        if path is not None:
            return [path, *arguments]
    name = "kustomize or kubectl" if flag == "--kustomize" else tools[0]
    raise InputError(f"needs {name}, which is not on the PATH", source=flag, hint="install it, or leave the flag out")
