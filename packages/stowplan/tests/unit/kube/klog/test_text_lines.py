"""Text lines as klog writes them, character by character."""

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import Duration
from stowplan.kube.klog import ObjectRef, get_logger
from stowplan.kube.klog.value_text import duration_text, go_quote
from stowplan.scheduler.cluster.state import ClusterState

LOG = get_logger(__name__)
POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop"))


class Place(Enum):
    ACTIVE = "active"

    def __str__(self):
        return self.value


@dataclass
class Window:
    first: int
    last: int


def here():
    """The line number of the caller's next line."""
    import sys

    return sys._getframe(1).f_lineno + 1


def test_the_header_has_severity_time_process_and_place(log_with):
    log = log_with()
    number = here()
    LOG.info("Starting", version="v1")
    assert log.text == f'I1120 15:40:52.123456       1 test_text_lines.py:{number}] "Starting" version="v1"\n'


@pytest.mark.parametrize(
    ("write", "letter"),
    [
        pytest.param(lambda: LOG.info("x"), "I", id="info"),
        pytest.param(lambda: LOG.v(0).info("x"), "I", id="verbose"),
        pytest.param(lambda: LOG.warning("x"), "W", id="warning"),
        pytest.param(lambda: LOG.error(None, "x"), "E", id="error"),
    ],
)
def test_the_first_letter_is_the_severity(log_with, write, letter):
    log = log_with()
    write()
    assert log.text.startswith(f"{letter}1120 ")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("a b", '="a b"', id="string"),
        pytest.param("", '=""', id="empty string"),
        pytest.param('say "hi" \\ \t\x00é', r'="say \"hi\" \\ \t\x00é"', id="string to escape"),
        pytest.param("one\ntwo", "=<\n\tone\n\ttwo\n >", id="lines"),
        pytest.param("one\ntwo\n", "=<\n\tone\n\ttwo\n >", id="lines with an end"),
        pytest.param("one\n\ntwo", "=<\n\tone\n\t\n\ttwo\n >", id="lines with an empty one"),
        pytest.param(3, "=3", id="integer"),
        pytest.param(-0.25, "=-0.25", id="fraction"),
        pytest.param(2.0, "=2", id="whole float"),
        pytest.param(float("nan"), '="nan"', id="no number"),
        pytest.param(True, "=true", id="true"),
        pytest.param(None, "=null", id="nothing"),
        pytest.param(["a", 1, None], '=["a",1,null]', id="list"),
        pytest.param(("a", "b"), '=["a","b"]', id="tuple"),
        pytest.param({"b", "a"}, '=["a","b"]', id="set"),
        pytest.param({"b": 1, "a": {"x": "<&>"}}, '={"a":{"x":"\\u003c\\u0026\\u003e"},"b":1}', id="map, keys sorted"),
        pytest.param(b"raw", '="raw"', id="bytes"),
        pytest.param(timedelta(seconds=90.5), '="1m30.5s"', id="time span"),
        pytest.param(Duration.of_seconds(0.25), '="250ms"', id="duration"),
        pytest.param(ValueError("no"), '="no"', id="exception"),
        pytest.param(KeyError(), '="KeyError"', id="exception without words"),
        pytest.param(Place.ACTIVE, '="active"', id="enum with words"),
        pytest.param(Window(1, 2), '={"first":1,"last":2}', id="dataclass"),
        pytest.param(POD, '="shop/web-0"', id="pod"),
        pytest.param(Node(metadata=ObjectMeta(name="n1")), '="n1"', id="node"),
        pytest.param(ClusterState().pod_info(POD), '="shop/web-0"', id="pod info"),
        pytest.param([POD, None], '=["shop/web-0",null]', id="pods"),
        pytest.param(ObjectRef("n", "ns"), '="ns/n"', id="reference"),
    ],
)
def test_values(log_with, value, shown):
    log = log_with()
    LOG.info("Message", key=value, last=1)
    assert log.body == f'"Message" key{shown} last=1'


def test_the_message_is_quoted_even_if_it_has_lines(log_with):
    log = log_with()
    LOG.info('two\n"lines"')
    assert log.body == r'"two\n\"lines\""'


def test_the_error_comes_first(log_with):
    log = log_with()
    LOG.error(ValueError("no"), "Failed", pod=POD)
    assert log.body == '"Failed" err="no" pod="shop/web-0"'


def test_an_error_without_an_exception(log_with):
    log = log_with()
    LOG.error(None, "Leaderelection lost")
    assert log.body == '"Leaderelection lost"'


def test_keys_may_have_the_names_of_our_arguments(log_with):
    log = log_with()
    LOG.info("x", message=1, self=2, level=3)
    assert log.body == '"x" message=1 self=2 level=3'


def test_a_warning_is_plain_text_unless_it_has_keys(log_with):
    log = log_with()
    LOG.warning('Neither "a" nor b')
    LOG.warning("Neither", flag="x")
    assert [line.split("] ", 1)[1] for line in log.text.splitlines()] == ['Neither "a" nor b', '"Neither" flag="x"']


def test_plain_lines_have_no_quotes(log_with):
    log = log_with(verbosity=1)
    LOG.v(1).plain('FLAG: --v="1"')
    assert log.body == 'FLAG: --v="1"'


def test_unexpected_exceptions_have_a_traceback(log_with):
    log = log_with()
    try:
        raise RuntimeError("broken")
    except RuntimeError as error:
        LOG.error(error, "failed", trace=True)
    assert log.body.startswith('"failed" err="broken" stacktrace=<\n\tTraceback')
    assert "test_unexpected_exceptions_have_a_traceback" in log.body
    assert log.body.endswith("\tRuntimeError: broken\n >")


def test_the_cached_second_is_updated(utc):
    from stowplan.kube.klog.logger import Entry
    from stowplan.kube.klog.setup import TextFormat

    moments = iter([59.999999, 60.0, 60.5])
    text = TextFormat(wall_clock=lambda: next(moments), pid=123456789)
    entry = Entry("I", 0, "/a/b.py", 7, "b", "x", True, None, {})
    assert [text.line(entry) for _ in range(3)] == [
        'I0101 00:00:59.999999 123456789 b.py:7] "x"\n',
        'I0101 00:01:00.000000 123456789 b.py:7] "x"\n',
        'I0101 00:01:00.500000 123456789 b.py:7] "x"\n',
    ]


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=1000)))
def test_time_spans_are_formatted_as_durations(span):
    nanoseconds = (span // timedelta(microseconds=1)) * 1000
    assert duration_text(span) == str(Duration(nanoseconds))
    assert duration_text(-span) == str(Duration(-nanoseconds))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_one_entry_is_one_line_or_an_indented_block(text):
    from stowplan.kube.klog.value_text import text_of_keys

    shown = text_of_keys(None, {"key": text, "next": 1})
    head, _, rest = shown.partition("\n")
    if "\n" in text:
        assert head == " key=<"
        *lines, end = rest.split("\n")
        assert all(line.startswith("\t") for line in lines)
        assert end == " > next=1"
        assert "\n".join(line[1:] for line in lines) == text.removesuffix("\n")
    else:
        assert not rest
        assert re.fullmatch(r' key=".*" next=1', head, re.DOTALL)


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
