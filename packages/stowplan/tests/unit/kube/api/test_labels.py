"""Label syntax and the exact error messages."""

import pytest

from stowplan.kube.api.labels import (
    dns1123_subdomain_errors,
    is_qualified_name_errors,
    label_key_errors,
    label_value_errors,
)

NAME = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("key", "errors"),
    [
        ("app", []),
        ("example.com/app", []),
        ("A.b_c-9", []),
        ("x" * 63, []),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("", ["name part must be non-empty", f"name part {NAME}"]),
        ("-a", [f"name part {NAME}"]),
        ("a\n", [f"name part {NAME}"]),
        ("/a", ["prefix part must be non-empty"]),
        ("Ex/a", [f"prefix part {SUBDOMAIN}"]),
        (
            "a/b/c",
            [f"a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        ),
    ],
)
def test_keys(key, errors):
    assert label_key_errors(key) == errors
    assert is_qualified_name_errors(key) == errors


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ("", []),
        ("a.B_c-1", []),
        ("-a", [VALUE]),
        ("a b", [VALUE]),
        ("x" * 64, ["must be no more than 63 bytes"]),
        ("é" * 40, ["must be no more than 63 bytes", VALUE]),
    ],
)
def test_values(value, errors):
    assert label_value_errors(value) == errors


@pytest.mark.parametrize(
    ("name", "errors"),
    [("a.b-c", []), ("A", [SUBDOMAIN]), ("", [SUBDOMAIN]), ("a" * 254, ["must be no more than 253 bytes"])],
)
def test_subdomains(name, errors):
    assert dns1123_subdomain_errors(name) == errors
