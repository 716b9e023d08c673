"""The report and the site of a real run, opened in Chromium: whole, and without another host."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from cast.config import load_config
from cast.errors import CastError
from cast.paths import from_root, repository_root
from cast.site.build import MARK, build_site
from cast.site.listing import SHOWN, caption, command, shown
from cast.site.pages import mend_links, read_page

SMOKE = "config/smoke.yaml"
browsers = pytest.importorskip("browser")
NEEDS_BROWSER = pytest.mark.skipif(
    browsers.CHROMIUM is None or browsers.DRIVER is None,
    reason="needs Debian's chromium and chromium-driver",
)


@pytest.fixture(scope="module")
def browser():
    opened = browsers.Browser()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def config():
    return load_config(SMOKE)


def local(urls: set[str]) -> bool:
    return all(urlsplit(url).scheme == "file" for url in urls)


def test_every_artefact_has_a_place_and_a_caption(config):
    for name in SHOWN:
        text = caption(config, name)
        assert command(config, name).split()[1] in text and "SMOKE RUN" in text, name
    captions = {path.stem for path in from_root("report").glob("*.rst")} - {"workflow"}
    assert captions == set(SHOWN)
    with pytest.raises(CastError, match="Did you mean 'figure7'"):
        shown("figure77")


def write_notebook(path: Path, source: str, failed: bool = False) -> None:
    cell = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": source}
    meta = {"papermill": {"exception": failed}}
    notebook = {"cells": [cell], "metadata": meta, "nbformat": 4, "nbformat_minor": 5}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook))


def test_a_site_of_half_a_run_says_what_is_missing(tmp_path, config):
    here = config.model_copy(update={"results": str(tmp_path), "figures": str(tmp_path / "f")})
    with pytest.raises(CastError, match="make reproduce CONFIG=smoke"):
        build_site(here, tmp_path / "site")
    first = tmp_path / "smoke/prompts/01_prompts.ipynb"
    write_notebook(first, "# Prompts\n[next](02_next.ipynb) [gone](03_gone.ipynb)")
    write_notebook(tmp_path / "smoke/x/seed0/02_next.ipynb", "# Next", failed=True)
    pages = build_site(here, tmp_path / "site")
    index = pages[0].read_text()
    assert "ended with an error" in index and "figure8.pdf --configfile" in index
    body = pages[1].read_text()
    assert 'href="../../../notebooks/smoke/x/seed0/02_next.html"' in body and "03_gone" not in body
    before = {page: page.read_bytes() for page in pages}
    build_site(here, tmp_path / "site")
    assert before == {page: page.read_bytes() for page in pages}
    (tmp_path / "site" / MARK).unlink()
    with pytest.raises(CastError, match="no site that this made"):
        build_site(here, tmp_path / "site")
    first.write_text("no notebook")
    with pytest.raises(CastError, match="can't be read as a notebook"):
        read_page(first)
    assert mend_links('<a href="https://a.org/x">x</a>', Path("a.html"), {}).startswith("<a href")


@pytest.mark.workflow
@NEEDS_BROWSER
def test_the_site_opens_from_disk(smoke, tmp_path, browser, config):
    made = build_site(config, tmp_path / "site")
    shutil.move(tmp_path / "site", tmp_path / "moved")
    root = tmp_path / "moved"
    pages = [root / page.relative_to(tmp_path / "site") for page in made]
    linked: set[Path] = set()
    for page in pages:
        browser.open(page)
        broken = "return [...document.images].filter(i => !i.naturalWidth).map(i => i.alt)"
        assert browser.run(broken) == [], page
        anchors = "return [...document.links].map(a => [a.href, !a.hash || !a.getAttribute("
        anchors += "'href').startsWith('#') || !!document.querySelector(a.hash)])"
        for href, found in browser.run(anchors):
            assert urlsplit(href).scheme == "file" and found, f"{page}: {href}"
            linked.add(Path(unquote(urlsplit(href).path)))
    assert all(path.is_file() and path.stat().st_size for path in linked)
    assert set(pages) <= linked
    assert {path.name for path in linked} >= {f"{n}.{k}" for n in SHOWN for k in ("pdf", "csv")}
    browser.open(pages[0])
    shapes = browser.run("return [...document.images].map(i => i.src.split('/').pop())")
    assert set(shapes) == {f"{name}.png" for name in SHOWN if name != "claims"}
    assert browser.run("return document.querySelectorAll('.claims tbody tr').length") == 34
    assert browser.errors() == []
    assert local(browser.requests())


SHOW = """
    app.showCategory(arguments[0]);
    app.setView({content: "img", contentPath: arguments[1]});
    return new Promise(shown => setTimeout(shown, 200)).then(() => {
        const image = [...document.images].find(i => i.src === arguments[1]);
        return image.decode().then(() => image.naturalWidth);
    });
"""


@pytest.mark.workflow
@NEEDS_BROWSER
def test_the_report_opens_from_disk(smoke, tmp_path, browser, config):
    report = tmp_path / "report.html"
    made = subprocess.run(
        [sys.executable, "-m", "snakemake", "--report", str(report), "--configfile", SMOKE],
        cwd=repository_root(),
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    browser.open(report)
    results = browser.run("return results")
    for name, place in SHOWN.items():
        entry = results[f"{config.figures}/{name}.png"]
        assert entry["labels"]["title"] == place.title
        assert command(config, name).split()[1] in entry["caption"]
        assert "SMOKE RUN" in entry["caption"]
        assert f"{config.figures}/{name}.csv" in results
        shown_width = browser.run(SHOW, place.section, entry["data_uri"])
        assert shown_width > 200, name
    assert set(browser.run("return categories")) == {place.section for place in SHOWN.values()}
    assert "Begin with the claims" in browser.run("return workflow_desc")
    assert browser.errors() == []
    assert local(browser.requests())
