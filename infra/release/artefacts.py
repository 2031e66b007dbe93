"""What a release consists of, and release.json, which names each file and the test that installs it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from infra.release.archives import sha256

MANIFEST: Final = "release.json"
CHECKSUMS: Final = "SHA256SUMS"
SIGNATURE: Final = f"{CHECKSUMS}.sig"
SIGNERS: Final = "allowed_signers"
"""The public key, as `ssh-keygen -Y verify` reads it."""
SIGNER, PURPOSE = "fleetwright-releases", "file"
"""Who signs, and what for: a signature for another purpose does not verify."""

WITHOUT_TEST: Final = {CHECKSUMS, MANIFEST, SIGNATURE, SIGNERS}
"""Files that the tests of all others read."""


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the install test of an artefact ended.

    Attributes:
        name: The test, a function of `tests.release`.
        result: `passed`, `failed`, `skipped` if its tool is missing, or `pending` before it ran.
        seconds: How long it took.
        says: What it measured, or why it failed or was skipped.
    """

    name: str
    result: str = "pending"
    seconds: float = 0.0
    says: str = ""


class Artefact(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file of a release; `file` is its path within the folder of the release."""

    file: str
    bytes: int
    sha256: str
    test: Result


class Release(msgspec.Struct, kw_only=True, rename="camel"):
    """build/release/release.json.

    Attributes:
        version: As SemVer writes it.
        commit: The commit of the sources; empty if they are in no repository.
        is_modified: Whether the sources differ from the commit.
        artefacts: Every file but the checksums and this one.
        not_checked: What no test here can show.
    """

    api_version: str = "fleetwright.dev/v1"
    kind: str = "Release"
    version: str
    commit: str
    is_modified: bool
    artefacts: list[Artefact]
    not_checked: list[str]


NOT_CHECKED: Final = (
    "No AWS account has run the templates: cfn-lint and moto judge them, and MiniStack, which has neither CodeDeploy nor EKS.",
    "No public registry and no container runtime took the image: crane's registry did, and chroot runs it on this processor.",
    "The single file is built for the system and the Python that build it; others are not built here.",
    "Homebrew's formula is read by Ruby alone, and GitLab's component by no validator; the action has not run on GitHub.",
    "The Terraform module is judged by Terraform with a test provider that knows one resource, not by the provider of AWS.",
    "No database of vulnerabilities is asked: scan the bill of materials where one can be reached.",
)
"""What docs/explanation/releases.md repeats for people."""

TEST_OF: Final[Sequence[tuple[str, str]]] = (
    ("*.whl", "wheel"),
    ("*.pyz", "single_file"),
    ("cloudformation/*.json", "templates"),
    ("lambda/*.zip", "functions"),
    ("charts/*.tgz", "charts"),
    ("github-action/*", "github_action"),
    ("gitlab/*", "gitlab_component"),
    ("krew/*", "krew_manifest"),
    ("homebrew/*", "homebrew_formula"),
    ("terraform/*", "terraform_module"),
    ("*.cdx.json", "bill_of_materials"),
    ("*.oci.tar", "image"),
)
"""Pattern of files → the test that installs them."""


def test_of(file: str) -> str:
    """Return the name of the test of a file.

    Raises:
        LookupError: If no test installs it: then it must not be released.
    """
    for pattern, name in TEST_OF:
        if Path(file).match(pattern):
            return name
    raise LookupError(f"{file} has no test in infra/release/artefacts.py")


def collected(folder: Path) -> list[Artefact]:
    """Return every file of the folder with its size, digest and test."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return [
        Artefact(
            file=file,
            bytes=(folder / file).stat().st_size,
            sha256=sha256(folder / file),
            test=Result(name=test_of(file)),
        )
        for file in files
        if file not in WITHOUT_TEST
    ]


def write_checksums(folder: Path, artefacts: Sequence[Artefact]) -> None:
    """Write what `sha256sum --check` reads."""
    lines = [f"{artefact.sha256}  {artefact.file}\n" for artefact in artefacts]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def sign_checksums(folder: Path, key: str) -> None:
    """Sign the checksums with an SSH key of type ed25519: `ssh-keygen` is on every machine that may install a release.

    Raises:
        subprocess.CalledProcessError: If the key cannot be read, or asks for a passphrase that no agent has.
    """
    public = subprocess.run(["ssh-keygen", "-y", "-f", key], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607
    kind, base64 = public.split()[:2]
    (folder / SIGNERS).write_text(f'{SIGNER} namespaces="{PURPOSE}" {kind} {base64}\n', encoding="utf-8")
    command = ["ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", PURPOSE, str(folder / CHECKSUMS)]
    subprocess.run(command, capture_output=True, check=True)  # noqa: S603


def verify_checksums(folder: Path) -> None:
    """Verify the signature as docs/how-to/install-from-a-release.md tells its readers to.

    Raises:
        subprocess.CalledProcessError: If another key signed, or the checksums were changed.
    """
    command = ["ssh-keygen", "-Y", "verify", "-f", str(folder / SIGNERS), "-I", SIGNER, "-n", PURPOSE]
    command += ["-s", str(folder / SIGNATURE)]
    subprocess.run(command, input=(folder / CHECKSUMS).read_bytes(), capture_output=True, check=True)  # noqa: S603


def write(folder: Path, release: Release) -> None:
    """Write release.json."""
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(release), indent=2) + b"\n")


def read(folder: Path) -> Release:
    """Read release.json.

    Raises:
        OSError: If there is none.
    """
    return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Release)
