"""Binding by extenders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.klog import get_logger
from stowplan.scheduler.framework.extender import answer_of
from stowplan.scheduler.framework.requests import Ask
from stowplan.scheduler.framework.status import SKIP, error

if TYPE_CHECKING:
    from stowplan.scheduler.engine.decision.attempt import Attempt
    from stowplan.scheduler.framework.extender import Extender
    from stowplan.scheduler.framework.requests import Steps

_log = get_logger(__name__)


def bound_by(extender: Extender, attempt: Attempt) -> Steps:
    """Let an extender bind the pod; SKIP leaves it to the next binder."""
    try:
        question = extender.bind_question(attempt.pod, attempt.node_name)
        outcome = yield Ask(who=extender.name, verb="bind", question=question)
        extender.read_bound(answer_of(outcome))
    except Exception as e:
        if not extender.ignorable:
            return error(e)
        text = "Skipping extender in bind as it returned error and has ignorable flag set"
        _log.info(text, extender=extender.name, err=str(e))
        return SKIP
    return None
