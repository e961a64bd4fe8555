"""Small faults in the code, and how many of them the tests notice: before a change and after it.

    python benchmarks/mutants draw stowplan.scheduler.queue=50 stowplan.kube.config=60 > benchmarks/mutants/sample.jsonl
    python benchmarks/mutants run before.jsonl [--budget 10] [--pytest=ARGUMENTS]     (later: after.jsonl)
    python benchmarks/mutants report before.jsonl [after.jsonl]

`run` runs where pytest runs, in the state of the code to be measured, on each mutant of the sample that is found there
(mutations.py says how, running.py which tests it meets; by default those of `make test`). A mutant is killed if one of
its tests fails, crashes, or does not end: out of CPU time, or idle. That test passes on the code without the mutant.
A mutant survives if all its tests pass; it is not run if no test runs its function, and cut if the code is gone.
Results are lines of JSON, the last one of a mutant counts; an interrupted run goes on where it was, and one with a
greater budget tries those survivors again that had more tests. FILE.map beside them holds which tests run what.

`report` counts, by package, the mutants that have results in all files and are cut in none, and names those that only
the first one kills. `nice -n 19` leaves the machine to others: limits are of CPU time, so other work kills no mutants.
"""

import argparse
import hashlib
import importlib.util
import json
import random
import shlex
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from mutations import find, functions

SAMPLE = Path(__file__).with_name("sample.jsonl")
#: Where mutants of the sample may be.
PACKAGES = ("stowplan", "stowplan_cluster", "stowplan_lab")
#: Of one function in a sample, so that long ones do not fill it.
MOST_PER_FUNCTION = 3
KILLED = ("killed", "time")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    draws = commands.add_parser("draw", help="draw a sample and print it")
    draws.add_argument("counts", nargs="+", metavar="PACKAGE=COUNT", type=lambda text: text.split("="))
    draws.add_argument("--seed", default="1")
    draws.set_defaults(command=draw)
    runs = commands.add_parser("run", help="run the sample's mutants that have no result in the file yet")
    runs.add_argument("results", type=Path)
    runs.add_argument("--sample", type=Path, default=SAMPLE)
    runs.add_argument("--packages", default=",".join(PACKAGES), help="where to look for them (%(default)s)")
    runs.add_argument(
        "--budget", type=float, default=10, metavar="SECONDS", help="of CPU time per mutant (%(default)s)"
    )
    unit = shlex.join(["-m", "not slow", *map(str, sorted(Path().glob("packages/*/tests/unit"))), "tests/golden"])
    runs.add_argument("--pytest", type=shlex.split, default=unit, metavar="ARGUMENTS", help="which tests (%(default)s)")
    runs.set_defaults(command=run)
    reports = commands.add_parser("report", help="count killed mutants, in one or more states of the code")
    reports.add_argument("results", nargs="+", type=Path)
    reports.set_defaults(command=report)
    options = parser.parse_args()
    options.command(options)


def draw(options):
    """Functions with a twin are left out, as ids do not tell them apart."""
    everything = list(functions(sorted({package.partition(".")[0] for package, _ in options.counts})))
    twins = Counter(function.digest for function in everything)
    for package, count in options.counts:
        mine = [f for f in everything if f"{f.module}.".startswith(f"{package}.") and twins[f.digest] == 1]
        owner = {name: function for function in mine for name in function.mutants}
        names = random.Random(f"{options.seed} {package}").sample(sorted(owner), len(owner))
        taken = Counter()
        for name in names:
            function = owner[name]
            if taken.total() < int(count) and taken[function] < MOST_PER_FUNCTION and function.mutated(name):
                taken[function] += 1
                edit = function.edit_keys[name]
                print(json.dumps({"id": name, "package": package, "place": function.place, "edit": edit}))


