"""Help texts, and the presence of every flag of the reference."""

import re

import pytest

from stowplan.app.command_line.flags.flag_kinds import BOOL, DURATION, INT32_SLICE, LEVEL, STRING, STRINGS
from stowplan.app.command_line.flags.flag_set import Flag
from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS
from stowplan.app.command_line.flags.usage import usage_of
from stowplan.kube.config import Duration

#: Flags of kube-scheduler 1.36 by section, in the order of its help.
SECTIONS = {
    "Misc": "config master write-config-to",
    "Secure serving": "bind-address cert-dir disable-http2-serving http2-max-streams-per-connection "
    "permit-address-sharing permit-port-sharing secure-port tls-cert-file tls-cipher-suites tls-curve-preferences "
    "tls-min-version tls-private-key-file tls-sni-cert-key",
    "Authentication": "authentication-kubeconfig authentication-skip-lookup authentication-token-webhook-cache-ttl "
    "authentication-tolerate-lookup-failure client-ca-file requestheader-allowed-names requestheader-client-ca-file "
    "requestheader-extra-headers-prefix requestheader-group-headers requestheader-uid-headers "
    "requestheader-username-headers",
    "Authorization": "authorization-always-allow-paths authorization-kubeconfig "
    "authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl",
    "Deprecated": "contention-profiling kube-api-burst kube-api-content-type kube-api-qps kubeconfig "
    "pod-max-in-unschedulable-pods-duration profiling",
    "Leader election": "leader-elect leader-elect-lease-duration leader-elect-renew-deadline "
    "leader-elect-resource-lock leader-elect-resource-name leader-elect-resource-namespace leader-elect-retry-period",
    "Feature gate": "emulated-version feature-gates min-compatibility-version",
    "Metrics": "allow-metric-labels allow-metric-labels-manifest disabled-metrics show-hidden-metrics-for-version",
    "Logs": "log-flush-frequency log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size "
    "log-text-split-stream logging-format v vmodule",
    "Global": "help version",
}


def test_every_flag_of_the_reference_and_our_own_exist():
    names = {}
    for flag in KUBE_SCHEDULER_FLAGS:
        names.setdefault(flag.section, []).append(flag.name)
    own_flags = "extender-mode plugin plugin-binding-timeout plugin-timeout record record-annotation record-keep"
    for own in (*own_flags.split(), "record-max-size", "tracing-config-file", "watch-config"):
        names["Misc"].remove(own)
    assert {section: " ".join(sorted(listed)) for section, listed in names.items()} == SECTIONS
    assert list(names) == list(SECTIONS)


def test_help_has_the_sections_in_order_and_each_flag_once():
    text = usage_of(KUBE_SCHEDULER_FLAGS)
    assert re.findall(r"^(.+) flags:$", text, re.MULTILINE) == list(SECTIONS)
    shown = re.findall(r"^ {2,6}(?:-\w, )?--([\w-]+)", text, re.MULTILINE)
    assert sorted(shown) == sorted(flag.name for flag in KUBE_SCHEDULER_FLAGS)


def flag(name, kind, default, **more):
    return Flag(name=name, kind=kind, default=default, section="Some", usage="Words.", **more)


@pytest.mark.parametrize(
    ("flag", "shown"),
    [
        pytest.param(flag("a", STRING, ""), "      --a string   Words.", id="string"),
        pytest.param(flag("a", STRING, "x"), '      --a string   Words. (default "x")', id="string with a default"),
        pytest.param(flag("a", BOOL, False), "      --a   Words.", id="switch"),
        pytest.param(flag("a", BOOL, True), "      --a   Words. (default true)", id="switch that is on"),
        pytest.param(
            flag("a", DURATION, Duration.of_seconds(300)), "      --a duration   Words. (default 5m0s)", id="duration"
        ),
        pytest.param(flag("a", STRINGS, ()), "      --a strings   Words.", id="empty list"),
        pytest.param(flag("a", STRINGS, ("x", "y")), "      --a strings   Words. (default [x,y])", id="list"),
        pytest.param(flag("a", INT32_SLICE, ()), "      --a int32Slice   Words. (default [])", id="empty numbers"),
        pytest.param(flag("v", LEVEL, 0, shorthand="v"), "  -v, --v Level   Words.", id="with a letter"),
    ],
)
def test_lines(flag, shown):
    assert usage_of([flag]) == f"\nSome flags:\n\n{shown}\n"


def test_lines_are_aligned_and_sorted():
    text = usage_of([flag("long-name", BOOL, False), flag("a", STRING, "")])
    assert text.splitlines()[3:] == ["      --a string    Words.", "      --long-name   Words."]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_wrapping_keeps_all_words_within_the_columns(columns):
    wide, narrow = usage_of(KUBE_SCHEDULER_FLAGS), usage_of(KUBE_SCHEDULER_FLAGS, columns=columns)
    assert narrow.split() == wide.split()
    if columns == 200:
        assert max(map(len, narrow.splitlines())) <= columns
