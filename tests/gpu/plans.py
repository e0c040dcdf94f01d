"""Plans made several at a time: what takes long is the compiler, which runs without the interpreter's lock."""

import concurrent.futures
import os

import coda_cpp as coda


def prepare_candidates(a, b, program="identity", every=1, **operands):
    """{schedule: plan} of every so many candidates of a call, each with outputs of its own where none are given."""
    schedules = [schedule for schedule, _ in coda.candidates(a, b, program, **operands)][::every]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        plans = pool.map(lambda schedule: coda.prepare(a, b, program, schedule=schedule, **operands), schedules)
        return dict(zip(schedules, plans))
