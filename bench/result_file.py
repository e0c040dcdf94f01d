"""Where every benchmark writes what it found: <date>-<machine>-<suite>.json, with what must be known to repeat it."""

import json
import subprocess
from dataclasses import asdict, is_dataclass
from pathlib import Path

import torch

import coda_cpp
from coda_cpp.demo import machine

RESULTS = Path(__file__).parent / "results"


def write(folder, suite, found, device, **facts):
    """The path of the file. found: rows, dataclasses or dictionaries; device: 'cuda' or 'cpu'; facts: sizes, rounds, versions."""
    name, of_machine = _gpu() if device == "cuda" else _cpu()
    date = machine.today()
    result = {**of_machine, "date": date, "suite": suite, "torch": torch.__version__, "coda": coda_cpp.__version__, **facts,
              "rows": [asdict(row) if is_dataclass(row) else row for row in found]}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{date}-{machine.slug(name)}-{suite}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path


def _cpu():
    name = machine.cpu_name()
    return name, {"cpu": name}


def _gpu():
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    name = torch.cuda.get_device_name()
    return name, {"gpu": name, "driver": driver, "cuda": torch.version.cuda}
