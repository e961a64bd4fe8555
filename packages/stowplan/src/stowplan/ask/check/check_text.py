"""A check as text, as annotations of a workflow on GitHub, and as SARIF 2.1.0, which code hosts show at the lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from stowplan import __version__
from stowplan.ask.check.finding_records import ERROR, NOTE, RULES, WARNING, CheckRecord, FindingRecord
from stowplan.ask.explain.text.tables import Block, Line, printable_text
from stowplan.ask.what_if.answer_text import notes_block, table
from stowplan.scheduler.framework.explanations.formatting import count, listed

_STYLES = {ERROR: "bad", WARNING: "pending", NOTE: "dim"}
_NODES = 4
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME = "https://kubernetes.io/docs/concepts/scheduling-eviction/"


def check_page(record: CheckRecord) -> list[Block]:
    blocks: list[Block] = []
    for one in record.findings:
        where = f"{one.file}:{one.line}: " if one.file else ""
        of = f"{one.object}: " if one.object else ""
        blocks.append(Line(((one.level, _STYLES[one.level]), (f" {where}{of}{one.message}", ""))))
        blocks += (Line(f"would help: {text}", indent=2) for text in one.remedies)
    if record.objects:
        rows = [(one.object, f"{one.pods:,}", f"{one.pending:,}", _nodes(one.nodes)) for one in record.objects]
        blocks += [Line(), *table(("OBJECT", "PODS", "PENDING", "NODES"), rows, {1, 2})]
    errors = sum(1 for one in record.findings if one.level == ERROR)
    fit = f"{count(sum(one.pods for one in record.objects), 'pod')} of {count(len(record.objects), 'object')} fit"
    said = (count(errors, "error"), "bad") if errors else (fit, "good")
    return [*blocks, *notes_block(record.notes), Line(), Line((said,))]


def _nodes(nodes: dict[str, int]) -> str:
    return listed([f"{node} ({pods})" if pods > 1 else node for node, pods in nodes.items()], _NODES)


def annotated(record: CheckRecord) -> Iterator[str]:
    """Workflow commands, a line each."""
    names = {ERROR: "error", WARNING: "warning", NOTE: "notice"}
    for one in record.findings:
        place = f"file={_property(one.file)},line={one.line}," if one.file else ""
        yield f"::{names[one.level]} {place}title={_property(f'stowplan: {one.rule}')}::{_data(_whole(one))}"


def _whole(one: FindingRecord) -> str:
    of = f"{one.object}: " if one.object else ""
    helps = (f"would help: {text}" for text in one.remedies)
    return "\n".join(map(printable_text, (f"{of}{one.message}", *helps)))


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def sarif(record: CheckRecord) -> dict[str, Any]:
    used = [rule for rule in RULES if any(one.rule == rule for one in record.findings)]
    # Code hosts show the three texts in different places, and GitHub wants each.
    rules = [
        {"id": rule, "helpUri": _HOME}
        | {name: {"text": RULES[rule]} for name in ("shortDescription", "fullDescription", "help")}
        for rule in used
    ]
    driver = {"name": "stowplan", "version": __version__, "informationUri": _HOME, "rules": rules}
    seen: Counter[str] = Counter()
    results = [_result(one, used.index(one.rule), seen) for one in record.findings]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(one: FindingRecord, rule: int, seen: Counter[str]) -> dict[str, Any]:
    """`seen`: how often each fingerprint was so far; code hosts take equal ones for the same finding."""
    result = {"ruleId": one.rule, "ruleIndex": rule, "level": one.level, "message": {"text": _whole(one)}}
    if not one.file:
        return result
    uri = quote(one.file.replace("\\", "/").removeprefix("./"))
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": one.line}}
    # The same finding after its object has moved within the file.
    fingerprint = sha256("\0".join((one.rule, one.file, one.object)).encode()).hexdigest()[:16]
    seen[fingerprint] += 1
    return result | {
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"primaryLocationLineHash": f"{fingerprint}:{seen[fingerprint]}"},
    }
