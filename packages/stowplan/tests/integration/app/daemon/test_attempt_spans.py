"""Spans of attempts on an embedded cluster, with the SDK's exporter in memory, and a collector that is away.

That the commands export them is seen in test_kube_scheduler_process.
"""

import logging
import re
import socket
import sys
from contextlib import asynccontextmanager
from random import Random
from time import monotonic

import pytest
import requests
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from stowplan.app.daemon.attempt_spans import PARENT, PLAIN_PARENT, AttemptExporter, AttemptSpans, Problems
from stowplan.app.daemon.tracing import NO_OPENTELEMETRY, tracer_of
from stowplan.kube.api.types import Pod
from stowplan.kube.config import ConfigFileError
from stowplan.kube.config.features import with_chosen
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.framework.interface import PreBindPlugin
from stowplan.scheduler.framework.requests import Patch
from stowplan.scheduler.framework.status import SKIP
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live
from support.observing.collector import Collector, collecting, otelcol
from support.observing.log_lines import logged
from support.plugins.answering_plugins import configuration, profile
from support.scheduling.fake_extender import FakeExtender
from support.scheduling.groups import a_group, member

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED, UNSAMPLED = f"00-{TRACE}-00f067aa0ba902b7-01", f"00-{TRACE}-00f067aa0ba902b7-00"


class Labelling(PreBindPlugin):
    """Writes a label to pods before they are bound."""

    name = "Labelling"

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None if "extended" in pod.labels else SKIP

    def pre_bind(self, state, pod, node_name):
        yield Patch(kind=Pod, namespace=pod.namespace, name=pod.name, body={"metadata": {"labels": {"by": "us"}}})


class TheirAnswers:
    """An extender's answers, which take a second; it binds all pods but one."""

    def __init__(self, time):
        self._time = time

    async def ask(self, verb, question):
        await self._time.sleep(1.0)
        if verb == "filter":
            return question["nodes"]
        return "no" if question["pod"] == "default/unbound" else "bound"


@asynccontextmanager
async def traced(*, rate, **options):
    """A cluster, and a function for the spans since its last call."""
    memory, time = InMemorySpanExporter(), ManualTime()
    tracer = AttemptSpans(
        SimpleSpanProcessor(AttemptExporter(memory, "memory", Problems())),
        Resource({}),
        rate=rate,
        chance=Random(1).random,
    )
    options |= {
        "config": configuration(profile(preBind=[Labelling])),
        "plugins": (Labelling,),
        "extenders": [FakeExtender("theirs", only="extended", filters=True, binds=True)],
        "extender_clients": {"theirs": TheirAnswers(time)},
    }

    def spans():
        found = memory.get_finished_spans()
        memory.clear()
        return found

    async with live(a_node("n1").allocatable(cpu="2", pods=200).obj(), time=time, tracer=tracer, **options) as cluster:
        yield cluster, spans


def pod(name, *labels, cpu="1m", annotations=None):
    made = a_pod(name).requests(cpu=cpu).labels(dict.fromkeys(labels, "")).annotations(annotations or {}).obj()
    del made["metadata"]["uid"]
    return made


def tree(spans, parent=None):
    """Nested names, in order."""
    inside = [one for one in spans if (one.parent and one.parent.span_id) == (parent and parent.context.span_id)]
    return {one.name: tree(spans, one) for one in inside}


def outcome(span):
    found = {key.removeprefix("scheduler."): value for key, value in span.attributes.items()}
    return found["k8s.pod.name"], found["result"], found.get("k8s.node.name", ""), found["attempt"]


def attempts(spans):
    return [one for one in spans if one.parent is None]


FAILED = {"RunPreFilterPlugins": {}, "RunFilterPlugins": {}, "RunPostFilterPlugins": {}}
#: No plugin at Reserve, Permit and PostBind has anything to do with these pods.
DECIDED = {f"Run{point}Plugins": {} for point in ("PreFilter", "Filter")}
BOUND = {
    "RunPreBindPreFlights": {},
    "RunPreBindPlugins": {},
    "RunBindPlugins": {"POST Pod/binding": {}},
}


