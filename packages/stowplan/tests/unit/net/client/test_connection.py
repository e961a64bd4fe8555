"""From flags to a connection: precedence of both programs, service accounts, and every possible error."""

import base64
import copy
import json
import logging
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.connection import (
    ClientConfigError,
    ProcessEnvironment,
    connect_from_flags,
    connect_from_scheduler_flags,
)
from stowplan.net.client.http.transport import Limits
from support.http import certificates
from support.http.kubeconfigs import Clock, a_kubeconfig, write_kubeconfig

CA = certificates.make_ca()
ALICE = certificates.make_client_certificate(CA, "alice")
SECRET = "s3cr3t-t0k3n"
IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
NOT_GIVEN = (
    "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)


def b64(data):
    return base64.b64encode(data).decode()


class World:
    """A home folder and a pod's service account, both empty at first."""

    def __init__(self, folder):
        self.folder = folder
        self.environ = {"HOME": str(folder / "home")}
        self.clock = Clock()

    @property
    def environment(self):
        return ProcessEnvironment(
            environ=self.environ,
            clock=self.clock,
            wall_clock=self.clock,
            is_terminal=lambda: False,
            service_account=self.folder / "account",
        )

    def file(self, name, document):
        return write_kubeconfig(self.folder / name, document)

    def a_pod(self, *, token=SECRET, ca=CA.certificate, namespace="kube-system", environ=IN_CLUSTER):
        account = self.folder / "account"
        account.mkdir()
        for name, text in (("token", token), ("ca.crt", ca), ("namespace", namespace)):
            if text is not None:
                (account / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        self.environ |= environ

    def kubectl(self, kubeconfig=None, **flags):
        return connect_from_flags(ClusterFlags(kubeconfig=kubeconfig, **flags), self.environment)

    def scheduler(self, kubeconfig=None, **flags):
        return connect_from_scheduler_flags(kubeconfig=kubeconfig, environment=self.environment, **flags)

    def connect(self, **parts):
        return self.kubectl(self.file("config", a_kubeconfig(**parts)))

    def refusal(self, **parts):
        with pytest.raises(ClientConfigError) as caught:
            self.connect(**parts)
        assert SECRET not in str(caught.value)
        return str(caught.value).replace(str(self.folder), "")


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def at(server):
    return a_kubeconfig(cluster={"server": server})


# -- choosing the configuration


def test_kubectls_flag_takes_precedence(world):
    world.a_pod()
    world.file("home/.kube/config", at("https://home"))
    world.environ["KUBECONFIG"] = world.file("env", at("https://env"))
    assert world.kubectl(world.file("flag", at("https://flag"))).server == "https://flag"
    assert world.kubectl().server == "https://env"
    del world.environ["KUBECONFIG"]
    assert world.kubectl().server == "https://home"
    (world.folder / "home/.kube/config").unlink()
    assert world.kubectl().server == "https://10.0.0.1:443"


def test_kube_scheduler_ignores_the_home_folder(world):
    world.environ["KUBECONFIG"] = world.file("home/.kube/config", at("https://home"))
    with pytest.raises(ClientConfigError) as caught:
        world.scheduler()
    assert str(caught.value) == NOT_GIVEN
    world.a_pod()
    assert world.scheduler().server == "https://10.0.0.1:443"
    assert world.scheduler(world.file("flag", at("https://flag"))).server == "https://flag"


def test_kube_scheduler_logs_what_it_tries(world, caplog):
    with caplog.at_level(logging.WARNING), pytest.raises(ClientConfigError):
        world.scheduler()
    assert [record.getMessage() for record in caplog.records] == [
        "Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  This might not work.",
        "error creating inClusterConfig, falling back to default config: unable to load in-cluster configuration, "
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
    ]


def test_kube_scheduler_disables_compression(world):
    path = world.file("config", at("https://a"))
    assert (world.scheduler(path).disable_compression, world.kubectl(path).disable_compression) == (True, False)
    assert world.connect(cluster={"server": "https://a", "disable-compression": True}).disable_compression


def test_kubectl_disables_compression_if_asked(world):
    path = world.file("config", at("https://a"))
    assert world.kubectl(path, disable_compression=True).disable_compression


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("", None), ("5", 5.0), ("+5", 5.0), ("1m", 60.0), ("1.5s", 1.5), ("0", 604800.0), ("-1s", 604800.0)],
)
def test_kubectls_request_timeout(world, given, seconds):
    path = world.file("config", at("https://a"))
    connection = world.kubectl(path, request_timeout=given)
    assert connection.request_timeout == seconds
    limits = Limits().within(seconds)
    assert (limits.total, limits.connect) == ((120.0, 10.0) if seconds is None else (seconds, min(10.0, seconds)))


