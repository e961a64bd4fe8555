"""Error messages for a cluster that cannot be reached or does not respond as expected."""

from __future__ import annotations

from stowplan.kube.api.api_errors import ApiError, Unauthorized
from stowplan.kube.api.port import Unreachable


def unreachable_message(server: str, error: ApiError | Unreachable) -> str:
    if isinstance(error, Unreachable):
        return f"cannot reach the cluster: {error}"
    hint = "; the token or certificate is wrong or has expired" if isinstance(error, Unauthorized) else ""
    return f"{server} refused: {error}{hint}"
