"""The what-if notebook in JupyterLab and as a page: a dial moves, and goodput moves the way it must."""

import os
import re

NOTEBOOK = "60_what_if.ipynb"


def shot(page, name: str) -> None:
    """Keep a picture for whoever asks for it: GOODPUT_SHOTS names a folder."""
    if folder := os.environ.get("GOODPUT_SHOTS"):
        page.screenshot(path=f"{folder}/{os.environ['PYTEST_CURRENT_TEST'].split('::')[1].split(' ')[0]}_{name}.png")


def goodput(page) -> float:
    """Return the goodput that the panel shows, in per cent."""
    return float(page.locator(".goodput-value").first.text_content().removesuffix(" %"))


def move(page, dial: str, key: str, times: int = 1) -> None:
    """Press a key on the handle of a dial, and wait until the panel has a new answer."""
    before = goodput(page)
    row = page.locator(".widget-hslider", has=page.locator("label", has_text=re.compile(f"^{dial}")))
    handle = row.locator(".noUi-handle")
    handle.focus()
    for _ in range(times):
        handle.press(key)
    page.wait_for_function(
        "before => {const now = document.querySelector('.goodput-value');"
        " const said = document.querySelector('.goodput-status').textContent;"
        " return now && parseFloat(now.textContent) !== before && said.endsWith('seeds')}",
        arg=before,
    )


def moves_as_it_must(page) -> None:
    """Take spares away, then make saves dear: goodput falls each time, and comes back."""
    first = goodput(page)
    page.locator(".goodput-value").first.scroll_into_view_if_needed()
    page.locator(".goodput-status").first.scroll_into_view_if_needed()
    page.wait_for_timeout(1000)
    shot(page, "before")
    move(page, "Spares", "ArrowLeft", times=6)
    shot(page, "after")
    poor = goodput(page)
    assert poor < first - 1
    move(page, "Spares", "ArrowRight", times=6)
    assert goodput(page) == first
    move(page, "A save takes", "ArrowRight", times=3)
    assert goodput(page) < first - 1


def test_in_jupyterlab_a_dial_moves_goodput_the_way_it_must(page, serve):
    lab = ["jupyterlab", "--allow-root", "--IdentityProvider.token=", "--ServerApp.root_dir=notebooks"]
    address = serve(*lab, "--LabApp.expose_app_in_browser=True")
    page.goto(f"{address}/lab/tree/{NOTEBOOK}")
    # run nothing before the kernel can answer: cells would wait, and the widgets with them
    page.wait_for_selector(".jp-NotebookPanel")
    page.wait_for_function(
        "document.querySelector('.jp-StatusBar-GroupItem, #jp-main-statusbar').innerText && "
        "/Idle/.test(document.querySelector('#jp-main-statusbar').innerText)"
    )
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_selector(".jp-OutputArea .goodput-value", state="attached")
    moves_as_it_must(page)


def test_as_a_page_without_code_the_panel_works_too(page, serve):
    address = serve("voila", "notebooks/60_what_if.ipynb")
    page.goto(address)
    page.wait_for_selector(".goodput-value", state="attached")
    moves_as_it_must(page)
    assert "from goodput" not in page.content()
