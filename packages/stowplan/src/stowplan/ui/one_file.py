"""The page with its data in one HTML file: works without a server, but cannot answer questions.

Data is compressed and encoded as base64, in an element that browsers do not run: no name of an object can end it. The
file's policy lets browsers run the page's script only, and load nothing.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from hashlib import sha256

from msgspec import field

from stowplan.scheduler.inspection.devices import DevicesRecord, NodeDevicesRecord
from stowplan.scheduler.inspection.records import QueueRecord, Record, VerdictRecord, encoded
from stowplan.scheduler.inspection.room import RoomRecord
from stowplan.ui.assets import FIRST, ICON, INDEX, SCRIPT, STYLE, assets
from stowplan.ui.measured_use import UseRecord
from stowplan.ui.plan import Plan
from stowplan.ui.plan_messages import SnapshotMessage, snapshot
from stowplan.ui.report_records import ReportRecord
from stowplan.ui.source_records import ConfigurationRecord, SourceRecord
from stowplan.ui.timeline import FramesRecord, TimeRecord


class SavedData(Record, frozen=True, kw_only=True):
    """What the page would request from a server."""

    source: SourceRecord
    plan: SnapshotMessage
    configuration: ConfigurationRecord | None = None
    pending: QueueRecord | None = None
    #: By namespace/name.
    explain: dict[str, VerdictRecord] = field(default_factory=dict)
    #: By the timelines' names.
    time: dict[str, TimeRecord] = field(default_factory=dict)
    frames: dict[str, FramesRecord] = field(default_factory=dict)
    report: ReportRecord | None = None
    room: RoomRecord | None = None
    use: UseRecord | None = None
    devices: DevicesRecord | None = None
    #: By node.
    devices_on: dict[str, NodeDevicesRecord] = field(default_factory=dict)


def report_file(report: ReportRecord) -> str:
    source = SourceRecord(mode="static", title=report.title, can=("report",))
    return one_file(SavedData(source=source, plan=snapshot(Plan(), version=1), report=report))


def one_file(data: SavedData) -> str:
    files = {name: content.decode() for name, content in assets().items()}
    script = files[SCRIPT]
    packed = b64encode(gzip.compress(encoded(data), mtime=0)).decode()
    allowed = f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
    icon = f"data:image/svg+xml;base64,{b64encode(files[ICON].encode()).decode()}"
    page = files[INDEX]
    for element, instead in (
        (f'<script src="{FIRST}"></script>', f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        (f'href="{ICON}"', f'href="{icon}"'),
        (f'<link rel="stylesheet" href="{STYLE}">', f"<style>{files[STYLE]}</style>"),
        (f'<script src="{SCRIPT}" defer></script>\n', ""),
        ("</body>", f'<script type="text/plain" id="data">{packed}</script>\n<script>{script}</script>\n</body>'),
    ):
        page = page.replace(element, instead)
    return page
