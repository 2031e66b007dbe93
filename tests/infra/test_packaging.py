"""The deployed bundles: locked by hash, complete, for Lambda's architecture, and built from these sources."""

from __future__ import annotations

import ast
import ctypes
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import botocore
import botocore.session
import numpy as np
import pytest
from botocore.loaders import Loader

from core.version import VERSION
from infra.packaging import closure, elf, manifest, pruning, sbom, start
from infra.packaging.bundles import BASE, BUNDLES, LAMBDA, SOLVER, Bundle, bundle_of
from infra.packaging.bytecode import MissingInterpreterError, interpreter
from infra.packaging.dependencies import LOCK, ROOT, locked
from infra.packaging.manifest import Manifest, Packaged, PackageError, check_package
from infra.packaging.sources import digest
from infra.packaging.start import ENVIRONMENT, check_starts, host, why_not_started
from installation.wiring import BY_NAME, FUNCTIONS
from tests.access.template import actions_of, statements_of

MODULE_OF = {
    "backports-zstd": "backports",
    "aws-lambda-powertools": "aws_lambda_powertools",
    "pydantic-core": "pydantic_core",
}


NO_OPERATIONS = {
    "ConditionCheckItem",  # a part of TransactWriteItems
    "PassRole",
    "TagInstanceProfile",  # with CreateInstanceProfile
    "ListBucket",  # lets GetObject say that there is none
    *("ReceiveMessage", "ChangeMessageVisibility", "GetQueueUrl", "DeleteMessage", "GetQueueAttributes"),  # Lambda's
}
"""Actions that functions need and do not call themselves."""


def test_the_lock_pins_what_the_requirements_say_and_hashes_everything() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = {
        line.partition(" ")[0].replace(".", "-", line.count(".", 0, line.index("=="))) for line in lines if "==" in line
    }
    entries = locked(Bundle("every package", frozenset(), 0)).values()
    assert wanted <= {entry.split()[0] for entry in entries}
    assert all("--hash=sha256:" in entry for entry in entries), LOCK


@pytest.mark.ci
@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.name)
def test_every_function_imports_only_what_its_bundle_has(bundle: Any) -> None:
    """Third-party imports are missing from the sources, and must be what the lock installs."""
    served = [spec for spec in FUNCTIONS if bundle_of(spec) is bundle]
    lost = closure.missing(ROOT, bundle, served)
    brought = {MODULE_OF.get(name, name) for name in locked(bundle)}
    assert {found.name.partition(".")[0] for found in lost} <= brought
    assert {"botocore", "msgspec", "urllib3"} <= {found.name for found in lost}


DECIDING = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None  # as if it were not there
import msgspec
from core.disruption import disrupt
from core.model.snapshot import Options
from tests.property.naive_disruption.worlds import random_world
methods = set()
for seed in range(1000, 1020):
    world = random_world(seed)
    options = msgspec.structs.replace(world.options, karpenter_moves_only=False)
    methods |= {command.method for command in disrupt(msgspec.structs.replace(world, options=options)).commands}
assert "repack" in methods, methods
"""


@pytest.mark.ci
def test_nothing_that_the_solver_asks_for_is_left_out() -> None:
    """Numpy loads some of its parts by name, which its import statements do not show."""
    of_numpy = [path for path in pruning.UNUSED if path.startswith("numpy/") and "*" not in path]
    left_out = [path.removesuffix(".py").replace("/", ".") for path in of_numpy]
    assert {"numpy.fft", "numpy.testing"} <= set(left_out)
    command = [sys.executable, "-c", DECIDING, ",".join(left_out)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - fixed arguments
    assert ended.returncode == 0, ended.stderr


STARTING = """
import sys
from importlib import import_module
for name in sys.argv[1].split(","):
    sys.modules[name] = None  # as if it were not there
from installation.wiring import FUNCTIONS
for spec in FUNCTIONS:
    import_module(spec.handler.rpartition(".")[0])
