"""Exceptions of out-of-tree plugins are reported with type, file and line; those of in-tree plugins unchanged."""

import re

import numpy as np
import pytest

from stowplan.kube.api.quantity import parse_quantity
from stowplan.scheduler.framework.status import described, error, raised


def caught(work):
    try:
        work()
    except BaseException as e:
        return e
    raise AssertionError("nothing was raised")


def looks_up():
    return {}["team"]


def in_a_library():
    np.vstack([])


def in_ours():
    parse_quantity("three")


@pytest.mark.parametrize(
    ("work", "text"),
    [
        pytest.param(looks_up, "KeyError: 'team' (test_raised.py:LINE in looks_up)", id="the innermost line"),
        pytest.param(
            in_a_library,
            "ValueError: need at least one array to concatenate (test_raised.py:LINE in in_a_library)",
            id="not a library's line",
        ),
        pytest.param(in_ours, r"(test_raised.py:LINE in in_ours)", id="not ours, but the call of ours"),
        pytest.param(lambda: exec("import sys; sys.exit(3)"), "SystemExit: 3 (", id="leaves"),
    ],
)
def test_where_it_was_raised(work, text):
    found = re.sub(r":\d+ in", ":LINE in", raised(caught(work)).message)
    assert text in found


def test_the_cause_is_kept():
    cause = caught(looks_up)
    assert raised(cause).error.__cause__ is cause


def test_our_own_exceptions_are_reported_unchanged():
    # The traceback starts below the caller, so none of its frames are a user's.
    cause = caught(in_ours)
    cause.__traceback__ = cause.__traceback__.tb_next.tb_next
    assert described(cause) == str(cause)
    assert raised(cause) == error(cause)


def test_exceptions_that_were_not_raised_have_no_location():
    assert described(ValueError("only made")) == "only made"
