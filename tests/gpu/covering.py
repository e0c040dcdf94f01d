"""A pairwise covering sample: cases such that each value of each axis meets each value of every other axis, as far as
the axes' constraints allow."""

import itertools
import random


class Covering:
    """Proposes cases of `axes` (name -> values). accept() counts the pairs of those that could be run."""

    def __init__(self, axes, seed):
        self.axes = axes
        self.random = random.Random(seed)
        self.covered = set()
        self.wanted = {(x, one, y, other) for x, y in itertools.combinations(axes, 2) for one in axes[x] for other in axes[y]}

    def pairs(self, case):
        return {(x, case[x], y, case[y]) for x, y in itertools.combinations(self.axes, 2)}

    def propose(self, fixes):
        """The best of some random cases: most pairs not covered yet. `fixes` mends what cannot go together."""
        drawn = [fixes({name: self.random.choice(values) for name, values in self.axes.items()}) for _ in range(24)]
        return max(drawn, key=lambda case: len(self.pairs(case) - self.covered))

    def accept(self, case):
        self.covered |= self.pairs(case) & self.wanted  # a mended case may have values that are on no axis
