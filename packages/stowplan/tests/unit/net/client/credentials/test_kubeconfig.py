"""Reading and merging kubeconfig files, and resolving a context."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.net.client.client_errors import ClientConfigError
from stowplan.net.client.credentials.kubeconfig import (
    kubeconfig_paths,
    load_kubeconfig,
    load_kubeconfigs,
    merged,
    parse_kubeconfig,
    select,
)
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig

SECRET = "s3cr3t-t0k3n"


def test_yaml_and_json_are_equivalent(tmp_path):
    document = a_kubeconfig(user={"token": SECRET, "as-groups": ["a", "b"]})
    as_yaml = load_kubeconfig(write_kubeconfig(tmp_path / "config", document))
    as_json = load_kubeconfig(write_kubeconfig(tmp_path / "config", document, as_json=True))
    assert as_yaml == as_json
    assert as_yaml.users["u"].value.token == SECRET
    assert as_yaml.users["u"].value.impersonate_groups == ["a", "b"]


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "apiVersion: v1\nkind: Config\n", "users: null\n"])
def test_a_file_can_be_empty(text):
    config = parse_kubeconfig(text.encode(), "config")
    assert (config.current_context, config.clusters, config.users) == ("", {}, {})


def test_unknown_fields_and_nulls_are_ignored():
    document = """
    preferences: {colors: true}
    clusters: [{name: c, cluster: {server: "https://a", certificate-authority: null, shade: blue}, note: 1}]
    users: [{name: u, user: null}]
    """
    config = parse_kubeconfig(document.encode(), "config")
    assert config.clusters["c"].value.server == "https://a"
    assert config.clusters["c"].value.certificate_authority == ""
    assert config.users["u"].value.token == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [\nb: }", 'error loading config file "config": yaml: line 1: did not find', id="bad YAML"),
        pytest.param('{"a": ', "unexpected end of JSON input", id="bad JSON"),
        pytest.param("- a", "expected an object, got a list", id="a list"),
        pytest.param("just text", "expected an object, got a string", id="a string"),
        pytest.param("kind: Pod\napiVersion: v1", 'kind "Pod" of version "v1", expected kind "Config"', id="a Pod"),
        pytest.param("apiVersion: v2", 'kind "Config" of version "v2"', id="unknown version"),
        pytest.param("clusters: {c: {}}", "clusters: expected a list, got an object", id="clusters as a map"),
        pytest.param("clusters: [c]", "clusters[0]: expected an object, got a string", id="cluster is a string"),
        pytest.param("users: [{name: 5}]", "users[0].name: expected a string", id="name is a number"),
        pytest.param(
            "users: [{name: u, user: {username: y}}]", 'user "u": username: expected a string, got true', id="YAML's y"
        ),
        pytest.param(
            'clusters: [{name: c, cluster: {insecure-skip-tls-verify: "true"}}]',
            'cluster "c": insecure-skip-tls-verify: expected true or false, got a string',
            id="quoted boolean",
        ),
        pytest.param(
            "users: [{name: u, user: {exec: {args: [1]}}}]", 'user "u": exec.args[0]: expected a string', id="exec args"
        ),
        pytest.param("users: [{name: u}, {name: u}]", 'duplicate name "u" in users', id="twice in one file"),
    ],
)
def test_errors_name_the_file(text, message):
    with pytest.raises(ClientConfigError) as caught:
        parse_kubeconfig(text.encode(), "config")
    assert message in str(caught.value)
    assert '"config"' in str(caught.value)


def test_a_binary_file():
    with pytest.raises(ClientConfigError, match=r"not UTF-8 text \(byte 1\)"):
        parse_kubeconfig(b"a\xff", "config")


def test_deep_nesting_is_an_error_and_no_crash():
    with pytest.raises(ClientConfigError, match="config"):
        parse_kubeconfig(b"{" + b'"a":{' * 100_000, "config")


def test_a_folder_instead_of_a_file(tmp_path):
    with pytest.raises(ClientConfigError, match="is a directory"):
        load_kubeconfigs([str(tmp_path)])


# -- file lookup


@pytest.mark.parametrize(
    ("environ", "paths"),
    [
        pytest.param({"HOME": "/home/me"}, ["/home/me/.kube/config"], id="home"),
        pytest.param({"KUBECONFIG": "a:b", "HOME": "/h"}, ["a", "b"], id="several"),
        pytest.param({"KUBECONFIG": "a::b:a", "HOME": "/h"}, ["a", "b"], id="empty and repeated"),
        pytest.param({"KUBECONFIG": "", "HOME": "/h"}, ["/h/.kube/config"], id="set but empty"),
        pytest.param({}, [], id="no home"),
    ],
)
def test_paths_from_the_environment(environ, paths):
    assert kubeconfig_paths(environ) == paths


def test_missing_files_are_skipped(tmp_path):
    there = write_kubeconfig(tmp_path / "there", a_kubeconfig())
    config = load_kubeconfigs([str(tmp_path / "nope"), there])
    assert config.files == (there,)
    assert config.current_context == "x"


def test_relative_paths_are_relative_to_their_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = write_kubeconfig(tmp_path / "one" / "config", a_kubeconfig(cluster={"certificate-authority": "ca.crt"}))
    two = write_kubeconfig(tmp_path / "two" / "config", a_kubeconfig(user={"tokenFile": "../token"}, clusters=[]))
    config = load_kubeconfigs([os.path.relpath(two), os.path.relpath(one)])
    cluster, user = config.clusters["c"], config.users["u"]
    assert cluster.path(cluster.value.certificate_authority) == str(tmp_path / "one" / "ca.crt")
    assert user.path(user.value.token_file) == str(tmp_path / "token")
    assert user.path("/abs") == "/abs"
    assert user.path("") == ""


NAMES = st.sampled_from(["a", "b", "c", "d"])
FILES = st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.sets(NAMES)), max_size=5)


@given(FILES)
def test_merging_agrees_with_the_plain_rule(files):
    configs = [
        parse_kubeconfig(
            json.dumps(
                {
                    "current-context": current,
                    "clusters": [{"name": name, "cluster": {"server": f"{number}"}} for name in sorted(names)],
                }
            ).encode(),
            f"file{number}",
        )
        for number, (current, names) in enumerate(files)
    ]
    config = merged(configs)
    assert config.current_context == next((current for current, _ in files if current), "")
    for name in "abcd":
        owners = [f"file{number}" for number, (_, names) in enumerate(files) if name in names]
        assert [config.clusters[name].file] == owners[:1] if owners else name not in config.clusters


# --- contexts


def two_contexts():
    return parse_kubeconfig(
        b"""
        clusters: [{name: c, cluster: {server: "https://c"}}, {name: d, cluster: {server: "https://d"}}]
        users: [{name: u, user: {}}]
        contexts:
        - {name: x, context: {cluster: c, user: u}}
        - {name: z, context: {cluster: d}}
        - {name: lost-cluster, context: {cluster: nope, user: u}}
        - {name: lost-user, context: {cluster: c, user: nope}}
        current-context: x
        """,
        "config",
    )


@pytest.mark.parametrize(("asked", "server", "user"), [(None, "https://c", "u"), ("z", "https://d", None)])
def test_selecting(asked, server, user):
    selection = select(two_contexts(), asked)
    assert selection.cluster.value.server == server
    assert (selection.user.name if selection.user else None) == user


def test_no_context_selects_nothing():
    assert select(parse_kubeconfig(b"", "config")).context is None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("w", 'config: context "w" does not exist; the contexts are "lost-cluster", "lost-user", "x", "z"'),
        (
            "lost-cluster",
            'invalid configuration: config: context "lost-cluster": cluster: cluster "nope" was not found in config; '
            'known clusters: "c", "d"',
        ),
        (
            "lost-user",
            'invalid configuration: config: context "lost-user": user: user "nope" was not found in config; '
            'known users: "u"',
        ),
    ],
)
def test_missing_entries_are_named(asked, message):
    with pytest.raises(ClientConfigError) as caught:
        select(two_contexts(), asked)
    assert str(caught.value) == message


def test_all_searched_files_are_named():
    files = [parse_kubeconfig(text, name) for text, name in ((b"current-context: z", "one"), (b"", "two"))]
    with pytest.raises(ClientConfigError, match="invalid configuration: one, two: current-context: context was not fo"):
        select(merged(files))


def test_a_missing_current_context():
    with pytest.raises(ClientConfigError, match="specified context: z; the kubeconfig has no contexts"):
        select(parse_kubeconfig(b"current-context: z", "config"))


def test_secrets_are_not_in_reprs():
    user = {
        "token": SECRET,
        "password": SECRET,
        "client-key-data": SECRET,
        "exec": {"command": "c", "args": [SECRET], "env": [{"name": "A", "value": SECRET}]},
    }
    config = parse_kubeconfig(json.dumps(a_kubeconfig(user=user)).encode(), "config")
    assert SECRET not in repr(config)
    assert SECRET not in repr(config.users["u"].value.exec)
    assert SECRET not in repr(config.users["u"].value.exec.env)
