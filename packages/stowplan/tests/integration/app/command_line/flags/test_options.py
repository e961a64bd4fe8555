"""Validation of flags that parse, and their effect on the configuration."""

import pytest

from stowplan.app.command_line.flags.flag_set import FlagSet
from stowplan.app.command_line.flags.gates import gates_of
from stowplan.app.command_line.flags.option_errors import option_errors, read_allow_list, serving_errors
from stowplan.app.command_line.flags.overrides import check_unvalidated, log_option_errors, log_settings, with_flags
from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS
from stowplan.kube.config import ConfigError, Configuration, Duration
from stowplan.kube.klog.setup import LogSettings

ENABLED = gates_of(()).features.enabled


def parse(*arguments):
    return FlagSet(KUBE_SCHEDULER_FLAGS).parse(arguments)


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        ([], []),
        (["--secure-port=0"], []),
        (
            ["--secure-port=-1"],
            ["--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port"],
        ),
        (
            ["--secure-port=70000"],
            ["--secure-port 70000 must be between 1 and 65535, inclusive. It cannot be turned off with 0"],
        ),
        (["--requestheader-username-headers="], []),
        (["--requestheader-username-headers=a,"], ['empty value in "requestheader-username-headers"']),
        (["--requestheader-allowed-names= "], ['empty value in "requestheader-allowed-names"']),
        (
            ["--show-hidden-metrics-for-version=1.20"],
            [
                'metrics.showHiddenMetricsForVersion: Invalid value: "1.20": must be omitted or have the value '
                "'1.35'; only the previous minor version is allowed"
            ],
        ),
        (["--show-hidden-metrics-for-version=1.35"], []),
        (
            ["--disabled-metrics=a-b"],
            [
                'metrics.disabledMetrics: Invalid value: ["a-b"]: must be fully qualified metric names matching '
                '"^[a-zA-Z_:][a-zA-Z0-9_:]*$", got "a-b"'
            ],
        ),
        (
            ["--allow-metric-labels=foo=bar"],
            [
                'metrics.allowListMapping: Invalid value: {"foo":"bar"}: must have keys with format '
                '`metricName,labelName` where metricName matches "[a-zA-Z_:][a-zA-Z0-9_:]*" and labelName matches '
                '"[a-zA-Z_][a-zA-Z0-9_]*"'
            ],
        ),
        (
            ["--allow-metric-labels-manifest=/nope"],
            [
                'metrics.allowListMappingManifest: Invalid value: "/nope": failed to read allow list manifest: '
                "open /nope: no such file or directory"
            ],
        ),
    ],
)
def test_options(arguments, messages):
    assert list(option_errors(parse(*arguments), ENABLED)) == messages


def test_two_ways_to_allow_labels_exclude_each_other():
    assert list(
        option_errors(parse("--allow-metric-labels=m,l=v", "--allow-metric-labels-manifest=/nope"), ENABLED)
    ) == [
        'metrics.allowListMappingManifest: Invalid value: "/nope": failed to read allow list manifest: '
        "open /nope: no such file or directory",
        'metrics: Invalid value: {"allowListMapping":{"m,l":"v"},"allowListMappingManifest":"/nope"}: '
        "cannot specify both allowListMapping and allowListMappingManifest",
    ]


@pytest.mark.parametrize(
    ("text", "mapping"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param("'m,l': 'a,b'", {"m,l": "a,b"}, id="a mapping, as the reference reads it"),
        pytest.param(
            "allowListMapping: {'m,l': 'a,b'}", {"m,l": "a,b"}, id="a mapping, as the reference's help has it"
        ),
        pytest.param("allowListMapping:", {}, id="an empty one"),
    ],
)
def test_manifests_of_labels(tmp_path, text, mapping):
    path = tmp_path / "manifest"
    path.write_text(text)
    assert read_allow_list(str(path)) == mapping
    assert list(option_errors(parse(f"--allow-metric-labels-manifest={path}"), ENABLED)) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "failed to parse allow list manifest: while parsing"),
        ("[]", "failed to parse allow list manifest: want a map"),
        ("other: 1", "failed to parse allow list manifest: want a map"),
        ("allowListMapping: {a: {}}", "failed to parse allow list manifest: want a map"),
        (
            "foo: bar",
            "invalid allow list mapping in manifest: [metrics.allowListMappingManifest: Invalid value: "
            '{"foo":"bar"}: must have keys with format `metricName,labelName` where',
        ),
        ("allowListMapping: {foo: bar}", "invalid allow list mapping in manifest: ["),
    ],
)
def test_invalid_manifests_of_labels(tmp_path, text, problem):
    path = tmp_path / "manifest"
    path.write_text(text)
    (said,) = option_errors(parse(f"--allow-metric-labels-manifest={path}"), ENABLED)
    assert said.startswith(f'metrics.allowListMappingManifest: Invalid value: "{path}": {problem}')
    assert "\n" not in said


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        ([], []),
        (["--tls-min-version=VersionTLS13", "--tls-cipher-suites=TLS_AES_128_GCM_SHA256"], []),
        (["--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA"], []),
        (["--tls-min-version=VersionTLS14"], ['unknown tls version "VersionTLS14"']),
        (["--tls-cipher-suites=FOO"], ["Cipher suite FOO not supported or doesn't exist"]),
        (["--tls-curve-preferences=99999"], ["curve preference 99999 is out of range (must be 1-65535)"]),
        (["--tls-curve-preferences=29,23"], []),
        (["--tls-curve-preferences=29,29"], ["duplicate curve preference 29"]),
        (["--authorization-always-allow-paths=/a*,b"], []),
        (["--authorization-always-allow-paths=a*b"], ['only trailing * allowed in "a*b"']),
        (["--authorization-always-allow-paths=a*b", "--secure-port=0"], []),
        (["--tls-cert-file=a"], ["missing filename for serving cert"]),
        (["--tls-private-key-file=a"], ["missing filename for serving cert"]),
        (["--tls-cert-file=a", "--secure-port=0"], []),
    ],
)
def test_serving(arguments, messages):
    assert list(serving_errors(parse(*arguments))) == messages


