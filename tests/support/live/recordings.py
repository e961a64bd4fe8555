"""Recordings in files, made by a scheduler on an embedded API, or of objects alone."""

from itertools import groupby

import msgspec

from stowplan.app.daemon.plugin_registry import registry_with
from stowplan.drivers.live.follower import SETTINGS
from stowplan.history.recordings.recording_files import lines_of, packed
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.port import Change
from stowplan.kube.config.features import default_features
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.input_log.input_recorder import Recorder
from stowplan.scheduler.engine.input_log.recorded_annotations import RecordedAnnotations
from stowplan.scheduler.engine.inputs import Changes
from stowplan.scheduler.in_tree.configuration import load_config
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live


class RecordedToFile:
    """A recorder whose lines are written to a file at the end."""

    def __init__(self, path):
        self.path = path
        self._written = []
        self.recorder = Recorder(self._written.append)

    def close(self):
        self.recorder.flush()
        self.path.write_bytes(b"".join(map(packed, self._written)))


class RotatedToFiles:
    """A recorder whose file is rotated when the test says so."""

    def __init__(self, path):
        self._path, self._written = path, [[]]
        self.is_due = False
        self.recorder = Recorder(lambda lines: self._written[-1].append(lines), rotation=self)

    def rotate(self):
        self.is_due = False
        self._written.append([])

    def close(self):
        self.recorder.flush()
        for number, lines in enumerate(self._written, 1):
            last = number == len(self._written)
            path = self._path if last else self._path.with_name(f"{self._path.name}.{number}")
            path.write_bytes(b"".join(map(packed, lines)))
        return len(self._written)


async def a_short_run(path, **options):
    """A scheduler places a pod, and ten seconds later finds no node for another one."""
    to_file = RecordedToFile(path)
    nodes = [a_node(name).allocatable(cpu=cpu, pods=10).obj() for name, cpu in (("small", "2"), ("large", "8"))]
    async with live(*nodes, recorder=to_file.recorder, **options) as cluster:
        await cluster.create(a_pod("web").requests(cpu="1").obj())
        await cluster.advance(10)
        await cluster.create(a_pod("huge").requests(cpu="100").obj())
        await cluster.advance(10)
    to_file.close()


async def a_run_in_two_files(path):
    """Four pods, one every ten seconds, in two files of two pods each; another pod waits for ten seconds."""
    files = RotatedToFiles(path)
    nodes = [a_node(name).allocatable(cpu="8", memory="32Gi", pods=10).obj() for name in "ab"]
    async with live(*nodes, recorder=files.recorder) as cluster:
        for number in range(4):
            await cluster.create(a_pod(f"p{number}").requests(cpu="1").obj())
            await cluster.advance(10)
            files.is_due = number == 1
        await cluster.create(a_pod("large").requests(cpu="20").obj())
        await cluster.advance(10)
        await cluster.create(a_node("c").allocatable(cpu="32", memory="32Gi", pods=10).obj())
        await cluster.advance(10)
    assert files.close() == 2


def recorded(path, objects, configuration, gates, now):
    """As by `stowplan record`, of a cluster with these objects."""
    features, registry = default_features(V1_36).with_gates(gates), registry_with(())
    config = load_config(configuration, feature_gates=gates, emulated_version=str(V1_36))
    engine = Engine(config, registry=registry, now=now, meter=ManualTime(), features=features, settings=SETTINGS)
    written = []
    recorder = Recorder(written.append, annotations=RecordedAnnotations((), secret=b"secret"))
    recorder.begin(config, now=now, features=features, settings=SETTINGS, random=None, decides=False)
    for kind, some in groupby(map(decode_object, objects), key=type):
        recorder.step(engine, Changes(kind, [Change(None, one) for one in some]), now)
    recorder.flush()
    path.write_bytes(b"".join(map(packed, written)))


def changed_line(path, number, change):
    """Let a function change one decoded line of a recording, counted from 0."""
    with path.open("rb") as file:
        lines = list(lines_of(file))
    line = msgspec.json.decode(lines[number])
    lines[number] = msgspec.json.encode(change(line)) + b"\n"
    path.write_bytes(packed(b"".join(lines)))
