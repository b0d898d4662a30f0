"""What several files of tests share. Slow tests run only when asked for: `GOODPUT_SLOW=1`, or `-m` with `slow`."""

import os
import sys

import pytest
from hypothesis import settings

# The same examples in every run, and no limit per example: a busy machine must not fail a test.
settings.register_profile("goodput", derandomize=True, deadline=None)
settings.load_profile("goodput")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("GOODPUT_SLOW") or "slow" in (config.getoption("-m") or ""):
        return
    skip = pytest.mark.skip(reason="slow: set GOODPUT_SLOW=1 or use -m slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def own_store(monkeypatch, tmp_path_factory):
    """No test reads or writes the runs that a user keeps, nor those of another test."""
    folder = tmp_path_factory.mktemp("store")
    monkeypatch.setenv("GOODPUT_STORE", str(folder))
    return folder


@pytest.fixture
def run(capsys, monkeypatch):
    """Return a function that runs the command line in this process: (exit code, output, errors)."""
    from goodput import cli

    def command(*arguments) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["goodput", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return command


@pytest.fixture
def drawn():
    """Draw without a screen, and leave no figure behind."""
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")
    yield plt
    plt.close("all")


@pytest.fixture
def ax(drawn):
    """Axes of a new figure."""
    return drawn.figure(layout="constrained").add_subplot()


@pytest.fixture
def play(monkeypatch):
    """Return a function that simulates a scenario with the failures given, and no others."""

    from timelines import SMALL

    from goodput.simulate import simulate

    def simulated(*tape, scenario=SMALL):
        monkeypatch.setattr("goodput.simulate.failure_tape", lambda scenario, seed: sorted(tape))
        return simulate(scenario, 1)

    return simulated