def run(options):
    from running import with_tests  # imports pytest, which the other commands do without

    packages = [package for package in options.packages.split(",") if importlib.util.find_spec(package)]
    sample = _lines(options.sample)
    found = find(sample, packages)
    results = _Results(options.results, _state(packages, options), options.budget)
    # In the order of the ids, which is none: what an early end leaves out is of all packages.
    todo = sorted((line for line in sample if line["id"] not in results.done), key=lambda line: line["id"])
    with tempfile.TemporaryDirectory() as scratch:
        with_tests(lambda tests: _run(tests, todo, found, results, options), options.pytest, scratch)


def _run(tests, todo, found, results, options):
    from running import live_functions, replace_code

    sampled = {function.place: function for function, _ in found.values()}
    live = live_functions(sampled.values())
    mapped = options.results.with_suffix(".map")
    if not mapped.exists():
        problem = tests.write_map(mapped, [(function, live[place]) for place, function in sampled.items()])
        if problem:
            return problem
    tests.read_map(mapped)
    for line in todo:
        if line["id"] not in found:
            results.write({**line, "outcome": "cut"})
            continue
        start = time.monotonic()
        function, name = found[line["id"]]
        objects, code = live[function.place], function.mutated(name)
        outcome = tests.judge(function, lambda: replace_code(objects, code), options.budget)  # noqa: B023
        was, now = function.mutants[name].lines()
        seconds = round(time.monotonic() - start, 1)
        results.write({**line, "is_at": function.place, "was": was, "now": now, **outcome, "seconds": seconds})
    return None


class _Results:
    """A file of lines of JSON: first what they are results of, then one per mutant."""

    def __init__(self, file, state, budget):
        self._file = file
        lines = _lines(file) if file.exists() else []
        if lines and lines[0]["state"] != state:
            raise SystemExit(f"{file} has results of other code, tests or arguments: name another file, or remove it")
        self.done = {line["id"] for line in lines[1:] if not line.get("left") or line["budget"] >= budget}
        if not lines:
            file.with_suffix(".map").unlink(missing_ok=True)
            self._append({"state": state})

    def write(self, line):
        self._append(line)
        self.done.add(line["id"])
        print(f"{len(self.done):4} {line['outcome']:8} {line['place']}", file=sys.stderr, flush=True)

    def _append(self, line):
        with self._file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def _state(packages, options):
    """A digest of all that results depend on."""
    roots = [Path(importlib.util.find_spec(package).origin).parent for package in packages]
    roots.extend(path for path in Path().rglob("tests") if path.is_dir() and ".venv" not in path.parts)
    digest = hashlib.sha256(repr((options.sample.read_bytes(), options.pytest)).encode())
    for file in sorted({file for root in roots for file in root.rglob("*.py")}):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def report(options):
    states = [{line["id"]: line for line in _lines(file)[1:]} for file in options.results]
    common = set.intersection(*map(set, states))
    kept = sorted(name for name in common if all(state[name]["outcome"] != "cut" for state in states))
    packages = sorted({states[0][name]["package"] for name in kept})
    print(
        "| package | mutants |", *(f" {file.stem}: killed | of these by time | not run |" for file in options.results)
    )
    print("| --- | --: |", *(" --: | --: | --: |" for _ in states))
    for package in (*packages, ""):
        mine = [name for name in kept if states[0][name]["package"].startswith(package)]
        counts = [Counter(state[name]["outcome"] for name in mine) for state in states]
        numbers = [n for c in counts for n in (sum(c[one] for one in KILLED), c["time"], c["not run"])]
        print(f"| {package or 'all'} |", " | ".join(map(str, (len(mine), *numbers))), "|")
    without = len(set.union(*map(set, states))) - len(common)
    print(f"\n{len(common) - len(kept)} more are cut; {without} have no result in one of the files.")
    for name in kept if len(states) > 1 else ():
        first, last = states[0][name], states[-1][name]
        if first["outcome"] in KILLED and last["outcome"] not in KILLED:
            print(f"\n{last['is_at']} was killed by {first['by']}\n- {last['was']}\n+ {last['now']}")


def _lines(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
