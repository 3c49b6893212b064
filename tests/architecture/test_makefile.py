"""What a newcomer reads when something is missing: one line that says what, and what to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["sh", "grep", "touch", "tail", "cat"]


class Machine:
    """A machine with nothing but the tools it is given: a folder that is the whole PATH, and no environment yet."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.venv = folder / "venv"
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))

    def has(self, name: str, script: str) -> None:
        program = self.bin / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def has_environment(self) -> None:
        (self.venv / "bin").mkdir(parents=True)
        (self.venv / "bin" / "python").symlink_to(sys.executable)
        (self.venv / "bin" / "pip").write_text("#!/bin/sh\necho must not be called; exit 3\n")
        (self.venv / "bin" / "pip").chmod(0o755)

    def make(self, target: str) -> tuple[int, str]:
        """Return the exit code and what is said before make's own complaint."""
        make = subprocess.run(
            [shutil.which("make"), "--no-print-directory", target, f"VENV={self.venv}"],
            cwd=ROOT,
            env={"PATH": str(self.bin), "HOME": os.environ.get("HOME", "")},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return make.returncode, make.stdout.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_python_3_11_it_says_so(machine: Machine) -> None:
    code, said = machine.make("demo")
    assert code != 0
    assert said == "Python 3.11 is missing: install it, or say which to use: make demo PYTHON=/path/to/python3.11"


def test_another_python_under_that_name_is_refused(machine: Machine) -> None:
    machine.has("python3.11", "exit 1")
    code, said = machine.make("demo")
    assert code != 0
    assert said.startswith("python3.11 is not Python 3.11;")


def test_without_venv_it_names_the_package(machine: Machine) -> None:
    machine.has("python3.11", 'case "$2" in *ensurepip*) exit 1;; esac')
    code, said = machine.make("demo")
    assert (code != 0, said) == (True, "Python's venv module is missing: install python3.11-venv")


def test_without_compiler_or_mysql_headers_it_names_the_packages(machine: Machine) -> None:
    machine.has_environment()
    code, said = machine.make("test")
    assert code != 0
    assert said == "A C compiler is missing: make system (as root), or install build-essential"
    machine.has("cc", "")
    code, said = machine.make("test")
    assert code != 0
    assert said.startswith("The MySQL client headers are missing: make system (as root), or install default-libmysql")
    # pip itself is reached only then.
    machine.has("pkg-config", "")
    assert machine.make("test")[0] != 0
    assert "must not be called" in machine.make("test")[1]


@pytest.mark.parametrize("installed", [True, False])
def test_system_without_root_names_what_is_missing_in_one_line(machine: Machine, installed: bool) -> None:
    machine.has("id", "echo 1000")
    machine.has(
        "dpkg-query", '[ "$4" = redis-server ] || echo "install ok installed"' if not installed else "echo ok installed"
    )
    code, said = machine.make("system")
    if installed:
        assert (code, said) == (0, "make system: nothing is missing")
    else:
        assert code != 0
        assert said == "make system installs Debian packages: run it as root; missing here: redis-server"


def test_system_as_root_installs_what_apt_has_and_names_what_it_has_not(machine: Machine) -> None:
    machine.has("id", "echo 0")
    machine.has("dpkg-query", "exit 1")
    machine.has("apt-cache", '[ "$2" != chromium ]')
    machine.has("apt-get", 'echo "apt-get $*"')
    code, said = machine.make("system")
    assert code == 0
    assert "apt has no chromium here" in said
    install = said.splitlines()[-1]
    assert install.startswith("apt-get install")
    assert {"mariadb-server", "redis-server", "default-libmysqlclient-dev"} <= set(install.split())
    assert "chromium" not in install
