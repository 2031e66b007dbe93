"""The programs of the parts: built once from pinned modules, kept outside the repository."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.peer import go_toolchain
from tests.e2e.parts.processes import LackingError, PartError

MODULES: Final = Path(__file__).parents[1] / "modules"
RELEASES: Final = {
    "1.37": ("v1.37.2", "controlplane_1_37"),
    "1.35": ("v1.35.1", "controlplane"),
    "1.31": ("v1.31.4", "controlplane_1_31"),
}
"""Kubernetes' releases that the suite runs on: the version, and the module that pins it."""

RELEASE_VARIABLE: Final = "KUBERNETES"
RELEASE_DEFAULT: Final = "1.37"
KWOK_VERSION: Final = "v0.8.0"
"""Another module than Kubernetes: it does not compile against 1.35's libraries."""

KARPENTER_MODULE: Final = "sigs.k8s.io/karpenter"
KARPENTER_PACKAGE: Final = f"{KARPENTER_MODULE}/kwok"
BUILD_SECONDS: Final = 3600.0
"""One program; kube-apiserver takes six minutes of two idle cores when Go's cache is empty, and half an hour of busy ones."""

_UNREACHABLE: Final = re.compile(
    r"dial tcp|no such host|Temporary failure in name resolution|Name or service not known|Network is unreachable"
    r"|Connection refused|connection refused|TLS handshake timeout|Unknown host|NewConnectionError|ConnectTimeoutError"
)
"""What Go, Maven and pip say of a registry that they cannot reach."""

NETWORK: Final = "it takes a Go module proxy (GOPROXY), Maven's repository (~/.m2/settings.xml) and 6 GB of disk."
"""The usual reason why a pinned build fails."""

_PLAIN: Final = ("-trimpath", "-buildvcs=false", "-ldflags")
_STAMP: Final = "k8s.io/component-base/version"
"""Where Kubernetes keeps what `/version` tells; without it a server says v0.0.0 and clients mistrust it."""


@dataclass(frozen=True)
class Binaries:
    """Where each program is. `dynamodb_local` is a folder of archives, the others are executables."""

    kube_apiserver: Path
    kube_scheduler: Path
    kube_controller_manager: Path
    etcd: Path
    kwok: Path
    dynamodb_local: Path


