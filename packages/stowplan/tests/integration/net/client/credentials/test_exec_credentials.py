"""Credential plugins as real programs."""

import asyncio
import json
import logging
import os
import subprocess
import sys

import pytest

from stowplan.net.client.client_errors import CredentialsError
from stowplan.net.client.credentials.exec_credentials import ExecCredentials, ExecPlugin, printable
from stowplan.net.client.credentials.request_credentials import UserCredentials
from stowplan.net.client.endpoint.tls import TlsSettings
from support.http import certificates
from support.http.kubeconfigs import Clock

V1 = "client.authentication.k8s.io/v1"
CA = certificates.make_ca()
SECRET = "s3cr3t-t0k3n"


class Plugin:
    """A program in a folder of its own; each run appends a line to the file `runs`."""

    def __init__(self, folder):
        self.folder = folder
        self.runs_file = folder / "runs"
        self.command = str(folder / "plugin")
        self.clock = Clock()

    def write(self, body):
        lines = [
            f"#!{sys.executable} -S",
            "import json, os, sys",
            f"folder = {str(self.folder)!r}",
            "with open(folder + '/runs', 'a') as file: file.write('run\\n')",
            "runs = len(open(folder + '/runs').readlines())",
            "def answer(**status):",
            f"    print(json.dumps({{'kind': 'ExecCredential', 'apiVersion': {V1!r}, 'status': status}}))",
            body,
        ]
        path = self.folder / "plugin"
        path.write_text("\n".join(lines))
        path.chmod(0o755)

    @property
    def runs(self):
        return len(self.runs_file.read_text().splitlines()) if self.runs_file.exists() else 0

    def source(self, *, is_terminal=lambda: False, environ=None, timeout=None, **options):
        options = {"command": self.command, "api_version": V1, "interactive_mode": "Never", **options}
        return ExecCredentials(
            ExecPlugin(where='config: user "u"', **options),
            environ=dict(os.environ) if environ is None else environ,
            wall_clock=self.clock,
            is_terminal=is_terminal,
            timeout=timeout,
        )

    def credentials(self, **options):
        source = self.source(**options)
        return UserCredentials(source, certificate=source)


@pytest.fixture
def plugin(tmp_path):
    return Plugin(tmp_path)


async def failure(credentials):
    with pytest.raises(CredentialsError) as caught:
        await credentials.headers()
    assert SECRET not in str(caught.value)
    assert str(caught.value).startswith('config: user "u": exec')
    return str(caught.value)


async def test_a_token_without_an_expiry_is_cached_forever(plugin):
    plugin.write("answer(token=f'token-{runs}')")
    credentials = plugin.credentials()
    for _ in range(3):
        assert dict(await credentials.headers()) == {"Authorization": "Bearer token-1"}
        plugin.clock.advance(1e9)
    assert plugin.runs == 1


@pytest.mark.parametrize(("now", "runs"), [(59, 1), (60, 1), (60.5, 2)])
async def test_an_expired_token_runs_the_plugin_again(plugin, now, runs):
    plugin.write("answer(token=f'token-{runs}', expirationTimestamp='1970-01-01T00:01:00Z')")
    plugin.clock.now = 0
    credentials = plugin.credentials()
    await credentials.headers()
    plugin.clock.now = now
    assert (await credentials.headers())["Authorization"] == f"Bearer token-{runs}"
    assert plugin.runs == runs


async def test_arguments_and_environment(plugin):
    plugin.write(
        "env = [os.environ.get(k) for k in ('OURS', 'THEIRS', 'BOTH')]\n"
        "answer(token=json.dumps([sys.argv[1:], env], separators=(',', ':')).replace(' ', '_'))"
    )
    environ = {"OURS": "1", "BOTH": "ours"}
    credentials = plugin.credentials(args=("a", "b c"), env={"THEIRS": "2", "BOTH": "theirs"}, environ=environ)
    header = (await credentials.headers())["Authorization"].removeprefix("Bearer ")
    assert json.loads(header) == [["a", "b_c"], ["1", "2", "theirs"]]


async def test_standard_input_is_empty_without_a_terminal(plugin):
    plugin.write("answer(token=f'read-{len(sys.stdin.read())}')")
    headers = await plugin.credentials(interactive_mode="IfAvailable").headers()
    assert headers["Authorization"] == "Bearer read-0"


async def test_a_command_is_found_on_path(plugin, monkeypatch):
    plugin.write("answer(token='t')")
    monkeypatch.setenv("PATH", "/nowhere")
    environ = {"PATH": f"/nowhere:{plugin.folder}"}
    assert await plugin.credentials(command="plugin", environ=environ).headers()


# -- refused tokens


async def test_an_unchanged_token_after_a_refusal_is_not_requested_again(plugin):
    plugin.write("answer(token='same')")
    credentials = plugin.credentials()
    await credentials.headers()
    assert await credentials.refused() is False
    assert plugin.runs == 2


