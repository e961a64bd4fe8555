"""The web page of a running scheduler: its routes, and the plan that follows the scheduler's state."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from stowplan import __version__
from stowplan.command_line.event_loop import running
from stowplan.daemon.pages import RunningScheduler, SchedulerPages
from stowplan.page.configuration import configuration_record
from stowplan.page.feed import Feed
from stowplan.page.following import follow
from stowplan.page.records import SourceRecord
from stowplan.page.site import PREFIX, site
from stowplan.timing.times import REAL_TIMES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from stowplan.config import Configuration, Declarations, FeatureGates
    from stowplan.page.records import ConfigurationRecord
    from stowplan.page.trials import Trials
    from stowplan.serving.requests.messages import Page
    from stowplan.timing.times import Times

_ANSWERED = ("plan", "explain", "pending", "decisions", "stories", "nodes", "podgroups", "configuration")
_NO_TRIALS = "Trials would delay this scheduler. `stowplan ui` next to it has a workbench."


class PagedScheduler(RunningScheduler, Protocol):
    """`live.scheduler.Scheduler`."""

    @property
    def configuration(self) -> Configuration: ...


class SchedulerPage:
    def __init__(
        self,
        scheduler: PagedScheduler,
        *,
        title: str,
        plugins: Declarations,
        features: FeatureGates,
        other_leader: Callable[[], str | None] = lambda: None,
        trials: Trials | None = None,
        times: Times = REAL_TIMES,
    ) -> None:
        """`title`: of the page. `trials`: None if they would delay the scheduler."""
        self._scheduler = scheduler
        self._title = title
        self._plugins = plugins
        self._features = features
        self._answers = SchedulerPages(scheduler, other_leader=other_leader, times=times)
        self._trials = trials
        self._times = times
        self.feed = Feed(times=times)

    def pages(self) -> dict[str, Page]:
        """The server's routes below /stowplan/."""
        answers = self._answers.pages() | ({} if self._trials is None else self._trials.pages(PREFIX))
        return site(self._source, feed=self.feed, configuration=self._configuration, answers=answers)

    def _source(self) -> SourceRecord:
        return SourceRecord(
            mode="live",
            title=self._title,
            scheduler_name=self._scheduler.configuration.profiles[0].scheduler_name,
            version=f"stowplan {__version__}",
            can=_ANSWERED if self._trials is None else (*_ANSWERED, "whatIf"),
            why_not={"whatIf": _NO_TRIALS} if self._trials is None else {},
        )

    def _configuration(self) -> ConfigurationRecord:
        return configuration_record(self._scheduler.configuration, self._plugins, self._features)

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Update the plan from the scheduler within the context; closes all streams at the end."""
        async with running(follow(self._scheduler.state, self.feed, times=self._times)):
            try:
                yield
            finally:
                self.feed.close()
