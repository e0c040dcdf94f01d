"""Exact integers, tolerance 0, over a covering sample of schedules × layouts × dtypes × views × ragged sizes."""

import concurrent.futures
import math
import os
import secrets

import pytest

import coda_cpp as coda
from cases import AXES, Case, mend, schedule_text
from covering import Covering

BATCH = 32
CASES = int(os.environ.get("CODA_GPU_CASES", "1024"))


def attempt(axes, seed):
    """A case made ready, with fewer stages and buffers where they do not fit; None where its schedule does not."""
    case = Case(axes, seed)
    for fewer in ({}, {"stages": 3, "buffers": "2+1"}, {"stages": 2, "buffers": "1+1"}):
        axes.update(fewer)
        try:
            return case, case.prepare(schedule_text(axes))
        except coda.errors.NotImplementedError as error:
            assert "does not fit" in str(error), error
            if "shared memory" not in str(error):
                return None
    return None


@pytest.mark.parametrize("tile", AXES["tile"])
def test_covering_sample(tile):
    """A test a tile, so that shards share them. Failures print the seed and the case; CODA_GPU_SEED=… repeats a run,
    CODA_GPU_CASES=… sets the cases of all tiles together, CODA_GPU_LARGEST=… bounds their extents."""
    seed = int(os.environ.get("CODA_GPU_SEED", secrets.randbits(31)))
    covering = Covering(AXES | {"tile": [tile]}, seed)
    wanted = math.ceil(CASES / len(AXES["tile"]))
    batch = min(BATCH, wanted)
    ran = refused = 0
    failures = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:

        def start():
            drawn = [covering.propose(mend) for _ in range(batch)]
            return drawn, pool.map(attempt, drawn, range(seed, seed + batch))

        ahead = []
        while ran < wanted:
            drawn, attempts = ahead.pop() if ahead else start()
            if ran + batch < wanted:
                ahead.append(start())  # compiles while this one runs
            for axes, ready in zip(drawn, attempts):
                if ready is None:
                    refused += 1
                    continue
                try:
                    ready[0].check(ready[1])
                except AssertionError as error:
                    failures.append(f"{axes}: {error}")
                covering.accept(axes)
                ran += 1
            assert len(failures) < 8, f"seed {seed}\n" + "\n".join(failures)
    print(f"\nseed {seed}, {tile}: {ran} cases, {refused} refused as not fitting, {len(covering.covered)} of "
          f"{len(covering.wanted)} pairs covered")
    assert not failures, f"seed {seed}\n" + "\n".join(failures)
    assert refused < ran, "most cases drawn fit no schedule: mend() should know why"


@pytest.mark.parametrize("sub, mode", [(16, "ping-pong"), (32, "ping-pong"), (64, "ping-pong"), (16, "cooperative")])
@pytest.mark.parametrize("program", ["residual", "accumulate"])
def test_staged_inputs_are_read_before_their_slots_are_filled_again(sub, mode, program):
    """Short products with narrow sub-tiles keep the ring of tile inputs busiest: what is read late is the next one's."""
    axes = dict.fromkeys(AXES) | {
        "m": 4096, "n": 384, "k": 128, "layout": "TN", "element": "bf16", "view": "single", "program": program,
        "out": "same", "pad": 8, "offset": 0, "tile": "128x64", "mode": mode, "cluster": "1x1", "stages": 4, "raster": 16, "sub": sub,
        "buffers": "2+1"}
    case = Case(axes, 11)
    plan = case.prepare(schedule_text(axes))
    part = case.segments[0]
    for _ in range(100):
        part.reset()
        plan()
        part.check()
