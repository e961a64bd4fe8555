"""Errors at startup are one line that says what is wrong and where, with exit code 1, never a traceback.

Conditions that may pass do not stop the program: it keeps retrying an API server that cannot be reached or refuses its
token. If KUBEBUILDER_ASSETS has a kube-scheduler, it must exit with the same code.
"""

import base64
import os
import re
import signal
import socket

import pytest
import yaml

from stowplan.app.cli.kube_scheduler import main
from stowplan.app.command_line.flags import flag_kinds
from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS
from support.http.certificates import make_ca, make_client_certificate, make_server_certificate
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.live.scheduler_doubles import FakeOpener, FakeScheduler
from support.processes import forked
from support.processes.scheduler_process import COMMAND, kube_scheduler
from support.processes.servers import NO_ASSETS, assets, free_port

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
CA = make_ca()
PAIR, OTHER = make_server_certificate(CA, ["localhost"]), make_server_certificate(CA, ["localhost"])
FILES = {
    "pair.crt": PAIR.certificate,
    "pair.key": PAIR.key,
    "other.key": OTHER.key,
    "garbage": b"\x00\x01 garbage\n",
    "no-text": b"\xff\xff\n",
    "empty": b"",
    "half.yaml": b"a: [b\n",
    "pod.yaml": b"apiVersion: v1\nkind: Pod\n",
    "list.yaml": b"- 1\n",
    "unknown-field.yaml": f"{CONFIG}foo: 1\n".encode(),
    "bad-type.yaml": f"{CONFIG}parallelism: many\n".encode(),
    "bad-value.yaml": f"{CONFIG}parallelism: 0\n".encode(),
    "old.yaml": CONFIG.replace("/v1", "/v1beta4").encode(),
    "unknown-plugin.yaml": f"{CONFIG}profiles: [{{plugins: {{filter: {{enabled: [{{name: Zz}}]}}}}}}]\n".encode(),
    "no-kubeconfig.yaml": f"{CONFIG}clientConnection: {{kubeconfig: /nope}}\n".encode(),
}
#: With authorities of its own, as loading those of the system takes long.
CLUSTER = {
    "server": "https://127.0.0.1:1",
    "certificate-authority-data": base64.b64encode(CA.certificate).decode(),
}
USERS = {
    "ok": {"token": "t"},
    "no-token": {"tokenFile": "/nope"},
    "two-ways": {"token": "t", "username": "u", "password": "p"},
    "no-key": {"client-certificate-data": base64.b64encode(PAIR.certificate).decode()},
    "wrong-key": {
        "client-certificate-data": base64.b64encode(PAIR.certificate).decode(),
        "client-key-data": base64.b64encode(OTHER.key).decode(),
    },
    "no-base64": {"client-certificate-data": "!", "client-key-data": "!"},
}
NEVER = "--authentication-tolerate-lookup-failure=false"
#: By name: flags, where {name} is a file of that name, {port} is free and {busy} is in use; and the expected message.
WRONG = {
    "no cluster": (["--kubeconfig="], "no configuration has been provided"),
    "no kubeconfig": (["--kubeconfig=/nope"], "stat /nope: no such file or directory"),
    "a folder for a kubeconfig": (["--kubeconfig={folder}"], "{folder}: is a directory"),
    "garbage for a kubeconfig": (["--kubeconfig={garbage}"], "{garbage}"),
    "an empty kubeconfig": (["--kubeconfig={empty}"], "invalid configuration: "),
    "half a kubeconfig": (["--kubeconfig={half.yaml}"], "{half.yaml}"),
    "a pod for a kubeconfig": (["--kubeconfig={pod.yaml}"], "{pod.yaml}"),
    "a token file that is not there": (["--kubeconfig={no-token}"], "open /nope: no such file or directory"),
    "two ways to be somebody": (["--kubeconfig={two-ways}"], "more than one authentication method found"),
    "a client certificate without a key": (
        ["--kubeconfig={no-key}"],
        "client-key-data or client-key must be specified",
    ),
    "a client certificate that is no base64": (["--kubeconfig={no-base64}"], "base64"),
    "a master that is none": (["--master=::::"], "--master: host must be a URL or a host:port pair"),
    "no configuration": (["--config=/nope"], "open /nope: no such file or directory"),
    "garbage for a configuration": (["--config={garbage}"], "yaml: control characters are not allowed"),
    "no text for a configuration": (["--config={no-text}"], "{no-text}: not UTF-8 text"),
    "a folder for a configuration": (["--config={folder}"], "{folder}: is a directory"),
    "half a configuration": (["--config={half.yaml}"], "yaml: line "),
    "a list for a configuration": (["--config={list.yaml}"], "json: cannot unmarshal"),
    "a pod for a configuration": (["--config={pod.yaml}"], "Pod"),
    "a configuration with a field too many": (["--config={unknown-field.yaml}"], "foo"),
    "a configuration with a text for a number": (["--config={bad-type.yaml}"], "parallelism"),
    "a configuration with a wrong number": (["--config={bad-value.yaml}"], "parallelism"),
    "a configuration of a version that never was": (["--config={old.yaml}"], "v1beta4"),
    "a configuration without its kubeconfig": (["--config={no-kubeconfig.yaml}"], "stat /nope: no such file"),
    "a port that is taken": (["--secure-port={busy}"], "{busy}: bind: address already in use"),
    "an address of somebody else": (["--bind-address=192.0.2.1", "--secure-port={port}"], "cannot assign requested"),
    "a port below all": (["--secure-port=-1"], "--secure-port -1 must be between 0 and 65535"),
    "a port above all": (["--secure-port=70000"], "--secure-port 70000 must be between 1 and 65535"),
    "certificates that are not there": (
        ["--tls-cert-file=/nope.crt", "--tls-private-key-file=/nope.key", "--secure-port={port}"],
        "open /nope.crt: no such file or directory",
    ),
    "a certificate without a key": (
        ["--tls-cert-file={pair.crt}", "--secure-port={port}"],
        "missing filename for serving cert",
    ),
    "a key without a certificate": (
        ["--tls-private-key-file={pair.key}", "--secure-port={port}"],
        "missing filename for serving cert",
    ),
    "a certificate with the key of another": (
        ["--tls-cert-file={pair.crt}", "--tls-private-key-file={other.key}", "--secure-port={port}"],
        "private key does not match public key",
    ),
    "garbage for a certificate": (
        ["--tls-cert-file={garbage}", "--tls-private-key-file={pair.key}", "--secure-port={port}"],
        "failed to find any PEM data in certificate input",
    ),
    "a further certificate that is not there": (
        ["--tls-sni-cert-key=/nope,/nope", "--secure-port={port}"],
        "failed to load SNI cert and key: open /nope: no such file or directory",
    ),
    "a file for a folder of certificates": (["--cert-dir={empty}", "--secure-port={port}"], "{empty}"),
    "a folder of certificates that cannot be": (["--cert-dir=/proc/nope", "--secure-port={port}"], "/proc/nope"),
    "an unknown version of TLS": (["--tls-min-version=VersionTLS14", "--secure-port={port}"], "unknown tls version"),
    "an unknown cipher": (["--tls-cipher-suites=FOO", "--secure-port={port}"], "Cipher suite FOO not supported"),
    "no authorities of clients": (
        ["--client-ca-file=/nope", "--secure-port={port}"],
        "unable to load client CA provider: open /nope: no such file or directory",
    ),
    "garbage for authorities of clients": (
        ["--client-ca-file={garbage}", "--secure-port={port}"],
        "unable to load client CA provider: ",
    ),
    "no authorities of proxies": (["--requestheader-client-ca-file=/nope", "--secure-port={port}"], "open /nope: "),
    "nobody to ask who somebody is": (
        ["--authentication-kubeconfig=/nope", "--secure-port={port}"],
        "failed to get delegated authentication kubeconfig: stat /nope: no such file or directory",
    ),
    "nobody to ask what somebody may": (
        ["--authorization-kubeconfig=/nope", "--secure-port={port}"],
        "failed to get delegated authorization kubeconfig: stat /nope: no such file or directory",
    ),
    "an API server that is not there to look up authorities": (
        ["--authentication-kubeconfig={ok}", NEVER, "--secure-port={port}"],
        "unable to load configmap based request-header-client-ca-file: ",
    ),
    "paths with a star within": (
        ["--authorization-always-allow-paths=/a*b", "--secure-port={port}"],
        r"only trailing * allowed in \"a*b\"",
    ),
    "a lock of old": (["--leader-elect-resource-lock=endpoints"], "endpoints lock is removed, migrate to leases"),
    "a burst below zero": (["--kube-api-burst=-1"], "burst is required to be greater than 0"),
    "a full disk for the configuration": (["--write-config-to=/dev/full"], "write /dev/full: no space left on device"),
    "a folder for the configuration's copy": (["--write-config-to={folder}"], "open {folder}: is a directory"),
    "no folder for the configuration's copy": (
        ["--write-config-to=/nope/x"],
        "open /nope/x: no such file or directory",
    ),
    "no list of labels": (["--allow-metric-labels-manifest=/nope"], "open /nope: no such file or directory"),
    "garbage for a list of labels": (["--allow-metric-labels-manifest={garbage}"], "{garbage}"),
    "names of metrics that are none": (["--disabled-metrics=a-b,c-d"], r"got \"a-b\""),
}
#: Stricter than the reference, which starts and keeps trying something that cannot work.
STRICTER = {
    "a client certificate with the key of another": (["--kubeconfig={wrong-key}"], "does not belong to"),
    "a plugin that nobody knows": (["--config={unknown-plugin.yaml}"], "Zz"),
    # Some distributions only warn.
    "a gate that nobody knows": (["--feature-gates=Nope=true"], "unrecognized feature gate: Nope"),
}
REFERENCE = None if assets() is None else assets() / "kube-scheduler"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Names in braces to files and ports."""
    folder = tmp_path_factory.mktemp("files")
    found = {"folder": str(folder)}
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
        found[name] = str(folder / name)
    for name, user in USERS.items():
        found[name] = write_kubeconfig(folder / name, a_kubeconfig(user=user, cluster=CLUSTER))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield {**found, "busy": str(taken.getsockname()[1])}


def filled(text, places):
    for name, place in places.items():
        text = text.replace(f"{{{name}}}", place)
    return text.replace("{port}", str(free_port())) if "{port}" in text else text


def ended(program, flags):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
    return forked.run([*program, *flags], capture_output=True, text=True, timeout=60, check=False, env=environ)


def started_with(program, flags, places):
    return ended(program, arguments(flags, places))


def arguments(flags, places):
    base = ["--bind-address=127.0.0.1", "--secure-port=0", f"--kubeconfig={places['ok']}"]
    return [*base, *(filled(flag, places) for flag in flags)]


@pytest.mark.parametrize("name", WRONG)
def test_one_line_says_what_is_wrong_and_where(places, elsewhere, capsys, name):
    flags, said = WRONG[name]
    assert main(arguments(flags, places)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    check_last_line(err, filled(said, places))


@pytest.mark.parametrize("name", [*WRONG][::8])
def test_the_process_exits_with_1(places, name):
    flags, said = WRONG[name]
    finished = started_with(COMMAND, flags, places)
    assert (finished.returncode, finished.stdout) == (1, "")
    check_last_line(finished.stderr, filled(said, places))


@pytest.mark.skipif(REFERENCE is None or not REFERENCE.exists(), reason=NO_ASSETS)
@pytest.mark.parametrize("name", WRONG)
def test_the_reference_exits_with_1(places, name):
    finished = started_with([str(REFERENCE)], WRONG[name][0], places)
    assert (finished.returncode, finished.stdout) == (1, "")


@pytest.mark.parametrize("name", STRICTER)
def test_permanent_errors_are_reported_at_once(places, name):
    flags, said = STRICTER[name]
    finished = started_with(COMMAND, flags, places)
    assert (finished.returncode, finished.stdout) == (1, "")
    check_last_line(finished.stderr, said)


def check_last_line(stderr, said):
    """The error is the last line; warnings may precede it."""
    *before, last = stderr.splitlines()
    assert re.match(r'E\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \w+\.py:\d+\] "command failed" err="', last), stderr
    assert said in last
    assert [line for line in before if not re.match(r"[IW]\d{4} ", line)] == []


#: The forms of errors: in the log, of flags, of log options.
ERROR_LINE = re.compile(r'^(E.*"command failed" err=|Error: |\S.*: (Invalid value|Forbidden): )', re.MULTILINE)
RANDOM_VALUES = ["", "nonsensé,=:{}[]*", "-1", "\u2028", "x" * 5000, "a\nb", "0", "%s%n{}"]


def ending_at_once():
    return FakeScheduler(then=lambda: os.kill(os.getpid(), signal.SIGTERM))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Files of any name may be written here, and no request leaves the process."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("KUBERNETES")]:
        monkeypatch.delenv(name)


#: One flag is tested for all booleans, which share a parser that refuses every other value.
BOOLEANS = [flag.name for flag in KUBE_SCHEDULER_FLAGS if flag.kind is flag_kinds.BOOL]
TESTED_FLAGS = [flag.name for flag in KUBE_SCHEDULER_FLAGS if flag.name not in BOOLEANS[1:]]


@pytest.mark.parametrize("text", RANDOM_VALUES, ids=ascii)
@pytest.mark.parametrize("flag", [name for name in TESTED_FLAGS if name != "help"])
def test_random_values_cause_no_traceback(places, elsewhere, capsys, flag, text):
    """If the flag accepts the value, the configuration cannot be written, so the program still exits."""
    port = [] if flag in ("secure-port", "bind-address") else [f"--secure-port={free_port()}"]
    if not flag.startswith(("tls-", "cert-dir")):
        # Making a certificate would take most of the time.
        port += [f"--tls-cert-file={places['pair.crt']}", f"--tls-private-key-file={places['pair.key']}"]
    base = [f"--kubeconfig={places['ok']}", "--bind-address=127.0.0.1", "--secure-port=0", "--write-config-to=/nope/x"]
    code = main([*base, *port, f"--{flag}={text}"], opener=FakeOpener(ending_at_once))
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    if code == 0:
        assert flag == "write-config-to" or (flag, text) == ("version", "")
    else:
        assert code == 1
        assert out == ""
        assert ERROR_LINE.search(err)


# --- transient conditions


@pytest.mark.parametrize(
    ("user", "cluster", "said"),
    [
        pytest.param({}, {}, "connection refused", id="connection refused"),
        pytest.param({}, {"server": "https://nowhere.invalid:6443"}, "does not resolve", id="unknown host"),
    ],
)
def test_it_waits_for_an_unreachable_api_server(tmp_path, user, cluster, said):
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", a_kubeconfig(user=user, cluster={**CLUSTER, **cluster}))
    check_waits_and_exits(tmp_path, kubeconfig, said)


@pytest.mark.parametrize(
    ("user", "authority", "said"),
    [
        pytest.param({"token": "wrong"}, None, "nauthorized", id="a wrong token"),
        pytest.param({"token": "wrong"}, CA, "not trusted", id="another authority"),
        pytest.param("stale", None, "nauthorized", id="a certificate of another authority"),
    ],
)
def test_refused_credentials_are_retried(embedded, tmp_path, user, authority, said):
    document = yaml.safe_load(embedded.kubeconfig.read_text())
    if user == "stale":
        issued = make_client_certificate(CA, "system:kube-scheduler")
        user = {
            "client-certificate-data": base64.b64encode(issued.certificate).decode(),
            "client-key-data": base64.b64encode(issued.key).decode(),
        }
    document["users"][0]["user"] = user
    if authority is not None:
        data = base64.b64encode(authority.certificate).decode()
        document["clusters"][0]["cluster"]["certificate-authority-data"] = data
    check_waits_and_exits(tmp_path, write_kubeconfig(tmp_path / "kubeconfig", document), said)


def check_waits_and_exits(folder, kubeconfig, said):
    with kube_scheduler(folder, kubeconfig, "--logging-format=text") as scheduler:
        scheduler.until(said)
        scheduler.until("Serving securely on")
        assert scheduler.ask("/healthz")[0] == 200
        assert scheduler.ask("/readyz")[0] == 500
        assert scheduler.process.poll() is None
        assert scheduler.end() == 0
        assert "Traceback" not in scheduler.log.read_text()


def test_a_full_disk_does_not_stop_scheduling(embedded, tmp_path):
    """Lines are lost; pods are not."""
    port = free_port()
    command = [*COMMAND, f"--kubeconfig={embedded.kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
    command += ["-v=10", "--leader-elect-resource-name=full-disk"]
    # Python's own buffers also hold what could not be written.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with (
        open("/dev/full", "wb", buffering=0) as full,
        forked.ForkedProcess(command, stdout=full, stderr=full, env=buffered) as process,
    ):
        try:
            lease = ("-n", "kube-system", "get", "lease", "full-disk", "-o", "jsonpath={.spec.holderIdentity}")
            for _ in range(600):
                if process.poll() is not None or embedded.kubectl(*lease, check=False).stdout:
                    break
            assert process.poll() is None
            assert embedded.kubectl(*lease).stdout
        finally:
            process.terminate()
            assert process.wait(30) == 0
