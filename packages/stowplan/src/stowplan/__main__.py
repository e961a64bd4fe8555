"""`python -m stowplan` is the `stowplan` command; the plugin of kubectl starts here, too.

Importing the command takes a third of a second, during which a signal may arrive. Without handlers, SIGINT would raise
an exception in the middle of an import, and a container's PID 1 would ignore SIGTERM. So handlers are installed first.
"""

from __future__ import annotations

import os
import signal
from importlib import import_module
from types import FrameType

from stowplan.kube.timing.process_tuning import prepare_for_imports

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    _run("stowplan.app.cli.main")


def kubectl_plugin() -> None:
    _run("stowplan.app.cli.kubectl_plugin")


def _run(module: str) -> None:
    prepare_for_imports()
    # Signals that the parent ignores, as nohup and shells do for background jobs, stay ignored.
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, _nothing_to_clean_up)
    command = import_module(module).main

    for number in taken:
        signal.signal(number, before[number])
    command()


def _nothing_to_clean_up(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
