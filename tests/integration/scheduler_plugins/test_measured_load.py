"""Pods placed by measured load: the source answers, is down, slow, or wrong; a recording replays its decisions."""

import json
import sys

import pytest

from support.processes import forked
from support.processes.servers import free_port

ARGS = "LoadVariationRiskBalancing"


def scheduler(world, address, *flags):
    """Prefers the node with less load, and nothing else."""
    only = {"score": {"enabled": [{"name": ARGS}], "disabled": [{"name": "*"}]}}
    return world.scheduler(args={ARGS: {"watcherAddress": address}}, flags=flags, **only)


def nodes(world):
    for name in ("n1", "n2", "n3"):
        world.node(name)


def test_pods_go_where_less_is_used(world, watcher):
    nodes(world)
    watcher.tells(n1=71, n2=20, n3=90)
    path = world.folder / "recording"
    process = scheduler(world, watcher.url, f"--record={path}")
    world.pod("p")
    assert world.until_bound("p") == ["n2"]
    process.end()
    asked = ["explain", "--recording", str(path), "-n", world.namespace, "pod", "p", "-o", "json"]
    command = [sys.executable, "-m", "stowplan", *asked]
    told = forked.run(command, capture_output=True, text=True, timeout=60, check=True)
    scores = json.loads(told.stdout)["scores"]
    assert scores["n2"][ARGS] > scores["n1"][ARGS] > scores["n3"][ARGS] > 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((500, b""), "received status code 500"),
        ((200, b"hello"), "the answer is not JSON"),
        ((200, {"data": 5}), "the answer is not a load watcher's"),
    ],
)
def test_a_wrong_source_is_reported_once_and_pods_are_scheduled(world, watcher, answer, why):
    nodes(world)
    watcher.answer = answer
    process = scheduler(world, watcher.url)
    for name in ("p", "q"):
        world.pod(name)
    world.until_bound("p", "q")
    (line,) = [text for text in process.messages() if "cannot be read" in text]
    assert why in line
    assert line.endswith("there is no measured data")


def test_a_source_that_is_down(world):
    nodes(world)
    process = scheduler(world, f"http://127.0.0.1:{free_port()}")
    world.pod("p")
    world.until_bound("p")
    (line,) = [text for text in process.messages() if "cannot be read" in text]
    assert "refused" in line.lower()


def test_a_slow_source_blocks_nothing(world, watcher):
    nodes(world)
    watcher.answer = None
    process = scheduler(world, watcher.url)
    world.pod("p")
    world.until_bound("p")
    assert watcher.asked == 1
    assert process.said("pods are scheduled without measured data until there is one")
