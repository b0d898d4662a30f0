"""The pages as a reader without a network opens them: no error, no request, no formula left as it is written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RAW_FORMULA = re.compile(r"\$[^$\n]*[\\_^{][^$\n]*\$")  # dollars around LaTeX; a price is none


def build(out: Path, *arguments: str) -> None:
    """Run a module of the package, as `make` does."""
    subprocess.run([sys.executable, "-m", *arguments, "--out", str(out)], cwd=ROOT, check=True, capture_output=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The deck; the reports of the scenarios, of a log, and of notebooks: one has formulas, one a live panel."""
    out = tmp_path_factory.mktemp("made")
    build(out, "goodput.deck", "30")
    build(out, "goodput.report", "run", "20", "60")
    build(out, "goodput.summary", "--seeds", "2")
    log = [str(ROOT / "data/logs/two_jobs.jsonl.gz"), "--slo", "0.8", "-o", str(out / "log.html")]
    subprocess.run([sys.executable, "-m", "goodput", "report", *log], cwd=ROOT, check=True, capture_output=True)
    return out


def opened(page, path: Path):
    """Open a file with the network cut, and return the page."""
    page.context.set_offline(True)
    page.goto(path.as_uri())
    return page


def is_clean(page, path: Path) -> None:
    """No error in the console, nothing asked for but the file, no formula left as it is written."""
    assert page.errors == []
    assert {url.split("#")[0].split("?")[0] for url in page.requests if not url.startswith("data:")} == {path.as_uri()}
    assert not RAW_FORMULA.search(page.inner_text("body"))


def shot(page, name: str, **options) -> None:
    """Keep a picture for whoever asks for it: GOODPUT_SHOTS names a folder."""
    if folder := os.environ.get("GOODPUT_SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", **options)


def test_a_raw_formula_would_be_found():
    assert RAW_FORMULA.search(r"the interval $\sqrt{2CM}$ of Young") and not RAW_FORMULA.search("from $2.59 to $2.47")


def test_the_deck_is_clean_and_each_slide_fits_its_screen(page, made):
    opened(page, made / "slides.html")
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    total = page.evaluate("Reveal.getTotalSlides()")
    for number in range(total):
        page.wait_for_timeout(100)
        box = page.evaluate(
            "() => {const found = Reveal.getCurrentSlide().querySelector('.sheet') || Reveal.getCurrentSlide();"
            " const box = found.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]}"
        )
        assert min(box) > -2 and box[2] < 1282 and box[3] < 722, page.evaluate("Reveal.getCurrentSlide().id")
        shot(page, f"slide_{number:02}")
        page.keyboard.press("ArrowRight")
    assert total >= 6 and page.evaluate("Reveal.isLastSlide()")
    is_clean(page, made / "slides.html")


def test_the_report_of_notebooks_is_clean_and_draws_its_formulas(page, made):
    opened(page, made / "report.html")
    assert page.locator("math").count() > 0 and page.locator("figure svg").count() > 3
    assert page.locator("figure img").count() == 1  # the panel's picture
    shot(page, "report_top")
    is_clean(page, made / "report.html")


@pytest.mark.parametrize("name", ["seven_scenarios.html", "log.html"])
def test_a_page_of_results_is_clean_and_no_wider_than_a_phone(page, made, name):
    opened(page, made / name)
    assert page.locator(".tile").count() >= 5 and page.locator("figure svg").count() >= 3
    shot(page, name)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    is_clean(page, made / name)


@pytest.mark.parametrize("name", ["report.html", "seven_scenarios.html", "log.html"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground_on_light_and_dark(page, made, name, scheme):
    page.emulate_media(color_scheme=scheme)
    opened(page, made / name)
    ink, ground = (
        page.evaluate(f"getComputedStyle(document.body).{name}.match(/\\d+/g).slice(0, 3).map(Number)")
        for name in ("color", "backgroundColor")
    )
    assert abs(sum(ink) - sum(ground)) > 3 * 150 and (sum(ink) < sum(ground)) == (scheme == "light")
