"""The program in docs/use/record.md replays a recording, and the page names every input."""

import re
from typing import get_args

from stowplan.app.daemon.recording_file import recording
from stowplan.drivers.hang_guard.hang_guard import HangGuard
from stowplan.scheduler.engine.inputs import EventEmitted, Input
from stowplan.testing import a_node, a_pod
from support.live.live_scheduler import live
from support.paths import ROOT

#: Inputs that recordings call otherwise.
NAMES = {EventEmitted: "Told"}
GUIDE = (ROOT / "docs/use/record.md").read_text(encoding="utf-8")


async def test_the_program_prints_the_effects(tmp_path, capsys):
    path = str(tmp_path / "recording")
    with recording(path, HangGuard()) as recorder:
        async with live(a_node("n1").obj(), recorder=recorder) as cluster:
            await cluster.create(a_pod("p").obj())
    (program,) = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    names = {}
    exec(compile(program, "docs/use/record.md", "exec"), names)
    names["replay"](path)
    assert " Schedule ['Bind']" in capsys.readouterr().out


def test_every_input_is_named():
    kinds = {NAMES.get(kind, kind.__name__) for part in get_args(Input) for kind in (get_args(part) or (part,))}
    table = GUIDE.partition("| name |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([A-Z]\w+)`(?=[^|]*\|[^|]*\|$)", table, re.MULTILINE)) == kinds
