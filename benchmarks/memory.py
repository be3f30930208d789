"""What a process holds, how much it held at most, and how much it may hold."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from pathlib import Path

STATUS, REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
SHARE = 0.9  # of what is available: an allocation fails before the machine does


def settle() -> None:
    """Give back what was freed, so that what is held is what is needed."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def resident() -> int | None:
    """Bytes held now."""
    return _status("VmRSS")


def peak() -> int | None:
    """The most bytes held since `forget_peak`; where that cannot be, since the process began."""
    found = _status("VmHWM")
    if found is None and sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found


def forget_peak() -> bool:
    """Begin to count anew. False where the system cannot."""
    try:
        REFS.write_text("5")
    except OSError:
        return False
    return True


def available() -> int | None:
    """Bytes that this machine could still give."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)


def free() -> int | None:
    """Bytes of those that a benchmark may take."""
    found = available()
    return None if found is None else int(SHARE * found)


def limit_more(most: int) -> None:
    """So many bytes besides those of data that the process has now."""
    has = _status("VmData")
    if has is not None:
        limit(has + most)


def limit(most: int | None) -> None:
    """From here on an allocation that would pass this many bytes of data raises MemoryError."""
    if most is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _status(field: str) -> int | None:
    try:
        lines = STATUS.read_text("ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), None)
