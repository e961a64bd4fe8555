"""Send extender requests over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stowplan.kube.api.port import Unreachable
from stowplan.scheduler.extenders.calls import Calls
from stowplan.scheduler.framework.requests import Ask

if TYPE_CHECKING:
    from stowplan.kube.api.documents import Documents
    from stowplan.kube.config.configuration import Configuration
    from stowplan.kube.timing.times import Times
    from stowplan.net.client.extender_http import ExtenderHttp


class HttpExtenderClients:
    """The HTTP clients of extenders, by name; must be closed."""

    def __init__(
        self,
        configuration: Configuration,
        documents: Documents,
        *,
        times: Times,
        agent: str,
        may_change: Callable[[], bool],
    ) -> None:
        """`may_change` returns whether writes, such as bindings, are allowed at the moment."""
        self.documents = documents
        self._times = times
        self._agent = agent
        self._may_change = may_change
        #: Created on first use: most configurations have no extenders.
        self._http: ExtenderHttp | None = None
        self._calls = Calls(configuration, documents)

    def reconfigure(self, configuration: Configuration) -> None:
        """Use the extenders of another configuration from now on.

        Requests in progress continue, and bindings that began before may still call a removed extender.
        """
        self._calls = Calls(configuration, self.documents, before=self._calls)

    def get(self, who: str) -> HttpExtenderClient | None:
        return HttpExtenderClient(self, self._calls, who) if who in self._calls else None

    async def ask(self, calls: Calls, ask: Ask) -> Any:
        """The answer, a plain value; raises if there is none."""
        if ask.verb == "bind" and not self._may_change():
            raise Unreachable("not sent: another replica may lead now")
        call = calls.call_of(ask)
        status, body = await self._client().post(
            call.extender,
            call.url,
            call.body,
            longest=call.longest_answer,
            repeatable=ask.verb != "bind",
        )
        return calls.answer_of(call, status, body)

    def _client(self) -> ExtenderHttp:
        if self._http is None:
            from stowplan.net.client.extender_http import ExtenderHttp

            self._http = ExtenderHttp(agent=self._agent, times=self._times)
        return self._http

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()


class HttpExtenderClient:
    """Calls one extender."""

    def __init__(self, extender_clients: HttpExtenderClients, calls: Calls, who: str) -> None:
        self._extender_clients = extender_clients
        self._calls = calls
        self._who = who

    async def ask(self, verb: str, question: Any) -> Any:
        return await self._extender_clients.ask(self._calls, Ask(who=self._who, verb=verb, question=question))
