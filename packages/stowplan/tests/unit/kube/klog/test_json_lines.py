"""JSON lines as component-base writes them."""

import json
import logging
from datetime import timedelta

import pytest

from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.klog import get_logger

LOG = get_logger(__name__)
POD = Pod(metadata=ObjectMeta(name="a", namespace="b"))


def here():
    import sys

    return sys._getframe(1).f_lineno + 1


def test_a_line_has_its_keys_in_order(log_with):
    log = log_with(format="json", verbosity=2)
    number = here()
    LOG.v(2).info("Bound", pod=POD, node=Node(metadata=ObjectMeta(name="n")), attempts=2)
    assert log.text == (
        f'{{"ts":1795189252123.456,"caller":"klog/test_json_lines.py:{number}","msg":"Bound","v":2,'
        '"pod":{"name":"a","namespace":"b"},"node":{"name":"n"},"attempts":2}\n'
    )


def test_an_error_has_no_level_and_ends_with_its_cause(log_with):
    log = log_with(format="json")
    LOG.error(ValueError("line 1\nline 2"), "Failed", pod=POD)
    read = json.loads(log.text)
    assert list(read) == ["ts", "caller", "msg", "pod", "err"]
    assert read["err"] == "line 1\nline 2"


def test_the_position_of_the_loggers_name(log_with):
    log = log_with(format="json")
    LOG.unhandled("full", "Error scheduling pod; retrying", pod=POD)
    read = json.loads(log.text)
    assert list(read) == ["ts", "logger", "caller", "msg", "pod", "err"]
    assert read["logger"] == "UnhandledError"


def test_a_warning_is_information_of_level_0(log_with):
    log = log_with(format="json")
    LOG.warning("careful")
    read = json.loads(log.text)
    assert (read["msg"], read["v"]) == ("careful", 0)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        pytest.param('<"é\n\x00>', '<"é\n\x00>', id="string"),
        pytest.param("\ud800", "\ud800", id="half a character"),
        pytest.param(1.5, 1.5, id="fraction"),
        pytest.param(timedelta(microseconds=1), "1µs", id="time span"),
        pytest.param([POD], [{"name": "a", "namespace": "b"}], id="pods"),
        pytest.param({"x": [POD, None]}, {"x": [{"name": "a", "namespace": "b"}, None]}, id="nested"),
        pytest.param(float("inf"), "inf", id="no number"),
    ],
)
def test_values(log_with, value, read):
    log = log_with(format="json")
    LOG.info("x", key=value)
    assert json.loads(log.text)["key"] == read
    assert log.text.count("\n") == 1


def test_records_of_libraries_are_json(log_with):
    log = log_with(format="json")
    logging.getLogger("aiohttp.client").warning("odd %s", "answer")
    assert json.loads(log.text)["msg"] == "odd answer"
