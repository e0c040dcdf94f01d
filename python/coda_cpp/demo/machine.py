"""What a measurement has to say about the machine it was taken on."""

import datetime
import os
import platform
import re
from importlib import metadata
from pathlib import Path

_FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16")


def cpu_name() -> str:
    """The processor's own name; family and model are added where the name says neither (virtual machines)."""
    fields = _cpu_fields()
    name = fields.get("model name") or platform.processor() or platform.machine()
    name = " ".join(name.split())
    if "cpu family" in fields and not re.search(r"\d", name):
        name += f" (family {fields['cpu family']} model {fields.get('model', '?')})"
    return name


def slug(name: str) -> str:
    """`name` as part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm|family)\b\)?", "", name.lower())).strip("-")


def cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int | None:
    """Bytes a program can have before the machine swaps; None where the system does not say."""
    path = Path("/proc/meminfo")
    found = re.search(r"^MemAvailable: +(\d+) kB", path.read_text(encoding="utf-8"), re.M) if path.exists() else None
    return int(found[1]) * 1024 if found else None


def today() -> str:
    return datetime.date.today().isoformat()


def version_of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def facts(threads: int) -> dict[str, str]:
    """Machine, software and date, as rows for a table."""
    flags = set(_cpu_fields().get("flags", "").split()) | set(_cpu_fields().get("Features", "").split())
    return {
        "date": datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        "processor": cpu_name(),
        "vector units": ", ".join(name for name in _FEATURES if name in flags) or "unknown",
        "cores, threads used": f"{cores()}, {threads}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": version_of("torch"),
        "transformers": version_of("transformers"),
        "coda": version_of("coda-cpp"),
    }


def _cpu_fields() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text(encoding="utf-8").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
