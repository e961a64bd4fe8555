"""Traces of scheduling attempts, as spans of OpenTelemetry that are exported to a collector.

An attempt is traced after its end. The engine keeps its *parts*, what metrics measure anyway, at the cost of no call
(`framework.runtime.metrics`). So the outcome is known when it is decided whether to export the attempt:

* one that failed always is;
* else, if an annotation carries the trace that the pod was created in: if that one is sampled;
* else with the probability of the configuration. How many are skipped is drawn once for all of them.

    scheduleOne                      the attempt: pod, profile, time in the queue, result, message
    ├─ schedulingCycle
    │  ├─ RunFilterPlugins …         an extension point
    │  └─ Extender filter            a call of an extender
    └─ bindingCycle
       └─ RunBindPlugins
          └─ POST Pod/binding        a write

Each attempt is a trace of its own, linked to the one that the pod was created in: a pod may be tried for days. The span
of the attempt waits in a queue of bounded size. A thread makes the others and exports them, so nothing waits for it or
the collector.

Upstream: none. Names follow the proposals KEP-5927 (kube-scheduler) and KEP-5915 (annotation, links).
"""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from itertools import zip_longest
from random import getrandbits, random
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from stowplan import __version__
from stowplan.kube.config.config_errors import ConfigFileError
from stowplan.kube.config.tracing import MILLION, TracingConfiguration
from stowplan.kube.klog import get_logger
from stowplan.scheduler.engine.effects import RunPlugin
from stowplan.scheduler.framework.requests import (
    Ask,
    Bind,
    Create,
    Delete,
    Done,
    Patch,
    Read,
    Refused,
    Unknown,
    Update,
)
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.inspection.stories import LONGEST_TEXT

if TYPE_CHECKING:
    from stowplan.scheduler.cluster.pod_info import PodShape
    from stowplan.scheduler.engine.schedule_one import Attempt, Failure
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.framework.runtime.metrics import Part
    from stowplan.scheduler.queue.queued_pod import QueuedPod

#: Annotations that carry the trace that a pod was created in, as the W3C's `traceparent`; the first of them counts.
PARENT, PLAIN_PARENT = "tracing.k8s.io/traceparent", "traceparent"
#: Timeout in seconds for spans that are not exported yet at the end.
FLUSH_TIMEOUT = 2.0
#: Attempts that wait for their export, and in one request; an attempt has about fifteen spans.
_MOST_WAITING, _BATCH = 2048, 128

_GRPC_PORT = 4317
_SCOPE = InstrumentationScope("stowplan", __version__)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status()
_NOTHING: Part = (None, None, 0.0, None)
_METHODS: dict[type[Any], str] = {Create: "POST", Update: "PUT", Patch: "PATCH", Delete: "DELETE", Read: "GET"}
_PROPAGATOR = TraceContextTextMapPropagator()
#: Of extension points: after the functions of the reference. All others are Run…Plugins.
_NAMES = {
    "Reserve": "RunReservePluginsReserve",
    "Unreserve": "RunReservePluginsUnreserve",
    "PreBindPreFlight": "RunPreBindPreFlights",
    "WaitOnPermit": "WaitOnPermit",
}
_DECIDING = ("PreFilter", "Filter", "PostFilter", "PodGroupPostFilter", "PreScore", "Score", "Reserve", "Permit")
#: The binding cycle begins with the first of these.
_BINDING = ("PreBindPreFlight", "WaitOnPermit", "PreBind", "Bind", "PostBind")

#: By code and by phrase, as the exporter's log has either.
_STATUSES: dict[object, str] = {
    key: f"HTTP {one.value} {one.phrase}" for one in HTTPStatus for key in (one.value, one.phrase)
}

_log = get_logger(__name__)


