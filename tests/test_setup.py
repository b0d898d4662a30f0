"""The set-up says the same everywhere: pyproject, lock, environment.yml, Makefile and .gitignore agree."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT_TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(PYPROJECT_TEXT)["project"]
EXTRAS = PROJECT["optional-dependencies"]
DEPENDENCIES = [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]
LOCK_TEXT = (ROOT / "requirements.lock").read_text(encoding="utf-8")
LOCK = [Requirement(line) for line in LOCK_TEXT.splitlines() if line and not line.startswith("#")]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
PYTHONS = ("3.11", "3.12", "3.13")


def locked(name: str, python: str) -> list[str]:
    """Return the versions of a package that the lock installs on one Python."""
    here = {"python_version": python, "python_full_version": f"{python}.7"}
    return [
        next(iter(pin.specifier)).version
        for pin in LOCK
        if canonicalize_name(pin.name) == canonicalize_name(name) and (not pin.marker or pin.marker.evaluate(here))
    ]


def conda_pip_lines() -> list[str]:
    """Return what environment.yml leaves to pip."""
    return next(part["pip"] for part in CONDA["dependencies"] if isinstance(part, dict))


def make(*arguments: str) -> subprocess.CompletedProcess:
    """Run make apart from a make that may be running these tests."""
    settings = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VENV", "PYTHON")}
    return subprocess.run(["make", *arguments], cwd=ROOT, env=settings, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("dependency", DEPENDENCIES)
def test_the_lock_holds_one_fitting_version_of_each_dependency(dependency, python):
    wanted = Requirement(dependency)
    versions = locked(wanted.name, python)
    assert len(versions) == 1
    assert wanted.specifier.contains(versions[0])


def test_the_lock_holds_names_and_versions_only():
    assert "make lock" in LOCK_TEXT.splitlines()[1]
    for pin in LOCK:
        assert pin.url is None
        assert [specifier.operator for specifier in pin.specifier] == ["=="]
    assert not re.search(r"://|--index|--find-links|--hash", LOCK_TEXT)


@pytest.mark.parametrize("dependency", DEPENDENCIES)
def test_each_dependency_says_why_it_is_there(dependency):
    line = next(line for line in PYPROJECT_TEXT.splitlines() if f'"{dependency}"' in line)
    assert len(line.partition("#")[2].split()) >= 3


def test_environment_yml_follows_pyproject():
    assert f"python{PROJECT['requires-python']}" in CONDA["dependencies"]
    assert "pip" in CONDA["dependencies"]
    assert [channel for channel in CONDA["channels"] if channel != "nodefaults"] == ["conda-forge"]
    (line,) = conda_pip_lines()
    extras = re.fullmatch(r"-e \.\[(.+)\]", line)[1].split(",")
    assert sorted(extras) == sorted(EXTRAS)


def test_what_is_made_is_not_committed():
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"build/", ".venv/", "__pycache__/", ".ipynb_checkpoints/", "*.egg-info/"} <= set(ignored)


def test_plain_make_lists_the_commands():
    listed = make().stdout
    for command in ("run", "test", "notebooks", "bench", "lab", "lock", "clean"):
        assert re.search(rf"^  make {command} +\w", listed, re.MULTILINE)


def test_make_names_a_python_that_does_not_run_in_one_line(tmp_path):
    refused = make("setup", f"VENV={tmp_path / 'venv'}", "PYTHON=/no/such/python3")
    assert refused.returncode != 0
    assert refused.stderr.startswith("make: no Python 3.11 to 3.13 that runs")
    assert not (tmp_path / "venv").exists()