# -- logging


def log_errors(*arguments, gates=()):
    return list(log_option_errors(parse(*arguments), gates_of(gates).features))


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        ([], []),
        (["--logging-format=json", "-v=3"], []),
        (["--logging-format=xml"], ['format: Invalid value: "xml": Unsupported log format']),
        (["--logging-format="], ['format: Invalid value: "": Unsupported log format']),
        (["--logging-format=json", "--vmodule=a=1"], ["vmodule: Forbidden: Only supported for text log format"]),
        (
            ["--log-flush-frequency=0"],
            ['flushFrequency: Invalid value: "0s": Must be greater than zero'],
        ),
        (
            ["--log-json-split-stream"],
            ["options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"],
        ),
        (
            ["--log-text-split-stream", "--log-text-info-buffer-size=1"],
            [
                "options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled",
                "options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
            ],
        ),
    ],
)
def test_log_options(arguments, messages):
    assert log_errors(*arguments) == messages


def test_gates_enable_logging_options():
    alpha = (("", "LoggingAlphaOptions=true"),)
    assert not log_errors("--log-text-split-stream", "--log-json-info-buffer-size=4Ki", gates=alpha)
    assert log_errors("--logging-format=json", gates=(("", "LoggingBetaOptions=false"),)) == [
        "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"
    ]


def test_log_settings():
    text = ["-v=4", "--vmodule=live=6", "--log-text-split-stream", "--log-text-info-buffer-size=4Ki"]
    assert log_settings(parse(*text, "--log-flush-frequency=500ms", "--log-json-info-buffer-size=1")) == LogSettings(
        verbosity=4, vmodule=(("live", 6),), split_stream=True, info_buffer_size=4096, flush_frequency=0.5
    )
    assert log_settings(parse("--logging-format=json", "--log-text-split-stream")) == LogSettings(format="json")


# -- the configuration


def adjusted(*arguments):
    return with_flags(Configuration(), parse(*arguments))


def test_unset_flags_change_nothing():
    assert adjusted() == Configuration()


def test_deprecated_flags_apply_without_a_file():
    config = adjusted(
        "--kubeconfig=k", "--kube-api-qps=1.5", "--kube-api-burst=3", "--kube-api-content-type=t", "--profiling=false"
    )
    connection = config.client_connection
    assert (connection.kubeconfig, connection.qps, connection.burst, connection.content_type) == ("k", 1.5, 3, "t")
    assert not config.enable_profiling


def test_deprecated_flags_are_ignored_with_a_file():
    arguments = ["--config=f", "--kubeconfig=k", "--kube-api-qps=1", "--contention-profiling=false"]
    assert adjusted(*arguments) == Configuration()


@pytest.mark.parametrize("config", [[], ["--config=f"]], ids=["without a file", "with a file"])
def test_leader_election_flags_always_apply(config):
    election = adjusted(*config, "--leader-elect=false", "--leader-elect-lease-duration=1h").leader_election
    assert not election.leader_elect
    assert election.lease_duration == Duration.of_seconds(3600)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--kube-api-burst=-1"],
            "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to greater than 0",
        ),
        (
            ["--leader-elect-resource-lock=endpoints"],
            "couldn't create resource lock: endpoints lock is removed, migrate to leases",
        ),
        (
            ["--leader-elect-resource-lock=configmapsleases"],
            "couldn't create resource lock: configmapsleases lock is removed, migrated to leases",
        ),
        (["--leader-elect-resource-lock=x"], "couldn't create resource lock: Invalid lock-type x"),
        (
            ["--leader-elect-lease-duration=10s"],
            "couldn't create leader elector: leaseDuration must be greater than renewDeadline",
        ),
        (
            ["--leader-elect-retry-period=9s"],
            "couldn't create leader elector: renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
    ],
)
def test_flag_values_skip_the_validation_of_files(arguments, message):
    with pytest.raises(ConfigError) as caught:
        check_unvalidated(adjusted(*arguments))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "arguments",
    [
        ["--kube-api-qps=-1", "--kube-api-burst=0"],
        ["--leader-elect=false", "--leader-elect-resource-lock=endpoints"],
        ["--leader-elect=false", "--leader-elect-retry-period=1h"],
    ],
)
def test_unused_values_are_not_validated(arguments):
    check_unvalidated(adjusted(*arguments))
