"""The static site: claims, every figure with its caption, every executed notebook.

    make site                    # or: python -m cast.site --config config/mini.yaml --out site

What wasn't made yet is listed with the command that makes it. All links are relative, so the folder
opens from disk and can be copied anywhere. The same results give the same bytes.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from pygments.formatters import HtmlFormatter

from cast.config import CastConfig
from cast.errors import CastError
from cast.io import write_text
from cast.paths import from_root
from cast.site.listing import FOLDER, SHOWN, caption, command
from cast.site.pages import Page, mend_links, read_page, relative
from cast.worlds import WORLDS

KINDS = ("pdf", "png", "csv", "tex")
MARK = ".cast-site"  # in every folder that this module made: only such a one is replaced
CLAIM_COLUMNS = ("id", "where", "claim", "paper", "ours", "verdict", "command")


@dataclass(frozen=True)
class Item:
    """An artefact on the index page; `files` maps its kinds to paths in the site."""

    name: str
    title: str
    command: str
    caption: str
    files: dict[str, str]


def build_site(config: CastConfig, out: Path) -> list[Path]:
    """Build the site of the config's world into `out`; returns the pages.

    Raises `CastError` where nothing was made yet, and where `out` is a folder that isn't a site.
    """
    figures = from_root(config.figures)
    notebooks = find_notebooks(config)
    if not notebooks and not any((figures / f"{name}.png").is_file() for name in SHOWN):
        raise CastError(
            f"{figures}: nothing was made yet in the {config.world} world. First run: make "
            f"reproduce CONFIG={config.world}"
        )
    if out.exists() and not (out / MARK).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise CastError(f"{out}: is there, and no site that this made. Choose another folder.")
    fresh = out.with_name(f".{out.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    pages = _write(config, figures, notebooks, fresh)
    shutil.rmtree(out, ignore_errors=True)
    fresh.replace(out)
    return [out / page for page in pages]


def find_notebooks(config: CastConfig) -> list[Path]:
    """Every executed notebook of the world and of the zoo, in the order of their numbers."""
    results = from_root(config.results)
    found = [*(results / config.world).rglob("*.ipynb"), *(results / "zoo").glob("*.ipynb")]
    kept = [path for path in found if not {"chunks", ".ipynb_checkpoints"} & set(path.parts)]
    return sorted(kept, key=lambda path: (path.stem, path.parts))


def _write(config: CastConfig, figures: Path, notebooks: Sequence[Path], out: Path) -> list[Path]:
    results = from_root(config.results)
    places = {
        path: Path("notebooks", path.relative_to(results)).with_suffix(".html")
        for path in notebooks
    }
    by_name = {path.name: place for path, place in reversed(places.items())}
    site = _templates()
    about = {"world": config.world, "world_note": WORLDS[config.world]}
    listed: list[dict[str, Any]] = []
    for path, place in places.items():
        page = read_page(path)
        body = mend_links(page.body, place, by_name)
        source = path.relative_to(results.parent).as_posix()
        root = relative(Path(""), place)
        text = site.get_template("page.html.j2").render(
            **about, title=page.title, body=body, root=root, source=source, failed=page.failed
        )
        write_text(out / place, text)
        listed.append(_entry(page, place, path))
    sections = _sections(config, figures, out)
    claims = _claims(figures / "claims.csv")
    index = site.get_template("index.html.j2").render(
        **about, sections=sections, claims=claims, columns=CLAIM_COLUMNS, notebooks=listed
    )
    write_text(out / "index.html", index)
    style = (from_root(FOLDER) / "site.css").read_text(encoding="utf-8")
    write_text(out / "site.css", style + HtmlFormatter().get_style_defs(".highlight") + "\n")
    write_text(out / MARK, f"{config.world}\n")
    return [Path("index.html"), *places.values()]


def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(from_root(FOLDER)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _entry(page: Page, place: Path, path: Path) -> dict[str, Any]:
    """A line of the list of notebooks; an arm's says which arm."""
    where = "/".join(path.parent.parts[-3:]) if path.parent.name.startswith("seed") else ""
    return {"title": page.title, "href": place.as_posix(), "arm": where, "failed": page.failed}


def _sections(config: CastConfig, figures: Path, out: Path) -> dict[str, list[Item]]:
    """Copies the artefacts that are there; returns all that are listed, by section."""
    sections: dict[str, list[Item]] = {}
    for name, place in SHOWN.items():
        files = {}
        for kind in KINDS:
            source = figures / f"{name}.{kind}"
            if source.is_file():
                files[kind] = f"figures/{source.name}"
                (out / "figures").mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, out / files[kind])
        item = Item(name, place.title, command(config, name), caption(config, name), files)
        sections.setdefault(place.section, []).append(item)
    return sections


def _claims(path: Path) -> list[dict[str, Any]]:
    """Rows of the claims table as text; none before it was made."""
    if not path.is_file():
        return []
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    missing = [name for name in CLAIM_COLUMNS if name not in table]
    if missing:
        raise CastError(f"{path}: has no column {missing[0]!r}. Delete it and make it anew.")
    return [
        {str(key): str(value) for key, value in row.items()} for row in table.to_dict("records")
    ]