@pytest.mark.parametrize("given", ["-1", "1.5", "1d", "soon", " 1", "9" * 30 + "h"])
def test_what_is_no_timeout_for_kubectl(world, given):
    with pytest.raises(ClientConfigError, match=r"^Invalid timeout value\. Timeout must be a single"):
        world.kubectl(world.file("config", at("https://a")), request_timeout=given)


@pytest.mark.parametrize("order", ["kubectl", "scheduler"])
def test_an_explicit_file_must_exist(world, order):
    world.a_pod()
    with pytest.raises(ClientConfigError, match=r"^stat /nope: no such file or directory$"):
        getattr(world, order)("/nope")


def test_without_any_configuration(world):
    with pytest.raises(ClientConfigError) as caught:
        world.kubectl()
    assert str(caught.value) == (
        f"no cluster to talk to: {world.folder}/home/.kube/config does not exist, and this process is not in a pod "
        "(unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be "
        "defined); "
        "name a kubeconfig with --kubeconfig or KUBECONFIG"
    )


@pytest.mark.parametrize("order", ["kubectl", "scheduler"])
def test_no_current_context(world, order):
    world.a_pod()
    path = world.file("config", a_kubeconfig(**{"current-context": ""}))
    with pytest.raises(ClientConfigError) as caught:
        getattr(world, order)(path)
    assert str(caught.value) == f'invalid configuration: {path}: current-context is not set; the contexts are "x"'


# --- --master and contexts


#: The flag for the server's address.
SERVER_FLAGS = pytest.mark.parametrize(("order", "flag"), [("kubectl", "server"), ("scheduler", "master")])


@SERVER_FLAGS
def test_a_server_replaces_the_entrys_and_its_tls_server_name(world, order, flag):
    cluster = {"server": "https://a", "tls-server-name": "a", "certificate-authority-data": b64(CA.certificate)}
    path = world.file("config", a_kubeconfig(cluster=cluster, user={"token": SECRET}))
    connection = getattr(world, order)(path, **{flag: "https://b:6443/"})
    assert connection.server == "https://b:6443"
    assert connection.tls.server_name is None
    assert connection.tls.ca.read() == CA.certificate


@SERVER_FLAGS
async def test_a_server_alone_is_anonymous(world, order, flag):
    world.a_pod()
    connection = getattr(world, order)(**{flag: "http://127.0.0.1:8080"})
    assert (connection.server, connection.tls, connection.namespace) == ("http://127.0.0.1:8080", None, "default")
    assert dict(await connection.credentials.headers()) == {}


async def test_flags_replace_what_the_entries_say(world):
    """Of trust and of tokens all, not only the field of the flag's name."""
    cluster = {"server": "https://a", "certificate-authority-data": b64(b"never looked at")}
    path = world.file("config", a_kubeconfig(cluster=cluster, user={"tokenFile": "never looked at"}))
    connection = world.kubectl(path, insecure_skip_tls_verify=True, token="t", tls_server_name="b")
    assert (connection.server, connection.tls.insecure, connection.tls.server_name) == ("https://a", True, "b")
    assert dict(await connection.credentials.headers()) == {"Authorization": "Bearer t"}
    (world.folder / "ca.crt").write_bytes(CA.certificate)
    connection = world.kubectl(path, certificate_authority=str(world.folder / "ca.crt"), token="t")
    assert connection.tls.ca.read() == CA.certificate


def test_a_token_is_not_shown():
    assert repr(ClusterFlags(token=SECRET, as_user="jane")) == "ClusterFlags(--token, --as)"


