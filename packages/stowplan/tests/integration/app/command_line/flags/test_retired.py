"""Flags of older releases: which still work, which are refused, and their replacements."""

import pytest

from stowplan.app.command_line.flags.flag_set import FlagError, FlagSet
from stowplan.app.command_line.flags.retired import GONE_FLAGS, RETIRED_FLAGS, retired_errors, retired_warnings
from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS


def parse(*arguments):
    return FlagSet((*KUBE_SCHEDULER_FLAGS, *RETIRED_FLAGS), gone=GONE_FLAGS).parse(arguments)


def test_no_flag_is_both_current_and_retired():
    today, retired = {flag.name for flag in KUBE_SCHEDULER_FLAGS}, {flag.name for flag in RETIRED_FLAGS}
    assert not today & retired
    assert not (today | retired) & GONE_FLAGS.keys()


@pytest.mark.parametrize("name", GONE_FLAGS)
def test_removed_flags_are_unknown_with_a_replacement(name):
    with pytest.raises(FlagError) as caught:
        parse(f"--{name}=x")
    assert str(caught.value) == f"unknown flag: --{name}"
    assert caught.value.hints == (f"--{name}: {GONE_FLAGS[name]}",)


def test_the_nearest_flag():
    with pytest.raises(FlagError) as caught:
        parse("--leader_elekt=false")
    assert caught.value.hints == ("did you mean --leader-elect?",)
    with pytest.raises(FlagError) as caught:
        parse("--xyzzyplugh")
    assert caught.value.hints == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--use-legacy-policy-config"],
            "policyConfigFile: Required value: required when --use-legacy-policy-config is true",
        ),
        (
            ["--port=70000"],
            "--port 70000 must be between 0 and 65335, inclusive. 0 for turning off insecure (HTTP) port",
        ),
        (["--port=10251"], "--port 10251: plain HTTP is no longer served; use --secure-port, or --port=0 for nothing"),
        (
            ["--address=127.0.0.1"],
            "--address 127.0.0.1: plain HTTP is no longer served; write --bind-address=127.0.0.1",
        ),
        (["--logtostderr=false"], "--logtostderr=false: the log goes to stderr alone; redirect it, as in 2>>FILE"),
        (
            ["--config=x", "--policy-config-file=y"],
            "--policy-config-file cannot be given together with --config: the configuration says which plugins run, "
            "and for whom; stowplan config convert makes one of a policy",
        ),
        (
            ["--lock-object-name=a", "--leader-elect-resource-name=b"],
            "ResourceName and LockObjectName are both set and do not match, ResourceName: b, LockObjectName: a",
        ),
        (
            ["--lock-object-namespace=a", "--leader-elect-resource-namespace=b"],
            "ResourceNamespace and LockObjectNamespace are both set and do not match, ResourceNamespace: b, "
            "LockObjectNamespace: a",
        ),
    ],
)
def test_errors(arguments, message):
    assert list(retired_errors(parse(*arguments))) == [message]


@pytest.mark.parametrize(
    "arguments", [["--port=0"], ["--logtostderr"], ["--lock-object-name=a"], ["--alsologtostderr=true"]]
)
def test_accepted_retired_flags(arguments):
    line = parse(*arguments)
    assert list(retired_errors(line)) == []
    (warning,) = retired_warnings(line)
    assert warning.startswith(arguments[0].partition("=")[0])
    assert list(retired_warnings(parse("--v=2"))) == []
