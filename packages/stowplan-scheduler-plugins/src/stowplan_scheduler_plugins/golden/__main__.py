"""Compare a folder of recorded answers; exits with 0 if all are equal."""

import argparse
import sys
from pathlib import Path

from stowplan_scheduler_plugins.golden.categories import CONFIG, KNOWN, compared, listed
from stowplan_scheduler_plugins.golden.tally import Tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m stowplan_scheduler_plugins.golden", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="folder with CATEGORY.jsonl.gz")
    parser.add_argument("--category", action="append", metavar="NAME", help="only this category; may be repeated")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="show this many differing answers")
    given = parser.parse_args()
    tally = Tally()
    for category in listed(given.dir, given.category):
        for answer in compared(given.dir, category):
            tally.add(category, answer)
            if answer.differences and given.show > 0:
                given.show -= 1
                print(f"--- {answer.name}", *answer.differences[:6], sep="\n    ")
        print(f"{category}: {tally.figures(category)}{'' if category in {CONFIG, *KNOWN} else ' (not built yet)'}")
    for reason, number in tally.intended.items():
        print(f"intended differences: {number} ({reason})")
    print(tally.figures())
    return 0 if tally.all_equal else 1


if __name__ == "__main__":
    sys.exit(main())