async def test_flags_name_other_entries(world):
    path = world.file(
        "config",
        a_kubeconfig()
        | {
            "clusters": [
                {"name": "c", "cluster": {"server": "https://a"}},
                {"name": "d", "cluster": {"server": "d:1"}},
            ],
            "users": [{"name": "u", "user": {}}, {"name": "v", "user": {"token": "of-v"}}],
        },
    )
    assert world.kubectl(path, cluster="d").server == "http://d:1"
    connection = world.kubectl(path, user="v", as_user="jane", as_uid="7", as_groups=("ops",))
    assert dict(await connection.credentials.headers()) == {
        "Authorization": "Bearer of-v",
        "Impersonate-User": "jane",
        "Impersonate-Uid": "7",
        "Impersonate-Group": "ops",
    }


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"cluster": "x"}, '--cluster: cluster: cluster "x" was not found in /config; known clusters: "c"'),
        ({"user": "x"}, '--user: user: user "x" was not found in /config; known users: "u"'),
        ({"server": "ftp://x"}, "--server: unsupported scheme 'ftp'"),
        ({"as_uid": "7"}, "--as-group and --as-uid need --as"),
        ({"as_user": "a\n"}, "have no control characters"),
        ({"client_certificate": "x"}, "client-key-data or client-key must be specified"),
    ],
)
def test_flags_that_cannot_be(world, flags, message):
    path = world.file("config", a_kubeconfig(cluster={"server": "https://a"}, user={}))
    with pytest.raises(ClientConfigError) as caught:
        world.kubectl(path, **flags)
    assert message in str(caught.value).replace(str(world.folder), "")


def test_a_context_by_name(world):
    contexts = [
        {"name": "x", "context": {"cluster": "c", "user": "u"}},
        {"name": "z", "context": {"cluster": "c", "namespace": "prod"}},
    ]
    path = world.file("config", a_kubeconfig(contexts=contexts))
    assert world.kubectl(path).namespace == "default"
    assert world.kubectl(path, context="z").namespace == "prod"
    with pytest.raises(ClientConfigError, match='context "w" does not exist; the contexts are "x", "z"'):
        world.kubectl(path, context="w")


@pytest.mark.parametrize(
    ("given", "server"),
    [
        ("https://a:6443/", "https://a:6443"),
        ("https://a/k8s/clusters/c-1/", "https://a/k8s/clusters/c-1"),
        ("https://a/path?query=1#fragment", "https://a/path"),
        ("a:8080", "http://a:8080"),
        ("localhost", "http://localhost"),
        ("https://[fd00::1]:6443", "https://[fd00::1]:6443"),
    ],
)
def test_servers(world, given, server):
    assert world.connect(cluster={"server": given}).server == server


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "no server is given"),
        ("ftp://a", "unsupported scheme 'ftp'"),
        ("https://", "host must be a URL or a host:port pair"),
        ("a:1/path", "a path needs https:// in front"),
        ("https://a:port", "host must be a URL or a host:port pair"),
        (f"https://me:{SECRET}/@a", "host must be a URL or a host:port pair"),
        (f"https://me:{SECRET}]@a", "host must be a URL or a host:port pair"),
        ("https://a b", "there are spaces or control characters in it"),
        ("https://a\x01", "there are spaces or control characters in it"),
        (f"https://me:{SECRET}@a", "a server cannot hold a user name or password"),
    ],
)
def test_invalid_servers(world, given, problem):
    text = world.refusal(cluster={"server": given})
    assert text.startswith('invalid configuration: /config: cluster "c": server: ')
    assert problem in text


def test_a_context_without_a_cluster(world):
    assert world.refusal(context={"user": "u"}) == (
        'invalid configuration: /config: context "x": cluster is not set; name one, or give --master'
    )


# --- users


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        pytest.param({}, [], id="anonymous"),
        pytest.param({"token": "t"}, [("Authorization", "Bearer t")], id="token"),
        pytest.param({"username": "me", "password": "pw"}, [("Authorization", "Basic bWU6cHc=")], id="basic"),
        pytest.param(
            {"token": "t", "exec": {"command": "/nope", "apiVersion": "client.authentication.k8s.io/v1beta1"}},
            [("Authorization", "Bearer t")],
            id="a token goes before a plugin",
        ),
        pytest.param(
            {"token": "t", "auth-provider": {"name": "gcp"}}, [("Authorization", "Bearer t")], id="and an auth-provider"
        ),
        pytest.param(
            {
                "token": "t",
                "as": "jane",
                "as-uid": "1",
                "as-groups": ["a", "b"],
                "as-user-extra": {"scopes": ["one", "two"], "acme.com/pro%ject": ["z"]},
            },
            [
                ("Impersonate-User", "jane"),
                ("Impersonate-Uid", "1"),
                ("Impersonate-Group", "a"),
                ("Impersonate-Group", "b"),
                ("Impersonate-Extra-scopes", "one"),
                ("Impersonate-Extra-scopes", "two"),
                ("Impersonate-Extra-acme.com%2Fpro%25ject", "z"),
                ("Authorization", "Bearer t"),
            ],
            id="impersonation",
        ),
    ],
)
async def test_headers(world, user, headers):
    connection = world.connect(user=user)
    assert sorted((await connection.credentials.headers()).items()) == sorted(headers)