@contextmanager
def exported(configuration: TracingConfiguration, service: str) -> Iterator[AttemptSpans]:
    """A tracer of attempts that exports to the collector; at the end, what is left is exported within a time limit.

    Raises ConfigFileError for what the environment sets.
    """
    # Slow to import, and tests have another.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    url = configuration.url or None
    if url is not None and urlsplit(url).port == _GRPC_PORT:
        _log.warning("Port 4317 is for OTLP over gRPC; traces are sent over HTTP, for which 4318 is usual")
    problems, their_log = Problems(), logging.getLogger("opentelemetry")
    their_log.propagate = False
    their_log.addHandler(problems)
    try:
        exporter = AttemptExporter(OTLPSpanExporter(endpoint=url), url or "the default endpoint", problems)
        processor = BatchSpanProcessor(exporter, max_queue_size=_MOST_WAITING, max_export_batch_size=_BATCH)
    except ValueError as error:
        raise ConfigFileError(f"a variable OTEL_… of the environment: {error}") from error
    try:
        rate = (configuration.sampling_rate_per_million or 0) / MILLION
        yield AttemptSpans(processor, _resource(service), rate=rate, chance=random)
    finally:
        ending = Thread(target=processor.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(FLUSH_TIMEOUT)


class _OnlyResource(Resource):
    """Hashed by identity: the encoder hashes it with every span, and that of the base class writes JSON each time."""

    __hash__ = object.__hash__


def _resource(service: str) -> Resource:
    own = {"service.name": service, "service.version": __version__, "service.instance.id": socket.gethostname()}
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
    merged = Resource(own).merge(OTELResourceDetector().detect())
    return _OnlyResource(merged.attributes, merged.schema_url)


class AttemptSpan(ReadableSpan):
    """The span of an attempt, and of what the others are made when it is exported."""

    def __init__(self, timeline: Sequence[_Timed], **fields: Any) -> None:
        super().__init__("scheduleOne", **fields)
        self.timeline = timeline


class Problems(logging.Handler):
    """What the exporter's log last said went wrong; takes the place of that log, which is about each failed request.

    Types of exceptions and HTTP statuses alone: its texts quote the environment, which may contain credentials.
    """

    last = ""

    def emit(self, record: logging.LogRecord) -> None:
        for argument in record.args or ():
            if isinstance(argument, Exception):
                self.last = type(argument).__name__
            elif isinstance(argument, (int, str)):
                self.last = _STATUSES.get(argument, self.last)


class AttemptExporter(SpanExporter):
    """Exports attempts with all of their spans; logs that it cannot, once until it can again."""

    def __init__(self, exporter: SpanExporter, to: str, problems: Problems) -> None:
        self._exporter = exporter
        self._to = to
        self._problems = problems
        self._fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        complete = [one for span in spans if isinstance(span, AttemptSpan) for one in (span, *_inside(span))]
        self._problems.last = ""
        fails = self._exporter.export(complete) is not SpanExportResult.SUCCESS
        if fails and not self._fails:
            why = f" ({self._problems.last})" if self._problems.last else ""
            _log.warning(f"Cannot export traces to {self._to}{why}; they are dropped until that works again")
        elif self._fails and not fails:
            _log.info("Traces are exported again")
        self._fails = fails
        return SpanExportResult.FAILURE if fails else SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _Timed(NamedTuple):
    """A part with its times, in seconds since the epoch."""

    what: object
    began: float
    ended: float
    outcome: object


class AttemptSpans:
    """Makes the spans of the attempts that are to be exported; an `AttemptTracer`."""

    def __init__(
        self, processor: SpanProcessor, resource: Resource, *, rate: float, chance: Callable[[], float]
    ) -> None:
        """`rate`: the share of attempts to export; `chance` is uniform in [0, 1)."""
        self._processor = processor
        self._resource = resource
        self._rate = rate
        self._chance = chance
        self._skipped = self._to_skip()

    def _to_skip(self) -> float:
        """The number of attempts before the next that is sampled."""
        if self._rate >= 1.0:
            return 0.0
        return math.inf if self._rate <= 0.0 else math.log(1.0 - self._chance()) // math.log(1.0 - self._rate)

    def bound(self, attempt: Attempt) -> None:
        annotations = attempt.queued.pod.pod.metadata.annotations
        created_in = None
        if annotations and (PARENT in annotations or PLAIN_PARENT in annotations):
            created_in = _created_in(annotations)
        if created_in is not None:
            if not created_in.trace_flags.sampled:
                return
        elif self._skipped >= 1.0:
            self._skipped -= 1.0
            return
        else:
            self._skipped = self._to_skip()
        known = {
            "k8s.node.name": attempt.node_name,
            "scheduler.nodes.evaluated": attempt.evaluated,
            "scheduler.nodes.feasible": attempt.feasible,
            "scheduler.result": "scheduled",
        }
        self._export(attempt.framework, attempt.queued, attempt.parts or (), attempt.started, known, created_in)

    def failed(
        self, framework: Framework, queued: QueuedPod, failure: Failure, /, *, started: float, node_name: str
    ) -> None:
        known: dict[str, Any] = {
            "scheduler.result": "unschedulable" if failure.status.rejected else "error",
            "scheduler.message": _text(failure.message),
            "error.type": failure.reason,
        }
        if node_name:
            known["k8s.node.name"] = node_name
        if plugins := failure.unschedulable_plugins | failure.pending_plugins:
            known["scheduler.plugins"] = sorted(plugins)
        if failure.nominated_node_name:
            known["scheduler.nominated_node"] = failure.nominated_node_name
        if failure.plan is not None:
            known["scheduler.victims"] = len(failure.plan.victims)
        parts = (None if framework.metrics is None else framework.metrics.parts) or ()
        self._export(framework, queued, parts, started, known, _created_in(queued.pod.pod.metadata.annotations))

    def _export(
        self,
        framework: Framework,
        queued: QueuedPod,
        parts: Sequence[Part],
        started: float,
        known: dict[str, Any],
        created_in: SpanContext | None,
    ) -> None:
        metadata = queued.pod.pod.metadata
        attributes = {
            "k8s.namespace.name": metadata.namespace,
            "k8s.pod.name": metadata.name,
            "k8s.pod.uid": metadata.uid,
            "scheduler.profile": framework.profile_name,
            "scheduler.attempt": queued.attempts,
            "scheduler.queue.seconds": round(max(0.0, started - queued.timestamp), 6),
            **known,
        }
        timeline, idle = _timeline(parts, started), _idle_points(framework, queued.pod.shape)
        failed = "error.type" in known
        self._processor.on_end(
            AttemptSpan(
                [one for one in timeline if one.what not in idle],
                context=_context(getrandbits(128) or 1),
                resource=self._resource,
                instrumentation_scope=_SCOPE,
                attributes=attributes,
                links=() if created_in is None else (Link(created_in),),
                status=Status(StatusCode.ERROR, known["scheduler.message"]) if failed else _UNSET,
                start_time=_nanoseconds(started),
                end_time=_nanoseconds(max((one.ended for one in timeline), default=started)),
            )
        )


# -- the spans inside of an attempt's, made by the thread that exports them --------------------------------------------


def _inside(attempt: AttemptSpan) -> Iterator[ReadableSpan]:
    timeline = attempt.timeline
    binds_from = min((one.began for one in timeline if one.what in _BINDING), default=math.inf)
    cycles: dict[bool, list[_Timed]] = {False: [], True: []}
    for one in timeline:
        decides = one.what in _DECIDING or (isinstance(one.what, Ask) and one.what.verb != "bind")
        cycles[not decides and one.began >= binds_from].append(one)
    yield from _cycle(attempt, "schedulingCycle", cycles[False], attempt.start_time or 0)
    if bound := cycles[True]:
        yield from _cycle(attempt, "bindingCycle", bound, _nanoseconds(binds_from))


def _cycle(attempt: AttemptSpan, name: str, timeline: Sequence[_Timed], began: int) -> Iterator[ReadableSpan]:
    """The span of a cycle, with its points, and in these the requests that were made in them."""
    cycle = _span(attempt, name, began, max((_nanoseconds(one.ended) for one in timeline), default=began))
    yield cycle
    requests: list[_Timed] = []
    for part in timeline:
        if not isinstance(part.what, str):
            requests.append(part)
            continue
        point = _part(cycle, part)
        yield point
        for request in requests:
            if part.began <= request.began:
                # The step of an answer begins by another clock than what it does.
                yield _part(point, request._replace(ended=min(request.ended, part.ended)))
            else:
                yield _part(cycle, request)
        requests = []
    for request in requests:
        yield _part(cycle, request)


def _part(parent: ReadableSpan, part: _Timed) -> ReadableSpan:
    name, attributes, kind = _described(part.what)
    status = _UNSET
    if isinstance(part.outcome, int) and part.outcome != Code.Success:
        attributes = {**attributes, "scheduler.status": Code(part.outcome).name}
    if error := _error_of(part.outcome):
        type_ = type(error).__name__ if isinstance(error, Exception) else error
        attributes, status = {**attributes, "error.type": type_}, Status(StatusCode.ERROR, _text(str(error)))
    return _span(
        parent,
        name,
        _nanoseconds(part.began),
        _nanoseconds(part.ended),
        attributes=attributes,
        kind=kind,
        status=status,
    )


def _span(parent: ReadableSpan, name: str, began: int, ended: int, **more: Any) -> ReadableSpan:
    inside: SpanContext = parent.context
    return ReadableSpan(
        name,
        context=_context(inside.trace_id),
        parent=inside,
        resource=parent.resource,
        instrumentation_scope=_SCOPE,
        start_time=began,
        end_time=ended,
        **more,
    )


def _context(trace_id: int) -> SpanContext:
    return SpanContext(trace_id, getrandbits(64) or 1, is_remote=False, trace_flags=_SAMPLED)


def _idle_points(framework: Framework, shape: PodShape) -> tuple[str, ...]:
    """Extension points without a plugin that has anything to do with pods of the shape."""
    applicable = framework.applicable_plugins(shape)
    plugins: dict[str, Sequence[object]] = {
        "Reserve": applicable.reserve,
        "Permit": framework.permit,
        "PreBindPreFlight": applicable.pre_bind,
        "PreBind": applicable.pre_bind,
        "PostBind": framework.post_bind,
    }
    return tuple(point for point, of_point in plugins.items() if not of_point)


def _timeline(parts: Sequence[Part], started: float) -> list[_Timed]:
    """The parts with their times; one without a start ends where the next begins, if that is known."""
    found = []
    ended = started
    for (what, began, seconds, outcome), (_, following, _, _) in zip_longest(parts, parts[1:], fillvalue=_NOTHING):
        if began is None:
            began = ended if following is None else max(ended, following - seconds)
        ended = began + max(0.0, seconds)
        found.append(_Timed(what, began, ended, outcome))
    return found


def _described(what: object) -> tuple[str, Mapping[str, str], SpanKind]:
    """Name, attributes and kind of a part's span."""
    match what:
        case Ask():
            return f"Extender {what.verb}", {"scheduler.extender": what.who}, SpanKind.CLIENT
        case RunPlugin():
            return f"{what.point} {what.plugin}", {"scheduler.plugin": what.plugin}, SpanKind.INTERNAL
        case Bind():
            return "POST Pod/binding", {"http.request.method": "POST"}, SpanKind.CLIENT
        case Create() | Update():
            return _request(type(what), type(what.obj).__name__)
        case Patch():
            kind = what.kind.__name__
            return _request(Patch, f"{kind}/{what.subresource}" if what.subresource else kind)
        case Delete() | Read():
            return _request(type(what), what.kind.__name__)
        case "PATCH Pod/status":
            # The chosen node is announced.
            return what, {"http.request.method": "PATCH"}, SpanKind.CLIENT
    text = str(what)
    return _NAMES.get(text, f"Run{text}Plugins"), {}, SpanKind.INTERNAL


def _request(type_: type[Any], subject: str) -> tuple[str, Mapping[str, str], SpanKind]:
    method = _METHODS[type_]
    return f"{method} {subject}", {"http.request.method": method}, SpanKind.CLIENT


def _error_of(outcome: object) -> Exception | str | None:
    """What went wrong. That a pod does not fit is no error of a point."""
    match outcome:
        case Refused() | Unknown():
            return outcome.error
        case Done(value):
            # A plugin's coroutine has a status.
            return _error_of(getattr(value, "code", None))
        case Code.Error:
            return Code.Error.name
        case Exception():
            return outcome
    return None


def _created_in(annotations: Mapping[str, str]) -> SpanContext | None:
    """The context that the pod's annotation carries, if it is valid."""
    carried = annotations.get(PARENT) or annotations.get(PLAIN_PARENT)
    if not carried:
        return None
    found = get_current_span(_PROPAGATOR.extract({"traceparent": carried}, Context())).get_span_context()
    return found if found.is_valid else None


def _text(text: str) -> str:
    """As protobuf takes it: a plugin may write anything, and a batch is lost by half of a surrogate pair."""
    return text[:LONGEST_TEXT].encode("utf-8", "replace").decode()


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
