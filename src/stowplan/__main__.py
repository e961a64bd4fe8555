"""`python -m stowplan` is the `stowplan` command."""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def main() -> None:
    try:
        # Takes a third of a second, in which somebody may think better of it.
        from stowplan.cli.main import main as command
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
