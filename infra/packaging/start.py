"""Starts each function from its bundle as built: the check of imports ends at packages of others, and sees no data files.

A machine of another architecture than Lambda's cannot load the bundle's libraries: its own replace them, in a copy. Only Linux
can load either: elsewhere nothing is started.
"""

from __future__ import annotations

import platform as machine
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from infra.packaging import elf
from infra.packaging.bundles import Bundle, Platform
from infra.packaging.bytecode import interpreter
from infra.packaging.dependencies import add_dependencies
from infra.packaging.manifest import PackageError
from infra.packaging.pruning import AWS_SERVICES
from installation.wiring import FunctionSpec

CONTROLLERS: Final = {
    "watch_audit_log": "audit_log",
    "provision": "provisioning",
    "disrupt": "disruption",
    "decide_part": "part_decisions",
    "execute": "execution",
    "interrupt": "interruptions",
    "reconcile": "reconciliation",
    "refresh_catalogue": "catalogue_refresh",
}
"""Function → the attribute of the application that it uses."""

ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
    "CLUSTER_NAME": "prod",
    "TABLE_NAME": "table",
    "BUCKET_NAME": "bucket",
    "WAKE_UP_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/1/wake-ups",
    "WORK_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/1/work",
    "LOOK_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/1/looks",
    "SCHEDULE_GROUP": "group",
    "SCHEDULE_ROLE_ARN": "arn:aws:iam::1:role/role",
    "KILL_SWITCH_PARAMETER": "/fleetwright/prod/mode",
    "POWERTOOLS_SERVICE_NAME": "fleetwright-prod",
}

STARTING: Final = """
import sys
from importlib import import_module
handler, controller, modules, services = sys.argv[1:]
import_module(handler)
getattr(import_module("lambdas.bootstrap").application(), controller)
for name in modules.split():
    import_module(name)
session = import_module("adapters.aws.session").EnvironmentSession()
for service in services.split():
    session.client(service)
"""
"""What a start does, then every module that a run imports later, and a client of each service."""


ARCHITECTURES: Final = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "x86_64"}
"""What systems call a machine → Lambda's name of its architecture."""

STARTS_WITHIN: Final = 120
"""Seconds; a start takes one or two."""


def why_not_started() -> str:
    """Return why this machine can start no function from its bundle; empty if it can."""
    system, architecture = machine.system(), machine.machine()
    if system != "Linux":
        return f"the bundles' libraries are for Linux, and this is {system or 'an unknown system'}"
    return "" if architecture in ARCHITECTURES else f"there are no libraries of the bundles for {architecture}"


def host(python: str) -> Platform:
    """Return the platform of this machine, for Lambda's version of Python; `why_not_started` says of which there is none."""
    return Platform(ARCHITECTURES[machine.machine()], python)


def check_starts(
    folder: Path,
    bundle: Bundle,
    platform: Platform,
    functions: Iterable[tuple[FunctionSpec, Sequence[str]]],
) -> None:
    """Start each function in a process that sees the bundle and the standard library alone, if this machine can.

    Args:
        folder: The bundle.
        bundle: What it is.
        platform: What it was built for.
        functions: Each function, and every module that it ever imports.

    Raises:
        PackageError: If one fails; the message has its error.
    """
    if why_not_started():
        return
    here = host(platform.python)
    with tempfile.TemporaryDirectory() as made:
        if here != platform:
            folder = _with_libraries_of(here, folder, bundle, Path(made))
        for spec, modules in functions:
            _start(folder, bundle, spec, modules, platform.python)


def _start(folder: Path, bundle: Bundle, spec: FunctionSpec, modules: Sequence[str], python: str) -> None:
    handler = spec.handler.rpartition(".")[0]
    arguments = [handler, CONTROLLERS[spec.name], " ".join(modules), " ".join(AWS_SERVICES)]
    command = [interpreter(python), "-B", "-S", "-c", STARTING, *arguments]
    try:
        ended = subprocess.run(  # noqa: S603 - fixed arguments
            command,
            cwd=folder,
            env={**ENVIRONMENT, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=STARTS_WITHIN,
        )
    except subprocess.TimeoutExpired as error:
        says = f"function {spec.name} does not start within {STARTS_WITHIN} seconds"
        raise PackageError(f"bundle {bundle.name}: {says}") from error
    if ended.returncode:
        raise PackageError(f"bundle {bundle.name}: function {spec.name} does not start:\n{ended.stderr.rstrip()}")


def _with_libraries_of(here: Platform, folder: Path, bundle: Bundle, made: Path) -> Path:
    """Return a copy of the bundle that has the libraries of another platform, and is otherwise as built."""
    copy, libraries_folder = made / "copy", made / "own"
    shutil.copytree(folder, copy)
    for library in elf.libraries(copy):
        library.unlink()
    add_dependencies(libraries_folder, bundle, here)
    for library in elf.libraries(libraries_folder):
        target = copy / library.relative_to(libraries_folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    return copy
