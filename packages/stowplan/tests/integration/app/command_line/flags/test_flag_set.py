"""Command lines are parsed as Go programs parse them."""

import ipaddress
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.app.command_line.flags.flag_kinds import STRING, NamedCertKey
from stowplan.app.command_line.flags.flag_set import FlagError, FlagSet
from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS
from stowplan.kube.api.quantity import value
from stowplan.kube.config import Duration

FLAGS = FlagSet(KUBE_SCHEDULER_FLAGS)


def seconds(number):
    return Duration.of_seconds(number)


@pytest.mark.parametrize(
    ("arguments", "name", "expected"),
    [
        pytest.param([], "config", "", id="default"),
        pytest.param(["--config=a"], "config", "a", id="with ="),
        pytest.param(["--config", "a"], "config", "a", id="with a space"),
        pytest.param(["--config", "--x"], "config", "--x", id="a value that looks like a flag"),
        pytest.param(["--config="], "config", "", id="empty"),
        pytest.param(["--config=a=b"], "config", "a=b", id="only the first ="),
        pytest.param(["--config=a", "--config=b"], "config", "b", id="the last counts"),
        pytest.param(["--write_config_to=a"], "write-config-to", "a", id="underscores"),
        pytest.param(["--leader-elect"], "leader-elect", True, id="switch"),
        pytest.param(["--leader-elect=false"], "leader-elect", False, id="switch off"),
        pytest.param(["--leader-elect", "false"], "leader-elect", True, id="a switch takes no separate value"),
        pytest.param(["--leader-elect=T"], "leader-elect", True, id="spelled-out true"),
        pytest.param(["--leader-elect=0"], "leader-elect", False, id="spelled-out false"),
        pytest.param(["-v3"], "v", 3, id="v glued"),
        pytest.param(["-v=3"], "v", 3, id="v with ="),
        pytest.param(["-v", "3"], "v", 3, id="v with a space"),
        pytest.param(["--v=3"], "v", 3, id="long v"),
        pytest.param(["--v", "3"], "v", 3, id="long v with a space"),
        pytest.param(["-hv", "3"], "v", 3, id="two letters"),
        pytest.param(["--help"], "help", True, id="help"),
        pytest.param(["-h"], "help", True, id="h"),
        pytest.param(["--kube-api-qps=7.5"], "kube-api-qps", 7.5, id="float"),
        pytest.param(["--kube-api-qps=-1"], "kube-api-qps", -1.0, id="negative float"),
        pytest.param(["--kube-api-burst", "-1"], "kube-api-burst", -1, id="negative int"),
        pytest.param(["--secure-port=0x1F"], "secure-port", 31, id="hexadecimal"),
        pytest.param(["--secure-port=010"], "secure-port", 8, id="octal"),
        pytest.param(
            ["--leader-elect-lease-duration=1m30s"], "leader-elect-lease-duration", seconds(90), id="duration"
        ),
        pytest.param(["--leader-elect-lease-duration=0"], "leader-elect-lease-duration", seconds(0), id="zero"),
        pytest.param(["--bind-address=::"], "bind-address", ipaddress.ip_address("::"), id="IPv6"),
        pytest.param(
            ["--bind-address=::ffff:127.0.0.1"], "bind-address", ipaddress.ip_address("127.0.0.1"), id="IPv4 as IPv6"
        ),
        pytest.param(["--bind-address="], "bind-address", ipaddress.ip_address("0.0.0.0"), id="no address"),
        pytest.param(
            ["--disabled-metrics=a,b", "--disabled-metrics=c"], "disabled-metrics", ("a", "b", "c"), id="list"
        ),
        pytest.param(['--disabled-metrics="a,b",c'], "disabled-metrics", ("a,b", "c"), id="CSV quotes"),
        pytest.param(
            ["--requestheader-group-headers=a"], "requestheader-group-headers", ("a",), id="instead of default"
        ),
        pytest.param(["--tls-curve-preferences=1,0x10"], "tls-curve-preferences", (1, 16), id="numbers"),
        pytest.param(["--vmodule=a=1,b*=2", "--vmodule=c=3"], "vmodule", (("a", 1), ("b*", 2), ("c", 3)), id="vmodule"),
        pytest.param(["--vmodule=a=1,"], "vmodule", (("a", 1),), id="vmodule with a comma too many"),
        pytest.param(
            ["--feature-gates=A=true,kube:B=false", "--feature-gates", "C=1"],
            "feature-gates",
            (("", "A=true"), ("kube", "B=false"), ("", "C=1")),
            id="gates",
        ),
        pytest.param(["--allow-metric-labels=m,l=v1"], "allow-metric-labels", {"m,l": "v1"}, id="map of one"),
        pytest.param(
            ['--allow-metric-labels="m,l=v1,v2","n,l=x"', "--allow-metric-labels=m,l=y"],
            "allow-metric-labels",
            {"m,l": "y", "n,l": "x"},
            id="map that grows",
        ),
        pytest.param(
            ["--tls-sni-cert-key=a.crt, a.key", "--tls-sni-cert-key=b.crt,b.key:*.b.com, b.com"],
            "tls-sni-cert-key",
            (NamedCertKey("a.crt", "a.key"), NamedCertKey("b.crt", "b.key", ("*.b.com", "b.com"))),
            id="certificates",
        ),
        pytest.param(["--version"], "version", "true", id="version"),
        pytest.param(["--version=raw"], "version", "raw", id="raw version"),
        pytest.param(["--version=v1.37.1-mine"], "version", "v1.37.1-mine", id="reported version"),
    ],
)
def test_values(arguments, name, expected):
    line = FLAGS.parse(arguments)
    assert line[name] == expected
    assert line.is_given(name) == bool(arguments)


