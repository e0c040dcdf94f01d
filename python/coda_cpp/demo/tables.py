"""The result as plain rows of text, which the terminal and the page both show."""

from dataclasses import dataclass

from .compare import ERROR_LIMIT, PERPLEXITY_LIMIT, REORDERINGS, Comparison, Continuation, Result
from .trained import DRIFT_LIMIT, LOSS_LIMIT, Training

_FARTHEST = 5  # tensors shown of a training


@dataclass(frozen=True)
class Table:
    title: str
    note: str
    head: list[str]
    rows: list[list[str]]


def tables(result: Result) -> list[Table]:
    """Perplexity, speed, and each dtype's layers."""
    return [_perplexity(result), _speed(result), *(_layers(comparison) for comparison in result.comparisons)]


def verdict(result: Result) -> list[str]:
    """What failed; or one line that says what held."""
    failures = result.failures()
    if failures:
        return [f"FAILED: {line}" for line in failures]
    rows = [row for comparison in result.comparisons for row in comparison.layers]
    largest, typical = max(row.largest_ratio for row in rows), max(row.typical_ratio for row in rows)
    lines = [
        f"passed: the error of every layer is at most {largest:.2f} (largest) and {typical:.2f} (typical) times "
        f"stock's own (limit {ERROR_LIMIT:g})"
    ]
    for comparison in result.comparisons:
        if comparison.dtype == "f32":
            lines.append(
                f"passed: fp32 perplexities differ by {comparison.perplexity_difference:.1e} relative "
                f"(limit {PERPLEXITY_LIMIT:.0e})"
            )
    return lines + (training_held(result.training) if result.training else [])


def training(training: Training) -> list[Table]:
    """Losses, the tensors that are farthest apart, and speed."""
    return [_losses(training), _drifts(training), _training_speed(training)]


def agreement(continuation: Continuation) -> str:
    """Whether both sides wrote the same."""
    coda, stock = continuation.tokens["coda"], continuation.tokens["stock"]
    if continuation.equal:
        return f"stock continues with the same {len(coda)} tokens"
    same = next((at for at, pair in enumerate(zip(coda, stock)) if pair[0] != pair[1]), min(len(coda), len(stock)))
    return f"stock continues with the same {same} tokens, then differs (a tie within rounding)"


def pace(continuation: Continuation) -> str:
    """Tokens a second of both continuations, prompt included."""
    speeds = (f"{side} {len(continuation.tokens[side]) / continuation.seconds[side]:.1f}" for side in ("coda", "stock"))
    return f"tokens/s while continuing, one run each: {', '.join(speeds)}"


def training_held(training: Training) -> list[str]:
    farthest = training.drifts[0]
    return [
        f"passed: the losses of {training.steps} training steps differ by at most {training.loss_difference:.1e} "
        f"relative (limit {LOSS_LIMIT:.0e})",
        f"passed: each tensor ends at most {farthest.apart:.1e} of its way apart from stock's "
        f"(limit {DRIFT_LIMIT:.0e})",
    ]


def _losses(training: Training) -> Table:
    rows = [
        [str(step), f"{theirs:.6f}", f"{ours:.6f}", f"{difference:.1e}"]
        for step, (theirs, ours, difference) in enumerate(
            zip(training.losses["stock"], training.losses["coda"], training.loss_differences, strict=True), start=1
        )
    ]
    sequences, length = training.batch
    note = (
        f"Loss of each step before it is taken, fp32 on the CPU: {sequences} × {length} tokens of the text a step, "
        "torch.optim.AdamW on the gradients of each side from the same weights. The relative differences must be at "
        f"most {LOSS_LIMIT:.0e}."
    )
    return Table("Training", note, ["step", "stock", "coda", "difference, relative"], rows)


