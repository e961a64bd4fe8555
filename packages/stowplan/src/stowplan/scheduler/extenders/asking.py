"""Synchronous extender calls, for clusters in memory and in simulated time.

A caller may answer for all extenders with a function of URL and body, just like an HTTP extender. Bind is never called:
only the in-memory scheduler places pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stowplan.kube.config.configuration import Configuration
from stowplan.scheduler.extenders.calls import Call, Calls
from stowplan.scheduler.extenders.http_extender import HttpExtender, configured_extenders
from stowplan.scheduler.framework.requests import Ask, Done, Outcome, Refused

_OK = 200


def asking(calls: Calls, post: Callable[[Call], tuple[int, bytes]]) -> Callable[[Ask], Outcome]:
    """A function that asks a question and returns its outcome. `post` sends a call and returns status and body.

    Whatever fails was not carried out, even if the extender has received it: without bind, questions have no effects.
    """

    def ask(question: Ask) -> Outcome:
        try:
            call = calls.call_of(question)
            return Done(calls.answer_of(call, *post(call)))
        except Exception as error:
            return Refused(error)

    return ask


def posting_to(answer: Callable[[str, Mapping[str, Any]], Any]) -> Callable[[Call], tuple[int, bytes]]:
    """Send calls to a function instead of a server."""

    def post(call: Call) -> tuple[int, bytes]:
        return _OK, msgspec.json.encode(answer(call.url, msgspec.json.decode(call.body)))

    return post


def extenders_without_binders(configuration: Configuration) -> tuple[HttpExtender, ...]:
    """The extenders of a configuration, with bind disabled."""
    extenders = configured_extenders(configuration)
    for extender in extenders:
        extender.binds = False
    return extenders
