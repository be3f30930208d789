"""What a law of a part is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Law = Callable[[Any], str]
