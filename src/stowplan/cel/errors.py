"""What can be wrong with an expression: it does not compile, or it fails for the values at hand."""

from __future__ import annotations


class CelError(Exception):
    """Base of the two kinds of errors that leave this package; the message is the reference's."""


class CompileError(CelError):
    """The text is not a valid expression of its environment."""


class EvaluationError(CelError):
    """A compiled expression has no value for this input."""

    #: The caller asked for it: see the `interrupted` argument of evaluations.
    interrupted = False


class ValueProblem(Exception):
    """An error value of CEL: what an operation gives that has no result."""


class EvaluationStopped(Exception):
    """The evaluation as a whole ends; nothing inside the expression absorbs that."""


class CostLimitExceeded(EvaluationStopped):
    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Interrupted(EvaluationStopped):
    def __init__(self) -> None:
        super().__init__("operation interrupted")
