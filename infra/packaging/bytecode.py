"""Compiles bytecode with an interpreter of Lambda's version; run as a program, it prints that interpreter's path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from infra.packaging.bundles import LAMBDA

TASK_ROOT: Final = PurePosixPath("/var/task")
"""Where Lambda unpacks a bundle; tracebacks show paths below it."""


class MissingInterpreterError(Exception):
    """No interpreter of the version is available."""


def interpreter(version: str) -> str:
    """Return a working Python of this minor version: this one, `python3.13` on the PATH, or one of pyenv's.

    The name on the PATH may be pyenv's shim, which exists for every version but fails for inactive ones.

    Raises:
        MissingInterpreterError: If there is none.
    """
    for candidate in _candidates(version):
        command = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed arguments
        if answer.returncode == 0 and answer.stdout.strip() == version:
            return candidate
    raise MissingInterpreterError(
        f"the functions run on Python {version}, and their bytecode takes an interpreter of that version: none was found as "
        f"python{version} on the PATH or under pyenv. Install one (`pyenv install {version}`, `uv python install {version}`)"
    )


def compile_sources(folder: Path, python: str, *, beneath: str = "") -> None:
    """Put bytecode without docstrings beside sources, in the layout that works without them.

    Tracebacks need only names and line numbers. `beneath` is the folder's path in the bundle.
    """
    deployed = str(TASK_ROOT / beneath)
    command = ["-m", "compileall", "-q", "--invalidation-mode=unchecked-hash", f"-s{folder}", f"-p{deployed}"]
    options = ["-b", "-o", "2"]
    # The bytecode is not checked against the sources, since unpacking changes their times.
    subprocess.run([interpreter(python), *command, *options, str(folder)], check=True)  # noqa: S603 - fixed arguments


def replace_sources(folder: Path, python: str) -> None:
    """Replace sources by bytecode."""
    compile_sources(folder, python)
    for source in sorted(folder.rglob("*.py")):
        source.unlink()


def _candidates(version: str) -> Iterator[str]:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        yield sys.executable
    path = shutil.which(f"python{version}")
    if path is not None:
        yield path
    yield from map(str, _of_pyenv(version))


def _of_pyenv(version: str) -> Iterable[Path]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return sorted(root.glob(f"versions/{version}*/bin/python{version}"), reverse=True)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{interpreter(LAMBDA.python)}\n")
    except MissingInterpreterError as error:
        sys.exit(str(error))
