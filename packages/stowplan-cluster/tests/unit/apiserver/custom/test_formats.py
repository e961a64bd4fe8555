"""Which strings each format accepts."""

import pytest

from stowplan_cluster.apiserver.custom.formats import is_known, string_format


@pytest.mark.parametrize(
    ("format", "good", "bad"),
    [
        (
            "date-time",
            ["2026-01-02T03:04:05Z", "2026-01-02t03:04:05.123+01:00"],
            ["2026-01-02", "2026-01-02T24:00:00Z", "x"],
        ),
        ("date", ["2026-02-28"], ["2026-02-30", "2026-2-3", ""]),
        ("duration", ["1h30m", "22 ns", "5 days", "3weeks"], ["", "soon", "5", "9" * 5000 + " hours"]),
        ("ipv4", ["10.0.0.1", "010.000.0.1"], ["10.0.0", "::1", "256.1.1.1"]),
        ("ipv6", ["::1", "fe80::1", "::ffff:1.2.3.4"], ["1.2.3.4", "fe80::1%eth0"]),
        ("cidr", ["10.0.0.0/8", "10.1.2.3/16", "::/0"], ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/x"]),
        ("mac", ["00:11:22:33:44:55", "0011.2233.4455"], ["00:11:22", "00:11:22:33:44:5g"]),
        ("uuid", ["6a2f41a3-c54c-fce8-32d2-0324e1c32e22", "6A2F41A3C54CFCE832D20324E1C32E22"], ["6a2f41a3", ""]),
        ("uuid4", ["25947200-c54c-4ce8-92d2-0324e1c32e22"], ["25947200-c54c-5ce8-92d2-0324e1c32e22"]),
        ("hostname", ["example.com", "a", "1a.example"], ["-a", "a.b", "a_b.example", "a" * 64]),
        ("email", ["a@b.example"], ["a", "@b", "a b@c.example"]),
        ("uri", ["https://a.example/x?y", "/path", "urn:x"], ["a b", "relative", ""]),
        ("byte", ["YQ==", "YWJj"], ["a", "YQ=", ""]),
        ("password", ["", "anything"], []),
        ("isbn", ["anything"], []),
        ("k8s-short-name", ["a-1"], ["A", "a.b", "a" * 64]),
        ("k8s-long-name", ["a.b-1"], ["a..b", "A"]),
    ],
)
def test_strings(format, good, bad):
    valid = string_format(format)
    assert [text for text in good if not valid(text)] == []
    assert [text for text in bad if valid(text)] == []


@pytest.mark.parametrize(
    ("format", "type", "known"),
    [
        ("date-time", "string", True),
        ("datetime", "", True),
        ("int32", "integer", True),
        ("int32", "number", False),
        ("double", "number", True),
        ("date", "integer", False),
        ("made-up", "string", False),
        ("date", "object", False),
    ],
)
def test_supported_formats(format, type, known):
    assert is_known(format, type) is known