async def test_a_refused_token_is_not_reused_without_a_new_one(plugin):
    plugin.write("answer(token=f'token-{runs}') if runs in (1, 4) else sys.exit(9)")
    credentials = plugin.credentials()
    used = await credentials.headers()
    with pytest.raises(CredentialsError, match="exit code 9"):
        await credentials.refused(used)
    assert "exit code 9" in await failure(credentials)
    assert (await credentials.headers())["Authorization"] == "Bearer token-4"


async def test_a_late_refusal_of_an_old_token_does_not_run_the_plugin(plugin):
    plugin.write("answer(token=f'token-{runs}')")
    credentials = plugin.credentials()
    used = await credentials.headers()
    await credentials.refused(used)
    assert await credentials.refused(used) is True
    assert plugin.runs == 2


# -- concurrent callers


async def test_callers_share_one_run(plugin):
    plugin.write("answer(token=f'token-{runs}')")
    credentials = plugin.credentials()
    headers = await asyncio.gather(*(credentials.headers() for _ in range(10)))
    assert {header["Authorization"] for header in headers} == {"Bearer token-1"}
    used = headers[0]
    assert all(await asyncio.gather(*(credentials.refused(used) for _ in range(10))))
    assert plugin.runs == 2


async def test_concurrent_callers_share_a_failure_and_the_next_caller_retries(plugin):
    plugin.write("answer(token='t') if runs > 1 else sys.exit(3)")
    credentials = plugin.credentials()
    results = await asyncio.gather(*(credentials.headers() for _ in range(5)), return_exceptions=True)
    assert {type(result) for result in results} == {CredentialsError}
    assert plugin.runs == 1
    assert (await credentials.headers())["Authorization"] == "Bearer t"


async def test_a_caller_gets_its_answer_even_if_the_next_run_starts_first(plugin):
    """With a clock that is ahead, every answer has expired on arrival: the first caller that wakes asks again at
    once."""
    plugin.write("answer(token=f'token-{runs}', expirationTimestamp='1970-01-01T00:01:00Z')")
    plugin.clock.now = 3600
    credentials = plugin.credentials()

    async def twice():
        return [(await credentials.headers())["Authorization"] for _ in range(2)]

    answers = await asyncio.gather(*(twice() for _ in range(3)))
    assert answers == [["Bearer token-1", "Bearer token-2"]] * 3


async def test_the_event_loop_runs_while_the_plugin_runs(plugin):
    """The plugin exits only after this loop, which waits for it, has written to it."""
    os.mkfifo(plugin.folder / "fifo")
    plugin.write("answer(token=open(folder + '/fifo').read())")
    waiting = asyncio.ensure_future(plugin.credentials().headers())
    await until(lambda: written(plugin.folder / "fifo", b"from-the-loop"))
    assert (await waiting)["Authorization"] == "Bearer from-the-loop"


def written(fifo, data):
    """Write to a pipe; False if no process reads it yet."""
    try:
        descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    os.write(descriptor, data)
    os.close(descriptor)
    return True


