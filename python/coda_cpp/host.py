"""The Python that coda runs in: which frameworks are there, and whether coda works with their versions."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
from typing import NamedTuple

from .errors import ImportError


class Versions(NamedTuple):
    """The versions of an optional package that coda works with."""

    oldest: tuple[int, int]
    is_any_newer: bool
    """Else only those of one major version."""

    def __str__(self) -> str:
        return f"{self.oldest[0]}.{self.oldest[1]} or newer" if self.is_any_newer else f"{self.oldest[0]}.x"

    def fit(self, version: str) -> bool:
        found = tuple(map(int, re.findall(r"\d+", version)[:2]))
        return found >= self.oldest and (self.is_any_newer or found[0] == self.oldest[0])

    def cure(self, package: str) -> str:
        """The command that installs one."""
        wanted = f">={self.oldest[0]}.{self.oldest[1]}" if self.is_any_newer else f"=={self.oldest[0]}.*"
        return f"pip install '{package}{wanted}'"


VERSIONS = {"torch": Versions((2, 6), is_any_newer=True), "transformers": Versions((5, 0), is_any_newer=False)}

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


def misfit(package: str, version: str) -> str | None:
    """What is wrong with a version of an optional package, as "torch 2.4.1, expected 2.6 or newer"; None: nothing."""
    versions = VERSIONS[package]
    return None if versions.fit(version) else f"{package} {version}, expected {versions}"


def require_torch(asked: str) -> None:
    """Imports torch. Raises ImportError that names what was asked for where it is missing or too old."""
    versions = VERSIONS["torch"]
    if importlib.util.find_spec("torch") is None:
        raise ImportError(f"{asked}: torch is not installed, expected {versions}: {versions.cure('torch')}; without it "
                          "coda_cpp runs on numpy arrays")
    import torch

    if fault := misfit("torch", torch.__version__):
        raise ImportError(f"{asked}: {fault}: {versions.cure('torch')}")


def diagnose() -> list[Diagnosis]:
    """One line for Python and one for each optional package."""
    python = Diagnosis("Python", True, f"{platform.python_implementation()} {platform.python_version()}")
    return [python, *map(_package, VERSIONS)]


def _package(name: str) -> Diagnosis:
    version = version_of(name)
    if version is None:
        return Diagnosis(name, True, f"not installed; needed by {NEEDED_BY[name]}")
    fault = misfit(name, version)
    return Diagnosis(name, fault is None, fault or version, VERSIONS[name].cure(name) if fault else "")
