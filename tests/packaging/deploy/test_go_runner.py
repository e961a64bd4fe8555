"""The image's go-runner: flags as upstream's takes them, output in a file, exit codes and signals of the command."""

import signal
import subprocess

import pytest

from support.processes.deployments import DEPLOY

GO_RUNNER = DEPLOY / "container" / "go-runner"
SPEAKS = ["sh", "-c", "echo out; echo err >&2; exit 3"]


def ran(*arguments):
    return subprocess.run([GO_RUNNER, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("flags", "out", "err", "in_file"),
    [
        pytest.param([], "out\nerr\n", "", None, id="no file"),
        pytest.param(["--redirect-stderr=false"], "out\n", "err\n", None, id="no file, stderr apart"),
        pytest.param(["--log-file=FILE"], "", "", "out\nerr\n", id="a file"),
        pytest.param(
            ["-log-file", "FILE", "-redirect-stderr=false"], "", "err\n", "out\n", id="one dash, stderr apart"
        ),
        pytest.param(["--log-file=FILE", "--also-stdout"], "out\nerr\n", "", "out\nerr\n", id="both"),
        pytest.param(["--log-file=FILE", "--also-stdout=false", "--"], "", "", "out\nerr\n", id="values and an end"),
    ],
)
def test_output_goes_where_the_flags_say(flags, out, err, in_file, tmp_path):
    file = tmp_path / "log"
    file.write_text("before\n")
    told = ran(*(flag.replace("FILE", str(file)) for flag in flags), *SPEAKS)
    assert (told.returncode, told.stdout, told.stderr) == (3, out, err)
    assert file.read_text() == f"before\n{in_file or ''}"


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        pytest.param(["--log-file=x"], 2, "no command to run", id="no command"),
        pytest.param(["--log-file"], 2, "--log-file: which file?", id="no file"),
        pytest.param(["--config=x", "true"], 2, "unknown flag --config=x: it has --log-file", id="the command's flag"),
        pytest.param(["--also-stdout=yes", "true"], 2, "--also-stdout=yes: neither true nor false", id="no boolean"),
        pytest.param(["--log-file=/nowhere/log", "true"], 1, "/nowhere/log: No such file or directory", id="no folder"),
        pytest.param(["no-such-command"], 1, "no-such-command: No such file or directory", id="no program"),
    ],
)
def test_what_it_cannot_do_is_said(arguments, code, why):
    told = ran(*arguments)
    assert (told.returncode, told.stdout) == (code, "")
    assert told.stderr.startswith(f"go-runner: {why}")


@pytest.mark.parametrize("flags", [[], ["--log-file=/dev/null", "--also-stdout"]], ids=["in its place", "copying"])
def test_signals_reach_the_command(flags):
    asleep = ["sh", "-c", "trap 'echo caught; exit 4' USR2; echo ready; while :; do sleep 0.01; done"]
    with subprocess.Popen([GO_RUNNER, *flags, *asleep], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR2)
        assert process.stdout.read() == "caught\n"
    assert process.returncode == 4