@dataclass(frozen=True)
class Recipe:
    """How one program is built.

    Attributes:
        name: The resulting file or folder.
        folder: Where the command runs.
        command: `{out}` in it is the path of the result, `{folder}` its folder.
        pins: What decides the result besides the command; a change rebuilds.
        environment: Variables besides the process's own.
    """

    name: str
    folder: Path
    command: tuple[str, ...]
    pins: tuple[Path, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """Names the result: the same key, the same program."""
        text = hashlib.sha256("\0".join((platform.machine(), *self.command)).encode())
        for path in self.pins:
            text.update(path.read_bytes())
        return f"{self.name}-{text.hexdigest()[:12]}"


def cache_folder() -> Path:
    """Where the built programs are: `FLEETWRIGHT_CACHE`, else the user's cache folder (XDG)."""
    if chosen := os.environ.get("FLEETWRIGHT_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fleetwright" / "e2e"


def unbuilt() -> list[str]:
    """Return the programs that are not built yet."""
    return [recipe.name for recipe in recipes() if not _existing(recipe)]


def binaries() -> Binaries:
    """Every program, built first where it is missing. Two processes at once: one builds, the other waits for it.

    Raises:
        PartError: If a build fails; its output is in the message.
    """
    found = {recipe.name: _existing(recipe) or _build(recipe) for recipe in recipes()}
    return Binaries(**{name.replace("-", "_"): path for name, path in found.items()})


def karpenter() -> Path:
    """Karpenter's controller with its kwok provider, the peer that we are measured against; built where it is missing.

    Raises:
        PartError: If the build fails; its output is in the message.
    """
    module = MODULES / "karpenter"  # Go fetches the release that its go.mod asks for
    build = ("go", "build", *_PLAIN, "-s -w", "-o", "{out}", KARPENTER_PACKAGE)
    recipe = Recipe("karpenter", module, build, (module / "go.mod", module / "go.sum"), _go())
    return _existing(recipe) or _build(recipe)


def hollow_kubelet() -> Path:
    """A kubelet as Kubernetes ships it over a runtime that pretends; built where it is missing.

    It has its own module: otherwise each change of the control plane's requirements would rebuild it.

    Raises:
        PartError: If the build fails; its output is in the message.
    """
    return kept_program("hollow-kubelet", MODULES / "hollow_kubelet")


def kueue() -> Path:
    """Kueue's controllers and scheduler without its webhooks; built where it is missing.

    Raises:
        PartError: If the build fails; its output is in the message.
    """
    return kept_program("kueue", MODULES / "kueue")


def kept_program(name: str, module: Path) -> Path:
    """The program of a module's folder; built where none of the same sources is kept.

    Raises:
        PartError: If the build fails; its output is in the message.
    """
    build = ("go", "build", *_PLAIN, "-s -w", "-o", "{out}", ".")
    pins = (module / "go.mod", module / "go.sum", *sorted(module.glob("*.go")))
    recipe = Recipe(name, module, build, pins, _go())
    return _existing(recipe) or _build(recipe)


def sources(folder: str, module: str) -> Path:
    """A module in Go's cache, as go.mod in this folder of `modules` pins it: its definitions are there. Raises PartError."""
    command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    environment = {**os.environ, **dict(_go())}
    done = subprocess.run(command, cwd=MODULES / folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise PartError(f"{module} is not in Go's cache; run `go mod download` there: {done.stderr[-1000:]}")
    return Path(done.stdout.strip())


def recipes() -> tuple[Recipe, ...]:
    """Return the recipes of all programs, in the order in which they are built."""
    own = MODULES / RELEASES[release()][1]
    module, go = own if (own / "etcd").exists() else MODULES / "controlplane", _go()
    pins = (module / "go.mod", module / "go.sum", module / "etcd" / "main.go")
    kwok = ("go", "install", *_PLAIN, "-s -w", f"sigs.k8s.io/kwok/cmd/kwok@{KWOK_VERSION}")
    pom = MODULES / "dynamodb_local" / "pom.xml"
    archives = ("mvn", "-q", "-B", "-f", str(pom.name), "dependency:copy-dependencies", "-DoutputDirectory={out}")
    return (
        Recipe("dynamodb-local", pom.parent, (*archives, "-DincludeScope=runtime"), (pom,)),
        _kubernetes("kube-apiserver"),
        Recipe("etcd", module, ("go", "build", *_PLAIN, "-s -w", "-o", "{out}", "./etcd"), pins, go),
        _kubernetes("kube-scheduler"),
        _kubernetes("kube-controller-manager"),
        Recipe("kwok", module, kwok, (), (*go, ("GOBIN", "{folder}"))),
    )


def release() -> str:
    """The release of Kubernetes that `KUBERNETES` asks for, as `1.31`.

    Raises:
        PartError: If no module pins that release.
    """
    chosen = os.environ.get(RELEASE_VARIABLE) or RELEASE_DEFAULT
    if chosen not in RELEASES:
        raise PartError(f"{RELEASE_VARIABLE}={chosen}: the suite has modules for {', '.join(sorted(RELEASES))}")
    return chosen


def _kubernetes(name: str) -> Recipe:
    version, folder = RELEASES[release()]
    module = MODULES / folder
    pins = (module / "go.mod", module / "go.sum", *sorted(module.glob("etcd/main.go")))
    major, minor, _ = version.removeprefix("v").split(".")
    stamp = f"-X {_STAMP}.gitVersion={version} -X {_STAMP}.gitMajor={major} -X {_STAMP}.gitMinor={minor}"
    build = ("go", "build", *_PLAIN, f"-s -w {stamp}", "-o", "{out}", f"k8s.io/kubernetes/cmd/{name}")
    return Recipe(name, module, build, pins, _go())


def _go() -> tuple[tuple[str, str], ...]:
    """Return Go's settings."""
    return (
        ("CGO_ENABLED", "0"),
        ("GOFLAGS", f"{os.environ.get('GOFLAGS', '')} -p=2".strip()),
        ("GOTOOLCHAIN", go_toolchain()),
    )


def _existing(recipe: Recipe) -> Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    places = [Path(assets)] if assets else []
    for place in (*places, cache_folder() / recipe.key):
        if (path := place / recipe.name).exists():
            return path
    return None


def _build(recipe: Recipe) -> Path:
    """Build into a folder beside, then give it its name: who finds the name finds all of it."""
    with lock(cache_folder()):
        if path := _existing(recipe):
            return path
        print(f"building {recipe.name} …", file=sys.stderr)
        began = time.monotonic()
        work = Path(tempfile.mkdtemp(prefix=f"{recipe.name}.", dir=cache_folder()))
        try:
            _run(recipe, work)
            shutil.rmtree(final := cache_folder() / recipe.key, ignore_errors=True)
            work.rename(final)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        print(f"built {recipe.name} in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return final / recipe.name


def _run(recipe: Recipe, work: Path) -> None:
    places: Mapping[str, str] = {"out": str(work / recipe.name), "folder": str(work)}
    command = [word.format(**places) for word in recipe.command]
    extra = {name: value.format(**places) for name, value in recipe.environment}
    try:
        done = subprocess.run(
            command,
            cwd=recipe.folder,
            env={**os.environ, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PartError(f"{recipe.name} was not built: {error}; {NETWORK}") from error
    if done.returncode or not (work / recipe.name).exists():
        raise (LackingError if no_registry_answers(done.stdout) else PartError)(
            f"{recipe.name} was not built, see above; {NETWORK}\n`{' '.join(command)}` said\n{done.stdout[-4000:]}"
        )


def no_registry_answers(said: str) -> bool:
    """Whether a tool failed because it could not reach where it loads from, not because of what it was to build."""
    return _UNREACHABLE.search(said) is not None


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Be the only process that fills this folder, which is made first."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


# The tools that the parts are built and run with: which are missing, and how to get them.


GO_VERSION: Final = (1, 26)
"""What Kubernetes 1.37's own go.mod asks for."""

JAVA_VERSION: Final = 17
"""What DynamoDB Local 2.6 is compiled for."""

ASK_SECONDS: Final = 30


def missing(*, to_build: bool = True) -> list[str]:
    """What is not there, a sentence each with how to get it. `to_build` false: only what running the built parts takes."""
    wanted = [_java(), *([_go_command(), _maven()] if to_build else [])]
    return [sentence for sentence in wanted if sentence]


def _go_command() -> str:
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
