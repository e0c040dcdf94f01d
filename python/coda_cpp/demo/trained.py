"""What both sides' training measured, and the limits it must keep."""

from dataclasses import dataclass

import torch

from .paired import Timing

LOSS_LIMIT = 2e-5  # relative difference of coda's loss from stock's, at any step
DRIFT_LIMIT = 1e-2  # how far coda's tensor is from stock's ÷ how far training moved stock's


@dataclass(frozen=True)
class Drift:
    """A tensor after training. moved: ‖p_ref − p_start‖, where p_ref is stock's; apart: ‖p − p_ref‖ ÷ moved."""

    tensor: str
    moved: float
    apart: float


@dataclass(frozen=True)
class Training:
    """Everything measured while both sides trained."""

    losses: dict[str, list[float]]  # of each step, by "stock", "coda"
    drifts: list[Drift]  # of every tensor, the farthest apart first
    speed: dict[str, Timing]  # of a step, by "stock", "coda"
    batch: tuple[int, int]  # sequences, tokens of each

    @property
    def steps(self) -> int:
        return len(self.losses["stock"])

    @property
    def loss_differences(self) -> list[float]:
        """Relative, of each step."""
        pairs = zip(self.losses["stock"], self.losses["coda"], strict=True)
        return [abs(ours - theirs) / theirs for theirs, ours in pairs]

    @property
    def loss_difference(self) -> float:
        """The largest; NaN when a loss is NaN."""
        return largest(self.loss_differences)

    def tokens_per_second(self, side: str) -> float:
        return self.batch[0] * self.batch[1] / self.speed[side].seconds

    def failures(self) -> list[str]:
        """What does not keep its limit, one sentence each."""
        found = []
        for step, difference in enumerate(self.loss_differences, start=1):
            if not difference <= LOSS_LIMIT:
                ours, theirs = self.losses["coda"][step - 1], self.losses["stock"][step - 1]
                found.append(
                    f"training step {step}: coda's loss is {ours:.7f}, stock's {theirs:.7f}: they differ by "
                    f"{difference:.1e}, more than {LOSS_LIMIT:.0e}"
                )
        for drift in self.drifts:
            if not drift.apart <= DRIFT_LIMIT:
                found.append(
                    f"after training {drift.tensor} is {drift.apart:.1e} of its way apart from stock's, more than "
                    f"{DRIFT_LIMIT:.0e}"
                )
        return found


def largest(values: list[float]) -> float:
    """The largest value; NaN when one is NaN."""
    return float(torch.tensor(values, dtype=torch.float64).max())
