"""A configuration file that changes: detection, reconfiguration, and messages."""

import asyncio
import os
import signal

import pytest

from stowplan.app.daemon.config_watch import INTERVAL, ConfigWatch, WatchedFile, on_hangup, watching, without_hangups
from stowplan.kube.config import load_config
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.in_tree.registry import in_tree_registry
from support.observing.log_lines import logged

PLUGINS = in_tree_registry().declarations


def written(path, **fields):
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    path.write_text(text + "".join(f"{name}: {value}\n" for name, value in fields.items()))


class Watched:
    """A watch of a file, its clock, and its calls."""

    def __init__(self, path, *, refuses=None):
        self.path, self.time, self.counted, self.loads = path, ManualTime(), [], 0
        self.configuration = load_config(None, plugins=PLUGINS)
        self.swaps, self.swapped = [], asyncio.Event()
        self.refuses = refuses
        self.watch = ConfigWatch(
            str(path),
            load=self._load,
            scheduler=self,
            count=self.counted.append,
            times=self.time,
        )

    async def _load(self):
        self.loads += 1
        return load_config(str(self.path), plugins=PLUGINS)

    async def reconfigure(self, configuration):
        if self.refuses is not None:
            raise self.refuses
        self.configuration = configuration
        self.swaps.append(configuration.pod_max_backoff_seconds)
        self.swapped.set()

    async def __aenter__(self):
        self._task = asyncio.create_task(self.watch.run())
        await self.looks(2)
        return self

    async def __aexit__(self, *exc_info):
        assert not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def looks(self, number=2):
        """A change takes two checks that find the same content."""
        for _ in range(number):
            await self.time.advance(INTERVAL, settle=_turns)


async def _turns():
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scheduler.yaml"
    written(path)
    return path


@pytest.fixture
def log():
    with logged(verbosity=2) as lines:
        yield lines


def entries_of(log, message):
    return [entry for entry in log.entries if entry.message == message]


# -- detection --------------------------------------------------------------------------------------------------------


async def test_an_unchanged_file_is_read_once(file):
    async with Watched(file) as watched:
        await watched.looks(20)
        assert watched.loads == 1
        assert (watched.swaps, watched.counted) == ([], [])


def in_place(path):
    written(path, podMaxBackoffSeconds=30)


def renamed_over(path):
    other = path.with_suffix(".new")
    written(other, podMaxBackoffSeconds=30)
    other.rename(path)


@pytest.mark.parametrize("change", [in_place, renamed_over])
async def test_a_file_that_changes(file, change, log):
    async with Watched(file) as watched:
        change(file)
        await watched.looks()
        assert watched.swaps == [30]
        assert watched.counted == ["swapped"]
        await watched.looks(5)
        assert watched.swaps == [30]
    (line,) = entries_of(log, "Configuration has changed and is in force")
    assert line.keys["profiles"] == ["default-scheduler"]


async def test_a_config_map_whose_link_is_swapped(tmp_path):
    """Like the kubelet: a folder per version, `..data` is a link to the newest, and the file is a link into that."""
    for number, seconds in enumerate((20, 30)):
        folder = tmp_path / f"..2026_{number}"
        folder.mkdir()
        written(folder / "scheduler.yaml", podMaxBackoffSeconds=seconds)
    (tmp_path / "..data").symlink_to("..2026_0")
    (tmp_path / "scheduler.yaml").symlink_to("..data/scheduler.yaml")
    async with Watched(tmp_path / "scheduler.yaml") as watched:
        assert watched.swaps == [20], "the process started with another one"
        (tmp_path / "..data_tmp").symlink_to("..2026_1")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        await watched.looks()
        assert watched.swaps == [20, 30]


async def test_a_file_that_is_still_being_written_is_not_read(file):
    async with Watched(file) as watched:
        loads = watched.loads
        with file.open("a") as writing:
            for _ in range(5):
                writing.write("# more\n")
                writing.flush()
                await watched.looks(1)
                assert watched.loads == loads
            writing.write("podMaxBackoffSeconds: 40\n")
        await watched.looks()
        assert watched.swaps == [40]


async def test_a_requested_reload_is_immediate(file):
    async with Watched(file) as watched:
        in_place(file)
        watched.watch.request()
        await _turns()
        assert watched.swaps == [30]


# -- refused changes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", ["podMaxBackoffSeconds: -1", "kind: Pod", "profiles: [{plugins: {filter: 7}}]", "{[", ""]
)
async def test_a_bad_file_is_refused_once(file, bad, log):
    async with Watched(file) as watched:
        file.write_text(bad)
        await watched.looks(10)
        assert (watched.swaps, watched.counted) == ([], ["refused"])
        (line,) = entries_of(log, "Configuration is refused, and the one before stays in force")
        assert line.keys["file"] == str(file)
        assert line.error
        in_place(file)
        await watched.looks()
        assert watched.swaps == [30]


async def test_a_file_that_is_deleted_and_restored(file, log):
    async with Watched(file) as watched:
        file.rename(file.with_suffix(".old"))
        await watched.looks(10)
        assert watched.counted == ["refused"]
        (line,) = entries_of(log, "Configuration is refused, and the one before stays in force")
        assert "no such file" in str(line.error)
        file.with_suffix(".old").rename(file)
        await watched.looks(10)
        assert (watched.swaps, watched.counted) == ([], ["refused"])
        in_place(file)
        await watched.looks()
        assert watched.swaps == [30]


async def test_a_refused_configuration_is_reported_and_not_retried(file, log):
    async with Watched(file, refuses=ValueError("no room")) as watched:
        in_place(file)
        await watched.looks(10)
        assert watched.counted == ["refused"]
        assert len(entries_of(log, "Configuration is refused, and the one before stays in force")) == 1
        watched.refuses = None
        watched.watch.request()
        await _turns()
        assert watched.swaps == [30]


async def test_settings_that_need_a_restart_are_named_and_kept(file, log):
    async with Watched(file) as watched:
        written(file, parallelism=3, podMaxBackoffSeconds=30, leaderElection="{leaderElect: false}")
        await watched.looks()
        assert watched.configuration.parallelism == 16
        assert watched.configuration.leader_election.leader_elect
        (line,) = entries_of(log, "Configuration has changed and is in force")
        assert line.keys["onlyAfterRestart"] == ["parallelism", "leaderElection"]
        written(file, parallelism=4, podMaxBackoffSeconds=30)
        await watched.looks()
        assert watched.swaps == [30]
        (line,) = entries_of(log, "Configuration has changed in what needs a restart")
        assert line.keys["onlyAfterRestart"] == ["parallelism"]


# -- the process ------------------------------------------------------------------------------------------------------


async def test_sighup_reloads_the_file(file):
    watched = Watched(file)
    real = watching(
        WatchedFile(str(file), lambda: load_config(str(file), plugins=PLUGINS)),
        watched,
        count=watched.counted.append,
        times=watched.time,
    )
    with without_hangups():
        os.kill(os.getpid(), signal.SIGHUP)
        task = asyncio.create_task(real.run())
        try:
            with on_hangup(real):
                await asyncio.sleep(0)
                in_place(file)
                os.kill(os.getpid(), signal.SIGHUP)
                await asyncio.wait_for(watched.swapped.wait(), 10)
                assert watched.swaps == [30]
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        os.kill(os.getpid(), signal.SIGHUP)
