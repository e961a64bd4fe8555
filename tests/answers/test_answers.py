"""Answers about random clusters, carried out on the embedded cluster: a few of those that `python -m answers` tries."""

import json
import sys

from answers import trying
from answers.questions import Answer
from answers.worlds import a_world
from support.examples import times
from support.paths import TESTS
from support.processes.forked import run

#: A world with a StatefulSet.
SHRUNK = 910000


def answers(*options):
    return run(
        [sys.executable, "-m", "answers", *map(str, options)],
        cwd=TESTS,
        capture_output=True,
        timeout=600,
    )


def test_what_is_said_happens():
    tried = answers("--answers", times(150))
    assert tried.returncode == 0, tried.stdout.decode() + tried.stderr.decode()[-2000:]


def test_it_goes_on_where_it_was_interrupted(tmp_path):
    progress = tmp_path / "progress"
    first = {"seed": 5, "seconds": 1.5, "answers": {"explain": 3, "fit": 1}, "problems": []}
    progress.write_text(json.dumps(first) + '\n{"seed": 6, "sec')
    tried = answers("--answers", 5, "--seed-from", 5, "--kind", "explain: ", "--progress", progress)
    seeds = [json.loads(line)["seed"] for line in progress.read_text().splitlines()]
    assert seeds == list(range(5, 5 + len(seeds)))
    assert len(seeds) > 1
    assert "     1 fit" in tried.stdout.decode()


def test_shrinking_leaves_what_the_problem_needs(monkeypatch):
    def planted(asked, world, living, random):
        kinds = [obj["kind"] for obj in world.objects]
        if "Node" in kinds and "StatefulSet" in kinds:
            yield Answer("planted", "an answer", lambda apart, chances: "wrong")

    monkeypatch.setattr(trying, "QUESTIONS", (planted,))
    assert len(a_world(SHRUNK).objects) > 2
    found = trying.shrunk(SHRUNK)
    assert [obj["kind"] for obj in found["objects"]] == ["Node", "StatefulSet"]
    assert found["problems"] == [{"kind": "planted", "text": "an answer", "problem": "wrong"}]
