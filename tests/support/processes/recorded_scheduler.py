"""`kube-scheduler` as a process that records its inputs and, for tests, the effects that followed.

RECORDING names the file; the effects are in a file beside it, one line per input. If the process is killed, both may
end anywhere.
"""

import os
import sys
from contextlib import asynccontextmanager, closing
from itertools import zip_longest
from pathlib import Path

from msgspec.structs import replace

from stowplan.app.cli.kube_scheduler import main
from stowplan.app.daemon.process import opened
from stowplan.app.daemon.recording_file import RecordingFile, recording
from stowplan.history.recordings.recording_files import lines_of
from stowplan.history.recordings.recording_files import opened as opened_recording
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.engine.input_log.recording import Replay
from stowplan.scheduler.in_tree.registry import in_tree_registry

PROGRAM = [sys.executable, "-m", "support.processes.recorded_scheduler"]


def recording_to(path):
    """The environment of a process that records into this file."""
    return {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path)), "RECORDING": str(path)}


def _effects_of(path):
    return Path(f"{path}.effects")


def _line(effects):
    return b"[" + b",".join(effect.encoded() for effect in effects) + b"]\n"


@asynccontextmanager
async def _opened(job):
    path = os.environ["RECORDING"]
    with recording(path, job.guard) as recorder, closing(RecordingFile(str(_effects_of(path)))) as seen:
        step = recorder.step

        def stepping(engine, input_, now):
            effects = step(engine, input_, now)
            seen.write(_line(effects))
            return effects

        recorder.step = stepping
        async with opened(replace(job, recorder=recorder)) as reached:
            yield reached


def replayed(path, registry=None, **options):
    """Replays the recording as far as both files go; returns the number of steps, and whether both files are complete.

    `options` are those of `Replay`.
    """
    whole = True
    steps = 0
    with opened_recording(str(path)) as found, _effects_of(path).open("rb") as effects:
        again = Replay(found.lines, registry or in_tree_registry(), meter=ManualTime(), **options).steps()
        seen = (line for line in lines_of(effects) if line.endswith(b"\n"))
        for one, line in zip_longest(again, seen):
            if one is None or line is None:
                whole = False
                break
            steps += 1
            entry, made = one
            assert _line(made) == line, f"step {steps} of {path.name}: different effects of {entry}"
    return steps, whole


if __name__ == "__main__":
    sys.exit(main(opener=_opened))
