"""The command line compared with that of the reference's kube-scheduler, for command lines that exit by themselves.

Exit code and last line are compared. Requires KUBEBUILDER_ASSETS.
"""

import re
import shlex
import subprocess

import pytest

from stowplan.app.cli.kube_scheduler import main
from stowplan.net.serving.tls.certificates import self_signed
from support.http.kubeconfigs import a_kubeconfig, write_kubeconfig
from support.processes.beside_reference import AS_REFERENCE, OUR_FLAGS
from support.processes.servers import assets, free_port

REFERENCE = assets() and assets() / "kube-scheduler"

pytestmark = pytest.mark.skipif(
    REFERENCE is None or not REFERENCE.exists(), reason="KUBEBUILDER_ASSETS has no kube-scheduler"
)

#: {folder} is replaced by the files of `folder`, -k by a kubeconfig of an unreachable server and a free port.
LINES = """
--nope
-x
-vx
--config
--leader-elect-lease-duration=5
--leader-elect=maybe
-v=x
--vmodule=foo
--version
--version=foo
--kube-api-burst=x
--kube-api-qps=x
--bind-address=foo
--tls-curve-preferences=a
--tls-sni-cert-key=foo
--tls-sni-cert-key=a,b:
--allow-metric-labels=foo
foo
foo bar
--feature-gates=X
--feature-gates=AtomicFIFO=maybe
--feature-gates=DynamicResourceAllocation=false
--feature-gates=foo:X=true
--feature-gates=AtomicFIFO=true,kube:AtomicFIFO=true
--feature-gates=GangScheduling=true
--emulated-version=1.34 --feature-gates=DRADeviceTaints=true
--emulated-version=1.35 --feature-gates=AtomicFIFO=true
--emulated-version=1.35 --feature-gates=AtomicFIFO=false
--emulated-version=1.35.1
--emulated-version=1.35,1.34
--emulated-version=abc
--emulated-version=foo=1.35
--logging-format=xml
--logging-format=json --vmodule=a=1
--log-flush-frequency=0
--log-json-split-stream
--log-text-split-stream --log-text-info-buffer-size=1
--secure-port=-1
--secure-port=70000
--secure-port=-1 --requestheader-username-headers=a, --disabled-metrics=a-b
--requestheader-username-headers=a,
--requestheader-uid-headers=x-uid
--show-hidden-metrics-for-version=1.20
--disabled-metrics=a-b
--allow-metric-labels=foo=bar
--allow-metric-labels-manifest=/nope
--allow-metric-labels=m,l=v --allow-metric-labels-manifest=/nope
--secure-port=0
--config=/nonexist
--config={folder}/wrong.yaml
--config={folder}/empty
--kubeconfig=/nope
-k --tls-min-version=VersionTLS14
-k --tls-cipher-suites=FOO,BAR --tls-min-version=x
-k --tls-curve-preferences=99999
-k --tls-curve-preferences=29,29
-k --tls-cert-file={folder}/tls.crt
-k --tls-private-key-file={folder}/tls.key
-k --tls-cert-file=/nope --tls-private-key-file=/nope2
-k --tls-cert-file={folder}/empty --tls-private-key-file={folder}/tls.key
-k --tls-cert-file={folder}/wrong.yaml --tls-private-key-file={folder}/tls.key
-k --tls-cert-file={folder}/tls.crt --tls-private-key-file={folder}/other.key
-k --tls-cert-file={folder}/tls.crt --tls-private-key-file={folder}/wrong.yaml
-k --tls-sni-cert-key=/nope,/nope2
-k --bind-address=203.0.113.7 --secure-port=1
-k --authentication-kubeconfig=/nope
-k --authorization-kubeconfig=/nope
-k --client-ca-file=/nope
-k --client-ca-file={folder}/wrong.yaml
-k --requestheader-client-ca-file=/nope
-k --authorization-always-allow-paths=a*b
-k --secure-port=0 --leader-elect-resource-lock=endpoints
-k --secure-port=0 --leader-elect-resource-lock=configmapsleases
-k --secure-port=0 --leader-elect-resource-lock=x
-k --secure-port=0 --kube-api-burst=-1
-k --secure-port=0 --write-config-to=/nope/x
-k --secure-port=0 --write-config-to={folder}/out.yaml
--config={folder}/right.yaml --leader-elect-resource-lock=x
--config={folder}/right.yaml --leader-elect-lease-duration=1s
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    kubeconfig = write_kubeconfig(folder / "kubeconfig", a_kubeconfig(cluster={"server": "http://127.0.0.1:1"}))
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    (folder / "right.yaml").write_text(f"{head}clientConnection: {{kubeconfig: {kubeconfig}}}\n")
    (folder / "wrong.yaml").write_text(f"{head}parallelism: -1\n")
    (folder / "empty").touch()
    pair, other = self_signed(["localhost"], wall_clock=2e9), self_signed(["localhost"], wall_clock=2e9)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    (folder / "other.key").write_bytes(other.key)
    return folder


VERSION = re.compile(r"(?<=^Kubernetes v)1\.\d+\.\d+(?=\n)")


def last_line(err):
    # A distribution may put a field of its own in front.
    text = re.sub(r"^(?:\S+ )?[IWEF]\d{4} \S+ +\d+ \S+\] ", "", err, flags=re.MULTILINE)
    found = text.rfind('"command failed"')
    return text[found:].strip() if found >= 0 else (text.splitlines() or [""])[-1]


@pytest.mark.parametrize("line", LINES.split("\n")[1:-1])
def test_exit_code_and_last_line_are_the_same(line, folder, capsys):
    reaching = f"--kubeconfig={folder}/kubeconfig --bind-address=127.0.0.1 --secure-port={free_port()} "
    arguments = shlex.split(line.replace("-k ", reaching).format(folder=folder))
    theirs = subprocess.run([REFERENCE, *arguments], capture_output=True, text=True, timeout=60, check=False)
    emulated = () if "--emulated-version" in line else (AS_REFERENCE,)
    code = main([*emulated, *arguments])
    ours = capsys.readouterr()
    assert (code, last_line(ours.err)) == (theirs.returncode, last_line(theirs.stderr))
    # The binaries' own versions differ, also where one emulates the other's.
    assert VERSION.sub("", ours.out) == VERSION.sub("", theirs.stdout)


def test_the_written_configuration_is_the_same(folder, capsys):
    files = folder / "theirs.yaml", folder / "ours.yaml"
    common = [f"--kubeconfig={folder}/kubeconfig", "--secure-port=0"]
    subprocess.run([REFERENCE, *common, f"--write-config-to={files[0]}"], capture_output=True, timeout=60, check=True)
    assert main([AS_REFERENCE, *common, f"--write-config-to={files[1]}"]) == 0
    assert files[1].read_text() == files[0].read_text()


FLAG = re.compile(r"^ {2,6}(?:-(\w), )?--([\w-]+)(?: (\S+))?  ")


def flags_of(text):
    """Name -> section, letter, type, default."""
    found, section = {}, ""
    for line in text.splitlines():
        if line.endswith(" flags:"):
            section = line
        elif match := FLAG.match(line):
            default = re.search(r"\(default (.*)\)$", line)
            found[match[2]] = (section, match[1], match[3], default and default[1])
    return found


def test_help_has_the_same_flags(capsys):
    theirs = subprocess.run([REFERENCE, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert main(["--help"]) == 0
    ours = flags_of(capsys.readouterr().out)
    missing = flags_of(theirs).items() - ours.items()
    # Flags that a distribution adds.
    assert {name for name, _ in missing} <= {"unsupported-kube-api-over-localhost"}
    assert ours.keys() - flags_of(theirs).keys() == OUR_FLAGS
