"""Ask, carry out and compare, over many random clusters.

PYTHONPATH=tests python -m answers --answers 10000 --progress FILE    goes on where FILE ends
PYTHONPATH=tests python -m answers --seed 17 --verbose                one cluster
PYTHONPATH=tests python -m answers --seed 17 --shrink                 the smallest cluster with that problem
"""

import argparse
import json
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path

from answers.trying import shrunk, tried


def main():
    options = _options()
    if options.shrink:
        print(json.dumps(shrunk(options.seed, options.kind), indent=1))
        return 0
    if options.seed is not None:
        found = tried(options.seed, options.kind)
        if options.verbose:
            print("\n".join(found["texts"]))
        _report(found)
        return bool(found["problems"])
    return _many(options)


def _many(options):
    known = {} if options.progress is None else _known(options.progress)
    kinds, wrong, seconds = Counter(), 0, 0.0
    started = time.perf_counter()
    for seed in count(options.seed_from):
        found = known.get(seed)
        if found is None:
            found = tried(seed, options.kind)
            del found["texts"]
            if options.progress is not None:
                with options.progress.open("a") as file:
                    file.write(json.dumps(found) + "\n")
            _report(found)
        kinds.update(found["answers"])
        wrong += len(found["problems"])
        seconds += found["seconds"]
        if kinds.total() >= options.answers:
            break
    for kind, number in sorted(kinds.items()):
        print(f"{number:6,} {kind}")
    print(
        f"{kinds.total():,} answers about {seed - options.seed_from + 1:,} clusters, {wrong} wrong; "
        f"{seconds:.0f} s of CPU, {time.perf_counter() - started:.0f} s now"
    )
    return bool(wrong)


def _known(progress):
    """What is known of each cluster; a last line that was cut off by an interruption is dropped."""
    if not progress.exists():
        return {}
    text = progress.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        progress.write_text(whole)
    return {one["seed"]: one for one in map(json.loads, whole.splitlines())}


def _report(found):
    for problem in found["problems"]:
        print(f"seed {found['seed']}: {problem['kind']}: {problem['text']}\n    {problem['problem']}", flush=True)


def _options():
    parser = argparse.ArgumentParser(prog="answers")
    parser.add_argument("--answers", type=int, default=100, help="at least so many")
    parser.add_argument("--seed-from", type=int, default=0)
    parser.add_argument("--progress", type=Path, help="a file with a line of JSON per cluster")
    parser.add_argument("--seed", type=int, help="only this cluster")
    parser.add_argument("--kind", default="", help="only answers whose kind or text contains this")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
