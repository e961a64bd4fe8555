import pytest

from stowplan.kube.klog.value_text import go_quote


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        pytest.param("", '""', id="nothing"),
        pytest.param("web-0 ü 世", '"web-0 ü 世"', id="printable"),
        pytest.param('say "hi"', r'"say \"hi\""', id="quotes"),
        pytest.param(r"C:\x", r'"C:\\x"', id="backslash"),
        pytest.param("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"', id="escapes of C"),
        pytest.param("\0\x1b\x7f", r'"\x00\x1b\x7f"', id="control characters"),
        pytest.param("\u00a0\u2028", r'"\u00a0\u2028"', id="spaces that are not the space"),
        pytest.param("\U000e0001", r'"\U000e0001"', id="beyond the basic plane"),
    ],
)
def test_as_go_quotes(text, quoted):
    assert go_quote(text) == quoted