import_module("adapters.aws.session").EnvironmentSession().client("ec2")
"""


def test_functions_start_without_what_is_left_out() -> None:
    """The check of imports ends at packages of others: botocore without its `crt` ended every start in an error."""
    modules = [one.removesuffix(".py").replace("/", ".") for one in pruning.UNUSED if "*" not in one]
    assert "pydantic.v1" in modules
    command = [sys.executable, "-c", STARTING, ",".join(modules)]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(  # noqa: S603 - fixed arguments
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def a_bundle(folder: Path) -> None:
    """A function that imports a package of others, which imports a part of itself."""
    sources = {
        "lambdas/handlers/disrupt.py": "",
        "lambdas/bootstrap.py": "class Application:\n    disruption = 1\ndef application():\n    return Application()\n",
        "adapters/aws/session.py": "class EnvironmentSession:\n    def client(self, service):\n        pass\n",
        "other/__init__.py": "from other import part\n",
        "other/part.py": "",
    }
    for name, text in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_function_that_does_not_start_from_its_bundle_is_noticed(tmp_path: Path) -> None:
    """The check of imports ends at packages of others: a bundle whose botocore lacked a part was deployed."""
    a_bundle(tmp_path)
    here = host(f"{sys.version_info.major}.{sys.version_info.minor}")
    functions = [(BY_NAME["disrupt"], ["other", "json"])]
    check_starts(tmp_path, SOLVER, here, functions)
    (tmp_path / "other" / "part.py").unlink()
    with pytest.raises(
        PackageError, match=r"(?s)bundle solver: function disrupt does not start:.*cannot import name 'part'"
    ):
        check_starts(tmp_path, SOLVER, here, functions)
    with pytest.raises(PackageError, match="No module named 'msgspec'"):  # only the bundle counts
        check_starts(tmp_path, SOLVER, here, [(BY_NAME["disrupt"], ["msgspec"])])


def test_a_function_that_never_starts_ends_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_bundle(tmp_path)
    (tmp_path / "other" / "part.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(start, "STARTS_WITHIN", 0.2)
    here = host(f"{sys.version_info.major}.{sys.version_info.minor}")
    with pytest.raises(PackageError, match="function disrupt does not start within"):
        check_starts(tmp_path, SOLVER, here, [(BY_NAME["disrupt"], ["other"])])


@pytest.mark.parametrize(
    ("system", "machine", "reason"),
    [
        ("Darwin", "arm64", "the bundles' libraries are for Linux, and this is Darwin"),
        ("Darwin", "x86_64", "the bundles' libraries are for Linux, and this is Darwin"),
        ("Linux", "riscv64", "there are no libraries of the bundles for riscv64"),
    ],
)
def test_bundles_are_built_on_a_machine_that_cannot_start_them(
    system: str, machine: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make package`, and so each deployment, ended in an error on every Mac."""
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert why_not_started() == reason
    check_starts(tmp_path, SOLVER, LAMBDA, [(BY_NAME["disrupt"], ["none"])])


@pytest.mark.parametrize(("machine", "ours"), [("arm64", "arm64"), ("aarch64", "arm64"), ("x86_64", "x86_64")])
def test_a_machine_is_known_under_each_of_its_names(machine: str, ours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert why_not_started() == ""
    assert host("3.13").architecture == ours


def test_a_module_that_was_left_out_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "lambdas" / "handlers"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "disrupt.py").write_text(
        "from typing import TYPE_CHECKING\nimport json\nimport lambdas.gone\n"
        "def f():\n    import numpy.linalg\nif TYPE_CHECKING:\n    import mypy_only\n"
    )
    (spec,) = (spec for spec in FUNCTIONS if spec.name == "disrupt")
    assert [found.name for found in closure.missing(tmp_path, SOLVER, [spec])] == ["lambdas.gone", "numpy.linalg"]


def test_a_library_works_without_its_symbols(tmp_path: Path) -> None:
    """Numpy's algebra: the largest of all, and one whose symbols lie amid its segments."""
    (library,) = Path(np.__file__).parents[1].glob("numpy.libs/libscipy_openblas*.so")
    content = library.read_bytes()
    made = elf.without_symbols(content)
    assert elf.machine(made) == elf.machine(content) == 62
    assert len(made) < len(content) - 900_000
    (tmp_path / "algebra.so").write_bytes(made)
    for needed in Path(np.__file__).parents[1].glob("numpy.libs/lib[gq]*"):
        ctypes.CDLL(str(needed), mode=ctypes.RTLD_GLOBAL)
    product = ctypes.CDLL(str(tmp_path / "algebra.so")).scipy_cblas_ddot64_
    product.restype = ctypes.c_double
    three = (ctypes.c_double * 3)(1, 2, 3)
    one = ctypes.c_int64(1)
    assert product(ctypes.c_int64(3), three, one, three, one) == 14.0


