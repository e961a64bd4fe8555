"""Which devices the selectors of a request admit: evaluated once per distinct device content, and paid for.

Evaluation costs count towards the budget of a search, so that expensive expressions cannot hold up other pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.cel.device_selectors import CompileError, EvaluationError, compile_selector

if TYPE_CHECKING:
    from stowplan.in_tree.dynamic_resources.allocator.claims import Selector, Wanted
    from stowplan.in_tree.dynamic_resources.allocator.devices import DeviceContent

#: Verdicts that are kept.
_MAX_KEPT = 500_000


class BudgetSpentError(Exception):
    """The search has to stop for now."""


class Budget:
    """Steps that searches may take; a step is a look at one device for one request, or one unit of cost of CEL."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        self.left -= steps

    def require(self) -> None:
        if self.left <= 0:
            raise BudgetSpentError


class SelectorError(Exception):
    """An expression that does not compile, or fails on a device."""

    def __init__(self, selector: Selector, what: str) -> None:
        super().__init__(what)
        #: "": the claim that has the selector.
        self.class_name = selector.class_name
        self.text = f"selector #{selector.number}: CEL {what}"


class SelectorVerdicts:
    """What selectors said of devices."""

    def __init__(self, *, list_attributes: bool = False) -> None:
        self._list_attributes = list_attributes
        self._verdicts: dict[tuple[Selector, ...], dict[DeviceContent, bool | SelectorError]] = {}
        self._kept = 0

    def of(self, wanted: Wanted) -> dict[DeviceContent, bool | SelectorError]:
        """What is known of a request's selectors; grows by `judge`."""
        if self._kept > _MAX_KEPT:
            self._verdicts.clear()
            self._kept = 0
        return self._verdicts.setdefault(wanted.selectors, {})

    def judge(self, wanted: Wanted, content: DeviceContent, budget: Budget) -> bool | SelectorError:
        """Whether all selectors admit the device; the first that does not decides."""
        known = self.of(wanted)
        verdict = known.get(content)
        if verdict is None:
            budget.require()
            verdict = known[content] = self._evaluated(wanted.selectors, content, budget)
            self._kept += 1
        return verdict

    def _evaluated(
        self, selectors: tuple[Selector, ...], content: DeviceContent, budget: Budget
    ) -> bool | SelectorError:
        for selector in selectors:
            try:
                compiled = compile_selector(selector.expression, list_type_attributes=self._list_attributes)
            except CompileError as e:
                return SelectorError(selector, f"compile error: {e}")
            try:
                # `matches` says what is wrong with a value that is no bool.
                found = compiled.evaluate(content.selected)
                budget.spend(found.cost)
                admitted = found.value if isinstance(found.value, bool) else compiled.matches(content.selected)
            except EvaluationError as e:
                budget.spend(_COST_OF_FAILURE)
                return SelectorError(selector, f"runtime error: {e}")
            if not admitted:
                return False
        return True


#: An evaluation that fails does not say what it cost.
_COST_OF_FAILURE = 1000
