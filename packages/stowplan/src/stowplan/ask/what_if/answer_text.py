"""Answers to what-if questions as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from stowplan.ask.explain.text.tables import Block, Cell, Grid, Line
from stowplan.ask.what_if import answer_records
from stowplan.scheduler.framework.explanations.formatting import amount, count, listed
from stowplan.scheduler.inspection.records import QuotaRecord

#: Maximum number of table rows, and of names in a line and in a row.
_SHOWN, _NAMED, _IN_A_ROW = 20, 5, 3


def fit_page(record: answer_records.FitRecord) -> list[Block]:
    wanted = "" if record.wanted is None else f" of {record.wanted:,}"
    enough = record.wanted is None or record.fits >= record.wanted
    style = "good" if record.fits and enough else "pending"
    on = f" on {count(len(record.per_node), 'node')}" if record.per_node else ""
    blocks: list[Block] = [
        Line((("like ", ""), (record.pod, "name"), (": ", ""), (f"{record.fits:,}{wanted} more fit{on}", style)))
    ]
    if record.per_zone:
        blocks += table(("ZONE", "PODS"), ((zone, f"{pods:,}") for zone, pods in record.per_zone.items()), {1})
    blocks += _nodes(record.per_node)
    if record.limited_by:
        blocks += [Line(), Line((("What keeps the next one off", "head"),))]
        rows = [(f"{limit.nodes:,}", limit.reason, limit.plugin) for limit in record.limited_by]
        blocks += table(("NODES", "REASON", "PLUGIN"), rows, {0})
    if record.nodes_to_add:
        blocks += [Line(), Line((("Nodes that would make all of them fit", "head"),))]
        added = [
            (f"{add.count:,}", add.like, "" if add.each is None else f"{add.each:,}", _money(add.price))
            for add in record.nodes_to_add
        ]
        blocks += filled_table(("NODES", "LIKE", "PODS EACH", "PRICE"), added, {0, 2, 3})
    if record.cheapest is not None:
        blocks.append(Line(f"cheapest: {_mix(record.cheapest)}", indent=2))
    if record.mix is not None:
        blocks += [] if record.nodes_to_add else [Line(), Line((("Nodes that would make all of them fit", "head"),))]
        blocks.append(Line(f"together: {_mix(record.mix)}", indent=2))
    return blocks + notes_block(record.notes)


def group_fit_page(record: answer_records.GroupFitRecord) -> list[Block]:
    wanted = "" if record.wanted is None else f" of {record.wanted:,}"
    enough = record.wanted is None or record.fits >= record.wanted
    style = "good" if record.fits and enough else "pending"
    size = f" with {count(record.pods_each, 'pod')} each"
    text = f"{record.fits:,}{wanted} more {'group' if record.fits == 1 else 'groups'} fit whole"
    if record.fits == 1:
        text = f"1{wanted} more group fits whole"
    blocks: list[Block] = [
        Line((("like pod group ", ""), (record.pod_group, "name"), (": ", ""), (text, style), (size, "")))
    ]
    if record.limited_by:
        blocks.append(Line(f"the next one does not: {record.limited_by}", indent=2))
    if record.per_domain:
        blocks += table(("DOMAIN", "PODS"), [(name, f"{pods:,}") for name, pods in record.per_domain.items()], {1})
    blocks += _nodes(record.per_node)
    if record.nodes_to_add:
        blocks += [Line(), Line((("Nodes that would make all of them fit", "head"),))]
        rows = [(f"{add.count:,}", add.like, _money(add.price)) for add in record.nodes_to_add]
        blocks += filled_table(("NODES", "LIKE", "PRICE"), rows, {0, 2})
    return blocks + notes_block(record.notes)


def drain_page(record: answer_records.DrainRecord) -> list[Block]:
    clean = not (record.stranded or record.blocked_by or record.lost or record.partial)
    pods = count(len(record.moves), "pod")
    verdict = f"{pods} would find another node" if clean else f"{pods} would move"
    if clean and not record.moves:
        verdict = "no pod would have to move"
    parts = [
        (len(record.stranded), "would find no node"),
        (len(record.blocked_by), "may not be evicted"),
        (len(record.lost), "would be lost"),
        (len(record.displaced), "elsewhere would be evicted for them"),
        (0 if record.partial is None else record.partial.of - record.partial.decided, "were not decided"),
    ]
    verdict += "".join(f", {number:,} {what}" for number, what in parts if number)
    blocks: list[Block] = [
        Line((("drain of ", ""), (listed(list(record.nodes), _NAMED), "name"), (": ", ""), (verdict, style_of(clean))))
    ]
    if record.stay:
        blocks.append(Line(f"{count(record.stay, 'pod')} of DaemonSets or kubelets stay", indent=2))
    blocks += _stranded(record.stranded)
    if record.blocked_by:
        blocks += [Line(), Line((("Held up by disruption budgets", "head"),))]
        rows = [(block.pod, block.node, block.budget, block.reason) for block in record.blocked_by]
        blocks += table(("POD", "NODE", "BUDGET", "WHY"), rows)
    if record.lost:
        blocks += [
            Line(),
            Line((("Lost: no controller recreates them", "head"),)),
            Line(listed(list(record.lost), 20), indent=2),
        ]
    if record.moves:
        blocks += [Line(), Line((("Moves", "head"),))]
        blocks += table(("POD", "FROM", "TO"), [(move.pod, move.from_, move.to) for move in record.moves])
    return blocks + notes_block(record.notes)


def survive_page(record: answer_records.SurviveRecord) -> list[Block]:
    bad = [loss for loss in record.losses if loss.stranded or loss.gone]
    unknown = sum(1 for loss in record.losses if loss.undecided)
    what = "node" if record.by == "node" else record.by
    total = len(record.losses)
    if bad:
        verdict = f"{len(bad):,} of {total:,} losses would leave pods without a node"
    elif unknown:
        verdict = f"{unknown:,} of {total:,} losses were not decided to the end"
    elif not any(loss.pods for loss in record.losses):
        verdict = "no pod is on these nodes that would have to go elsewhere"
    else:
        verdict = f"each of {total:,} losses would be made good: every pod finds another node"
    blocks: list[Block] = [
        Line((("loss of each ", ""), (what, "name"), (": ", ""), (verdict, style_of(not (bad or unknown)))))
    ]
    rows = [_loss_row(loss) for loss in record.losses]
    header = ("LOST", "NODES", "PODS", "MOVE", "STRANDED", "GONE", "DISPLACED")
    blocks += table(header, rows, {1, 2, 3, 4, 5, 6})
    meanings = {
        "stranded: no other node takes it": any(loss.stranded for loss in bad),
        "gone: no controller recreates it": any(loss.gone for loss in bad),
        "displaced: a pod elsewhere that is evicted for one of these": any(loss.displaced for loss in record.losses),
    }
    blocks += [Line(((text, "dim"),), indent=2) for text, is_used in meanings.items() if is_used]
    for loss in bad[:_NAMED]:
        blocks += [Line(), Line((("Without ", "head"), (loss.lost, "name")))]
        blocks += _reasons(loss.stranded, loss.gone)
    return blocks + notes_block(record.notes)


def _loss_row(loss: answer_records.LossRecord) -> tuple[str, ...]:
    numbers = (loss.nodes, loss.pods, loss.moved, len(loss.stranded), len(loss.gone), len(loss.displaced))
    return loss.lost, *(f"{number:,}" for number in numbers)


def what_if_page(record: answer_records.WhatIfRecord) -> list[Block]:
    blocks: list[Block] = [Line((("change: ", ""), (text, "name"))) for text in record.changes]
    before, after = record.before, record.after
    rows = [
        ("nodes", f"{before.nodes:,}", f"{after.nodes:,}"),
        ("pods with a node", f"{before.pods:,}", f"{after.pods:,}"),
        ("pending", f"{len(before.pending):,}", f"{len(after.pending):,}"),
    ]
    blocks += table(("", "BEFORE", "AFTER"), rows, {1, 2})
    if record.placed:
        blocks += [Line(), Line((("Get a node", "good"),))]
        blocks += table(("POD", "NODE"), list(record.placed.items()))
    if record.displaced:
        blocks += [Line(), Line((("Lose their node", "bad"),))]
        pending = frozenset(after.pending)
        lost = {pod: node or ("nowhere" if pod in pending else "deleted") for pod, node in record.displaced.items()}
        blocks += table(("POD", "GOES TO"), list(lost.items()))
    if record.elsewhere:
        blocks += [Line(), Line((("Go elsewhere", "head"),))]
        blocks += table(("POD", "BEFORE", "AFTER"), [(pod, *nodes) for pod, nodes in record.elsewhere.items()])
    blocks += _quotas(before, after)
    blocks += _waiting(after)
    return blocks + notes_block(record.notes)


def _quotas(before: answer_records.SideRecord, after: answer_records.SideRecord) -> list[Block]:
    """The quotas of which more or less is used, or that have changed."""
    known = {(one.quota, one.resource): one for one in before.quotas}
    changed = [one for one in after.quotas if one != known.get((one.quota, one.resource))]
    if not changed:
        return []
    rows = [(one.quota, *_of_quota(one, known.get((one.quota, one.resource)))) for one in changed[:_SHOWN]]
    columns = ("QUOTA", "BEFORE", "AFTER", "GUARANTEED", "AT MOST", "BORROWS")
    return [Line(), Line((("What quotas use", "head"),)), *table(columns, rows, {1, 2, 3, 4})]


def _of_quota(after: QuotaRecord, before: QuotaRecord | None) -> tuple[str, ...]:
    def shown(number: int | None) -> str:
        return "" if number is None else f"{amount(after.resource, number)} {after.resource}"

    borrowed = after.used - after.least
    of = f" of {', '.join(after.lenders)}" if after.lenders else ""
    return (
        shown(before.used if before is not None else 0),
        shown(after.used),
        shown(after.least),
        shown(after.most),
        f"{shown(borrowed)}{of}" if borrowed > 0 else "",
    )


def _waiting(side: answer_records.SideRecord) -> list[Block]:
    if not side.pending:
        return []
    rows = [(f"{pods:,}", filters_part(reason)) for reason, pods in side.reasons.items()]
    return [Line(), Line((("What is pending afterwards waits for", "head"),)), *table(("PODS", "REASON"), rows, {0})]


def _stranded(stranded: Sequence[answer_records.StrandedRecord]) -> list[Block]:
    if not stranded:
        return []
    return [Line(), Line((("Would find no node", "head"),)), *_reasons(stranded)]


def _reasons(stranded: Sequence[answer_records.StrandedRecord], gone: Sequence[str] = ()) -> list[Block]:
    """Stranded pods by reason, and those that are not recreated."""
    pods: dict[str, list[str]] = {}
    for record in stranded:
        pods.setdefault(record.reason, []).append(record.pod)
    if gone:
        pods["no controller recreates it"] = list(gone)
    numbers = Counter({reason: len(names) for reason, names in pods.items()})
    rows = [
        (f"{number:,}", filters_part(reason), listed(pods[reason], _IN_A_ROW))
        for reason, number in numbers.most_common()
    ]
    return table(("PODS", "REASON", ""), rows, {0})


def filters_part(reason: str) -> str:
    """The part of the scheduler's message about nodes, without what PostFilter adds."""
    return reason.partition(". ")[0]


