"""Errors of expressions: compilation and evaluation."""

from __future__ import annotations


class CelError(Exception):
    """Base of the two kinds of errors that this package raises; has the reference's message."""


class CompileError(CelError):
    """The text is not a valid expression of its environment."""


class EvaluationError(CelError):
    """A compiled expression that fails for this input."""

    #: Whether the caller interrupted it: see the `interrupted` argument of evaluations.
    interrupted = False


class ValueProblem(Exception):
    """An error value of CEL: the result of a failed operation."""


class EvaluationStopped(Exception):
    """The evaluation as a whole ends; nothing in the expression absorbs that."""


class CostLimitExceeded(EvaluationStopped):
    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Interrupted(EvaluationStopped):
    def __init__(self) -> None:
        super().__init__("operation interrupted")
