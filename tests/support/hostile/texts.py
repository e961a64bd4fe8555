"""Hostile files: nested too deeply, too many items, too long, of the wrong type, or not text at all."""

import json
from typing import Any

CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
POLICY = "apiVersion: v1\nkind: Policy\n"
KUBECONFIG = "apiVersion: v1\nkind: Config\n"
MANIFEST = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
HEADS = {
    "configuration": CONFIGURATION,
    "policy": POLICY,
    "kubeconfig": KUBECONFIG,
    "manifest": MANIFEST,
    "nothing": "",
}

#: For each kind of file, a field that holds nested data.
FIELDS = {
    "configuration": "profiles",
    "policy": "predicates",
    "kubeconfig": "users",
    "manifest": "spec",
    "nothing": "a",
}


def laughs(levels, width=9):
    lines = [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * width)}]" for level in range(1, levels + 1)]
    return "\n".join(["l0: &l0 [x]", *lines]) + "\n"


def merges(levels, width=9):
    lines = [
        f"m{level}: &m{level} {{<<: [{', '.join([f'*m{level - 1}'] * width)}], k{level}: v}}"
        for level in range(1, levels + 1)
    ]
    return "\n".join(["m0: &m0 {a: b}", *lines]) + "\n"


def chain(length):
    links = [f"c{link}: &c{link} [*c{link - 1}]" for link in range(1, length)]
    return "\n".join(["c0: &c0 [x]", *links]) + "\n"


def bodies(field):
    """What follows the head of a file."""
    return {
        "billion laughs": laughs(9),
        "many laughs": laughs(40, 2),
        "merged laughs": merges(9),
        "a chain of anchors": chain(2_000),
        "a long text, over and over": f"t: &t {'x' * 50_000}\nl: [{', '.join(['*t'] * 20_000)}]\n",
        "an anchor in itself": "a: &a [*a]\n",
        "an anchor merged with itself": "a: &a {<<: *a}\n",
        "brackets": f"{field}: {'[' * 100_000}\n",
        "braces": f"{field}: {'{a: ' * 50_000}\n",
        "closed brackets": f"{field}: {'[' * 5_000}{']' * 5_000}\n",
        "900 levels": f"{field}: {'[' * 900}{']' * 900}\n",
        "nested dashes": f"{field}: {'- ' * 50_000}x\n",
        "nested question marks": "? " * 20_000 + "x\n",
        "indentation": "".join(f"{' ' * level}a:\n" for level in range(1_500)),
        "the same key twice": f"{field}: []\n{field}: []\n",
        "one key 20,000 times": f"{field}: []\n" * 20_000,
        "a number of 100,000 digits": f"{field}: {'9' * 100_000}\n",
        "a number with 100,000 zeros": f"{field}: 0x{'0' * 100_000}\n",
        "a float beyond floats": f"{field}: 1.0e+99999\n",
        "no number": f"{field}: .nan\n",
        "an empty number": f"{field}: [0x_, 0b_, 0_, -0x_, 0o]\n",
        "numbers that are none": f"{field}: !!int foo\n",
        "an empty tagged number": f'{field}: !!int ""\n',
        "floats that are none": f"{field}: !!float foo\n",
        "booleans that are none": f"{field}: !!bool foo\n",
        "times that are none": f"{field}: !!timestamp foo\n",
        "bytes": f"{field}: !!binary aGVsbG8=\n",
        "bytes that are none": f"{field}: !!binary a\n",
        "a set": f"{field}: !!set {{a, b}}\n",
        "an ordered map": f"{field}: !!omap [a: b]\n",
        "an object of Python": f"{field}: !!python/object/apply:os.system [true]\n",
        "a list for a key": "? [a, b]\n: c\n",
        "null for a key": "~: c\n",
        "no string": f"{field}: 5\n",
        "lists in lists": f"{field}: [[[[1]]]]\n",
        "nulls": f"{field}: [null, {{}}, null]\n",
        "control characters": f'{field}: "\\0\\a\\x7f\\uFFFE"\n',
        "a lone quote": f'{field}: "\n',
        "tabs": f"{field}:\n\t- a\n",
        "a million comments": "#\n" * 1_000_000,
        "a tag without end": f"{field}: !{'<' * 1_000}\n",
        "directives": "".join(f"%TAG !t{number}! tag:x,{number}:\n" for number in range(3_000)) + "---\na\n",
        "plugins that nobody knows": "profiles:\n- plugins:\n    filter:\n      enabled:\n"
        + "".join(f"      - name: Plugin{number}\n" for number in range(10_000)),
        "plugins that nobody disables": "profiles:\n- plugins:\n    filter:\n      disabled:\n"
        + "".join(f"      - name: Plugin{number}\n" for number in range(10_000)),
        "fields that nobody knows": "".join(f"field{number}: 1\n" for number in range(20_000)),
        "anchors": "".join(f"a{number}: &a{number} x\n" for number in range(5_000)),
    }


def json_texts(head, field):
    """The same as JSON."""
    start = json.dumps(head)[:-1] + (", " if head else "")
    return {
        "brackets": f'{start}"{field}": {"[" * 100_000}',
        "closed brackets": f'{start}"{field}": {"[" * 100_000}{"]" * 100_000}}}',
        "900 levels": f'{start}"{field}": {"[" * 900}{"]" * 900}}}',
        "900 objects": start + f'"{field}": ' + '{"a":' * 900 + "1" + "}" * 901,
        "objects": start + f'"{field}": ' + '{"a":' * 50_000 + "1" + "}" * 50_001,
        "the same key twice": f'{start}"{field}": [], "{field}": []}}',
        "a number of 100,000 digits": f'{start}"{field}": {"9" * 100_000}}}',
        "a float beyond floats": f'{start}"{field}": 1e99999}}',
        "no number": f'{start}"{field}": NaN}}',
        "infinity": f'{start}"{field}": -Infinity}}',
        "half a character": f'{start}"{field}": ["\\ud800"]}}',
        "cut off": f'{start}"{field}": [' + '{"a": "b"}, ' * 100_000,
        "no string": f'{start}"{field}": 5}}',
        "nulls": f'{start}"{field}": [null, {{}}, null, [null]]}}',
    }


#: Other readers of files with the head of each kind.
READERS = {
    "configuration": ("configuration",),
    "policy": ("configuration",),
    "kubeconfig": ("kubeconfig", "own kubeconfig"),
    "manifest": ("objects", "manifests"),
    "nothing": (),
}


def hostile_texts():
    """(name, bytes, readers) of all; no readers means all of them."""
    for kind, head in HEADS.items():
        field, readers = FIELDS[kind], READERS[kind]
        for name, body in bodies(field).items():
            yield f"{kind}: {name}", (head + body).encode(), readers
        lines: dict[str, Any] = dict(line.split(": ", 1) for line in head.splitlines() if "{" not in line)
        if kind == "manifest":
            lines["metadata"] = {"name": "web"}
        for name, text in json_texts(lines, field).items():
            yield f"{kind}: JSON: {name}", text.encode(), readers
    yield "no text", b"\xff\xfe\x00\x00", ()
    yield "nul", b"\0" * 100_000, ()
    yield "half of a character", b"kind: \xe2\x82", ()
    yield "empty", b"", ()
    yield "white space", b" \n" * 100_000, ()
