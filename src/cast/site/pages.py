"""An executed notebook as a page: its text, code and outputs, no script and no other host."""

import re
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter

from cast.errors import CastError

SCRIPTS = {"application/javascript", "application/vnd.jupyter.widget-view+json"}


@dataclass(frozen=True)
class Page:
    """A notebook's title (its first heading), its body as HTML, and whether a cell raised."""

    title: str
    body: str
    failed: bool


def read_page(path: Path) -> Page:
    """Convert one executed notebook; `CastError` for a file that is none."""
    try:
        notebook: Any = nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        raise CastError(
            f"{path}: can't be read as a notebook ({error}). Delete it: its step writes it anew."
        ) from error
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            for mime in SCRIPTS & set(output.get("data", {})):
                del output["data"][mime]
    body, _ = _exporter().from_notebook_node(notebook)
    failed = bool(notebook.metadata.get("papermill", {}).get("exception"))
    return Page(_title(notebook, path), body, failed)


@cache
def _exporter() -> HTMLExporter:
    return HTMLExporter(template_name="basic", exclude_anchor_links=True)


def _title(notebook: Any, path: Path) -> str:
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (found := re.match(r"# (.+)", cell.source)):
            return found[1]
    return path.stem


def mend_links(body: str, here: Path, pages: dict[str, Path]) -> str:
    """Let links to other notebooks lead to their pages; a link that leads nowhere becomes text.

    `here` is the page's path in the site, `pages` the page of each notebook's name.
    """

    def mended(match: re.Match[str]) -> str:
        target = pages.get(Path(match[1]).name)
        if target is None:
            return match[2]
        return f'<a href="{escape(relative(target, here))}">{match[2]}</a>'

    return re.sub(r'<a href="([^":#]+)"[^>]*>(.*?)</a>', mended, body)


def relative(target: Path, here: Path) -> str:
    """Path from one page to another file, both relative to the site's root."""
    return "/".join([".."] * (len(here.parts) - 1) + list(target.parts))
