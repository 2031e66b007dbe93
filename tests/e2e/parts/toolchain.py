"""The tools that the parts are built and run with: which are missing, and how to get them."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Final

GO_VERSION: Final = (1, 25)
"""What Kubernetes 1.35's own go.mod asks for."""

JAVA_VERSION: Final = 17
"""What DynamoDB Local 2.6 is compiled for."""

ASK_SECONDS: Final = 30


def missing(*, to_build: bool = True) -> list[str]:
    """What is not there, a sentence each with how to get it. `to_build` false: only what running the built parts takes."""
    wanted = [_java(), *([_go(), _maven()] if to_build else [])]
    return [sentence for sentence in wanted if sentence]


def _go() -> str:
    how = f"Go {_dotted(GO_VERSION)} or newer builds the control plane: https://go.dev/dl"
    found = _version("go", ("version",), r"go(\d+)\.(\d+)")
    return "" if found >= GO_VERSION else f"{how} (found: {_dotted(found)})."


def _java() -> str:
    how = f"Java {JAVA_VERSION} or newer runs DynamoDB Local: `apt install openjdk-{JAVA_VERSION}-jre-headless`, or https://adoptium.net"
    found = _version("java", ("-version",), r'version "(\d+)')
    return "" if found >= (JAVA_VERSION,) else f"{how} (found: {_dotted(found)})."


def _maven() -> str:
    if shutil.which("mvn"):
        return ""
    return "Maven (mvn) fetches DynamoDB Local: `apt install maven`, or https://maven.apache.org/download.cgi (found: none)."


def _version(tool: str, arguments: tuple[str, ...], pattern: str) -> tuple[int, ...]:
    """The version that the tool tells, empty where there is no such tool or it tells none."""
    if not shutil.which(tool):
        return ()
    try:
        said = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(pattern, said.stdout + said.stderr)
    return tuple(int(number) for number in match.groups()) if match else ()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version)) or "none"
