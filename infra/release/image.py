"""The command line as an OCI image, written without a container runtime: an archive that docker, podman and skopeo read.

The image has no base, since none can be fetched where releases are built: its first layer holds the interpreter that builds the
release, the libraries that it and the packages load, and certificates. The second layer holds the packages.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from infra.release.version import Version

PREFIX: Final = Path("/usr/local")
"""Where the interpreter is in the image."""
SITE: Final = Path("/app")
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
ENTRY: Final = (str(PREFIX / "bin" / "python3"), "-m", "fleetwright_eks")
USER: Final = "65532:65532"
"""Nobody's: the command line writes only to its cache, below HOME."""
LINUX: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""The processor's name to Linux → to OCI."""

_LEFT_OUT: Final = re.compile(
    r"(^|/)(__pycache__|test|tests|idlelib|tkinter|turtledemo|lib2to3|ensurepip|site-packages|config-[^/]*)(/|$)"
    r"|_tkinter|libpython[^/]*\.a$|_test[a-z]*\.|pydoc_data"
)
"""What of the standard library no command needs."""
_LIBRARY: Final = re.compile(r"(?:=> )?(/\S+) \(0x")
_TYPES: Final = "application/vnd.oci.image."


def file_name(version: Version) -> str:
    """Return the archive's name: its packages are compiled for one processor."""
    return f"fleetwright-{version.text}-linux-{LINUX[platform.machine()]}.oci.tar"


def write(site: Path, target: Path, version: Version) -> None:
    """Write the image of the packages in `site`.

    Raises:
        KeyError: If the machine is none that images are made for.
        subprocess.CalledProcessError: If the libraries of a compiled file cannot be listed.
    """
    interpreter = dict(_interpreter())
    packages = {SITE / path.relative_to(site): path for path in _files(site) if "__pycache__" not in path.parts}
    compiled = [path for path in (*interpreter.values(), *packages.values()) if ".so" in path.name]
    inside = (Path(sys.base_prefix), site)
    libraries = {path: path for path in _libraries([Path(sys.executable).resolve(), *compiled], inside)}
    if CERTIFICATES.exists():
        libraries[CERTIFICATES] = CERTIFICATES.resolve()
    layers = [_layer({**interpreter, **libraries}), _layer(packages)]
    blobs = {_digest(packed): packed for packed, _ in layers}
    config = _stored(blobs, _config([digest for _, digest in layers], version))
    manifest = _stored(
        blobs,
        {
            "schemaVersion": 2,
            "mediaType": f"{_TYPES}manifest.v1+json",
            "config": {"mediaType": f"{_TYPES}config.v1+json", **config},
            "layers": [
                {"mediaType": f"{_TYPES}layer.v1.tar+gzip", "digest": _digest(packed), "size": len(packed)}
                for packed, _ in layers
            ],
        },
    )
    named = {"mediaType": f"{_TYPES}manifest.v1+json", **manifest}
    named["annotations"] = {"org.opencontainers.image.ref.name": version.text}
    index = {"schemaVersion": 2, "mediaType": f"{_TYPES}index.v1+json", "manifests": [named]}
    contents = {f"blobs/sha256/{digest.partition(':')[2]}": content for digest, content in blobs.items()}
    contents |= {"index.json": _json(index), "oci-layout": _json({"imageLayoutVersion": "1.0.0"})}
    target.write_bytes(_tar((name, content, 0o644) for name, content in sorted(contents.items())))


def _interpreter() -> Iterable[tuple[Path, Path]]:
    """Yield the place in the image and the file here of the interpreter and its standard library."""
    base = Path(sys.base_prefix)
    yield PREFIX / "bin" / "python3", Path(sys.executable).resolve()
    shared = base / "lib" / str(sysconfig.get_config_var("INSTSONAME"))
    if shared.exists():
        yield PREFIX / "lib" / shared.name, shared.resolve()
    library = Path(sysconfig.get_path("stdlib"))
    for path in _files(library):
        within = path.relative_to(library).as_posix()
        if not _LEFT_OUT.search(within):
            yield PREFIX / "lib" / library.name / within, path


def _libraries(programs: Iterable[Path], inside: tuple[Path, ...]) -> list[Path]:
    """Return the system's libraries that these files load: an interpreter without librt starts, and numpy fails later."""
    named: set[Path] = set()
    for program in programs:
        listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)  # noqa: S603, S607 - a fixed program
        named |= {Path(path) for path in _LIBRARY.findall(listed.stdout)}
    return sorted(path for path in named if not any(path.is_relative_to(folder) for folder in inside))


def _config(digests: list[str], version: Version) -> dict[str, Any]:
    environment = {
        "PATH": f"{PREFIX}/bin:/usr/bin:/bin",
        "PYTHONPATH": str(SITE),
        "LD_LIBRARY_PATH": f"{PREFIX}/lib",
        "SSL_CERT_FILE": str(CERTIFICATES),
        "HOME": "/tmp",  # noqa: S108 - the image's own
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {
        "architecture": LINUX[platform.machine()],
        "os": "linux",
        "config": {
            "Entrypoint": list(ENTRY),
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "User": USER,
            "Labels": {"org.opencontainers.image.version": version.text},
        },
        "rootfs": {"type": "layers", "diff_ids": digests},
    }


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _layer(files: Mapping[Path, Path]) -> tuple[bytes, str]:
    """Return a packed layer and the digest of what is in it."""
    named = sorted((target.as_posix().lstrip("/"), source) for target, source in files.items())
    content = _tar(
        (name, source.read_bytes(), 0o755 if source.stat().st_mode & 0o100 else 0o644) for name, source in named
    )
    return gzip.compress(content, compresslevel=6, mtime=0), _digest(content)


def _tar(files: Iterable[tuple[str, bytes, int]]) -> bytes:
    """Return a tar with the same bytes whoever packs it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content, mode in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _stored(blobs: dict[str, bytes], document: dict[str, Any]) -> dict[str, Any]:
    """Add a document to the blobs, and return how others name it."""
    content = _json(document)
    blobs[_digest(content)] = content
    return {"digest": _digest(content), "size": len(content)}


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
