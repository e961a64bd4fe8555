"""docs/reference/inspection.md describes every record and every field that a document can have."""

import re

import msgspec
import pytest

from stowplan.scheduler.inspection import records
from stowplan.scheduler.inspection.records import AttemptRecord, QueueStateRecord, Record
from support.paths import ROOT

GUIDE = (ROOT / "docs/reference/inspection.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL))
#: Base records, which are not in documents themselves.
BASES = {Record, AttemptRecord, QueueStateRecord}
RECORDS = [r for r in vars(records).values() if isinstance(r, type) and issubclass(r, Record) and r not in BASES]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_is_described(record):
    described = re.findall(r"^\| `(\w+)` \|", SECTIONS[record.__name__], re.MULTILINE)
    assert sorted(described) == sorted(field.encode_name for field in msgspec.structs.fields(record))


def test_nothing_else_is_described():
    assert SECTIONS.keys() == {record.__name__ for record in RECORDS}
    assert f"`schemaVersion`, currently {records.SCHEMA_VERSION}:" in GUIDE
    links = set(re.findall(r"\]\(#(\w+)\)", GUIDE))
    assert links <= {name.lower() for name in SECTIONS}
