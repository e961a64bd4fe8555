"""Encode extender requests, byte for byte as Go's encoder does.

The envelopes have no JSON tags in Go: their keys are capitalized and always present, with null for unused ones. Objects
in them are complete (`api.documents`), without kind and apiVersion.

    call = calls.call_of(ask)              # then somebody sends call.body to call.url
    answer = calls.answer_of(call, status, body)

Clusters in memory and in simulated time call extenders synchronously (`asking`). A caller may answer for all of them
with a function of URL and body. Bind is never called: only the in-memory scheduler places pods.

Upstream: staging/src/k8s.io/kube-scheduler/extender/v1/types.go, send in pkg/scheduler/extender.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from stowplan.kube.api.documents import Documents
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.api.urls import without_password
from stowplan.kube.config.configuration import Configuration
from stowplan.kube.config.configuration import Extender as Settings
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.extenders.answers import AnswerError, answer_to
from stowplan.scheduler.extenders.http_extender import (
    BindQuestion,
    HttpExtender,
    NodesQuestion,
    PreemptQuestion,
    Question,
    VictimsAsked,
    configured_extenders,
    names_of,
)
from stowplan.scheduler.framework.requests import Ask, Done, Outcome, Refused

#: By how much a response may exceed its request. A valid one contains at most the nodes of the request, and reasons for
#: the others.
ANSWER_SLACK = 16 << 20
_OK = 200

_encode = msgspec.json.encode


class CallError(Exception):
    """A failed extender call; says which one and why."""


class Call(PlainStruct, frozen=True):
    extender: Settings
    #: filter, prioritize, preempt or bind; and the configured path of the verb.
    verb: str
    action: str
    url: str
    body: bytes

    @property
    def longest_answer(self) -> int:
        """In bytes."""
        return ANSWER_SLACK + 2 * len(self.body)


class Calls:
    """Encodes and decodes the calls to the extenders of a configuration."""

    def __init__(self, configuration: Configuration, documents: Documents, *, before: Calls | None = None) -> None:
        """`before`: the calls of the replaced configuration, whose extenders and verbs may still be called."""
        self._documents = documents
        #: (extender, verb) -> its settings, and the configured path of the verb.
        self._verbs: dict[tuple[str, str], tuple[Settings, str]] = {} if before is None else dict(before._verbs)
        for name, extender in zip(names_of(configuration), configuration.extenders_in_call_order, strict=True):
            self._verbs |= {(name, verb): (extender, action) for verb, action in _verbs_of(extender) if action}
        self._names = frozenset(name for name, _ in self._verbs)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def call_of(self, ask: Ask) -> Call:
        extender, action = self._verbs[ask.who, ask.verb]
        url = f"{extender.url_prefix.rstrip('/')}/{action}"
        return Call(extender, ask.verb, action, url, self._body(ask.question))

    @staticmethod
    def answer_of(call: Call, status: int, body: bytes) -> Any:
        """The answer as a plain value; raises CallError."""
        if status != _OK:
            raise CallError(f"failed {call.action} with extender at URL {without_password(call.url)}, code {status}")
        try:
            return answer_to(call.verb, body)
        except AnswerError as error:
            where = f"the extender at URL {without_password(call.url)}"
            raise CallError(f"cannot read what {where} answers: {error}") from None

    # -- bodies -------------------------------------------------------------------------------------------------------

    def _body(self, question: Question) -> bytes:
        match question:
            case NodesQuestion():
                return self._about_nodes(question)
            case PreemptQuestion():
                return self._about_victims(question)
            case BindQuestion():
                return _encode(
                    {
                        "PodName": question.name,
                        "PodNamespace": question.namespace,
                        "PodUID": question.uid,
                        "Node": question.node,
                    }
                )

    def _about_nodes(self, question: NodesQuestion) -> bytes:
        nodes = b"null"
        if question.nodes is not None:
            nodes = b'{"metadata":{},"items":[%b]}' % self._joined(question.nodes)
        names = _encode(question.names)
        return b'{"Pod":%b,"Nodes":%b,"NodeNames":%b}' % (self._documents.json(question.pod), nodes, names)

    def _about_victims(self, question: PreemptQuestion) -> bytes:
        # Parity: Go encodes maps with sorted keys.
        victims = b",".join(
            b'%b:{"Pods":%b,"NumPDBViolations":%d}'
            % (_encode(node), self._victims(question, found), found.pdb_violations)
            for node, found in sorted(question.victims.items())
        )
        whole, meta = (b"null", b"{%b}" % victims) if question.meta else (b"{%b}" % victims, b"null")
        text = b'{"Pod":%b,"NodeNameToVictims":%b,"NodeNameToMetaVictims":%b}'
        return text % (self._documents.json(question.pod), whole, meta)

    def _victims(self, question: PreemptQuestion, victims: VictimsAsked) -> bytes:
        if not question.meta:
            return b"[%b]" % self._joined(victims.pods)
        if not victims.pods:
            return b"null"
        return _encode([{"UID": pod.metadata.uid} for pod in victims.pods])

    def _joined(self, objects: Iterable[ApiStruct]) -> bytes:
        return b",".join(map(self._documents.json, objects))


def _verbs_of(extender: Settings) -> tuple[tuple[str, str], ...]:
    return (
        ("filter", extender.filter_verb),
        ("prioritize", extender.prioritize_verb),
        ("preempt", extender.preempt_verb),
        ("bind", extender.bind_verb),
    )


def kinds_wanted(configuration: Configuration) -> frozenset[type[ApiStruct]]:
    """The kinds of objects that are sent to the extenders of a configuration in full."""
    kinds: set[type[ApiStruct]] = set()
    for extender in configuration.extenders:
        if extender.filter_verb or extender.prioritize_verb or extender.preempt_verb:
            kinds.add(Pod)
        if (extender.filter_verb or extender.prioritize_verb) and not extender.node_cache_capable:
            kinds.add(Node)
    return frozenset(kinds)


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