def test_quantities():
    assert value(FLAGS.parse(["--log-text-info-buffer-size=2Ki"])["log-text-info-buffer-size"].nano) == 2048


@pytest.mark.parametrize(
    ("arguments", "rest"),
    [
        (["a", "--v=1", "b"], ["a", "b"]),
        (["--v=1", "--", "--nope", "a"], ["--nope", "a"]),
        (["-"], ["-"]),
        ([""], [""]),
    ],
)
def test_arguments(arguments, rest):
    assert FLAGS.parse(arguments).arguments == rest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nope"], "unknown flag: --nope"),
        (["--no_pe=1"], "unknown flag: --no_pe"),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["-hx"], "unknown shorthand flag: 'x' in -x"),
        (["--config"], "flag needs an argument: --config"),
        (["-v"], "flag needs an argument: 'v' in -v"),
        (["--=1"], "bad flag syntax: --=1"),
        (["---v"], "bad flag syntax: ---v"),
        (
            ["--leader-elect-lease-duration=5"],
            'invalid argument "5" for "--leader-elect-lease-duration" flag: time: missing unit in duration "5"',
        ),
        (
            ["--leader-elect=maybe"],
            'invalid argument "maybe" for "--leader-elect" flag: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (["-v=x"], 'invalid argument "x" for "-v, --v" flag: strconv.ParseUint: parsing "x": invalid syntax'),
        (["-v=-1"], 'invalid argument "-1" for "-v, --v" flag: strconv.ParseUint: parsing "-1": invalid syntax'),
        (
            ["-v=2147483648"],
            'invalid argument "2147483648" for "-v, --v" flag: strconv.ParseUint: parsing "2147483648": '
            "value out of range",
        ),
        (["--vmodule=foo"], 'invalid argument "foo" for "--vmodule" flag: "foo" does not have the pattern=N format'),
        (
            ["--vmodule=foo=x"],
            'invalid argument "foo=x" for "--vmodule" flag: parsing verbosity in "foo=x": '
            'strconv.ParseUint: parsing "x": invalid syntax',
        ),
        (
            ["--version=foo"],
            'invalid argument "foo" for "--version" flag: strconv.ParseBool: parsing "foo": invalid syntax',
        ),
        (
            ["--version=v1.37.9"],
            'invalid argument "v1.37.9" for "--version" flag: version "v1.37.9" must match major/minor/patch of '
            'default version "v1.37.1"',
        ),
        (
            ["--version=v1.37"],
            'invalid argument "v1.37" for "--version" flag: illegal version string "v1.37"',
        ),
        (
            ["--kube-api-burst=x"],
            'invalid argument "x" for "--kube-api-burst" flag: strconv.ParseInt: parsing "x": invalid syntax',
        ),
        (
            ["--kube-api-burst=4294967296"],
            'invalid argument "4294967296" for "--kube-api-burst" flag: strconv.ParseInt: parsing "4294967296": '
            "value out of range",
        ),
        (
            ["--kube-api-qps=fast"],
            'invalid argument "fast" for "--kube-api-qps" flag: strconv.ParseFloat: parsing "fast": invalid syntax',
        ),
        (["--bind-address=foo"], 'invalid argument "foo" for "--bind-address" flag: failed to parse IP: "foo"'),
        (
            ["--allow-metric-labels=a"],
            'invalid argument "a" for "--allow-metric-labels" flag: a must be formatted as key=value',
        ),
        (
            ["--tls-sni-cert-key=a"],
            'invalid argument "a" for "--tls-sni-cert-key" flag: '
            "expected comma separated certificate and key file paths",
        ),
        (
            ["--tls-sni-cert-key=a,b:"],
            'invalid argument "a,b:" for "--tls-sni-cert-key" flag: empty names list is not allowed',
        ),
        (
            ["--log-text-info-buffer-size=much"],
            'invalid argument "much" for "--log-text-info-buffer-size" flag: quantities must match the regular '
            "expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_values_that_cannot_be_parsed(arguments, message):
    with pytest.raises(FlagError) as caught:
        FLAGS.parse(arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize("flag", [flag for flag in KUBE_SCHEDULER_FLAGS if flag.default], ids=lambda flag: flag.name)
def test_shown_defaults_can_be_parsed(flag):
    shown = flag.shown_default.strip("[]")
    assert FLAGS.parse([f"--{flag.name}={shown}"])[flag.name] == flag.default


@given(st.lists(st.sampled_from(["-", "--", "v", "=", "h", "1", "config", "leader-elect", " ", "x"]), max_size=6))
def test_any_arguments_are_parsed_or_refused(pieces):
    """The only exception for any command line is FlagError."""
    for words in (["".join(pieces)], pieces):
        with suppress(FlagError):
            line = FLAGS.parse(words)
            # Flags that were not given have their default, and parsing is deterministic.
            again = FLAGS.parse(words)
            for flag in KUBE_SCHEDULER_FLAGS:
                assert line[flag.name] == again[flag.name]
                assert line.is_given(flag.name) or line[flag.name] == flag.default


_NAMES = [flag.name for flag in KUBE_SCHEDULER_FLAGS if flag.kind is STRING]


@given(st.lists(st.tuples(st.sampled_from(_NAMES), st.text(), st.booleans(), st.booleans())))
def test_the_last_value_of_a_string_flag_is_used(given_flags):
    words, expected = [], {}
    for name, text, joined, underscored in given_flags:
        written = name.replace("-", "_") if underscored else name
        words += [f"--{written}={text}"] if joined else [f"--{written}", text]
        expected[name] = text
    line = FLAGS.parse(words)
    assert {name: line[name] for name in line.given} == expected
    assert not line.arguments


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        pytest.param("https://u:secret@h:6443/x", "https://u:xxxxx@h:6443/x", id="name and password"),
        pytest.param("https://:secret@h", "https://:xxxxx@h", id="password"),
        pytest.param("https://u@h:6443", "https://u@h:6443", id="name"),
        pytest.param("u:secret@h", "u:xxxxx@h", id="no scheme"),
        pytest.param("https:/u:secret@h", "https:xxxxx@h", id="a slash too few"),
        pytest.param("https://u:sec/secret?#@secret@h/a", "https://u:xxxxx@h/a", id="special characters"),
        pytest.param("https://u:sec\nsecret@h", "https://u:xxxxx@h", id="lines"),
        pytest.param("https://[::1]:6443/x", "https://[::1]:6443/x", id="address"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_url_is_shown_without_its_password(given, shown):
    line = FLAGS.parse([f"--master={given}"])
    assert line["master"] == given
    (flag,) = (flag for flag in KUBE_SCHEDULER_FLAGS if flag.name == "master")
    assert flag.kind.show(line["master"]) == shown
