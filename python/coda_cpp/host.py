"""The Python that coda runs in: which frameworks are there, and whether coda works with their versions."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from typing import NamedTuple

OLDEST = {"torch": (2, 6), "transformers": (5, 0)}
"""The oldest versions of optional packages that coda works with."""

NEEDED_BY = {"torch": "coda_cpp.functional, nn, patch and check, and all tensors on a GPU",
             "transformers": "coda_cpp.patch and check"}


class Diagnosis(NamedTuple):
    """One line of ``coda doctor``: what was looked at, whether it is good, what was found, and what to do if not."""

    what: str
    good: bool
    found: str
    cure: str = ""


def version_of(package: str) -> str | None:
    """The installed version of a package, without importing it; None where there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def too_old(package: str, version: str) -> str | None:
    """What is wrong with a version of an optional package, as "torch 2.4.1, expected 2.6 or newer"; None: nothing."""
    oldest = OLDEST[package]
    if tuple(map(int, re.findall(r"\d+", version)[:2])) >= oldest:
        return None
    return f"{package} {version}, expected {'.'.join(map(str, oldest))} or newer"


def diagnose() -> list[Diagnosis]:
    """One line for Python and one for each optional package."""
    python = Diagnosis("Python", True, f"{platform.python_implementation()} {platform.python_version()}")
    return [python, *map(_package, OLDEST)]


def _package(name: str) -> Diagnosis:
    version = version_of(name)
    if version is None:
        return Diagnosis(name, True, f"not installed; needed by {NEEDED_BY[name]}")
    fault = too_old(name, version)
    return Diagnosis(name, fault is None, fault or version, f"pip install --upgrade {name}" if fault else "")
