"""The version of Kubernetes of `record`, `shadow`, `run`, `replay` and `ui`."""

import asyncio
import json

import pytest

from stowplan.app.cli.live_cluster import followed
from stowplan.kube.config import load_config
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.scheduler.in_tree.discovery import declarations
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.http.misbehaving_server import Misbehaving, answers
from support.live.recordings import a_short_run


def loaded(features):
    return load_config(None, plugins=declarations(), features=features)


@pytest.mark.parametrize(("asked_for", "version"), [(None, "1.36"), ("1.35", "1.35")])
async def test_a_live_cluster(tmp_path, capsys, asked_for, version):
    async with Misbehaving().at("/version", answers(200, {"major": "1", "minor": "36"})) as server:
        path = write_kubeconfig(tmp_path / "config", a_kubeconfig(cluster={"server": server.url}))
        live = ClusterFlags(kubeconfig=str(path))
        found = await asyncio.to_thread(followed, loaded, live, asked_for, command="record")
    assert str(found.features.emulated_version) == version
    assert found.connection.server == server.url
    assert [seen.path for seen in server.seen] == (["/version"] if asked_for is None else [])
    note = "note: as kube-scheduler 1.36, as the cluster is 1.36\n"
    assert capsys.readouterr().err == (note if asked_for is None else "")


@pytest.mark.parametrize("command", ["shadow --recording", "replay --rerun", "explain --recording"])
def test_a_recording(run, tmp_path, command):
    path = tmp_path / "run.recording"
    asyncio.run(a_short_run(path))
    words = *command.split(), str(path), "-o", "json"
    recorded = json.loads(run(*words).out)
    other = json.loads(run(*words, "--emulated-version=1.36").out)
    assert (recorded["emulatedVersion"], other["emulatedVersion"]) == ("1.37", "1.36")


def test_a_recording_is_replayed_as_it_was(run, tmp_path):
    ran = run("replay", str(tmp_path), "--check", "--emulated-version=1.36")
    assert ran.code == 2
    assert "--emulated-version is for --config and --rerun, which schedule again." in ran.err


def test_a_simulation_is_shown_as_it_was(run, tmp_path):
    ran = run("ui", "--simulation", str(tmp_path), "--emulated-version=1.36")
    assert ran.code == 2
    assert "--simulation shows what was simulated: give --emulated-version to simulate." in ran.err
