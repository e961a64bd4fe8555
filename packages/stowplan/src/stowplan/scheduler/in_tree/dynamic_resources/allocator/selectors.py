"""Which devices the selectors of a request match: evaluated once per distinct device content, within a budget.

The attributes that a request derives for its devices are evaluated in the same way.

Evaluation costs count towards the budget of a search, and an evaluation is suspended when that is spent, so that
expensive expressions cannot delay other pods.
"""

from __future__ import annotations

from typing import Any

from stowplan.kube.cel.device_selectors import (
    CompileError,
    DeviceSelector,
    Evaluation,
    EvaluationError,
    attribute_of,
    compile_attribute,
    compile_selector,
)
from stowplan.kube.cel.values import Value
from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion
from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import DerivedAttribute, Selector, Wanted
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import DeviceContent, Values, typed_values
from stowplan.scheduler.in_tree.dynamic_resources.allocator.evaluations import SlowEvaluation

#: Maximum number of cached results.
_MAX_KEPT = 500_000


_GUARD_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)

#: Cost of checking one device for one request.
LOOK = 8


class BudgetSpentError(Exception):
    """The search has to be suspended."""


class Budget:
    """Steps that searches may take. A step takes at most about a microsecond; a unit of CEL cost takes half of one."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        self.left -= steps

    def require(self) -> None:
        if self.left <= 0:
            raise BudgetSpentError


class SelectorError(Exception):
    """An expression that does not compile, or fails for a device."""

    def __init__(self, selector: Selector, error: CompileError | EvaluationError) -> None:
        super().__init__(str(error))
        #: "" for the claim that has the selector.
        self.class_name = selector.class_name
        self.number = selector.number
        self.of_device = isinstance(error, EvaluationError)

    def text(self, version: KubernetesVersion, subject: str = "") -> str:
        """In this version's words; `{device}` is a placeholder for the device that an evaluation failed for."""
        subject = subject or f"selector #{self.number}"
        what = str(self).replace("{", "{{").replace("}", "}}")
        if not self.of_device:
            return f"{subject}: CEL compile error: {what}"
        if version < V1_37:
            return f"{subject}: CEL runtime error: {what}"
        hint = _GUARD_HINT if "no such key:" in what else ""
        return f"{subject} on device {{device}}: CEL runtime error: {what}{hint}"


class _Evaluating:
    """An expression, evaluated for one device."""

    __slots__ = ("_content", "_slow")

    def __init__(self, content: DeviceContent) -> None:
        self._content = content
        #: The suspended evaluation.
        self._slow: SlowEvaluation | None = None

    def evaluated(self, compiled: DeviceSelector, budget: Budget) -> Value:
        """Raises BudgetSpentError, to be called again, and EvaluationError."""
        found: Evaluation | EvaluationError | None = None
        if self._slow is None:
            found = self._quick(compiled, budget)
        if found is None:
            self._slow = self._slow or SlowEvaluation(compiled, self._content.selected)
            budget.require()
            found, spent = self._slow.run(budget.left)
            budget.spend(spent)
        if found is None:
            raise BudgetSpentError
        self._slow = None
        if isinstance(found, EvaluationError):
            raise found
        return found.value

    def _quick(self, compiled: DeviceSelector, budget: Budget) -> Evaluation | EvaluationError | None:
        """The outcome of an expression that is not expensive, which nearly all are."""
        try:
            found = compiled.evaluate(self._content.selected, interrupted=_is_expensive)
        except EvaluationError as e:
            budget.spend(_EXPENSIVE if e.interrupted else _COST_OF_FAILURE)
            return None if e.interrupted else e
        budget.spend(found.cost)
        return found


class _Judging(_Evaluating):
    """The selectors of a request, evaluated for one device."""

    __slots__ = ("_lists", "_place", "_selectors")

    def __init__(self, selectors: tuple[Selector, ...], content: DeviceContent, *, lists: bool) -> None:
        super().__init__(content)
        self._selectors = selectors
        self._lists = lists
        self._place = 0

    def go_on(self, budget: Budget) -> bool | SelectorError:
        """Whether all selectors match the device, up to the first that does not. Raises BudgetSpentError."""
        while self._place < len(self._selectors):
            selector = self._selectors[self._place]
            try:
                if not self._admits(selector, budget):
                    return False
            except (CompileError, EvaluationError) as e:
                return SelectorError(selector, e)
            self._place += 1
        return True

    def _admits(self, selector: Selector, budget: Budget) -> bool:
        compiled = compile_selector(selector.expression, list_type_attributes=self._lists)
        # `boolean` reports values that are not bool.
        return compiled.boolean(self.evaluated(compiled, budget))