def _drifts(training: Training) -> Table:
    rows = [[drift.tensor, f"{drift.moved:.1e}", f"{drift.apart:.1e}"] for drift in training.drifts[:_FARTHEST]]
    note = (
        f"Of {len(training.drifts)} tensors the farthest apart after {training.steps} steps: ‖p − p_ref‖ ÷ ‖p_ref − "
        f"p_start‖, where p_ref is stock's; at most {DRIFT_LIMIT:.0e}."
    )
    return Table("Tensors after training", note, ["tensor", "moved", "apart ÷ moved"], rows)


def _training_speed(training: Training) -> Table:
    rows = [
        [side, f"{timing.seconds:.2f}", f"{training.tokens_per_second(side):.0f}", f"{timing.ratio:.3f}",
         f"{timing.q1:.3f} – {timing.q3:.3f}"]
        for side, timing in training.speed.items()
    ]  # fmt: skip
    note = "A step with its optimizer, same threads: medians; a ratio compares two steps that were taken in turn."
    return Table("Training speed", note, ["side", "s/step", "tokens/s", "time ÷ stock", "quartiles"], rows)


def _perplexity(result: Result) -> Table:
    rows = [
        [
            c.dtype,
            f"{c.perplexity['fp64']:.6f}",
            f"{c.perplexity['stock']:.6f}",
            f"{c.perplexity['coda']:.6f}",
            f"{c.perplexity_difference:.1e}",
            f"{c.loss_error['stock']:.1e}",
            f"{c.loss_error['coda']:.1e}",
        ]
        for c in result.comparisons
    ]
    head = ["dtype", "fp64", "stock", "coda", "coda − stock, relative", "worst token loss, stock", "coda"]
    note = (
        f"{result.comparisons[0].tokens} tokens, one sequence. fp64 runs the stock model in double with the same "
        "weights; the last two columns are the largest error of one token's loss against it."
    )
    return Table("Perplexity", note, head, rows)


def _speed(result: Result) -> Table:
    rows = []
    for comparison in result.comparisons:
        for side, timing in comparison.speed.items():
            rows.append([
                comparison.dtype,
                side,
                f"{comparison.tokens_per_second(side):.0f}",
                f"{timing.seconds * 1e3:.0f}",
                f"{timing.ratio:.3f}",
                f"{timing.q1:.3f} – {timing.q3:.3f}",
            ])  # fmt: skip
    rounds = result.comparisons[0].speed["stock"].rounds
    where = f"on {result.device.title}" if result.device.is_gpu else "same threads"
    note = (
        f"From tokens to the loss of each token, {where}. Median of {rounds} rounds in which all take part, order "
        "rotated; a ratio compares two times of one round, and 'stock again' shows what the machine's noise makes of 1."
    )
    return Table("Speed", note, ["dtype", "side", "tokens/s", "ms", "time ÷ stock", "quartiles"], rows)


def _layers(comparison: Comparison) -> Table:
    rows = [
        [
            str(row.index),
            f"{row.magnitude:.0f}" if row.magnitude >= 100 else f"{row.magnitude:.1f}",
            f"{row.stock.largest:.1e}",
            f"{row.reordered:.1e}",
            f"{row.coda.largest:.1e}",
            f"{row.largest_ratio:.2f}",
            f"{row.stock.typical:.1e}",
            f"{row.coda.typical:.1e}",
            f"{row.typical_ratio:.2f}",
        ]
        for row in comparison.layers
    ]
    head = ["layer", "largest value", "largest error: stock", "re- ordered", "coda", "ratio",
            "typical error: stock", "coda", "ratio"]  # fmt: skip
    note = (
        f"Hidden state after each layer in {comparison.dtype} against fp64; both ratios must be at most "
        f"{ERROR_LIMIT:g}. The largest error sits in one of a few huge entries, a single draw of chance: 'reordered' "
        f"is the largest of {REORDERINGS} stock runs whose MLP sums are in another order, and the ratio is coda ÷ the "
        "larger of the two. "
        "Typical: a token's largest error ÷ its largest value, root mean square over the tokens."
    )
    return Table(f"Error per layer, {comparison.dtype}", note, head, rows)
