"""The lines of a formula, by name, so that a hypothesis may edit one of them.

A formula passes each of its named lines, and what a line uses, through its stages. `AS_IT_IS` lets everything through;
whoever asks what a wrong implementation does gives stages of its own, which change one line and leave the rest.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

Value = TypeVar("Value")


class Stages:
    """Every line as it is. `of` is the name of a line, `slot` that of something the line uses: an operand, a constant, a
    reduction. The methods with a reduction in them are lines of their own.
    """

    edited = False  # the formula is not the right one, and no budget is asked for
    stored = False  # the budget is the wider one, of weights that are computed again from a stored log-sum-exp

    def __call__(self, of: str, value: Value) -> Value:
        return value

    def use(self, of: str, slot: str, value: Value) -> Value:
        return value

    def given(self, numbers: dict[str, Any]) -> None:
        """Operands and upstream gradient, as the formula has them before anything is computed."""

    def backward(self) -> None:
        """From here on the lines belong to the backward."""

    def forward(self) -> None:
        """And from here on to the forward again."""

    def sum(self, of: str, X: Any) -> Any:
        return self(of, self.use(of, "sum", summed)(X))

    def mean(self, of: str, X: Any) -> Any:
        return self(of, self.use(of, "mean", averaged)(X))

    def product(self, of: str, X: tuple[str, Any], Y: tuple[str, Any]) -> Any:
        """X Y, each a name and a number."""
        return self(of, self.use(of, X[0], X[1]) @ self.use(of, Y[0], Y[1]))

    def over_rows(self, of: str, X: Any) -> Any:
        """Summed over every leading axis."""
        return self(of, self.use(of, "rows", over_rows)(X))

    def outer(self, of: str, X: tuple[str, Any], Y: tuple[str, Any]) -> Any:
        """X^T Y, summed over every leading axis."""
        return self(of, self.use(of, "outer", outer)(self.use(of, X[0], X[1]), self.use(of, Y[0], Y[1])))

    def dropout(self, of: str, X: Any, keep: Any, p: Any) -> Any:
        return self(of, self.use(of, "dropout", dropped)(X, self.use(of, "keep", keep), self.use(of, "p", p)))


class Part(Stages):
    """The stages of a part inside a larger formula: its lines are called "part: line"."""

    def __init__(self, stage: Stages, name: str) -> None:
        self.stage, self.name, self.edited, self.stored = stage, name, stage.edited, stage.stored

    def __call__(self, of: str, value: Value) -> Value:
        return self.stage(f"{self.name}: {of}", value)

    def use(self, of: str, slot: str, value: Value) -> Value:
        return self.stage.use(f"{self.name}: {of}", slot, value)


def summed(X: Any) -> Any:
    return X.sum(-1, keepdims=True)


def averaged(X: Any) -> Any:
    return X.mean(-1)


def over_rows(X: Any) -> Any:
    return X.rows().sum(0)


def outer(X: Any, Y: Any) -> Any:
    return X.rows().mT @ Y.rows()


def dropped(X: Any, keep: Any, p: Any) -> Any:
    if keep is None:
        return X
    if p == 1.0:
        return X * 0.0
    return (X * (1 / (1 - np.longdouble(p)))).where(keep)


class Stored(Stages):
    """Every line as it is, and the wider budget."""

    stored = True


AS_IT_IS, STORED = Stages(), Stored()
