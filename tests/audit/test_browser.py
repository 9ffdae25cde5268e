"""The page in a real browser: headless Chromium, driven through its driver. Skipped where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from audit.auditing import audit, target_of
from audit.picturing import outlined
from audit.test_table import TABLE
from kvaudit.conformance.page import page as table_page
from kvaudit.pictures.page import page
from mutants import MUTANTS, Mutant, identity, pool

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
SAMPLE = [mutant for mutant in MUTANTS if not mutant.misuse][::9]

pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="no chromium and chromedriver here (Debian: chromium-driver)"
)

CONTRASTS = """
const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const behind = (element) => {
  for (let here = element; here; here = here.parentElement) {
    const style = getComputedStyle(here), colour = parse(style.backgroundColor);
    if (style.backgroundImage !== "none") return null; // the palette is checked apart
    if (colour[3] !== 0) return colour;
  }
  return [255, 255, 255];
};
const found = [];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.closest(":disabled, script")) continue;
  const paper = behind(element);
  if (paper === null) continue;
  const [high, low] = [light(parse(getComputedStyle(element).color)), light(paper)].sort((a, b) => b - a);
  const ratio = (high + 0.05) / (low + 0.05);
  if (ratio < 4.5) found.push([texts.currentNode.data.trim(), ratio]);
}
return found;
"""
"""The texts that WCAG (AA) calls too faint. What is disabled is exempt there."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = BROWSER or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    chrome = Chrome(options=options, service=Service(DRIVER))
    try:
        yield chrome
    finally:
        chrome.quit()


def opened(browser: Chrome, html: str, folder: Path, *, scheme: str = "light", width: int = 1280) -> None:
    (folder / "report.html").write_text(html, encoding="utf-8")
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme_wanted = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme_wanted]})
    browser.get((folder / "report.html").as_uri())


@pytest.fixture(scope="module")
def html() -> str:
    """The page of an audit with two findings at least."""

    class Two(pool.KeepsMappingOnEviction, identity.NewestMappingWins):
        """One bug does not hide the other."""

    report = audit(target_of(Two, black_box=True), max_steps=1_500)
    assert len(report.findings) >= 2
    return page(report)


def films(browser: Chrome) -> list[WebElement]:
    return browser.find_elements(By.CLASS_NAME, "film")


def where(film: WebElement) -> tuple[int, list[str]]:
    """The step at which a picture stands, and the headings that are shown."""
    shown = [article for article in film.find_elements(By.TAG_NAME, "article") if article.is_displayed()]
    return int(film.get_attribute("data-now") or 0), [article.get_attribute("data-step") or "" for article in shown]


def press(browser: Chrome, key: str) -> None:
    browser.switch_to.active_element.send_keys(key)


def test_the_keys_go_through_the_steps(browser: Chrome, html: str, tmp_path: Path) -> None:
    opened(browser, html, tmp_path)
    film = films(browser)[0]
    last = int(film.get_attribute("data-steps") or 0)
    assert where(film) == (last, [str(last)])
    for key, step in (
        (Keys.ARROW_RIGHT, last),
        (Keys.ARROW_LEFT, last - 1),
        (Keys.HOME, 1),
        (Keys.ARROW_LEFT, 1),
        (Keys.ARROW_RIGHT, 2),
        (Keys.END, last),
    ):
        press(browser, key)
        assert where(film) == (step, [str(step)])
    current = film.find_elements(By.CSS_SELECTOR, "thead [aria-current=step]")
    assert {button.text for button in current} == {f"{last} due", f"{last} came"}


def test_the_buttons_and_the_columns_do_the_same(browser: Chrome, html: str, tmp_path: Path) -> None:
    opened(browser, html, tmp_path)
    film = films(browser)[0]
    film.find_elements(By.CSS_SELECTOR, "thead button")[0].click()
    assert where(film) == (1, ["1"])
    assert not film.find_element(By.CLASS_NAME, "previous").is_enabled()
    film.find_element(By.CLASS_NAME, "next").click()
    assert where(film) == (2, ["2"])
    assert film.find_element(By.CLASS_NAME, "where").text.startswith("step 2 of ")
    film.find_element(By.CLASS_NAME, "previous").click()
    assert where(film) == (1, ["1"])


