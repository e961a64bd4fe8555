"""Replaying a recording of our own run gives the same decisions, and any moment of it can be inspected."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.history.recordings.replaying import Replayed, difference, moment_of, parse_moment
from stowplan.history.recordings.rerun import rerun
from stowplan.scheduler.in_tree.registry import in_tree_registry
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.live.live_scheduler import live
from support.live.recordings import RecordedToFile, a_run_in_two_files, changed_line

REGISTRY = in_tree_registry()


def nodes(count, cpu="4"):
    return [node(f"n{i:03}", f"z{i % 3}", cpu) for i in range(count)]


def node(name, zone="z9", cpu="4"):
    return a_node(name).allocatable(cpu=cpu, pods=110).labels(zone=zone).obj()


def shaped(name, shape, **pod):
    """A pod of one of a few shapes: plain, spread, with affinity, or too large for most nodes."""
    made = a_pod(name).labels(app=f"a{shape}")
    if shape == 1:
        made = made.spreads("zone", matching={"matchLabels": {"app": "a1"}}, max_skew=2)
    if shape == 2:
        made = made.prefers_pods(5, "zone", {"matchLabels": {"app": "a2"}})
    return made.requests(cpu="2" if shape == 3 else "100m").obj()


async def recorded(path, steps, *, count=5, seed=1):
    """Steps are lists of simultaneous changes; then time advances."""
    to_file = RecordedToFile(path)
    async with live(*nodes(count), recorder=to_file.recorder, random=Random(seed), validate=False) as cluster:
        for step in steps:
            for what, *args in step:
                if what == "pod":
                    await cluster.create(shaped(*args))
                elif what == "node":
                    await cluster.create(node(args[0]))
                elif what == "delete" and args[0] in names(cluster):
                    await cluster.delete("pods", args[0])
            await cluster.advance(3.0)
        placed = {name: cluster.node_of(name) for name in names(cluster)}
    to_file.close()
    return placed


def names(cluster):
    return [stored.to_dict()["metadata"]["name"] for stored in cluster.server.store.list("pods", "")]


def checked(path):
    with Replayed(str(path), REGISTRY) as again:
        return [found for step in again.steps() if (found := difference(step)) is not None]


#: So few names that deleted pods mostly exist.
PODS = st.integers(0, 5).map("p{}".format)
EVENTS = st.one_of(
    st.tuples(st.just("pod"), PODS, st.integers(0, 3)),
    st.tuples(st.just("pod"), PODS, st.integers(0, 3)),
    st.tuples(st.just("node"), st.integers(0, 3).map("m{}".format)),
    st.tuples(st.just("delete"), PODS),
)
HISTORIES = st.lists(
    st.lists(EVENTS, min_size=1, max_size=5),
    min_size=2,
    max_size=6,
).map(lambda steps: [list(possible(step, there)) for there in [set()] for step in steps])


def possible(step, there):
    """Without creating pods that exist."""
    for event in step:
        if event[0] == "delete":
            there.discard(event[1])
        elif event[1] in there:
            continue
        else:
            there.add(event[1])
        yield event


@given(HISTORIES, st.integers(0, 9))
@examples(8)
async def test_a_replay_equals_its_recording(tmp_path_factory, steps, seed):
    path = tmp_path_factory.mktemp("recorded") / "r"
    placed = await recorded(path, steps, count=2, seed=seed)
    assert checked(path) == []
    found = moment_of(str(path), None, REGISTRY)
    pods = {obj.metadata.name: obj.spec.node_name for obj in found.objects if type(obj).__name__ == "Pod"}
    assert pods == placed


async def test_different_decisions_are_shown(tmp_path):
    path = tmp_path / "r"
    await recorded(path, [[("pod", "p", 0)]])

    def elsewhere(line):
        if len(line) > 4 and line[4][1]:
            line[4][1][0][2] = "elsewhere"
        return line

    with Replayed(str(path), REGISTRY) as again:
        (bound,) = (step.line for step in again.steps() if step.entry.outcomes.decisions)
    changed_line(path, bound - 1, elsewhere)
    (found,) = checked(path)
    assert found.line == bound
    assert "Schedule: then default/p to elsewhere; now default/p to n00" in found.text()
    await recorded(path, [[("pod", "p", 0)]])
    changed_line(path, bound - 1, lambda line: [*line[:4], [7, line[4][1]]])
    (found,) = checked(path)
    assert "other effects (checksum 7)" in found.text()


async def test_moments(tmp_path):
    path = tmp_path / "r"
    await recorded(path, [[("pod", "early", 0)], [("pod", "late", 0)], [("delete", "early")]])
    with Replayed(str(path), REGISTRY) as again:
        began = again.header.now
    seen = []
    for seconds in (2.0, 4.0, 8.0):
        objects = moment_of(str(path), began + seconds, REGISTRY).objects
        seen.append(sorted(obj.metadata.name for obj in objects if type(obj).__name__ == "Pod"))
    assert seen == [["early"], ["early", "late"], ["late"]]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-02", 86400.0), ("1970-01-01T01:00", 3600.0), ("1970-01-01T01:00+01:00", 0.0), ("12.5", 12.5)],
)
def test_parsing_moments(text, seconds):
    assert parse_moment(text) == seconds


# -- deciding again ----------------------------------------------------------------------------------------------------


async def test_2000_pods_are_placed_equally_live_and_in_virtual_time(tmp_path):
    """First on an API server, with random ties and changing nodes; then in simulated time."""
    path = tmp_path / "r"
    to_file = RecordedToFile(path)
    async with live(*nodes(120, cpu="8"), recorder=to_file.recorder, random=Random(7), validate=False) as cluster:
        for wave in range(8):
            await cluster.create(*(shaped(f"p{wave}-{i}", i % 4 if i % 20 == 3 else i % 3) for i in range(250)))
            await cluster.create(node(f"m{wave}"))
            await cluster.delete("nodes", f"n{wave:03}")
            await cluster.delete("pods", f"p{wave}-0")
            await cluster.advance(2.0)
        placed = {f"default/{name}": cluster.node_of(name) for name in names(cluster)}
    to_file.close()
    found = rerun(str(path), REGISTRY, None)
    assert len(found.pods) == 2000
    now = {pod.key: pod.node_now for pod in found.pods.values() if pod.key in placed}
    assert now == placed
    assert found.placed_differently == []


async def test_all_files_of_a_run_are_decided_again(tmp_path):
    path = tmp_path / "r"
    await a_run_in_two_files(path)
    # As if the recorder had been restarted before: its numbering continues.
    (tmp_path / "r.1").rename(tmp_path / "r.2")
    await recorded(tmp_path / "r.1", [[("pod", "earlier", 0)]])
    found = rerun(str(path), REGISTRY, None)
    keys = {f"default/p{i}" for i in range(4)} | {"default/large"}
    assert {pod.key: bool(pod.node_now) for pod in found.pods.values()} == dict.fromkeys(keys, True)
    assert found.placed_differently == []
    assert found.refused == 0
