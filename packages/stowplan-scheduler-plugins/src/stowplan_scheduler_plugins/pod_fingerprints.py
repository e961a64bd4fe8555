"""The fingerprint of a set of pods, by which NUMA agents say which pods their measurement includes.

Upstream: k8stopologyawareschedwg/podfingerprint; XXH64 of Cyan4973/xxHash.
"""

from collections.abc import Iterable

ATTRIBUTE, METHOD = "nodeTopologyPodsFingerprint", "nodeTopologyPodsFingerprintMethod"
ANNOTATION = "topology.node.k8s.io/fingerprint"
WITH_EXCLUSIVE_RESOURCES = "with-exclusive-resources"

_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MASK = (1 << 64) - 1


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Of pods as (namespace, name), in any order."""
    hashes = sorted(xxh64(name.encode(), xxh64(namespace.encode())) for namespace, name in pods)
    return f"pfp0v001{xxh64(b''.join(one.to_bytes(8, 'little') for one in hashes)):016x}"


def xxh64(data: bytes, seed: int = 0) -> int:
    end, found = 0, (seed + _P5) & _MASK
    if len(data) >= 32:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        while end + 32 <= len(data):
            lanes = [_round(lane, _word(data, end + 8 * i)) for i, lane in enumerate(lanes)]
            end += 32
        found = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _P1 + _P4) & _MASK
    found = (found + len(data)) & _MASK
    while end + 8 <= len(data):
        found = (_rotated(found ^ _round(0, _word(data, end)), 27) * _P1 + _P4) & _MASK
        end += 8
    if end + 4 <= len(data):
        found = (_rotated(found ^ (_word(data, end, 4) * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        end += 4
    for byte in data[end:]:
        found = _rotated(found ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    for shift, factor in ((33, _P2), (29, _P3)):
        found = (found ^ found >> shift) * factor & _MASK
    return found ^ found >> 32


def _word(data: bytes, start: int, size: int = 8) -> int:
    return int.from_bytes(data[start : start + size], "little")


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK
