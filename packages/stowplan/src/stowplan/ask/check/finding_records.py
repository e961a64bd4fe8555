"""The answer of a check as records: findings with their places, and what becomes of the pods of each object."""

from __future__ import annotations

from stowplan.ask.what_if.answer_records import Answer

ERROR, WARNING, NOTE = "error", "warning", "note"
#: Rule -> what it is about, as tools show it in a list of rules.
RULES = {
    "unreadable": "The file is no manifest that an API server would take.",
    "does-not-fit": "Pods get no node.",
    "over-quota": "A ResourceQuota does not allow all pods.",
    "breaks-budget": "Pods are evicted although their disruption budget allows none.",
    "evicts": "Pods of lower priority are evicted.",
    "takes-room": "Pods that wait today would get a node without the change.",
    "not-scheduled": "No profile schedules the pods.",
    "about-manifest": "An API server would refuse the object.",
}


class FindingRecord(Answer, frozen=True, kw_only=True):
    """A finding is an error, a warning or a note; without a file it is about the whole change."""

    level: str
    #: One of `RULES`.
    rule: str
    message: str
    file: str = ""
    #: Counted from 1; 0 without a file.
    line: int = 0
    #: Kind, and namespace/name.
    object: str = ""
    #: What would help, each verified on all nodes.
    remedies: tuple[str, ...] = ()


class CheckedRecord(Answer, frozen=True, kw_only=True):
    """An object with pods, and where they go."""

    object: str
    file: str
    line: int
    pods: int
    #: Node -> number of pods.
    nodes: dict[str, int]
    pending: int


class CheckRecord(Answer, frozen=True, kw_only=True):
    kind: str = "Check"
    objects: tuple[CheckedRecord, ...]
    #: Errors first.
    findings: tuple[FindingRecord, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return all(one.level != ERROR for one in self.findings)
