"""The page about configurations names existing commands and flags."""

import re

import pytest

from stowplan.app.cli.config import config
from stowplan.app.command_line.flags.retired import GONE_FLAGS, RETIRED_FLAGS
from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS
from support.paths import ROOT

PAGE = (ROOT / "docs/run/configure.md").read_text(encoding="utf-8")


def test_every_command_is_shown():
    shown = set(re.findall(r"^\$ stowplan config (\w+)", PAGE, re.MULTILINE))
    assert shown == set(config.commands)


@pytest.mark.parametrize("flag", [flag.name for flag in RETIRED_FLAGS])
def test_every_retired_flag_is_documented(flag):
    assert f"`--{flag}" in PAGE


def test_flags_that_the_page_names_exist():
    known = {flag.name for flag in (*KUBE_SCHEDULER_FLAGS, *RETIRED_FLAGS)} | GONE_FLAGS.keys()
    named = set(re.findall(r"`--([a-z-]+)", PAGE))
    assert named <= known
