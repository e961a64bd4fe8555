"""A plan of moves as text, and as commands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from shlex import quote

from stowplan.ask.explain.text.tables import Block, Line
from stowplan.ask.rebalance.gained_room import RoomAnswer
from stowplan.ask.rebalance.plan_records import KeptRecord, RebalanceRecord
from stowplan.ask.what_if.answer_text import filled_table, notes_block, style_of, table
from stowplan.scheduler.framework.explanations.formatting import count, listed

#: Names in a line, and in a row.
_NAMED, _IN_A_ROW = 5, 3


def rebalance_page(record: RebalanceRecord) -> list[Block]:
    blocks: list[Block] = [Line((("rebalance: ", ""), (record.goal, "name"), (": ", ""), _verdict(record)))]
    before, after = record.before, record.after
    numbers = [
        ("nodes without pods", f"{before.empty_nodes:,} of {before.nodes:,}", f"{after.empty_nodes:,}"),
        ("standard deviation of the nodes' use", f"{before.unevenness:.1f} %", f"{after.unevenness:.1f} %"),
    ]
    if record.moves:
        blocks += table(("", "BEFORE", "AFTER"), numbers, {1, 2})
    if record.cordon:
        blocks.append(Line(f"first cordon {listed(list(record.cordon), _NAMED)}", indent=2))
    if record.moves:
        blocks += [Line(), Line((("Moves", "head"),))]
        rows = [(f"{move.step:,}", move.pod, move.from_, move.to, move.reason) for move in record.moves]
        blocks += table(("STEP", "POD", "FROM", "TO", "WHY"), rows, {0})
    if record.removals:
        blocks += [Line(), Line((("Pods that have ended, deleted", "head"),))]
        gone = [(one.pod, one.node, one.reason) for one in record.removals]
        blocks += table(("POD", "NODE", "WHY"), gone)
    if record.placed:
        blocks += [Line(), Line((("Pending pods that find a node then", "head"),))]
        blocks += table(("POD", "NODE"), list(record.placed.items()))
    return blocks + _kept(record.kept) + notes_block(record.notes)


def room_page(record: RoomAnswer) -> list[Block]:
    room = record.room
    head = f"Room on {count(room.nodes, 'node')} that take{'s' if room.nodes == 1 else ''} pods"
    blocks: list[Block] = [Line(((head, "head"), (", by resources alone", "")))]
    rows = [
        (one.name, f"{one.seen:,}" if one.seen else "", f"{one.fits:,}", f"{one.together:,}", f"{one.lost:.0%}")
        for one in room.shapes
    ]
    blocks += filled_table(
        ("PODS LIKE", "THERE ARE", "MORE FIT", "IF ALL FREE WERE TOGETHER", "LOST"), rows, {1, 2, 3, 4}
    )
    if room.fragmentation:
        shares = ", ".join(f"{name} {share:.1%}" for name, share in room.fragmentation.items())
        blocks.append(Line(f"free where a typical pod does not fit: {shares}", indent=2))
    if record.gains:
        blocks += [Line(), Line((("What moving pods would gain", "head"),))]
        gains = [
            (
                one.shape,
                f"1 more, after {count(one.moves, 'move')} from {listed(one.nodes)}"
                if one.gained
                else "no moves were found",
            )
            for one in record.gains
        ]
        blocks += filled_table(("PODS LIKE", "GAIN"), gains, set())
        blocks.append(Line("stowplan rebalance --goal room-for=FILE plans the moves for the pods of a file", indent=2))
    return blocks + notes_block(record.notes)


def _verdict(record: RebalanceRecord) -> tuple[str, str]:
    moves = count(len(record.moves), "move")
    if record.removals:
        moves += f", {count(len(record.removals), 'deletion')}"
    if record.met:
        return (moves if record.moves or record.removals else "nothing to do"), style_of(True)
    return f"{moves}, and not all is reached", style_of(False)


def _kept(kept: tuple[KeptRecord, ...]) -> list[Block]:
    """Pods that should move and do not, by why they do not."""
    if not kept:
        return []
    pods: dict[tuple[str, str], list[str]] = {}
    for record in kept:
        pods.setdefault((record.kept, record.reason), []).append(record.pod)
    numbers = Counter({reasons: len(names) for reasons, names in pods.items()})
    rows = [
        (f"{number:,}", listed(pods[reasons], _IN_A_ROW), reasons[1], reasons[0])
        for reasons, number in numbers.most_common()
    ]
    header = ("PODS", "", "SHOULD MOVE", "STAY")
    return [Line(), Line((("Would have to move, and stay", "head"),)), *filled_table(header, rows, {0})]


def commands_of(record: RebalanceRecord) -> Iterator[str]:
    """A shell script: evictions obey budgets, and a step waits for the one before."""
    yield "set -e"
    for node in record.cordon:
        yield f"kubectl cordon {quote(node)}"
    step = 1
    for removal in record.removals:
        yield _eviction(removal.pod)
    for move in record.moves:
        if move.step > step:
            step = move.step
            yield f"# Step {step}: once the replacements of the pods above run."
        if move.cordons:
            yield f"kubectl cordon {quote(move.from_)}"
        yield f"{_eviction(move.pod)}  # to {move.to}"
    for node in record.uncordon:
        yield f"kubectl uncordon {quote(node)}"


def _eviction(pod: str) -> str:
    namespace, _, name = pod.partition("/")
    metadata = {"namespace": namespace, "name": name}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    return f"echo {quote(json.dumps(body))} | kubectl create --raw {quote(path)} -f -"