async def test_a_pod_that_fails_and_is_scheduled_later():
    async with traced(rate=1.0) as (cluster, spans):
        await cluster.create(pod("web", cpu="3"))
        failed = spans()
        assert tree(failed) == {"scheduleOne": {"schedulingCycle": FAILED}}
        [attempt] = attempts(failed)
        assert outcome(attempt) == ("web", "unschedulable", "", 1)
        assert attempt.status.description == attempt.attributes["scheduler.message"] == cluster.why_pending("web")
        assert attempt.attributes["scheduler.plugins"] == ["NodeResourcesFit"]
        assert attempt.attributes["k8s.pod.uid"] == cluster.pod("web")["metadata"]["uid"]

        await cluster.advance(10)
        await cluster.create(*(a_node(name).allocatable(cpu="4", pods=100).obj() for name in ("n2", "n3")))
        bound = spans()
        scored = {"RunPreScorePlugins": {}, "RunScorePlugins": {}}
        assert tree(bound) == {"scheduleOne": {"schedulingCycle": DECIDED | scored, "bindingCycle": BOUND}}
        [attempt] = attempts(bound)
        assert outcome(attempt) == ("web", "scheduled", cluster.node_of("web"), 2)
        assert (attempt.attributes["scheduler.nodes.evaluated"], attempt.attributes["scheduler.nodes.feasible"]) == (
            3,
            2,
        )
        assert attempt.attributes["scheduler.queue.seconds"] == pytest.approx(10.0)
        assert attempt.status.is_unset


async def test_extenders_and_writes():
    async with traced(rate=1.0) as (cluster, spans):
        cluster.server.create_all([pod("web", "extended")])
        await cluster.time.advance(3)
        found = spans()
        binding = BOUND | {"RunPreBindPlugins": {"PATCH Pod": {}}, "RunBindPlugins": {"Extender bind": {}}}
        announced = {"PATCH Pod/status": {}}
        assert tree(found) == {
            "scheduleOne": {"schedulingCycle": DECIDED | {"Extender filter": {}}, "bindingCycle": announced | binding}
        }
        named = {one.name: one for one in found}
        asked, write = named["Extender filter"], named["PATCH Pod"]
        assert asked.attributes["scheduler.extender"] == "theirs"
        assert asked.end_time - asked.start_time == pytest.approx(1e9)
        assert (asked.kind, write.kind, write.attributes["http.request.method"]) == (*[SpanKind.CLIENT] * 2, "PATCH")
        assert named["scheduleOne"].end_time - named["scheduleOne"].start_time == pytest.approx(2e9)

        cluster.server.create_all([pod("unbound", "extended")])
        await cluster.time.advance(3)
        [attempt] = attempts(found := spans())
        assert outcome(attempt) == ("unbound", "error", "n1", 1)
        assert attempt.attributes["error.type"] == "SchedulerError"
        failed = {one.name: one for one in found}["RunBindPlugins"]
        assert (failed.attributes["scheduler.status"], failed.status.is_ok) == ("Error", False)


async def test_pods_of_a_group_are_attempts_of_their_own():
    gates = with_chosen({"GenericWorkload": True, "GangScheduling": True}, V1_36)
    async with traced(rate=1.0, features=gates) as (cluster, spans):
        await cluster.create(a_group("g", gang=2), member("a", cpu="1m"), member("b", cpu="2m"))
        placed = spans()
        await cluster.create(a_group("h", gang=2), member("c", "h", cpu="1m"), member("d", "h", cpu="9"))
        refused = spans()
    assert {outcome(one) for one in attempts(placed)} == {(name, "scheduled", "n1", 1) for name in "ab"}
    assert {outcome(one)[:2] for one in attempts(refused)} == {(name, "unschedulable") for name in "cd"}
    for attempt in attempts(placed):
        [cycle] = [one for one in placed if one.parent == attempt.context and one.name == "schedulingCycle"]
        assert tree(placed, cycle) == DECIDED | {"RunPermitPlugins": {}}


async def test_what_is_sampled():
    async with traced(rate=0.2) as (cluster, spans):
        for i in range(100):
            await cluster.create(pod(f"p{i}"))
        assert 10 <= len(attempts(spans())) <= 30
    async with traced(rate=0.0) as (cluster, spans):
        await cluster.create(pod("web"), pod("big", cpu="9"))
        carried = {
            "sampled": {PARENT: SAMPLED},
            "plain": {PLAIN_PARENT: SAMPLED},
            "unsampled": {PARENT: UNSAMPLED},
            "garbled": {PARENT: "00-zz\n-01"},
        }
        await cluster.create(*(pod(name, annotations=one) for name, one in carried.items()))
        await cluster.create(pod("failing", cpu="9", annotations=carried["unsampled"]))
        found = {one.attributes["k8s.pod.name"]: one for one in attempts(spans())}
    # Failures, whatever the trace of their creation says; and what a sampled one led to.
    assert set(found) == {"big", "sampled", "plain", "failing"}
    links = {name: [f"{link.context.trace_id:032x}" for link in one.links] for name, one in found.items()}
    assert links == {"big": [], "sampled": [TRACE], "plain": [TRACE], "failing": [TRACE]}
    assert len({one.context.trace_id for one in found.values()} | {int(TRACE, 16)}) == 5


