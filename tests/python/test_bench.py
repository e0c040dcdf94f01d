"""The benchmark of a training step runs, small and on the CPU; its times are nobody's business here."""

import json
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[2] / "bench/gpu_step.py"
SMALL = "--device cpu --turns 1 --batch 1 --length 32 --layers 1 --width 128 --vocabulary 512 --rounds 2 --warmup 1"


def test_a_step_of_each_kind(tmp_path):
    done = subprocess.run([sys.executable, SCRIPT, *SMALL.split(), "--kinds", "eager,coda-lean", "--output", tmp_path],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found, = tmp_path.glob("*-step.json")
    result = json.loads(found.read_text())
    assert (result["suite"], result["length"]) == ("step", 32)
    eager, coda = result["rows"]
    assert (eager["kind"], coda["kind"]) == ("eager", "coda-lean")
    assert abs(eager["loss"] - coda["loss"]) < 1e-2 * eager["loss"]
    assert coda["step_ms"] >= coda["fwd_bwd_ms"] > 0 and coda["by_category_ms"]
