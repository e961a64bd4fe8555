"""Recordings: each input is read back as written; a file may end within a line; no secrets are recorded."""

from typing import get_args

import msgspec
import pytest

from stowplan import load_config
from stowplan.kube.api import api_errors
from stowplan.kube.api.api_errors import ApiError, Conflict
from stowplan.kube.api.custom_objects import custom_resource
from stowplan.kube.api.decode import DecodeError, convert
from stowplan.kube.api.meta import ObjectReference
from stowplan.kube.api.policy import PodDisruptionBudget
from stowplan.kube.api.port import Change, Unreachable
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.api.users import ConfigMap
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.kube.timing.times import ManualTime
from stowplan.net.client.client_errors import OutcomeUnknown, StreamSilent
from stowplan.scheduler.engine.effects import EmitEvent
from stowplan.scheduler.engine.input_log.recording import (
    LINES_AT_A_TIME,
    SECONDS_AT_A_TIME,
    Header,
    InterruptedCall,
    RecordedInput,
    Recording,
    RecordingError,
    Replay,
    read_entries,
    read_header,
)
from stowplan.scheduler.engine.inputs import (
    Activated,
    Adopted,
    Allowed,
    Answer,
    Cancelled,
    Changes,
    Closing,
    Declined,
    EventEmitted,
    Input,
    Offered,
    Rejected,
    Schedule,
    Served,
    Started,
    Stopped,
    Tick,
    WallClock,
)
from stowplan.scheduler.engine.written_objects import LAST_APPLIED
from stowplan.scheduler.framework.requests import Done, Refused, Unknown
from stowplan.scheduler.framework.runtime.binding import PluginCancelledItselfError
from stowplan.scheduler.framework.status import Code, Status, error, unschedulable
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod

QUEUE = custom_resource("queues.v1.batch.example.com")
TOPOLOGY = custom_resource("topologies.v1.example.com", namespaced=False)
HEADER = Header(now=5.0, configuration={}, gates={}, max_in_unschedulable=300.0)


class Lines(list):
    def __init__(self, *entries, header=HEADER):
        recording = Recording(lambda lines: self.extend(lines.splitlines(keepends=True)), header)
        for entry in entries:
            recording.add(*entry)
        recording.flush()


def read(lines):
    read_header(lines[0])
    return list(read_entries(lines[1:], HEADER))


def repeated(input_):
    """The input as read back."""
    (entry,) = read(Lines((input_, 7.25)))
    assert (entry.now, entry.interrupted) == (7.25, ())
    assert type(entry.input) is type(input_)
    return entry.input


def pod(name="p", **fields):
    return convert(a_pod(name).requests(cpu="1").obj() | fields, Pod)


def custom(kind, name="a", namespace="", **metadata):
    metadata = {"name": name, "namespace": namespace, "resourceVersion": "3", **metadata}
    content = {"apiVersion": f"{kind.group}/{kind.version}", "kind": "Any", "metadata": metadata}
    return convert(content | {"spec": {"weights": [1, 2.5, None], "on": True}}, kind)


REFERENCE = ObjectReference(api_version="v1", kind="Pod", namespace="default", name="p", uid="u")


def emitted(**more):
    return EventEmitted(
        EmitEvent(profile="profile", regarding=REFERENCE, reason="Reason", action="Action", note="note", **more)
    )


# -- inputs ------------------------------------------------------------------------------------------------------------

PLAIN = [
    Served(frozenset({"B", "A"}), served=False),
    Served(frozenset(), served=True),
    Offered({"profiles": [{"schedulerName": "a"}], "podMaxBackoffSeconds": 3}),
    Adopted(frozenset({"B", "A"})),
    Declined(),
    Started(),
    Stopped(),
    Closing(),
    Schedule(),
    Tick(),
    WallClock(-3600.5),
    Activated(("default/p", "default/q")),
    Allowed("uid", "Plugin"),
    Rejected("uid", Status(Code.Unschedulable, ("no", "never"), "Plugin")),
    Cancelled("uid", "why"),
    emitted(type_="Normal"),
    emitted(type_="Warning", related=ObjectReference(kind="Node", name="n")),
    Answer(3, Done()),
    Answer(3, Done(unschedulable("full").with_plugin("P"))),
    Answer(3, Done(pod())),
    Answer(3, Done(convert(a_node("n").obj(), Node))),
    Answer(3, Done(ConfigMap(data={"key": "value"}))),
    Answer(3, Done(custom(QUEUE, namespace="default"))),
    Answer(3, Done(custom(TOPOLOGY))),
    Answer(3, Done({"kept": ["n1"], "failed": {"n2": "why"}, "score": 1.5, "none": None})),
    Answer(3, Done([])),
    Answer(3, Done("")),
    Answer(3, Done(0)),
]
CHANGED = [
    Changes(Pod, [Change(None, pod())]),
    Changes(PodDisruptionBudget, [Change(None, PodDisruptionBudget())]),
    Changes(QUEUE, [Change(None, custom(QUEUE, namespace="default"))]),
    Changes(TOPOLOGY, [Change(None, custom(TOPOLOGY))]),
    Changes(Node, []),
]


