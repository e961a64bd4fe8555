"""The engine's interface to extenders.

An extender does no I/O here. For each point that it takes part in it makes a question, a plain value that JSON can
hold; the engine hands that out as an `Ask`, and its driver puts it to whoever answers; days later, as it were, the
extender reads the answer, a plain value again. What is read names nodes and pods as they were called when the question
was made: the engine looks at what has become of them.

    filter      which of the nodes that all Filter plugins left the pod may go to
    prioritize  points for those nodes, added to what the Score plugins gave
    preempt     which candidates of preemption are left, and who has to leave there
    bind        write the binding, in place of the Bind plugins

Reading raises for an answer that is none. An attempt fails with the error of a question that failed, unless the
extender is ignorable; what prioritize cannot answer never fails an attempt.

Upstream: staging/src/k8s.io/kube-scheduler/framework (Extender), pkg/scheduler/extender.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stowplan.framework.requests import Done

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from stowplan.api.types import Node
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.eviction_plan import Candidate
    from stowplan.framework.requests import Outcome

#: Who has refused a pod that no extender left a node, for the queue and for people.
EXTENDER = "Extender"

#: The best that an extender gives a node; it does not have to keep to that.
MAX_EXTENDER_SCORE = 10


class OvertakenError(Exception):
    """Meanwhile others took what an answer was about: the attempt has to begin anew.

    PostFilter plugins that wait may raise it, too.
    """

    def __str__(self) -> str:
        return "other pods took what was left while an answer was waited for"


@dataclass(frozen=True, slots=True)
class Filtered:
    """What an extender makes of the nodes that it was asked about."""

    #: Names of the nodes that are left.
    kept: Collection[str]
    #: Node -> why not; evicting pods may help.
    failed: Mapping[str, str] = field(default_factory=dict)
    #: Node -> why not, whoever leaves.
    unresolvable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Victims:
    """The victims on a node, by UID, most important first."""

    uids: tuple[str, ...]
    pdb_violations: int = 0


class Extender(ABC):
    """Answers to the points that it says it takes part in; the methods of others are not called."""

    #: To whom `Ask` is addressed; no two extenders share it.
    name: str
    #: Whether attempts go on without it when it fails.
    ignorable: bool = False
    filters: bool = False
    prioritizes: bool = False
    preempts: bool = False
    binds: bool = False
    #: Multiplies its scores.
    weight: int = 1

    def is_interested(self, pod: PodInfo) -> bool:
        return True

    @abstractmethod
    def filter_question(self, pod: PodInfo, nodes: Sequence[Node]) -> Any: ...

    @abstractmethod
    def read_filtered(self, answer: Any, asked: Sequence[str]) -> Filtered:
        """`asked`: the names of the nodes in the question."""

    @abstractmethod
    def prioritize_question(self, pod: PodInfo, nodes: Sequence[Node]) -> Any: ...

    @abstractmethod
    def read_scores(self, answer: Any) -> Mapping[str, int]:
        """Node -> points, 0…10; a node that is not named gets none."""

    @abstractmethod
    def preempt_question(self, pod: PodInfo, candidates: Sequence[Candidate]) -> Any: ...

    @abstractmethod
    def read_candidates(self, answer: Any) -> Mapping[str, Victims]:
        """Node -> who has to leave there; nodes that are not named are no candidates any more."""

    def bind_question(self, pod: PodInfo, node_name: str) -> Any:
        """To be written for one that `binds`."""
        raise NotImplementedError(f"{self.name} does not bind")

    def read_bound(self, answer: Any) -> None:
        """Raise if the pod was not bound."""
        raise NotImplementedError(f"{self.name} does not bind")


def answer_of(outcome: Outcome) -> Any:
    """What was answered; raise the error of a question without an answer."""
    if isinstance(outcome, Done):
        return outcome.value
    raise outcome.error
