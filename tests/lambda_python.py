"""Prints the Python that Lambda runs (3.13), wherever this machine has it: `python -m tests.lambda_python`.

A version manager's shim answers to the name without being one, so each candidate is asked for its version. Exit code 2 where
there is none.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

VERSION: Final = (3, 13)
_ANSWER_SECONDS_MAX: Final = 30.0


def main() -> int:
    """Print the first that answers with the right version."""
    for candidate in _candidates():
        if _version(candidate) == VERSION:
            sys.stdout.write(f"{candidate}\n")
            return 0
    wanted = ".".join(map(str, VERSION))
    sys.stderr.write(f"Python {wanted} is not on this machine: install it, or `pyenv install {wanted}`\n")
    return 2


def _candidates() -> Iterator[str]:
    name = f"python{VERSION[0]}.{VERSION[1]}"
    if found := shutil.which(name):
        yield found
    managers = [
        ["pyenv", "prefix", f"{VERSION[0]}.{VERSION[1]}"],
        ["uv", "python", "find", f"{VERSION[0]}.{VERSION[1]}"],
    ]
    for command in managers:
        if shutil.which(command[0]):
            said = _output(command)
            for line in said.splitlines()[:1]:
                yield str(Path(line) / "bin" / name) if Path(line).is_dir() else line


def _version(python: str) -> tuple[int, ...]:
    said = _output([python, "-c", "import sys; print(*sys.version_info[:2])"])
    return tuple(int(part) for part in said.split()) if said.replace(" ", "").strip().isdecimal() else ()


def _output(command: list[str]) -> str:
    try:
        ended = subprocess.run(  # noqa: S603 - names and versions of this module
            command, capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS_MAX
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout if ended.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
