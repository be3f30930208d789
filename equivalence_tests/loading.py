"""What `FILE.py:NAME` names, or one line that says why there is no such thing."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from equivalence_tests.implementations import one_line

NUMPY = ModuleType("numpy")  # as it was when this module was imported
vars(NUMPY).update(vars(np))


def keep_numpy() -> None:
    """The kit's modules compute with the NumPy of before, whatever a candidate puts in the place of its functions.

    To be called before a candidate is imported, and again once it has made the kit import more.
    """
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "equivalence_tests" and isinstance(getattr(module, "np", None), ModuleType):
            module.np = NUMPY  # type: ignore[attr-defined]


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say beside a name that is not known."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(names)}"


def load_function(spec: str) -> Any:
    """What `FILE.py:NAME` or `package.module:NAME` names. ValueError, one line, if there is no such thing."""
    where, colon, name = spec.rpartition(":")
    if not colon or not where or not name:
        raise ValueError(f"{spec!r} came, expected FILE.py:NAME or package.module:NAME")
    module = _module_of_file(Path(where)) if where.endswith(".py") else _module_named(where)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = [n for n in vars(module) if not n.startswith("_") and callable(getattr(module, n))]
            raise ValueError(f"{where} has no {name!r}, {nearest(name, names) if names else 'it defines no function'}")
        found = getattr(found, part)
    if not callable(found) and not callable(getattr(found, "backward", None)):  # a layer may have no __call__
        raise ValueError(f"{spec}: {name} is a {type(found).__name__}, expected a function")
    return found


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        beside = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, beside, n=1)
        raise ValueError(f"there is no file {path}" + (f", did you mean {path.parent / close[0]}?" if close else ""))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # what stands beside it can be imported
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{path} cannot be imported, it raised {one_line(error)}") from None
    return module


def _module_named(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"{name!r} came, expected FILE.py:NAME or package.module:NAME")
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{name} cannot be imported, it raised {one_line(error)}") from None
