"""The README shows the commands' outputs as they really are."""

import re
import subprocess
import sys

import pytest

from goodput.results import CONSOLE, README, ROOT, output_of

TEXT = README.read_text("utf-8")
BLOCKS = CONSOLE.findall(TEXT)


@pytest.mark.parametrize(("arguments", "shown"), BLOCKS, ids=[arguments.split()[0] for arguments, _ in BLOCKS])
def test_the_readme_shows_what_the_command_prints(arguments, shown):
    assert output_of(arguments) == shown.strip("\n")


def test_the_python_example_runs():
    example = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL).group(1)
    done = subprocess.run([sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "productive" in done.stdout
