"""What the data sheets promise of GPUs: dense peaks, in FLOP/s. A device that is not here has none; it is never guessed."""

from __future__ import annotations

PEAKS = {
    "A100": {"bfloat16": 312e12},
    "H100": {"bfloat16": 989e12, "float32": 67e12},
    "H200": {"bfloat16": 989e12, "float32": 67e12},
    "RTX 4090": {"bfloat16": 165e12},
}
SLOWER = ("PCIe", "NVL")  # the same names on smaller boards, with other peaks


def model_flops_share(rate: float, device: str, dtype: str) -> float | None:
    """The share of the device's peak (MFU) that `rate` FLOP/s is; None where the table has no such device or dtype."""
    if any(word in device for word in SLOWER):
        return None
    peak = next((peaks.get(dtype) for name, peaks in PEAKS.items() if name in device), None)
    return None if peak is None else rate / peak
