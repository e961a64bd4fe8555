"""Which lines are written at which verbosity, and module patterns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.klog import get_logger, logger
from stowplan.kube.klog.logger import configure


@pytest.fixture(autouse=True)
def unconfigured():
    yield
    configure()


@pytest.mark.parametrize(("verbosity", "written"), [(0, [0]), (2, [0, 1, 2]), (10, [0, 1, 2, 3, 4])])
def test_levels_up_to_the_verbosity_are_written(log_with, verbosity, written):
    log = log_with(verbosity=verbosity)
    wanted = []
    for level in range(5):
        verbose = get_logger("stowplan.drivers.live.scheduler").v(level)
        verbose.info(f"level {level}")
        if verbose.enabled:
            wanted.append(level)
    assert [int(line.split("level ")[1].rstrip('"')) for line in log.text.splitlines()] == wanted == written


@pytest.mark.parametrize(
    ("patterns", "verbosity", "enabled"),
    [
        pytest.param([("scheduler", 4)], 0, 4, id="the file's name"),
        pytest.param([("s*", 4)], 0, 4, id="a pattern"),
        pytest.param([("s[!a]heduler", 4)], 0, 4, id="a set"),
        pytest.param([("s[^c]heduler", 4)], 0, 0, id="a set that Go negates"),
        pytest.param([("live", 4)], 0, 0, id="not the folder"),
        pytest.param([("scheduler", 1), ("*", 5)], 0, 1, id="the first that fits"),
        pytest.param([("scheduler", 1)], 3, 3, id="verbosity is the least"),
        pytest.param([("other", 9)], 2, 2, id="another file"),
    ],
)
def test_module_patterns(patterns, verbosity, enabled):
    log = get_logger("stowplan.drivers.live.scheduler")
    configure(verbosity=verbosity, modules=patterns)
    assert [log.v(level).enabled for level in range(10)] == [level <= enabled for level in range(10)]


def test_loggers_made_before_and_after_follow_the_verbosity():
    early = get_logger("stowplan.early")
    configure(verbosity=3)
    late = get_logger("stowplan.late")
    assert early.v(3).enabled
    assert late.v(3).enabled
    logger.set_verbosity(1)
    assert not early.v(2).enabled
    assert not late.v(2).enabled


def test_a_module_has_one_logger():
    assert get_logger("stowplan.a") is get_logger("stowplan.a")


@given(st.integers(0, 12), st.integers(0, 12))
def test_a_level_is_wanted_if_the_verbosity_reaches_it(verbosity, level):
    configure(verbosity=verbosity)
    assert get_logger("stowplan.property").v(level).enabled == (level <= verbosity)
