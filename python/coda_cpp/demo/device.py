"""Where both sides run: on a GPU that coda can use, else on the CPU."""

from dataclasses import dataclass

from .errors import DemoError


@dataclass(frozen=True)
class Device:
    name: str = "cpu"  # as torch writes it
    title: str = "the CPU"  # for people

    @property
    def is_gpu(self) -> bool:
        return self.name != "cpu"

    def wait(self) -> None:
        """Until what was queued has ended."""
        if self.is_gpu:
            import torch

            torch.cuda.synchronize(self.name)


CPU = Device()


def choose(wanted: str) -> Device:
    """`wanted`: "auto" takes the first GPU when coda can use it. Raises DemoError for a "cuda" that cannot be had."""
    if wanted == "cpu":
        return CPU
    reason = _refusal()
    if reason is None:
        import torch

        return Device("cuda:0", torch.cuda.get_device_name(0))
    if wanted == "cuda":
        raise DemoError(f"demo: --device cuda cannot be used: {reason}; give --device cpu")
    return CPU


def dtypes_on(device: Device, wanted: str | None) -> list[str]:
    """The arithmetic to compare in. Raises DemoError for f32 on a GPU."""
    if not device.is_gpu:
        return ["f32", "bf16"] if wanted == "both" else [wanted or "f32"]
    if wanted in (None, "bf16"):
        return ["bf16"]
    raise DemoError(
        f"demo: --dtype {wanted} does not run on {device.title}, expected bf16: its tensor cores would round f32 to 11 "
        "bits; give --dtype bf16 or --device cpu"
    )


def _refusal() -> str | None:
    """Why coda cannot use the first GPU, or None: a product of 8 x 8 takes the way every other does."""
    import torch

    if not torch.cuda.is_available():
        return "torch sees no GPU"
    import coda_cpp

    ones = torch.ones(8, 8, dtype=torch.bfloat16, device="cuda:0")
    try:
        coda_cpp.gemm(ones, ones)
    except coda_cpp.Error as error:
        return str(error)
    return None
