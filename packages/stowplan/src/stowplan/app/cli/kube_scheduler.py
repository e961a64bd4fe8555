"""`kube-scheduler`: the upstream command line for this scheduler.

This module prepares the process before any slow import; the rest is in `daemon.command`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan.app.command_line.stop_signals import stop_signals
from stowplan.kube.timing.process_tuning import prepare_for_imports

if TYPE_CHECKING:
    from stowplan.app.daemon.process import ClusterConnector


def main(arguments: Sequence[str] | None = None, *, opener: ClusterConnector | None = None) -> int:
    """Run the command and return its exit code; `opener` connects to the cluster, None: over HTTP."""
    prepare_for_imports()
    with stop_signals() as stop:
        from stowplan.app.command_line.standard_streams import discard_unwritable_output, replace_missing_streams
        from stowplan.app.daemon.command import command

        replace_missing_streams()
        try:
            return command(sys.argv[1:] if arguments is None else arguments, stop, opener)
        finally:
            discard_unwritable_output()


if __name__ == "__main__":
    sys.exit(main())