@pytest.mark.parametrize("input_", [*PLAIN, *CHANGED], ids=lambda input_: type(input_).__name__)
def test_an_input_is_read_as_it_was_written(input_):
    assert repeated(input_) == input_


def test_every_input_type_is_covered():
    kinds = {kind for part in get_args(Input) for kind in (get_args(part) or (part,))}
    assert {type(input_) for input_ in (*PLAIN, *CHANGED)} == kinds


@pytest.mark.parametrize("kind", [QUEUE, TOPOLOGY])
def test_custom_kinds_are_the_same_types(kind):
    found = repeated(Changes(kind, [Change(None, custom(kind))]))
    assert found.kind is kind
    assert type(found.changes[0].new) is kind
    assert type(repeated(Answer(1, Done(custom(kind)))).outcome.value) is kind


@pytest.mark.parametrize("kind", [Pod, QUEUE, TOPOLOGY])
def test_old_objects_of_changes_are_the_ones_recorded_before(kind):
    def version(name, number):
        content = {"metadata": {"name": name, "namespace": "default", "resourceVersion": str(number)}}
        return convert(content, kind)

    a1, a2, b1 = version("a", 1), version("a", 2), version("b", 1)
    wanted = [
        Changes(kind, [Change(None, a1), Change(None, b1)]),
        Changes(kind, [Change(a1, a2), Change(b1, None)]),
        Changes(kind, [Change(a2, None), Change(None, a1)]),
    ]
    found = [entry.input for entry in read(Lines(*((input_, 1.0) for input_ in wanted)))]
    assert found == wanted
    assert found[1].changes[0].old is found[0].changes[0].new


def test_the_same_name_of_another_kind_is_another_object():
    a_queue, a_pod_ = custom(QUEUE, "a", "default"), pod("a")
    wanted = [Changes(QUEUE, [Change(None, a_queue)]), Changes(Pod, [Change(None, a_pod_)])]
    wanted.append(Changes(QUEUE, [Change(a_queue, None)]))
    assert [entry.input for entry in read(Lines(*((input_, 1.0) for input_ in wanted)))] == wanted


def test_interrupted_plugin_calls_are_recorded_with_their_input():
    calls = (InterruptedCall(2, "too long"), InterruptedCall(5, "too long, too"))
    assert read(Lines((Schedule(), 1.0, list(calls)))) == [RecordedInput(1.0, Schedule(), calls)]


# -- errors ------------------------------------------------------------------------------------------------------------

REFUSALS = [kind for kind in vars(api_errors).values() if isinstance(kind, type) and issubclass(kind, ApiError)]


class MyConflict(Conflict):
    """A plugin's own."""


def described(problem):
    return type(problem), str(problem), getattr(getattr(problem, "status", None), "code", None)


@pytest.mark.parametrize(
    "problem",
    [
        *(kind("it says no") for kind in REFUSALS),
        Conflict("it says no", code=418),
        Unreachable("no route"),
        DecodeError(field="spec.nodeName", message="expected a string"),
        PluginCancelledItselfError(),
        RuntimeError("bug"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", [Refused, Unknown])
def test_errors_are_read_back_with_their_message(problem, kind):
    found = repeated(Answer(3, kind(problem)))
    assert type(found.outcome) is kind
    assert described(found.outcome.error) == described(problem)
    status = repeated(Answer(3, Done(error(problem)))).outcome.value
    assert described(status.error) == described(problem)


@pytest.mark.parametrize(
    ("problem", "known_as"),
    [
        (MyConflict("mine"), Conflict),
        (OutcomeUnknown("lost"), Unreachable),
        (StreamSilent("silent"), Unreachable),
        (KeyError("x"), RuntimeError),
        (ExceptionGroup("several", [ValueError("one")]), RuntimeError),
    ],
    ids=repr,
)
def test_other_errors_keep_their_known_base_class(problem, known_as):
    found = repeated(Answer(3, Refused(problem))).outcome.error
    assert (type(found), str(found)) == (known_as, str(problem))


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_file_may_end_within_a_line():
    """The process was killed while writing: complete lines count."""
    lines = Lines((Changes(Pod, [Change(None, pod("käse"))]), 1.0), (Tick(), 2.0))
    whole = b"".join(lines)
    first, last = lines[0], lines[1]
    for end in range(len(first), len(whole) + 1):
        found = read(whole[:end].splitlines(keepends=True))
        # A line that lacks only its newline is complete.
        assert len(found) == sum(end >= at for at in (len(first + last) - 1, len(whole) - 1))


def test_an_incomplete_line_in_the_middle_is_an_error():
    lines = Lines((Tick(), 1.0), (Tick(), 2.0))
    lines[1] = lines[1][:5] + b"\n"
    with pytest.raises(RecordingError, match=r"^line 2: "):
        read(lines)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'[1.0,"Tock",[]]\n', "line 2: 'Tock'"),
        (b'[1.0,"Changes",["Pod",[["default","p"]]]]\n', r"line 2: \('Pod', 'default', 'p'\)"),
        (b'[1.0,"Changes",["Pod",[[{"metadata":{"name":"p"}},1]]]]\n', r"line 2: \('Pod', '', 'p'\)"),
        (b'[1.0,"Changes",["Pod",[[{"metadata":{"name":1}}]]]]\n', "line 2: metadata.name: expected a string"),
        (b"[1.0]\n", "line 2: not enough values"),
    ],
)
def test_an_invalid_line_is_reported_with_its_number(line, said):
    with pytest.raises(RecordingError, match=said):
        read([*Lines(), line])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "line 1: no header of a recording"),
        (b'{"format":', "line 1: no header of a recording"),
        (
            msgspec.json.encode(msgspec.structs.replace(HEADER, format=99)),
            "line 1: this recording has format 99; this version reads up to 3",
        ),
    ],
)
def test_the_first_line_has_to_be_a_header(line, said):
    with pytest.raises(RecordingError, match=said):
        Replay([line] if line else [], in_tree_registry(), meter=ManualTime())


