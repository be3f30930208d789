"""The implementation under test is a parameter: `pytest --implementation torch_impl --device cuda`."""

from __future__ import annotations

import os

# The arrays are tiny: threads of several workers, and of what they start, would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from equivalence_tests.implementations import Implementation, available, has_torch, load

if has_torch():  # it may have been imported before
    import torch

    torch.set_num_threads(1)

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("quick", UNHURRIED, max_examples=10)
settings.register_profile("ci", UNHURRIED, max_examples=25, derandomize=True, print_blob=True)
settings.register_profile("fuzz", UNHURRIED, max_examples=2000)
settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--implementation", help="test this module alone (default: every one that this machine can run)")
    parser.addoption("--device", help="cpu or cuda (default: all there are)")


def implementations(config: pytest.Config) -> list[Implementation]:
    name, device = config.getoption("--implementation"), config.getoption("--device")
    try:
        return available(device) if name is None else [load(name, device or "cpu")]
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "implementation" in metafunc.fixturenames:
        found = implementations(metafunc.config)
        metafunc.parametrize("implementation", found, ids=[each.label for each in found])
