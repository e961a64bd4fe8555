"""Completion: by the words before the cursor, as click's scripts request it, and in a real bash."""

import asyncio
import json
import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from stowplan.app.cli.main import cli
from stowplan.app.sources import object_names
from stowplan.testing import a_node, a_pod
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.http.misbehaving_server import Misbehaving, answers, hangs, resets

OBJECTS = [
    {**a_node("big-1").obj(), "metadata": {"name": "big-1", "labels": {"topology.kubernetes.io/zone": "eu-a"}}},
    a_node("small-1").obj(),
    a_pod("web-0").obj(),
    a_pod("cache-0", namespace="shop").obj(),
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}},
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cache", "namespace": "shop"}},
]


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    return str(path)


def offered(*words):
    """The completions of the last word."""
    completion = ShellComplete(cli, {}, "stowplan", "_STOWPLAN_COMPLETE")
    return [(item.type, item.value) for item in completion.get_completions(list(words[:-1]), words[-1])]


def names(*words):
    return [value for _, value in offered(*words)]


def test_commands():
    assert names("exp") == ["explain"]
    assert {"view", "validate", "convert", "diff", "defaults", "explain", "schema"} == set(names("config", ""))
    assert "--kubeconfig" in names("drain", "--kube")
    assert names("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize(
    "words",
    [
        ("config", "view", "sched"),
        ("config", "diff", "a.yaml", "b"),
        ("explain", "-f", ""),
        ("explain", "--config", "sched"),
        ("run", "--kubeconfig", ""),
        ("fit", "-f", ""),
        ("what-if", "--apply", "x"),
    ],
)
def test_files(words):
    assert offered(*words) == [("file", words[-1])]


def test_names_of_objects_in_files(cluster):
    kinds = ["pod", "node", "replicationcontroller", "deployment", "statefulset", "daemonset", "replicaset"]
    kinds += ["job", "cronjob", "podgroup"]
    assert names("explain", "-f", cluster, "") == ["pending", *kinds]
    assert names("explain", "-f", cluster, "w") == ["web-0"]
    assert names("explain", "-f", cluster, "pending", "") == []
    assert names("explain", "-f", cluster, "deploy", "") == ["shop/cache", "web"]
    assert names("explain", "-f", cluster, "po/s") == ["po/shop/cache-0"]
    assert names("explain", "-f", cluster, "-n", "shop", "po/") == ["po/cache-0"]
    assert names("explain", "-f", cluster, "-n", "") == ["default", "shop"]
    assert names("explain", "-f", cluster, "pod", "") == ["shop/cache-0", "web-0"]
    assert names("explain", "-f", cluster, "pod", "sh") == ["shop/cache-0"]
    assert names("explain", "-f", cluster, "node", "b") == ["big-1"]
    assert names("explain", "-f", cluster, "--pod", "w") == ["web-0"]
    assert names("drain", "-f", cluster, "") == ["big-1", "small-1"]
    assert names("drain", "-f", cluster, "--zone", "") == ["eu-a"]
    assert names("what-if", "-f", cluster, "--remove", "s") == ["small-1"]
    assert names("drain", "-f", cluster, "no/") == ["no/big-1", "no/small-1"]
    assert names("survive", "-f", cluster, "--only", "b") == ["big-1"]
    assert names("fit", "-f", cluster, "web") == ["web-0"]
    assert names("fit", "-f", cluster, "deployment", "s") == ["shop/cache"]
    assert names("fit", "-f", cluster, "") == [*(kind for kind in kinds if kind != "node"), "shop/cache-0", "web-0"]
    assert names("what-if", "-f", cluster, "--scale", "dep") == ["deployment/"]
    assert names("what-if", "-f", cluster, "--scale", "deployment/") == ["deployment/shop/cache", "deployment/web"]
    assert offered("fit", "-f", cluster, "new.y") == [("file", "new.y")]


