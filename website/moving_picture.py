"""The moving picture of the page in docs/use/page.md: twenty seconds of the real page beside a real scheduler.

    python website/moving_picture.py docs/assets/page-moving.png

Starts `stowplan up`, opens its page in Chromium, has kubectl do what happens in the picture, and takes five pictures a
second. They become an animated PNG: frames share 256 colours, and each holds no more than what changed, so that the
file stays small without a video format. Needs kubectl, Chromium and what the tests need.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS, RATE = 20, 5
WIDTH, HEIGHT = 1000, 600
COLOURS = 256
#: Of a screenshot: its pixels, as a browser decodes them.
DECODE = """async (data) => {
  const image = await createImageBitmap(await (await fetch('data:image/png;base64,' + data)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height).data;
  let text = '';
  for (let i = 0; i < pixels.length; i += 32768) text += String.fromCharCode(...pixels.subarray(i, i + 32768));
  return btoa(text);
}"""


def workload(name: str, replicas: int, cpu: str, **spec: Any) -> str:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **spec},
    }
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
        }
    )


URGENT = (
    '{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}'
)
#: Second -> what kubectl is told, and what it reads.
PLAY: dict[int, tuple[list[str], str]] = {
    1: (["apply", "-f", "-"], workload("web", 24, "1")),
    4: (["apply", "-f", "-"], workload("api", 16, "1500m")),
    6: (["apply", "-f", "-"], workload("db", 3, "4")),
    9: (["scale", "deployment/web", "--replicas=50"], ""),
    12: (["apply", "-f", "-"], URGENT),
    13: (["apply", "-f", "-"], workload("urgent", 5, "3", priorityClassName="urgent")),
    16: (["scale", "deployment/api", "--replicas=6"], ""),
}


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The page's address, and how kubectl is called."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-u", "-m", "stowplan", "up", "--nodes", "12", "--kubeconfig-out", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "#token=" in line)
            yield line.split()[-1], ["kubectl", f"--kubeconfig={kubeconfig}"]
        finally:
            process.terminate()


def taken(folder: Path) -> list[np.ndarray]:
    """The pictures, as arrays of rows, columns and colours."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with served(folder) as (address, kubectl), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(address)
        page.goto(f"{address.partition('#')[0]}#/plan?resource=cpu")
        page.locator(".sum").wait_for()
        shots: list[bytes] = []
        began = time.monotonic()
        play = dict(PLAY)
        for number in range(SECONDS * RATE):
            due = [second for second in play if second <= number / RATE]
            for second in due:
                arguments, text = play.pop(second)
                subprocess.run([*kubectl, *arguments], input=text, text=True, check=True, stdout=subprocess.DEVNULL)
            shots.append(page.screenshot())
            page.wait_for_timeout(max(0, 1000 * (began + (number + 1) / RATE - time.monotonic())))
        decoder = browser.new_page()
        found = [_pixels(decoder.evaluate(DECODE, base64.b64encode(shot).decode())) for shot in shots]
        browser.close()
    return found


def _pixels(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(HEIGHT, WIDTH, 4)[:, :, :3]


def with_few_colours(frames: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """A palette for all frames, and each frame as places in it."""
    codes = [_codes(frame) for frame in frames]
    count = sum(np.bincount(code.ravel(), minlength=1 << 15) for code in codes)
    sums = np.zeros((1 << 15, 3))
    for frame, code in zip(frames[:: max(1, len(frames) // 10)], codes[:: max(1, len(codes) // 10)], strict=True):
        np.add.at(sums, code.ravel(), frame.reshape(-1, 3))
    chosen = np.argsort(-count)[:COLOURS]
    middle = np.stack([(np.arange(1 << 15) >> shift & 31) * 8 + 4 for shift in (10, 5, 0)], axis=1)
    seen = sum(np.bincount(code.ravel(), minlength=1 << 15) for code in codes[:: max(1, len(codes) // 10)])
    colours = np.where(seen[:, None] > 0, sums / np.maximum(seen, 1)[:, None], middle)
    palette = np.clip(np.rint(colours[chosen]), 0, 255).astype(np.uint8)
    nearest = np.empty(1 << 15, np.uint8)
    for start in range(0, 1 << 15, 1024):
        far = ((middle[start : start + 1024, None, :] - palette[None].astype(int)) ** 2).sum(axis=2)
        nearest[start : start + 1024] = far.argmin(axis=1)
    nearest[chosen] = np.arange(len(chosen))
    return palette, [nearest[code] for code in codes]


def _codes(frame: np.ndarray) -> np.ndarray:
    wide = frame.astype(np.int32) >> 3
    return (wide[:, :, 0] << 10) | (wide[:, :, 1] << 5) | wide[:, :, 2]


def animated(palette: np.ndarray, frames: list[np.ndarray]) -> bytes:
    """An animated PNG; a frame that is like the one before makes that one last longer."""
    kept: list[tuple[int, int, np.ndarray, int]] = []
    for frame, before in zip(frames, [None, *frames], strict=False):
        left, top, part = (0, 0, frame) if before is None else _changed(before, frame)
        if part.size:
            kept.append((left, top, part, 1))
        else:
            kept[-1] = (*kept[-1][:3], kept[-1][3] + 1)
    out = io.BytesIO()
    out.write(b"\x89PNG\r\n\x1a\n")
    out.write(_chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 3, 0, 0, 0)))
    out.write(_chunk(b"acTL", struct.pack(">II", len(kept), 0)))
    out.write(_chunk(b"PLTE", palette.tobytes()))
    number = 0
    for left, top, part, lasts in kept:
        height, width = part.shape
        control = struct.pack(">IIIIIHHBB", number, width, height, left, top, lasts, RATE, 0, 0)
        out.write(_chunk(b"fcTL", control))
        rows = np.concatenate([np.zeros((height, 1), np.uint8), part], axis=1)
        data = zlib.compress(rows.tobytes(), 9)
        out.write(_chunk(b"IDAT", data) if number == 0 else _chunk(b"fdAT", struct.pack(">I", number + 1) + data))
        number += 1 if number == 0 else 2
    out.write(_chunk(b"IEND", b""))
    return out.getvalue()


def _changed(before: np.ndarray, after: np.ndarray) -> tuple[int, int, np.ndarray]:
    """The smallest part that holds all that is different."""
    rows, columns = np.nonzero(before != after)
    if not rows.size:
        return 0, 0, after[:0]
    top, left = rows.min(), columns.min()
    return int(left), int(top), after[top : rows.max() + 1, left : columns.max() + 1]


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        frames = taken(Path(folder))
    made = animated(*with_few_colours(frames))
    Path(sys.argv[1]).write_bytes(made)
    print(f"{sys.argv[1]}: {len(frames)} pictures, {len(made) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