def test_what_is_no_library_has_no_machine() -> None:
    assert elf.machine(b"#!/bin/sh\n" + b"\0" * 64) is None
    assert elf.machine(b"\x7fELF\x02\x01" + b"\0" * 12 + struct.pack("<H", 183) + b"\0" * 44) == 183


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> botocore.session.Session:
    """Botocore that knows what the bundles know, and no more."""
    folder = tmp_path_factory.mktemp("pruned")
    data = folder / "botocore" / "data"
    source = Path(botocore.__file__).parent / "data"
    for service in pruning.AWS_SERVICES:
        shutil.copytree(source / service, data / service)
    for common in sorted(path for path in source.glob("*") if path.is_file()):
        shutil.copy(common, data)
    (folder / "numpy" / "tests").mkdir(parents=True)
    pruning.prune(folder)
    assert not (folder / "numpy" / "tests").exists()
    session = botocore.session.get_session()
    loader = Loader(extra_search_paths=[str(data)], include_default_search_paths=False)  # others share theirs
    session.register_component("data_loader", loader)
    return session


@pytest.mark.parametrize("service", pruning.AWS_SERVICES)
@pytest.mark.parametrize("region", ["us-east-1", "cn-north-1", "us-gov-west-1"])
def test_pruning_leaves_what_is_called(pruned: botocore.session.Session, service: str, region: str) -> None:
    """If this failed, a function would stop at a call that botocore no longer knows."""
    client = pruned.create_client(service, region_name=region, aws_access_key_id="k", aws_secret_access_key="s")
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    assert client.meta.endpoint_url.endswith((domain, "api.aws"))
    model = client.meta.service_model
    if service in pruning.OPERATIONS:
        assert set(model.operation_names) == set(pruning.OPERATIONS[service])
    for name in model.operation_names:
        operation = model.operation_model(name)
        assert operation.input_shape is None or operation.input_shape.members is not None
        assert operation.output_shape is None or operation.output_shape.members is not None
    if service == "dynamodb":
        assert {"ConditionalCheckFailedException", "TransactionCanceledException"} <= set(dir(client.exceptions))


def test_the_bundles_describe_every_service_that_functions_call() -> None:
    """Announcements through SNS would have failed in every function: its description was cut out."""
    named = {
        str(call.args[0].value)
        for folder in ("adapters", "lambdas")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in {"client", "_service"}
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }
    assert named == set(pruning.AWS_SERVICES)


@pytest.mark.parametrize("service", sorted(pruning.OPERATIONS))
def test_every_granted_action_is_an_operation_of_the_bundle(templates: dict[str, dict[str, Any]], service: str) -> None:
    granted = {
        action.removeprefix(f"{service}:")
        for statement in statements_of(templates["fleetwright-fleetwright"])
        for action in actions_of(statement)
        if action.startswith(f"{service}:")
    }
    assert granted - NO_OPERATIONS <= set(pruning.OPERATIONS[service])


def test_the_bill_of_materials_names_every_package() -> None:
    found = sbom.components(BASE)
    assert found["metadata"]["component"]["version"] == VERSION
    assert {part["name"] for part in found["components"]} == set(locked(BASE))
    assert all(part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}" for part in found["components"])


def test_a_package_of_other_sources_is_not_deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this failed, `cdk deploy` would ship last week's functions and say that all went well."""
    monkeypatch.setattr(manifest, "PACKAGE", tmp_path)
    path = tmp_path / "package.json"
    with pytest.raises(PackageError, match="not packaged: run `make package`"):
        check_package(path)
    functions = {"provision": Packaged(bundle="solver", unzipped_bytes=3, zipped_bytes=2)}
    Manifest(functions=functions, digest=digest()).write(path)
    check_package(path)
    assert json.loads(path.read_text())["functions"]["provision"] == {
        "bundle": "solver",
        "unzippedBytes": 3,
        "zippedBytes": 2,
    }
    Manifest(functions=functions, digest="of another day").write(path)
    with pytest.raises(PackageError, match="of other sources"):
        check_package(path)


def test_a_shim_that_runs_nothing_is_no_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pyenv puts one on the PATH for every version that it has anywhere; it fails for those that are not switched on."""
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    with pytest.raises(MissingInterpreterError, match=r"python3\.99"):
        interpreter("3.99")
    real = tmp_path / "pyenv" / "versions" / "3.99.1" / "bin" / "python3.99"
    real.parent.mkdir(parents=True)
    real.write_text("#!/bin/sh\necho 3.99\n")
    real.chmod(0o755)
    assert interpreter("3.99") == str(real)