async def test_a_collector_that_is_away(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.05")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key: secret")
    with collecting() as collector:
        path = collector.configured(tmp_path)
    with logged() as log, tracer_of(path, "kube-scheduler") as tracer:
        async with live(a_node("n1").allocatable(cpu="2", pods=400).obj(), tracer=tracer) as cluster:
            # More than one batch.
            await cluster.create(*(pod(f"p{i}") for i in range(300)))
            assert cluster.node_of("p299")
    said = [message for _, message, _ in log.of("attempt_spans")]
    assert said == [f"Cannot export traces to {collector.url}; they are dropped until that works again"]


async def test_a_collector_that_refuses(tmp_path):
    with (
        collecting(status=401) as collector,
        logged() as log,
        tracer_of(collector.configured(tmp_path), "kube-scheduler") as tracer,
    ):
        async with live(a_node("n1").obj(), tracer=tracer) as cluster:
            await cluster.create(pod("web"))
    [(_, said, _)] = log.of("attempt_spans")
    assert said.startswith(f"Cannot export traces to {collector.url} (HTTP 401 Unauthorized); ")


async def test_a_collector_of_opentelemetry(tmp_path):
    with otelcol(tmp_path) as (collector, said):
        with tracer_of(collector.configured(tmp_path), "kube-scheduler") as tracer:
            async with live(a_node("n1").allocatable(cpu="2", pods=9).obj(), tracer=tracer) as cluster:
                await cluster.create(pod("fits", annotations={PARENT: SAMPLED}), pod("big", cpu="9"))
        # What it got is printed in order: the attempt that failed was the last.
        said("NodeResourcesFit")
        text = said("RunFilterPlugins")
    assert text.count("scheduleOne") == 2
    assert re.search(rf"SpanLink #0\s+-> Trace ID: {TRACE}", text)
    assert "service.name: Str(kube-scheduler)" in text
    assert "Status message : 0/1 nodes are available: 1 Insufficient cpu." in text


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (("Transient error %s, retrying in %.2fs", requests.exceptions.SSLError("api-key"), 0.9), "SSLError"),
        (("Transient error %s, retrying in %.2fs", "Service Unavailable", 0.9), "HTTP 503 Service Unavailable"),
        (("Failed to export %s batch code: %s, reason: %s", "spans", 404, "api-key"), "HTTP 404 Not Found"),
        (("Header format invalid! %s", "api-key: secret"), ""),
        (("Shutdown in progress",), ""),
    ],
)
def test_what_is_kept_of_the_exporters_log(said, why):
    problems = Problems()
    theirs = logging.Logger("theirs")
    theirs.addHandler(problems)
    theirs.warning(*said)
    assert problems.last == why


async def test_a_collector_that_hangs_does_not_delay_the_end_for_long(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        path = Collector(server.getsockname()[1]).configured(tmp_path)
        with tracer_of(path, "kube-scheduler") as tracer:
            async with live(a_node("n1").obj(), tracer=tracer) as cluster:
                await cluster.create(pod("web"))
            began = monotonic()
        # The exporter would wait for ten seconds.
        assert monotonic() - began < 9.0


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("kind: Pod", "apiVersion is missing"),
        ("{apiVersion: v1, kind: Pod}", "line 1: kind: want TracingConfiguration"),
        ("{}\n", "kind is missing"),
        ("samplingRatePerMillion: -1", "line 3: samplingRatePerMillion: Invalid value: -1: sampling rate"),
        ("samplingRatePerMillion: 1000001", "sampling rate per million must be less than or equal to one million"),
        ("samplingRatePerMillion: many", "want a whole number"),
        ("endpoint: unix:///run/otel.sock", "unsupported scheme: unix"),
        ("endpoint: https://me:secret@collector", "must not contain credentials"),
        ("endpoint: collector:port", "Port could not be cast"),
        ("endPoint: collector", "did you mean endpoint?"),
    ],
)
def test_invalid_files(tmp_path, content, problem):
    path = tmp_path / "tracing.yaml"
    header = (
        ""
        if "kind" in content or "{" in content
        else "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\n"
    )
    path.write_text(header + content)
    with pytest.raises(ConfigFileError) as error, tracer_of(str(path), "kube-scheduler"):
        pass
    assert problem in str(error.value)
    assert "secret" not in str(error.value)


def test_an_invalid_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "-1")
    path = Collector(4318).configured(tmp_path)
    with pytest.raises(ConfigFileError, match=r"OTEL_.*schedule_delay_millis must be positive"), tracer_of(path, ""):
        pass


def test_without_opentelemetry(tmp_path, monkeypatch):
    path = Collector(4318).configured(tmp_path)
    monkeypatch.delitem(sys.modules, "stowplan.app.daemon.attempt_spans")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(ConfigFileError, match="pip install 'stowplan\\[traces\\]'") as error, tracer_of(path, ""):
        pass
    assert str(error.value) == NO_OPENTELEMETRY