def table(header: Sequence[str], rows: Iterable[Sequence[Cell]], right: Iterable[int] = ()) -> list[Block]:
    found = list(rows)
    blocks: list[Block] = [Grid(found[:_SHOWN], tuple(header), frozenset(right))]
    if len(found) > _SHOWN:
        blocks.append(Line(((f"and {len(found) - _SHOWN:,} more; -o json has all", "dim"),), indent=2))
    return blocks


def filled_table(header: Sequence[str], rows: Sequence[Sequence[Cell]], right: Collection[int]) -> list[Block]:
    """A table without its empty columns."""
    kept = [column for column in range(len(header)) if any(row[column] for row in rows)]
    narrowed = [[row[column] for column in kept] for row in rows]
    numbers = {position for position, column in enumerate(kept) if column in right}
    return table([header[column] for column in kept], narrowed, numbers)


def _nodes(per_node: Mapping[str, int]) -> list[Block]:
    if not per_node:
        return []
    most = sorted(per_node.items(), key=lambda item: (-item[1], item[0]))
    return table(("NODE", "PODS"), [(node, f"{pods:,}") for node, pods in most], {1})


def notes_block(notes: Sequence[str]) -> list[Block]:
    return [Line(), *(Line(f"note: {note}") for note in notes)] if notes else []


def style_of(good: bool) -> str:
    return "good" if good else "pending"


def _mix(record: answer_records.MixRecord) -> str:
    nodes = ", ".join(f"{number:,} like {name}" for name, number in record.nodes.items())
    return nodes if record.price is None else f"{nodes}, {_money(record.price)} in all"


def _money(price: float | None) -> str:
    return "" if price is None else f"{price:,.2f}"