async def test_credentials_are_not_sent_over_plain_http(world):
    user = {"token": SECRET, "as": "jane", "client-certificate": "/nope", "client-key": "/nope"}
    connection = world.connect(cluster={"server": "http://a"}, user={**user, "client-key": "/nope"})
    assert dict(await connection.credentials.headers()) == {"Impersonate-User": "jane"}
    assert connection.tls is None


@pytest.mark.parametrize("inline", [("certificate", "key"), ("certificate",), ("key",), ()], ids=str)
def test_client_certificates(world, inline):
    user = {}
    for name, data in (("certificate", ALICE.certificate), ("key", ALICE.key)):
        (world.folder / name).write_bytes(data)
        user |= {f"client-{name}-data": b64(data)} if name in inline else {f"client-{name}": name}
    connection = world.connect(user=user)
    shown = connection.credentials.client_certificate()
    assert (shown.certificate, shown.key) == (ALICE.certificate, ALICE.key)
    assert connection.tls.context() is connection.tls.context()


def test_base64_can_be_wrapped(world):
    text = b64(CA.certificate)
    wrapped = f"{text[:60]}\n{text[60:]}\r\n"
    connection = world.connect(cluster={"server": "https://a", "certificate-authority-data": wrapped})
    assert connection.tls.ca.read() == CA.certificate


async def test_an_exec_plugin_next_to_its_kubeconfig(world):
    script = world.folder / "bin" / "plugin"
    script.parent.mkdir()
    script.write_text(
        f"#!{sys.executable} -S\nimport json, os\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "info['status'] = {'token': info['spec']['cluster']['config']['audience'] + os.environ['SUFFIX']}\n"
        f"open({str(world.folder / 'info')!r}, 'w').write(json.dumps(info['spec']['cluster']))\n"
        "print(json.dumps(info))\n"
    )
    script.chmod(0o755)
    (world.folder / "ca.crt").write_bytes(CA.certificate)
    world.environ["HTTPS_PROXY"] = "http://from-environment"
    connection = world.connect(
        cluster={
            "server": "https://a/",
            "tls-server-name": "b",
            "certificate-authority": "ca.crt",
            "extensions": [
                {"name": "other", "extension": {"audience": "no"}},
                {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}},
            ],
        },
        user={
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1beta1",
                "command": "bin/plugin",
                "env": [{"name": "SUFFIX", "value": "-1"}],
                "provideClusterInfo": True,
            },
            "as": "jane",
        },
    )
    assert not (world.folder / "info").exists(), "plugins run with the first request"
    headers = await connection.credentials.headers()
    assert dict(headers) == {"Authorization": "Bearer me-1", "Impersonate-User": "jane"}
    assert json.loads((world.folder / "info").read_text()) == {
        "server": "https://a",
        "tls-server-name": "b",
        "certificate-authority-data": b64(CA.certificate),
        "config": {"audience": "me"},
    }


