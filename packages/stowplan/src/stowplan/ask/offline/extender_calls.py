"""Blocking extender calls over HTTP."""

from __future__ import annotations

from stowplan.scheduler.extenders.calls import Call


def post_to_extender(call: Call) -> tuple[int, bytes]:
    """Send over HTTP. The HTTP client is slow to import."""
    from stowplan import __version__
    from stowplan.net.client.extender_http import post_blocking
    from stowplan.net.client.http.user_agent import user_agent

    return post_blocking(
        call.extender,
        call.url,
        call.body,
        longest=call.longest_answer,
        repeatable=True,
        agent=user_agent(command="stowplan", version=__version__, purpose="extender"),
    )