class _Deriving(_Evaluating):
    """A derived attribute, evaluated for one device."""

    __slots__ = ("_lists", "_selector")

    def __init__(self, selector: Selector, content: DeviceContent, *, lists: bool) -> None:
        super().__init__(content)
        self._selector = selector
        self._lists = lists

    def go_on(self, budget: Budget) -> Values | SelectorError:
        """Raises BudgetSpentError."""
        try:
            value = self.evaluated(compile_attribute(self._selector.expression), budget)
            return typed_values(attribute_of(value, lists=self._lists))
        except (CompileError, EvaluationError) as e:
            return SelectorError(self._selector, e)


class SelectorVerdicts:
    """Cached results of selectors on devices."""

    def __init__(self, *, lists: bool = False, derived_lists: bool = False) -> None:
        """`lists`: whether expressions can use lists; `derived_lists`: whether derived attributes can be lists."""
        self._lists, self._derived_lists = lists, derived_lists
        self._derived: dict[tuple[str, DeviceContent], Values | SelectorError] = {}
        self._verdicts: dict[tuple[Selector, ...], dict[DeviceContent, bool | SelectorError]] = {}
        self._kept = 0
        #: Number of evaluations so far.
        self.evaluated = 0
        #: Suspended evaluations, the oldest first.
        self._under_way: dict[tuple[tuple[Selector, ...] | str, DeviceContent], _Judging | _Deriving] = {}

    def of(self, wanted: Wanted) -> dict[DeviceContent, bool | SelectorError]:
        """The known results of a request's selectors; extended by `judge`."""
        if self._kept > _MAX_KEPT:
            self._verdicts.clear()
            self._derived.clear()
            self._kept = 0
        return self._verdicts.setdefault(wanted.selectors, {})

    def judge(self, wanted: Wanted, content: DeviceContent, budget: Budget) -> bool | SelectorError:
        """Whether all selectors match the device. Raises BudgetSpentError; the next call continues from there."""
        known = self.of(wanted)
        verdict = known.get(content)
        if verdict is None:
            budget.require()
            verdict = known[content] = self._judged(wanted.selectors, content, budget)
            self._kept += 1
            self.evaluated += 1
        return verdict

    def derive(self, attribute: DerivedAttribute, content: DeviceContent, budget: Budget) -> Values | SelectorError:
        """The value of a derived attribute for a device. Raises BudgetSpentError, like `judge`."""
        key = attribute.expression.expression, content
        found = self._derived.get(key)
        if found is None:
            budget.require()
            deriving = _Deriving(attribute.expression, content, lists=self._derived_lists)
            found = self._derived[key] = self._continued(key, deriving, budget)
            self._kept += 1
            self.evaluated += 1
        return found

    def _judged(self, selectors: tuple[Selector, ...], content: DeviceContent, budget: Budget) -> bool | SelectorError:
        key = selectors, content
        found: bool | SelectorError = self._continued(key, _Judging(selectors, content, lists=self._lists), budget)
        return found

    def _continued(
        self, key: tuple[tuple[Selector, ...] | str, DeviceContent], fresh: _Judging | _Deriving, budget: Budget
    ) -> Any:
        started = self._under_way.pop(key, fresh) if self._under_way else fresh
        try:
            return started.go_on(budget)
        except BudgetSpentError:
            self._under_way[key] = started
            if len(self._under_way) > _MAX_UNDER_WAY:
                del self._under_way[next(iter(self._under_way))]
            raise


def _is_expensive(cost: int) -> bool:
    return cost >= _EXPENSIVE


#: The assumed cost of an evaluation that fails, which does not report it.
_COST_OF_FAILURE = 1000
#: From this cost on, evaluations can be suspended.
_EXPENSIVE = 2000
#: Maximum number of suspended evaluations.
_MAX_UNDER_WAY = 16