EXEC = {"command": "c", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        pytest.param({"token": SECRET, "username": "u"}, "more than one authentication method found", id="two methods"),
        pytest.param({"token": SECRET + "\n"}, "token: there are spaces, line ends or control", id="line end in token"),
        pytest.param({"tokenFile": "nope"}, "tokenFile: open /nope: no such file or directory", id="no token file"),
        pytest.param({"client-certificate-data": "!"}, "client-key-data or client-key must be specified", id="no key"),
        pytest.param(
            {"client-certificate-data": "!", "client-key-data": SECRET[:3]},
            "client-certificate-data: not valid base64",
            id="base64",
        ),
        pytest.param(
            {"client-certificate": "a", "client-certificate-data": "b", "client-key": "c", "client-key-data": "d"},
            "client-certificate-data and client-certificate are both specified",
            id="inline and file",
        ),
        pytest.param({"as-groups": ["a"]}, "without impersonating a user; set as, too", id="groups without a user"),
        pytest.param({"as": "a\r\nX: y"}, "control characters in what Impersonate-User would say", id="injection"),
        pytest.param({"auth-provider": {"name": "gcp"}}, "use the exec plugin gke-gcloud-auth-plugin", id="gcp"),
        pytest.param({"auth-provider": {"name": "azure"}}, "use the exec plugin kubelogin (kubelogin convert", id="az"),
        pytest.param({"auth-provider": {"name": "oidc"}}, "kubelogin (kubectl oidc-login", id="oidc"),
        pytest.param({"auth-provider": {"name": "acme"}}, '"acme" is not supported; use an exec plugin', id="provider"),
        pytest.param({"exec": EXEC, "auth-provider": {"name": "gcp"}}, "in combination with an exec plugin", id="both"),
        pytest.param({"exec": {**EXEC, "command": ""}}, "exec: command must be specified", id="no command"),
        pytest.param({"exec": {**EXEC, "apiVersion": ""}}, "exec: apiVersion must be specified: client", id="version"),
        pytest.param(
            {"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
            "v1alpha1 was removed in Kubernetes 1.24; use client.authentication.k8s.io/v1 or client",
            id="v1alpha1",
        ),
        pytest.param({"exec": {**EXEC, "apiVersion": "v9"}}, 'invalid apiVersion "v9", expected client', id="v9"),
        pytest.param(
            {"exec": {**EXEC, "interactiveMode": ""}}, "interactiveMode must be specified with apiVersion", id="no mode"
        ),
        pytest.param({"exec": {**EXEC, "interactiveMode": "Yes"}}, 'interactiveMode: "Yes" is unknown', id="mode"),
        pytest.param({"exec": {**EXEC, "env": [{"value": SECRET}]}}, "env: each variable needs a name", id="env"),
        pytest.param({"exec": {**EXEC, "env": [{"name": "A=B"}]}}, "env: no name may hold `=`", id="env name"),
        pytest.param({"exec": {**EXEC, "command": "a\0"}}, "cannot hold NUL characters", id="NUL in a command"),
        pytest.param({"exec": {**EXEC, "args": ["a\0"]}}, "cannot hold NUL characters", id="NUL in an argument"),
        pytest.param({"tokenFile": "a\0"}, "a file's name cannot hold a NUL character", id="NUL in a path"),
    ],
)
def test_invalid_users(world, user, problem):
    text = world.refusal(user=user)
    assert '/config: user "u": ' in text
    assert problem in text


def test_all_problems_are_reported_at_once(world):
    text = world.refusal(
        cluster={
            "server": "https://a",
            "proxy-url": "socks5://p",
            "insecure-skip-tls-verify": True,
            "certificate-authority": "x",
        },
        user={"token": SECRET, "password": SECRET, "as-uid": "1"},
    )
    assert text == (
        'invalid configuration: [/config: cluster "c": insecure-skip-tls-verify: specifying a root certificates file '
        "with the insecure flag is not allowed; remove it, or remove certificate-authority and "
        'certificate-authority-data, /config: cluster "c": proxy-url: socks5 proxies are not supported; use an http or '
        'https proxy, /config: user "u": more than one authentication method found: token and username/password, only '
        'one is allowed, /config: user "u": requesting as-uid, as-groups or as-user-extra without impersonating a '
        "user; set as, too]"
    )


def test_unused_entries_may_be_invalid(world):
    document = a_kubeconfig()
    document["clusters"].append({"name": "d", "cluster": {}})
    document["users"].append({"name": "v", "user": {"auth-provider": {"name": "gcp"}}})
    document["contexts"].append({"name": "z", "context": {"cluster": "d", "user": "v"}})
    assert world.kubectl(world.file("config", document)).server == "https://127.0.0.1:6443"


EVERYTHING = a_kubeconfig(
    cluster={
        "server": "https://a",
        "tls-server-name": "b",
        "certificate-authority-data": b64(CA.certificate),
        "proxy-url": "http://p",
        "extensions": [{"name": "e", "extension": {}}],
    },
    user={
        "token": "t",
        "tokenFile": "token",
        "client-certificate-data": b64(ALICE.certificate),
        "client-key-data": b64(ALICE.key),
        "as": "jane",
        "as-groups": ["g"],
        "as-user-extra": {"k": ["v"]},
        "exec": {**EXEC, "args": ["a"], "env": [{"name": "A", "value": "b"}]},
        "auth-provider": None,
    },
)


def places_in(value, path=()):
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from places_in(member, (*path, key))


def with_replaced(document, path, value):
    if not path:
        return value
    result = copy.deepcopy(document)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return result


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(list(places_in(EVERYTHING))), JSON)
def test_any_value_anywhere_connects_or_gives_an_error(place, value):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "token").write_text(SECRET)
        world = World(Path(folder))
        path = write_kubeconfig(Path(folder, "config"), with_replaced(EVERYTHING, place, value), as_json=True)
        try:
            connection = world.kubectl(path)
        except ClientConfigError as error:
            text = str(error)
        else:
            text = f"{path} {connection}"
    assert path in text
    assert SECRET not in text