class TestLiveCluster:
    @pytest.fixture
    def names_of(self, tmp_path, monkeypatch):
        monkeypatch.setattr(object_names, "SECONDS", 30)

        async def found(server, command, *words):
            config = a_kubeconfig(
                cluster={"server": server.url}, context={"cluster": "c", "user": "u", "namespace": "shop"}
            )
            path = str(write_kubeconfig(tmp_path / "config", config))
            return await asyncio.to_thread(names, command, "--kubeconfig", path, *words)

        return found

    async def test_groups_of_a_cluster_that_serves_an_older_version(self, names_of):
        page = {"kind": "PartialObjectMetadataList", "items": [{"metadata": {"name": "train", "namespace": "ml"}}]}
        older = "/apis/scheduling.k8s.io/v1alpha2/podgroups"
        async with Misbehaving(answers(404, {})).at(older, answers(200, page)) as server:
            assert await names_of(server, "explain", "podgroup/") == ["podgroup/ml/train"]

    @pytest.mark.parametrize(
        ("words", "path", "offered"),
        [
            (("explain", "pod", ""), "/api/v1/pods", ["db-0", "ml/train"]),
            (("explain", "pod", "ml/"), "/api/v1/namespaces/ml/pods", ["ml/train"]),
            (("explain", "-n", "ml", "pod", ""), "/api/v1/namespaces/ml/pods", ["shop/db-0", "train"]),
            (("explain", "sts/d"), "/apis/apps/v1/statefulsets", ["sts/db-0"]),
            (("fit", "job", ""), "/apis/batch/v1/jobs", ["db-0", "ml/train"]),
            (
                ("explain", "podgroup/"),
                "/apis/scheduling.k8s.io/v1beta1/podgroups",
                ["podgroup/db-0", "podgroup/ml/train"],
            ),
            (("drain", "--as", "ada", ""), "/api/v1/nodes", ["db-0", "ml/train"]),
            (("explain", "-n", ""), "/api/v1/namespaces", ["db-0", "ml/train"]),
        ],
    )
    async def test_one_request_for_names(self, names_of, words, path, offered):
        items = [
            {"metadata": {"name": "train", "namespace": "ml"}},
            {"metadata": {"name": "db-0", "namespace": "shop"}},
        ]
        async with Misbehaving(answers(200, {"kind": "PartialObjectMetadataList", "items": items})) as server:
            assert await names_of(server, *words) == offered
        (seen,) = server.seen
        assert (seen.path, seen.query, seen.headers.get("impersonate-user")) == (
            path,
            {"limit": "500"},
            "ada" if "ada" in words else None,
        )
        assert seen.headers["accept"].startswith("application/json;as=PartialObjectMetadataList;")

    async def test_no_names_of_a_cluster_that_does_not_answer(self, names_of, monkeypatch, capsys):
        monkeypatch.setattr(object_names, "SECONDS", 0.05)
        async with Misbehaving(hangs) as server:
            assert await names_of(server, "drain", "") == []
        assert capsys.readouterr() == ("", "")

    @pytest.mark.parametrize("action", [answers(403, {}), answers(200, {"items": 3}), resets])
    async def test_no_names_without_an_answer(self, names_of, action, capsys):
        async with Misbehaving(action) as server:
            assert await names_of(server, "drain", "") == []
        assert capsys.readouterr() == ("", "")


def test_completion_imports_nothing_that_is_slow(cluster):
    words = {"COMP_WORDS": f"stowplan explain -f {cluster} pod ", "COMP_CWORD": "5"}
    code = (
        "import sys; from stowplan.app.cli.main import main\ntry: main()\nfinally:\n"
        " import stowplan.app.sources.object_names; print([*sys.modules], file=sys.stderr)"
    )
    environment = {**os.environ, **words, "_STOWPLAN_COMPLETE": "bash_complete"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert "web-0" in ran.stdout
    slow = {
        "numpy",
        "aiohttp",
        "uvloop",
        "stowplan.scheduler.framework",
        "stowplan.kube.config.config_loading",
        "importlib.metadata",
    }
    assert {name for name in slow if f"'{name}'" in ran.stderr} == set()


def test_fields():
    assert "leaderElection" in names("config", "explain", "leader")
    assert names("config", "explain", "leaderElection.lease") == ["leaderElection.leaseDuration"]


def test_contexts(tmp_path):
    path = write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(cluster={"server": "http://127.0.0.1:1"}))
    assert names("drain", "--kubeconfig", str(path), "--context", "") != []


@pytest.mark.slow
def test_unavailable_values_are_not_offered(tmp_path, monkeypatch, capsys):
    path = write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(cluster={"server": "http://127.0.0.1:1"}))
    assert names("drain", "--kubeconfig", str(path), "") == []
    assert names("drain", "--kubeconfig", "/does/not/exist", "") == []
    assert names("drain", "--kubeconfig", "/does/not/exist", "--context", "") == []
    (tmp_path / "bad.yaml").write_text("{")
    assert names("drain", "-f", str(tmp_path / "bad.yaml"), "") == []
    assert names("drain", "-f", "-", "") == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(run, shell):
    ran = run("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert f"_STOWPLAN_COMPLETE={shell}_complete" in ran.out


def test_an_unknown_shell(run):
    assert run("completion", "csh").code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.slow
def test_bash_completes(run, cluster, tmp_path):
    (tmp_path / "stowplan").write_text(f'#!/bin/sh\nexec {sys.executable} -m stowplan "$@"\n')
    (tmp_path / "stowplan").chmod(0o755)
    script = run("completion", "bash").out + (
        f"COMP_WORDS=(stowplan drain -f {cluster} b); COMP_CWORD=4\n"
        "_stowplan_completion stowplan\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash"], input=script, capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert (ran.stdout, ran.stderr) == ("big-1\n", "")
