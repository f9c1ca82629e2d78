"""Reports in a real browser: nothing is asked of any network, no script runs, and both schemes and paper show the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from migctl.core.views.report import ReportView
from migctl.render.report.page import page
from tests.support import report_values as values
from tests.support.chromium import Chromium, Page, chromium

VIEWS = {
    "watched": values.night(),
    "not-watched": values.night(watched=False),
    "hostile": values.hostile(),
    "nothing-begun": replace(values.night(watched=False), attempts=(), gpus=()),
}
SHOTS = os.environ.get("MIGCTL_TEST_SHOTS")
"""A folder that takes pictures of the pages, to be looked at."""
FITS = """[...document.querySelectorAll('body *')].filter(e => {
  if (e.closest('.scroll') || e.closest('svg') || e.closest('.skip')) return false;
  return e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 }).map(e => e.outerHTML.slice(0, 120))"""
EMPTY_NAMES = """[...document.querySelectorAll('svg[role=img]')].filter(e =>
  !e.getAttribute('aria-labelledby').split(' ').every(id => document.getElementById(id)?.textContent.trim())).length"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("chromium")) as here:
        yield here


@pytest.mark.parametrize("name", VIEWS)
def test_a_report_asks_nothing_of_a_network_and_says_nothing_on_the_console(
    browser: Chromium, tmp_path: Path, name: str
) -> None:
    path = written(tmp_path, name, VIEWS[name])
    seen = browser.page()

    for scheme in ("light", "dark"):
        seen.open(path, scheme)
        shot(seen, name, scheme)

    assert set(seen.requests) == {path.as_uri()}
    assert seen.said == []
    assert seen.run("window.stolen") is None
    assert seen.run("document.querySelectorAll('script, img, iframe, link').length") == 0
    assert seen.run(EMPTY_NAMES) == 0


def test_the_schemes_differ_and_paper_is_light(browser: Chromium, tmp_path: Path) -> None:
    path = written(tmp_path, "watched", VIEWS["watched"])
    seen = browser.page()
    ground = "getComputedStyle(document.body).backgroundColor"

    seen.open(path, "light")
    light = seen.run(ground)
    seen.open(path, "dark")
    dark = seen.run(ground)
    seen.ask("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    paper = seen.run(ground)
    printed = seen.pdf()
    if SHOTS:
        (Path(SHOTS) / "watched.pdf").write_bytes(printed)

    assert (light, dark, paper) == ("rgb(255, 255, 255)", "rgb(17, 21, 27)", light)
    assert printed.startswith(b"%PDF")
    assert 10_000 < len(printed) < 5_000_000


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_a_report_fits_a_phone_and_a_wide_screen(browser: Chromium, tmp_path: Path, width: int) -> None:
    seen = browser.page()
    seen.resize(width)
    for name in ("watched", "hostile"):
        seen.open(written(tmp_path, name, VIEWS[name]))
        shot(seen, name, str(width))

        assert seen.run(FITS) == []


def test_whoever_listens_hears_headings_tables_and_pictures_by_their_names(browser: Chromium, tmp_path: Path) -> None:
    seen = browser.page()
    seen.open(written(tmp_path, "watched", VIEWS["watched"]))
    nodes = seen.ask("Accessibility.getFullAXTree")["nodes"]
    heard = [
        (n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if "role" in n and not n["ignored"]
    ]

    assert ("heading", "lr-sweep") in heard
    assert ("heading", "Time line") in heard
    assert any(role == "table" and "latest attempt" in name for role, name in heard)
    pictures = [name for role, name in heard if role in ("image", "img", "graphics-document", "SvgRoot")]
    assert any(name.startswith("Jobs on the memory slices of GPU 0") for name in pictures)
    assert "" not in pictures


def written(folder: Path, name: str, view: ReportView) -> Path:
    path = folder / f"{name}.html"
    path.write_text(page(view), "utf-8")
    return path


def shot(seen: Page, name: str, what: str) -> None:
    if SHOTS:
        (Path(SHOTS) / f"{name}-{what}.png").write_bytes(seen.screenshot())