# --- clusters


def test_tls_settings(world):
    (world.folder / "ca.crt").write_bytes(CA.certificate)
    tls = world.connect(cluster={"server": "https://a", "certificate-authority": "ca.crt", "tls-server-name": "b"}).tls
    assert (tls.ca.read(), tls.server_name, tls.insecure) == (CA.certificate, "b", False)
    assert world.connect(cluster={"server": "https://a", "insecure-skip-tls-verify": True}).tls.insecure


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"certificate-authority": "nope"}, "certificate-authority /nope: No such file or directory"),
        ({"certificate-authority-data": b64(b"x")}, "certificate-authority-data: no PEM certificate in it"),
        ({"certificate-authority-data": "%"}, "certificate-authority-data: not valid base64"),
        ({"certificate-authority-data": "a", "certificate-authority": "a"}, "are both specified; remove one of them"),
        ({"proxy-url": f"ftp://me:{SECRET}@p"}, "proxy-url: unsupported scheme 'ftp', must be http or https"),
    ],
)
def test_invalid_clusters(world, fields, problem):
    text = world.refusal(cluster={"server": "https://a", **fields})
    assert '/config: cluster "c": ' in text
    assert problem in text


def test_proxies(world):
    world.environ["HTTPS_PROXY"] = "http://from-environment"
    assert world.connect(cluster={"server": "https://a"}).proxy_url == "http://from-environment"
    assert world.connect(cluster={"server": "https://a", "proxy-url": "http://p"}).proxy_url == "http://p"
    assert world.connect(cluster={"server": "https://127.0.0.1"}).proxy_url is None


def test_secrets_are_not_in_reprs(world):
    connection = world.connect(
        cluster={"server": "https://a", "proxy-url": f"http://me:{SECRET}@p"},
        user={
            "token": SECRET,
            "client-certificate-data": b64(ALICE.certificate),
            "client-key-data": b64(ALICE.key),
        },
    )
    assert SECRET not in repr(connection)
    assert "PRIVATE" not in repr(connection)


# --- in a pod


@pytest.mark.parametrize("order", ["kubectl", "scheduler"])
async def test_in_a_pod(world, order):
    world.a_pod()
    connection = getattr(world, order)()
    assert (connection.server, connection.namespace) == ("https://10.0.0.1:443", "kube-system")
    assert dict(await connection.credentials.headers()) == {"Authorization": f"Bearer {SECRET}"}
    assert connection.tls.ca.read() == CA.certificate
    (world.folder / "account/token").write_text("rotated")
    assert await connection.credentials.refused() is True
    assert dict(await connection.credentials.headers()) == {"Authorization": "Bearer rotated"}


def test_a_pod_with_ipv6(world):
    world.a_pod(environ={**IN_CLUSTER, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert world.scheduler().server == "https://[fd00::1]:443"


@pytest.mark.parametrize(
    ("namespace", "environ", "expected"),
    [("ns\n", {}, "ns"), (None, {}, "default"), ("", {}, "default"), ("ns", {"POD_NAMESPACE": "mine"}, "mine")],
)
def test_a_pods_namespace(world, namespace, environ, expected):
    world.a_pod(namespace=namespace, environ={**IN_CLUSTER, **environ})
    assert world.scheduler().namespace == expected


@pytest.mark.parametrize("ca", [None, b"garbage"])
def test_a_pod_without_a_usable_ca_uses_system_certificates(world, caplog, ca):
    world.a_pod(ca=ca)
    assert world.scheduler().tls.ca is None
    assert f"Expected to load root CA config from {world.folder}/account/ca.crt, but got err: " in caplog.text


@pytest.mark.parametrize(
    ("token", "environ", "reason"),
    [
        (SECRET, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "KUBERNETES_SERVICE_PORT must be defined"),
        (None, IN_CLUSTER, "/account/token: no such file or directory"),
    ],
)
def test_an_incomplete_service_account(world, caplog, token, environ, reason):
    world.a_pod(token=token, environ=environ)
    with pytest.raises(ClientConfigError, match="is not in a pod") as caught:
        world.kubectl()
    assert reason in str(caught.value)
    with pytest.raises(ClientConfigError, match="no configuration has been provided"):
        world.scheduler()
    assert reason in caplog.text


def test_a_pod_with_an_empty_token(world):
    world.a_pod(token="")
    with pytest.raises(ClientConfigError, match=r"service account: .*/token is empty, expected a token"):
        world.scheduler()