def is_alive(pid):
    """A killed process that its parent has not reaped counts as dead, too."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until(happened):
    """Run the loop until an event in another process."""
    async with asyncio.timeout(60):  # only ever reached by a defect
        while not happened():  # noqa: ASYNC110 - nothing in this process could set an event
            await asyncio.sleep(0)


FOREVER = """
import subprocess
child = subprocess.Popen(['sleep', '1000'])
open(folder + '/pid.tmp', 'w').write(f'{os.getpid()} {child.pid}')
os.rename(folder + '/pid.tmp', folder + '/pid')
child.wait()
"""


async def pids(plugin):
    await until((plugin.folder / "pid").exists)
    return [int(pid) for pid in (plugin.folder / "pid").read_text().split()]


async def test_a_cancelled_caller_leaves_the_run_to_the_next_one(plugin):
    os.mkfifo(plugin.folder / "fifo")
    plugin.write("answer(token=open(folder + '/fifo').read())")
    credentials = plugin.credentials()
    first = asyncio.ensure_future(credentials.headers())
    await until(lambda: plugin.runs == 1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.ensure_future(credentials.headers())
    await until(lambda: written(plugin.folder / "fifo", b"in-the-end"))
    assert (await second)["Authorization"] == "Bearer in-the-end"
    assert plugin.runs == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("at_once", [False, True])
def test_no_process_outlives_the_event_loop(plugin, at_once, monkeypatch):
    """Not even with a child of its own, started before the loop ran again."""
    plugin.write(FOREVER)
    if at_once:
        monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: busy(plugin, POPEN(*args, **options)))

    async def give_up():
        waiting = asyncio.ensure_future(plugin.credentials().headers())
        started = await pids(plugin)
        waiting.cancel()
        return started

    started = asyncio.run(give_up())
    # Killed processes remain until the system reaps them.
    asyncio.run(until(lambda: not any(map(is_alive, started))))


POPEN = subprocess.Popen


def busy(plugin, process):
    """Return from starting it once it is running."""
    while not (plugin.folder / "pid").exists():
        os.sched_yield()
    return process


async def test_a_hanging_plugin_is_killed(plugin):
    plugin.write(FOREVER)
    text = await failure(plugin.credentials(timeout=0.0))
    assert text.endswith("did not finish within 0 seconds and was killed")


# -- errors


async def test_a_missing_program_comes_with_its_hint(plugin):
    text = await failure(plugin.credentials(command="no-such-plugin", install_hint="brew \x1b[1minstall it"))
    assert "exec: executable no-such-plugin not found" in text
    assert text.endswith("\n\nbrew U+001B[1minstall it")


async def test_a_program_in_the_current_folder_is_not_used(plugin, monkeypatch):
    plugin.write("answer(token='t')")
    monkeypatch.chdir(plugin.folder)
    text = await failure(plugin.credentials(command="plugin", environ={"PATH": "."}))
    assert "executable plugin not found" in text
    assert plugin.runs == 0


async def test_a_program_that_cannot_be_executed(plugin):
    (plugin.folder / "plugin").write_bytes(b"\x00no program")
    (plugin.folder / "plugin").chmod(0o755)
    text = await failure(plugin.credentials())
    assert f"exec {plugin.command}: exec format error" in text


@pytest.mark.parametrize("code", [0, 7])
async def test_the_plugins_output_is_neither_shown_nor_logged(plugin, caplog, code):
    """It may contain tokens; a user at a terminal sees its standard error there."""
    plugin.write(f"print('{SECRET}', file=sys.stderr)\n{f'sys.exit({code})' if code else PLAIN_ANSWER}")
    with caplog.at_level(logging.DEBUG):
        if code:
            text = await failure(plugin.credentials())
            assert f"exec: executable {plugin.command} failed with exit code 7; its output is not shown" in text
            assert SECRET not in text
        else:
            await plugin.credentials().headers()
    assert SECRET not in caplog.text
    assert "standard error" not in caplog.text


PLAIN_ANSWER = "answer(token='t')"


async def test_invalid_answers(plugin):
    plugin.write(f"print(json.dumps(dict(kind='Pod', status=dict(token='{SECRET}'))))")
    text = await failure(plugin.credentials())
    assert text.endswith(f"exec plugin {plugin.command}: the plugin returned another kind than ExecCredential")


# --- terminals


async def test_a_plugin_that_needs_a_terminal_does_not_run_without_one(plugin):
    plugin.write("answer(token='t')")
    text = await failure(plugin.credentials(interactive_mode="Always"))
    assert "exec plugin cannot support interactive mode: standard input is not a terminal" in text
    assert plugin.runs == 0


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [
        ("Never", True, False),
        ("Never", False, False),
        ("IfAvailable", True, True),
        ("IfAvailable", False, False),
        ("Always", True, True),
    ],
)
async def test_interactive(plugin, mode, terminal, interactive):
    plugin.write(
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "answer(token=str([info['spec']['interactive'], os.getsid(0) == os.getpid()]).replace(' ', ''))"
    )
    headers = await plugin.credentials(interactive_mode=mode, is_terminal=lambda: terminal).headers()
    assert headers["Authorization"] == f"Bearer [{interactive},{not interactive}]"


# --- certificates


async def test_a_certificate_creates_a_new_tls_context(plugin):
    pairs = [certificates.make_client_certificate(CA, name) for name in ("one", "two")]
    for number, pair in enumerate(pairs, start=1):
        (plugin.folder / f"crt-{number}").write_bytes(pair.certificate)
        (plugin.folder / f"key-{number}").write_bytes(pair.key)
    plugin.write(
        "read = lambda name: open(f'{folder}/{name}-{min(runs, 2)}').read()\n"
        "answer(clientCertificateData=read('crt'), clientKeyData=read('key'))"
    )
    credentials = plugin.credentials()
    settings = TlsSettings(insecure=True, certificate=credentials)
    assert credentials.client_certificate() is None
    contexts = [settings.context()]
    used = await credentials.headers()
    assert dict(used) == {}
    contexts.append(settings.context())
    assert credentials.client_certificate().certificate == pairs[0].certificate
    assert await credentials.refused(used) is True
    contexts.append(settings.context())
    assert credentials.client_certificate().certificate == pairs[1].certificate
    assert len(set(map(id, contexts))) == 3
    assert await credentials.refused() is False, "the third run returns the second certificate again"
    assert settings.context() is contexts[-1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain\n\ttext ä 中", "plain\n\ttext ä 中"), ("\x1b[1m\x00\u202e", "U+001B[1mU+0000U+202E")],
)
def test_printable(text, shown):
    assert printable(text) == shown


def test_arguments_and_environment_are_not_in_reprs(plugin):
    source = plugin.source(args=(SECRET,), env={"A": SECRET})
    assert SECRET not in repr(source)
    assert SECRET not in repr(source._plugin)
