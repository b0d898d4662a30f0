"""A real browser: the system's Chromium, driven by playwright. Without one these tests are skipped, and say so."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE = 120_000  # milliseconds, for a machine with other work


@pytest.fixture(scope="module")  # not longer: playwright keeps an event loop running, which other tests must not find
def chromium():
    """A browser; each test opens its own page."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: install it (Debian: apt-get install chromium) to run the browser tests")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """A page that notes what a reader must not meet: `errors` of the console, `requests` of the network."""
    context = chromium.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.errors, page.requests = [], []
    page.on("console", lambda said: page.errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    yield page
    context.close()


@pytest.fixture
def serve(tmp_path):
    """Start a Jupyter program on a copy of the notebooks, in folders of its own, and return its address."""
    started = []

    def _serve(*arguments: str) -> str:
        shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
        port = _free_port()
        command = [sys.executable, "-m", *arguments, f"--port={port}", "--no-browser"]
        with open(tmp_path / "server.log", "w") as log:
            started.append(subprocess.Popen(command, cwd=tmp_path, env=_clean(tmp_path), stdout=log, stderr=log))
        _wait_for(port, started[-1], tmp_path / "server.log")
        return f"http://localhost:{port}"

    yield _serve
    for process in started:
        process.terminate()
        process.wait(timeout=30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def _clean(folder: Path) -> dict[str, str]:
    """Return an environment in which no setting of the caller reaches the server."""
    config = folder / "config"
    (config / "labconfig").mkdir(parents=True)
    news = '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}'
    (config / "labconfig" / "page_config.json").write_text(news)
    own = {"JUPYTER_CONFIG_DIR": config, "JUPYTER_DATA_DIR": folder / "data", "JUPYTER_RUNTIME_DIR": folder / "runtime"}
    own |= {"IPYTHONDIR": folder / "ipython", "JUPYTERLAB_WORKSPACES_DIR": folder / "workspaces"}
    own |= {"JUPYTERLAB_SETTINGS_DIR": folder / "settings", "JUPYTER_PREFER_ENV_PATH": "1"}
    left = {name: value for name, value in os.environ.items() if name not in ("MPLBACKEND", "JUPYTER_PATH")}
    return left | {name: str(value) for name, value in own.items()}


def _wait_for(port: int, process: subprocess.Popen, log: Path) -> None:
    for _ in range(PATIENCE // 500):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), timeout=5):
            return
        time.sleep(0.5)
    raise RuntimeError(f"the server did not start:\n{log.read_text()}")