def test_the_keys_move_the_picture_that_was_touched(browser: Chrome, html: str, tmp_path: Path) -> None:
    opened(browser, html, tmp_path)
    first, second = films(browser)[:2]
    before = where(first)
    second.find_elements(By.CSS_SELECTOR, "thead button")[0].click()
    press(browser, Keys.ARROW_RIGHT)
    assert where(second) == (2, ["2"])
    assert where(first) == before


def test_a_step_shows_call_answers_and_state(browser: Chrome, html: str, tmp_path: Path) -> None:
    opened(browser, html, tmp_path)
    [article] = [a for a in films(browser)[0].find_elements(By.TAG_NAME, "article") if a.is_displayed()]
    for words in ("allocate(", "expected", "came", "free list", "LRU order", "block tables", "can be hit", "not shown"):
        assert words in article.text


@pytest.mark.parametrize("mutant", SAMPLE, ids=lambda mutant: mutant.cls.__name__)
def test_the_right_block_is_outlined(browser: Chrome, mutant: Mutant, tmp_path: Path) -> None:
    report = audit(target_of(mutant.cls), max_steps=20_000, stop_at_first=True)
    last = report.findings[0].steps[-1]
    opened(browser, page(report), tmp_path)
    drawn: list[Any] = browser.execute_script(
        "return [...document.querySelectorAll('.pool td[data-block]')]"
        ".filter((cell) => getComputedStyle(cell).outlineStyle === 'solid')"
        ".map((cell) => [Number(cell.dataset.block), Number(cell.dataset.step), cell.dataset.view])"
    )
    assert sorted(block for block, _, _ in drawn) == sorted(last.blocks)
    assert {tuple(cell) for cell in drawn} == outlined(browser.page_source)


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read(browser: Chrome, html: str, scheme: str, width: int, tmp_path: Path) -> None:
    opened(browser, html, tmp_path, scheme=scheme, width=width)
    browser.execute_script("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    assert browser.execute_script(CONTRASTS) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is (scheme == "light")


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_conformance_table_can_be_read(browser: Chrome, scheme: str, width: int, tmp_path: Path) -> None:
    browser.get_log("browser")  # type: ignore[no-untyped-call]
    opened(browser, table_page(TABLE), tmp_path, scheme=scheme, width=width)
    browser.execute_script("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    assert browser.execute_script(CONTRASTS) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def test_faint_text_would_be_found(browser: Chrome, html: str, tmp_path: Path) -> None:
    opened(browser, html, tmp_path)
    browser.execute_script("document.documentElement.style.setProperty('--soft', '#999')")
    assert browser.execute_script(CONTRASTS)


def test_without_a_script_every_step_is_shown(browser: Chrome, html: str, tmp_path: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(browser, html, tmp_path)
        articles = films(browser)[0].find_elements(By.TAG_NAME, "article")
        assert len(articles) > 1
        assert all(article.is_displayed() for article in articles)
        assert not films(browser)[0].find_element(By.CLASS_NAME, "next").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_nothing_is_loaded_and_nothing_is_complained_of(browser: Chrome, html: str, tmp_path: Path) -> None:
    browser.get_log("browser")  # type: ignore[no-untyped-call]
    opened(browser, html, tmp_path)
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def test_another_script_than_ours_does_not_run(browser: Chrome, html: str, tmp_path: Path) -> None:
    opened(browser, html.replace("</main>", "</main><script>document.title = 'theirs'</script>"), tmp_path)
    assert browser.title != "theirs"
    assert "Content Security Policy" in str(browser.get_log("browser"))  # type: ignore[no-untyped-call]