def test_a_recording_without_inputs():
    configuration = load_config(emulated_version="1.36").to_dict()
    header = Header(now=5.0, configuration=configuration, gates={}, max_in_unschedulable=300.0)
    replay = Replay(Lines(header=header), in_tree_registry(), meter=ManualTime())
    assert list(replay.steps()) == []
    assert replay.engine.context.outbox.now == 5.0


def test_lines_are_written_in_batches():
    written = []
    recording = Recording(written.append, HEADER)
    assert len(written) == 1, "the header, at once"

    def counts():
        return [lines.count(b"\n") for lines in written[1:]]

    for _ in range(2 * LINES_AT_A_TIME + 1):
        recording.add(Tick(), HEADER.now)
    assert counts() == [LINES_AT_A_TIME, LINES_AT_A_TIME]
    recording.add(Tick(), HEADER.now + SECONDS_AT_A_TIME)
    assert counts()[2:] == [2], "those that are older than the flush interval"
    recording.add(Tick(), HEADER.now + SECONDS_AT_A_TIME)
    assert len(counts()) == 3
    recording.flush()
    recording.flush()
    assert counts()[3:] == [1]


# -- secrets -----------------------------------------------------------------------------------------------------------

SECRET = "hunter2"


def test_environment_variables_of_containers_are_not_recorded():
    content = a_pod("p").obj()
    container = {"name": "c", "image": "i", "env": [{"name": "PASSWORD", "value": SECRET}], "args": [SECRET]}
    content["spec"]["containers"] = [container]
    lines = Lines((Changes(Pod, [Change(None, convert(content, Pod))]), 1.0))
    assert SECRET.encode() not in b"".join(lines)


@pytest.mark.parametrize("kind", [Pod, QUEUE])
@pytest.mark.parametrize(
    "wrapped",
    [lambda obj: Changes(type(obj), [Change(None, obj)]), lambda obj: Answer(1, Done(obj))],
    ids=["change", "answer"],
)
def test_the_last_applied_annotation_is_not_recorded(kind, wrapped):
    annotations = {LAST_APPLIED: f'{{"env": "{SECRET}"}}', "team": "blue"}
    content = {"metadata": {"name": "p", "namespace": "default", "annotations": annotations}, "spec": {}}
    obj = convert(content, kind)
    lines = Lines((wrapped(obj), 1.0))
    assert SECRET.encode() not in b"".join(lines)
    assert b"blue" in lines[1]
    assert obj.metadata.annotations == annotations, "the object itself is not changed"


def test_a_recording_says_which_version_it_is_of():
    line = b'{"format":2,"now":5.0,"configuration":{},"gates":{"GenericWorkload":true},"max_in_unschedulable":300.0}'
    before = read_header(line).features
    assert (before.emulated_version, before.enabled("StorageCapacityScoring")) == (V1_36, False)
    assert before.enabled("GenericWorkload")
    now = read_header(line.replace(b"{", b'{"emulated_version":"1.37",', 1)).features
    assert (now.emulated_version, now.enabled("StorageCapacityScoring")) == (V1_37, True)
    with pytest.raises(RecordingError, match=r"line 1: this recording is of a scheduler of another version: 1\.99"):
        read_header(line.replace(b"{", b'{"emulated_version":"1.99",', 1))
