"""Each benchmark still runs to its end on minimal input. Their output is not checked.

All run in one process, as imports would take most of the time.
"""

import json
import os
import subprocess
import sys

from support.paths import ROOT

BENCHMARKS = ROOT / "benchmarks"

#: Not run here: these take seconds on any input.
SMALL = {
    "agents": ["--nodes", "6", "--pods", "12", "--only", "survive: one"],
    "client": ["--pods", "20", "--binds", "5"],
    "cycle": ["--nodes", "10", "--pods", "3", "--only", "cycle"],
    "extenders": ["--nodes", "10", "--pods", "5", "--good", "5"],
    "groups": ["--nodes", "10", "--pods", "5", "--racks", "2", "--rounds", "1"],
    "lookups": ["--nodes", "10", "--pods", "3", "--changes", "2"],
    "metrics": ["--nodes", "10", "--pods", "3", "--rounds", "2"],
    "page": ["--nodes", "10", "--pods", "30", "--seconds", "0.3"],
    "recording": ["--nodes", "10", "--pods", "3", "--rounds", "2"],
    "scheduling_queue": ["--sleeping", "20", "--shapes", "2"],
    "storage": ["--nodes", "9", "--pods", "12", "--volumes", "3"],
    "what_if": ["--nodes", "6", "--pods", "12"],
    "simulate": ["--nodes", "10", "--pods", "100"],
    "virtual_time": ["--nodes", "10", "--pods", "20", "--effects", "--stories", "--events", "--metrics"],
}
PROGRAM = """
import json, runpy, sys
for name, arguments in json.loads(sys.argv[1]).items():
    sys.argv = [name, *arguments]
    print("\\f" + name, flush=True)
    try:
        runpy.run_path(f"{name}.py", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
"""


def test_the_benchmarks_run():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(SMALL)],
        cwd=BENCHMARKS,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, f"{run.stdout[-500:]}\n{run.stderr[-2000:]}"
    printed = dict(part.split("\n", 1) for part in run.stdout.split("\f")[1:])
    assert [name for name in SMALL if not any(map(str.isdigit, printed[name]))] == []
