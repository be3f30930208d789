"""What a result is worth depends on where it was got: the processor, the libraries and their kernels, the commit.

`python -m benchmarks.machine` prints the facts as JSON: they are asked for in a process that has a worker's environment.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from benchmarks.process import PINNED, ROOT, cores, environment

PACKAGES = ("gemelos", "numpy", "torch", "transformers", "threadpoolctl")


def facts(threads: int) -> dict[str, Any]:
    """Of a worker on this machine; what it would not have had from here is said too."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.machine"],
        env=environment(threads),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    pinned = {name: os.environ[name] for name in PINNED if name in os.environ}
    return found | {"taken from the environment": pinned} if pinned else found


def own_facts() -> dict[str, Any]:
    np.ones((8, 8)) @ np.ones((8, 8))
    blas: list[dict[str, Any]] = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    found: dict[str, Any] = {
        "processor": _processor(),
        "cores": cores(),
        "memory": _memory(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "blas": [
            {
                "library": pool["internal_api"],
                "version": pool["version"],
                "kernel": pool.get("architecture", "unknown"),
                "threads": pool["num_threads"],
            }
            for pool in blas
        ],
    }
    return found | _torch()


def _torch() -> dict[str, Any]:
    if importlib.util.find_spec("torch") is None:
        return {"torch": None, "gpu": None}
    torch = importlib.import_module("torch")
    told: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "float32 precision": torch.get_float32_matmul_precision(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "mkl": torch.backends.mkl.is_available(),
        "mkldnn": torch.backends.mkldnn.is_available(),
        "cuda": torch.version.cuda,
    }
    if not torch.cuda.is_available():
        return {"torch": told, "gpu": None}
    properties = torch.cuda.get_device_properties(0)
    gpu = {"name": properties.name, "memory": properties.total_memory, "driver": _driver()}
    return {"torch": told, "gpu": gpu}


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip().splitlines()[0]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    flags = next((line for line in lines if line.startswith("flags")), "")
    widest = next((kind for kind in ("avx512f", "avx2", "avx") if kind in flags.split()), "")
    return f"{name}, {widest}" if widest else name


def _memory() -> int | None:
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def commit() -> str:
    """Of the checkout, with a plus where something in it is changed."""
    try:
        told = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        done = subprocess.run(told, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


if __name__ == "__main__":
    print(json.dumps(own_facts()))
