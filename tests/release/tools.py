"""Programs and schemas that judge a release: on the path, or where `make release-tools` puts them, build/release-tools."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "build" / "release-tools"

MODULES: Final = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
    "crane": "github.com/google/go-containerregistry/cmd/crane@v0.22.1",
    "krew": "sigs.k8s.io/krew/cmd/krew@v0.4.3",
    "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0",
    "validate-krew-manifest": "sigs.k8s.io/krew/cmd/validate-krew-manifest@v0.4.3",
    "helm": "helm.sh/helm/v3/cmd/helm@v3.22.0",
}
"""Helm takes minutes to compile, so it comes last."""


STACK_PROVIDER: Final = "terraform-provider-aws"
"""Knows the one resource of the AWS provider that the module has; the provider itself is in registries alone. Built from
terraform_provider."""

SCHEMAS: Final = {
    "kubernetes": ("kubernetes-validate==1.37.0", "kubernetes_validate/kubernetes-json-schema/"),
    "cyclonedx": ("cyclonedx-python-lib==11.12.0", "cyclonedx/schema/_res/"),
}
"""Name → the package on PyPI that carries these schemas, since the sites that publish them are not reachable everywhere, and
their folder in it."""


class MissingToolError(Exception):
    """A test needs a program that is not here; the message says what is not checked."""


def tool(name: str) -> str:
    """Return a program's path.

    Raises:
        MissingToolError: If it is neither on the path nor built.
    """
    built = FOLDER / name
    found = str(built) if built.exists() else shutil.which(name)
    if found is None:
        how = "`make release-tools` builds it" if name in (*MODULES, STACK_PROVIDER) else "it is not on the path"
        raise MissingToolError(f"not checked: there is no {name}; {how}")
    return found


def schemas(name: str) -> Path:
    """Return the folder with these schemas. Raises MissingToolError as `tool` does."""
    folder = FOLDER / name
    if not folder.exists():
        raise MissingToolError(f"not checked: there are no schemas of {name}; `make release-tools` fetches them")
    return folder


def main() -> int:
    """Fetch the schemas and build the programs that are missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (package, inside) in SCHEMAS.items():
        if not (FOLDER / name).exists():
            _fetch(package, inside, FOLDER / name)
    environment = {**os.environ, "GOBIN": str(FOLDER)}
    if not (FOLDER / STACK_PROVIDER).exists():
        print(f"building {STACK_PROVIDER}", flush=True)  # noqa: T201 - the program's output
        command = ["go", "build", "-ldflags", "-s -w", "-o", str(FOLDER / STACK_PROVIDER), "."]
        subprocess.run(command, cwd=Path(__file__).parent / "terraform_provider", check=True)  # noqa: S603
    for name, module in MODULES.items():
        if not (FOLDER / name).exists():
            print(f"building {name}", flush=True)  # noqa: T201 - the program's output
            subprocess.run(["go", "install", "-ldflags", "-s -w", module], env=environment, check=True)  # noqa: S603, S607
    return 0


def _fetch(package: str, inside: str, target: Path) -> None:
    """Unpack the JSON files of a folder of a wheel."""
    print(f"fetching {package}", flush=True)  # noqa: T201 - the program's output
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, package]
        subprocess.run(command, check=True)  # noqa: S603 - our own command
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                if name.startswith(inside) and name.endswith(".json"):
                    path = target / name.removeprefix(inside)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(packed.read(name))


if __name__ == "__main__":
    sys.exit(main())
