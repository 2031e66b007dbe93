"""Runs a program in several processes with different hash seeds, by which the order of sets differs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def outputs_of(program: str, hash_seeds: tuple[str, ...] = ("0", "1", "4711")) -> set[bytes]:
    """Return what Python code prints on standard output, under each hash seed.

    Raises:
        subprocess.CalledProcessError: If the program fails.
    """
    return {
        subprocess.run(  # noqa: S603 - our own interpreter and program
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout
        for seed in hash_seeds
    }


def lines_that_differ(program: str, hash_seeds: tuple[str, ...] = ("0", "1", "4711")) -> list[tuple[str, ...]]:
    """Return the lines that Python code prints differently under the hash seeds: each with all its versions.

    Raises:
        subprocess.CalledProcessError: If the program fails.
        ValueError: If one run prints more lines than another.
    """
    outputs = sorted(output.decode().splitlines() for output in outputs_of(program, hash_seeds))
    return [versions for versions in zip(*outputs, strict=True) if len(set(versions)) > 1]
