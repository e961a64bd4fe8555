"""What to say of a cluster that does not answer, or not as it was asked to: who, what, and what to do.

Imported by commands that talk to a cluster, when they do.
"""

from __future__ import annotations

from stowplan.api.api_errors import ApiError, Unauthorized
from stowplan.api.port import Unreachable
from stowplan.command_line.errors import InputError


def no_answer(server: str, error: ApiError | Unreachable) -> InputError:
    """The end of a command that cannot do without."""
    if isinstance(error, Unreachable):
        return InputError(f"cannot reach the cluster: {error}")
    hint = "; the token or certificate is wrong or has expired" if isinstance(error, Unauthorized) else ""
    return InputError(f"{server} refused: {error}{hint}")
