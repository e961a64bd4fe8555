"""What MkDocs needs beside docs/: pages that lie elsewhere in the repository, and links that lead out of docs/.

Pages are read in a checkout, in an editor and on the site. So they link to files of the repository by relative paths;
the site serves a copy of each file that is linked, and shows a linked folder as text, unless its README is a page.
CONTRIBUTING.md and its like lie at the root, where people look for them, and become pages here; so does the notebook,
with the outputs that are stored in it.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
#: Page of the site -> file of the repository that it is made of.
PAGES = {
    "use/examples.md": "examples/README.md",
    "use/notebook.md": "docs/use/notebook.ipynb",
    "run/deploy.md": "deploy/README.md",
    "extend/scheduler-plugins.md": "packages/stowplan-scheduler-plugins/README.md",
    "project/benchmarks.md": "benchmarks/README.md",
    "project/contributing.md": "CONTRIBUTING.md",
    "project/security.md": "SECURITY.md",
    "project/changelog.md": "CHANGELOG.md",
}
#: Folder of the site with copies of linked files.
COPIES = "files"

LINK = re.compile(r"(?<!!)\[([^\]\[]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, *, config: Any) -> Files:
    for page, source in PAGES.items():
        path = ROOT / source
        text = path.read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=notebook_page(text) if path.suffix == ".ipynb" else text))
    for file in list(files.documentation_pages()):
        for path in sorted(linked_files(file.content_string, _origin(file.src_uri))):
            if files.get_file_from_path(f"{COPIES}/{path}") is None:
                copied = File.generated(config, f"{COPIES}/{path}", abs_src_path=str(ROOT / path))
                files.append(copied)
    for file in list(files):
        # The notebook is a page; its file is served where pages link to it.
        if file.src_uri.endswith(".ipynb") and not file.src_uri.startswith(COPIES):
            files.remove(file)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: Any, files: Files) -> str:
    origin = _origin(page.file.src_uri)

    def rewritten(match: re.Match[str]) -> str:
        text, target = match.groups()
        path = outside(target, origin)
        if path is None:
            return match.group()
        if not (ROOT / path).exists():
            raise PluginError(f"{page.file.src_uri}: link to {target}, which is not in the repository")
        own = _page_of(path)
        if own is None and (ROOT / path).is_dir():
            return text
        relative = posixpath.relpath(own or f"{COPIES}/{path}", posixpath.dirname(page.file.src_uri))
        _, hash_sign, anchor = target.partition("#")
        return f"[{text}]({relative}{hash_sign}{anchor})"

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(rewritten, part) for part in parts)


def linked_files(markdown: str, origin: str) -> set[str]:
    """Paths in the repository of linked files that are no pages."""
    found = {outside(target, origin) for _, target in LINK.findall(FENCE.sub("", markdown))}
    return {path for path in found if path is not None and _page_of(path) is None and (ROOT / path).is_file()}


def outside(target: str, origin: str) -> str | None:
    """Where in the repository a link of a file in folder `origin` leads; None for what MkDocs resolves itself."""
    if re.match(r"[a-z]+:|#|/", target):
        return None
    path = posixpath.normpath(posixpath.join(origin, target.partition("#")[0]))
    in_docs = path.startswith("docs/assets/") or (path.startswith("docs/") and path.endswith(".md"))
    return None if in_docs and f"{origin}/".startswith("docs/") else path


def _origin(page: str) -> str:
    """The folder of the repository that a page's links are relative to."""
    return posixpath.dirname(PAGES.get(page, f"docs/{page}"))


def _page_of(path: str) -> str | None:
    for page, source in PAGES.items():
        # A folder's page is its README.
        if path == source or f"{path}/README.md" == source:
            return page
    if path == "README.md":
        return "index.md"
    return path.removeprefix("docs/") if re.fullmatch(r"docs/.+\.md", path) else None


def notebook_page(text: str) -> str:
    """A notebook with its stored outputs as Markdown."""
    return "\n\n".join(_cell(cell) for cell in json.loads(text)["cells"]) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    outputs = [_output(output["data"]) for output in cell["outputs"]]
    return "\n\n".join([f"```python\n{source}\n```", *outputs])


def _output(data: dict[str, list[str]]) -> str:
    if "text/html" in data:
        return '<div class="output">' + "".join(data["text/html"]).replace("\n", " ") + "</div>"
    return "```text\n" + "".join(data["text/plain"]) + "\n```"
