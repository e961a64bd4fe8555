"""`python -m stowplan` is the `stowplan` command.

Importing it takes a third of a second, in which somebody may think better of it. An exception would come out of the
middle of an import as any other, and whoever is the first process in a container dies of no signal that it does not
handle: so signals are taken first.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    # Who ignores them, as nohup and shells do for what they start in the background, goes on to.
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, _nothing_to_clean_up)
    from stowplan.cli.main import main as command

    for number in taken:
        signal.signal(number, before[number])
    command()


def _nothing_to_clean_up(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
