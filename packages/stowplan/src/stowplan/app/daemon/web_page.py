"""The web page of a running scheduler: its routes, and the plan that follows the scheduler's state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from stowplan import __version__
from stowplan.app.command_line.event_loop import running
from stowplan.app.daemon.decision_pages import SchedulerPages
from stowplan.kube.config import Declarations, FeatureGates
from stowplan.kube.timing.times import REAL_TIMES, Times
from stowplan.net.serving.requests.messages import Page
from stowplan.ui.event_stream import PlanStreams
from stowplan.ui.page_routes import PREFIX, page_routes
from stowplan.ui.plan_follower import stream_plan
from stowplan.ui.source_records import Capability, ConfigurationRecord, SourceRecord, configuration_record

if TYPE_CHECKING:
    from stowplan.drivers.live.scheduler import Scheduler
    from stowplan.ui.workbench import Workbench

_ANSWERED: tuple[Capability, ...] = (
    "plan",
    "explain",
    "pending",
    "decisions",
    "stories",
    "nodes",
    "podgroups",
    "room",
    "devices",
    "configuration",
)
_NO_WORKBENCH = "Trials would delay this scheduler. `stowplan ui` next to it has a workbench."


class SchedulerPage:
    def __init__(
        self,
        scheduler: Scheduler,
        *,
        title: str,
        plugins: Declarations,
        features: FeatureGates,
        other_leader: Callable[[], str | None] = lambda: None,
        workbench: Workbench | None = None,
        times: Times = REAL_TIMES,
    ) -> None:
        """`title`: of the page. `workbench`: None if its trials would delay the scheduler."""
        self._scheduler = scheduler
        self._title = title
        self._plugins = plugins
        self._features = features
        copied = None if workbench is None else workbench.cluster
        self._answers = SchedulerPages(scheduler, other_leader=other_leader, copied=copied, times=times)
        self._workbench = workbench
        self._times = times
        self.streams = PlanStreams(times=times)

    def pages(self) -> dict[str, Page]:
        """The server's routes below /stowplan/."""
        answers = self._answers.pages() | ({} if self._workbench is None else self._workbench.pages(PREFIX))
        return page_routes(self._source, streams=self.streams, configuration=self._configuration, answers=answers)

    def _source(self) -> SourceRecord:
        return SourceRecord(
            mode="live",
            title=self._title,
            scheduler_name=self._scheduler.configuration.profiles[0].scheduler_name,
            version=f"stowplan {__version__}",
            can=_ANSWERED if self._workbench is None else (*_ANSWERED, "whatIf"),
            why_not={"whatIf": _NO_WORKBENCH} if self._workbench is None else {},
        )

    def _configuration(self) -> ConfigurationRecord:
        return configuration_record(self._scheduler.configuration, self._plugins, self._features)

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Update the plan from the scheduler within the context; closes all streams at the end."""
        async with running(stream_plan(self._scheduler.state, self.streams, times=self._times)):
            try:
                yield
            finally:
                self.streams.close()
