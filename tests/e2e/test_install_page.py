"""docs/install.md, step by step: a controller with a node on one machine, a login host on another, and a plain user.

The commands are those of the page and of the units; only paths, names and ports are those of the test.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from livecluster import Done, free_ports
from netns import Machine, Machines
from patience import ANSWER_S, END_S

pytestmark = pytest.mark.root

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/install.md").read_text()
RUN_AS = str(ROOT / "tests/support/run_as.py")
USER = 65534
POLL_S = 0.1


class Host:
    """One machine: its own /etc/penstock, /var/lib/penstock and /var/spool/penstock; `prefix` leads to its network."""

    def __init__(self, folder: Path, words: dict[str, str], prefix: list[str]) -> None:
        self.folder = folder
        self._prefix = prefix
        self._daemons: list[subprocess.Popen[bytes]] = []
        paths = {f"/{path}": f"{folder}/{path}" for path in ("etc/penstock", "var/lib/penstock", "var/spool/penstock")}
        for path in paths.values():
            Path(path).mkdir(parents=True)
        self._words = {**paths, **words}

    def own(self, documented: str) -> str:
        """The text of the page with this test's paths, names and ports."""
        pattern = "|".join(map(re.escape, sorted(self._words, key=len, reverse=True)))
        return re.sub(pattern, lambda found: self._words[found[0]], documented)

    def env(self) -> dict[str, str]:
        python = os.environ.get("PYTHONPATH", "")
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": "/nonexistent",
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(os.path.isabs, python.split(os.pathsep))]),
            "PENSTOCK_CLUSTER": f"{self.folder}/etc/penstock/cluster.json",
            "PENSTOCK_COMMAND_SERVER": "0",
        }

    def command(self, documented: str) -> list[str]:
        """The command line of a documented command on this machine."""
        program, *words = shlex.split(self.own(documented))
        is_ours = program.rpartition("/")[2] == "penstock"
        return [*self._prefix, *([sys.executable, "-P", "-m", "cli.penstock"] if is_ours else [program]), *words]

    def step(self, documented: str, stdin: str = "") -> str:
        """A command of the page, as root; its output."""
        assert f"`{documented}`" in PAGE, documented
        done = subprocess.run(
            self.command(documented),
            env=self.env(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            cwd="/",
        )
        assert done.returncode == 0, f"$ {documented}\n{done.stdout}{done.stderr}"
        return done.stdout

    def enable(self, unit: str, **more: str) -> None:
        """systemctl enable --now."""
        text = (ROOT / "packaging" / unit).read_text()
        (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
        umask = int((re.findall(r"^UMask=(.*)$", text, re.MULTILINE) or ["0022"])[0], 8)
        for name, value in more.items():
            line = line.replace(f"${{{name}}}", value).replace(name, value)
        with open(self.folder / f"{unit}.log", "ab") as log:
            self._daemons.append(
                subprocess.Popen(self.command(line), env=self.env(), stdout=log, stderr=log, cwd="/", umask=umask)
            )

    def user(self, name: str, *words: str) -> Done:
        """A command of a plain user of this machine."""
        line = [*self._prefix, sys.executable, "-P", RUN_AS, str(USER), name, *words]
        done = subprocess.run(
            line, env=self.env(), stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S, cwd="/"
        )
        return Done([name, *words], done.returncode, done.stdout, done.stderr)

    def until(self, wanted: str, name: str, *words: str) -> None:
        """The user's command prints this, soon."""
        deadline = time.monotonic() + END_S
        while (done := self.user(name, *words)).out != wanted:
            assert time.monotonic() < deadline, f"{done}\n{self.logs()}"
            time.sleep(POLL_S)

    def logs(self) -> str:
        return "\n".join(f"{path}:\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))

    def close(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(ANSWER_S)


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machines(1) as machines:
        yield machines[0]


@pytest.fixture
def hosts(machine: Machine) -> Iterator[tuple[Host, Host]]:
    """The controller's machine, which is the node's too, and the login host."""
    ports = free_ports(3)
    numbers = dict(zip(("6817", "6818", "6819"), map(str, ports), strict=True))
    words = {
        "ctl.example.org": machine.here,
        "NODENAME": "n1",
        "HOSTNAME": "front1",
        "--cluster NAME": "--cluster site",
        **numbers,
    }
    with tempfile.TemporaryDirectory(prefix="pstk-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        made = Host(Path(folder, "ctl"), words, []), Host(Path(folder, "front1"), words, machine.prefix)
        try:
            yield made
        finally:
            for host in reversed(made):
                host.close()


def controller(host: Host, address: str) -> None:
    """Section "The controller"."""
    Path(host.own("/etc/penstock/slurm.conf")).write_text(
        host.own(
            "ClusterName=site\n"
            f"SlurmctldHost=ctl({address})\nSlurmctldPort=6817\nPenstockNodePort=6819\n"
            "StateSaveLocation=/var/lib/penstock/ctld\n"
            f"NodeName=n1 NodeAddr={address} CPUs=1\nPartitionName=main Nodes=ALL Default=YES\n"
        )
    )
    host.step("penstock config check /etc/penstock/slurm.conf")
    host.step("penstock ca init --cluster NAME --dir /var/lib/penstock/ctld/ca --host ctl.example.org")
    host.enable("penstock-ctld.service")
    host.step("ln -s /var/lib/penstock/ctld/cluster.json /etc/penstock/cluster.json")
    assert "`sinfo` now works" in PAGE
    host.until("n1 unknown\n", "sinfo", "-h", "-N", "-o", "%N %T")


def node(host: Host, address: str) -> None:
    """Section "Each node"."""
    token = host.step("penstock node token NODENAME")
    host.step(
        "penstock noded --node-name NODENAME --join - --controller ctl.example.org:6817 --cert-dir /etc/penstock/certs "
        "--spool /var/spool/penstock/noded",
        token,
    )
    host.enable(
        "penstock-noded.service",
        **{"%l": "n1", "PENSTOCK_CONTROLLER": f"{address}:6819", "noded ": "noded --stream-port 6818 "},
    )
    host.until("n1 idle\n", "sinfo", "-h", "-N", "-o", "%N %T")


def login(host: Host, token: str, address: str) -> None:
    """Section "Each login host"."""
    host.step(
        "penstock noded --login --node-name HOSTNAME --join - --controller ctl.example.org:6817 --cert-dir /etc/penstock/certs",
        token,
    )
    host.enable(
        "penstock-login.service", **{"PENSTOCK_CONTROLLER": f"{address}:6817", "noded ": "noded --node-name front1 "}
    )
    host.step("ln -s /var/spool/penstock/login/cluster.json /etc/penstock/cluster.json")
    host.until("n1 idle\n", "sinfo", "-h", "-N", "-o", "%N %T")


def numbered_steps() -> list[str]:
    """What is to be done, of the page's three sections: each text in backquotes that is a command."""
    found = []
    for section in ("The controller", "Each node", "Each login host"):
        (text,) = re.findall(rf"^### {section}\n(.*?)^###? ", PAGE, re.MULTILINE | re.DOTALL)
        for item in re.findall(r"^\d\. (.*?)(?=^\d\. |\n\n|\Z)", text, re.MULTILINE | re.DOTALL):
            found += [
                one for one in re.findall(r"`([^`]+)`", item) if re.match(r"(?:penstock|ln|cp|mkdir|chown) ", one)
            ]
    return found


#: Says the same as two other steps.
SHORTCUT = "penstock node token NODENAME | ssh NODENAME penstock noded --join - ..."


def test_30_each_step_of_the_page_is_taken() -> None:
    """Also one that is added to it. Units are enabled by `enable`, and their settings are given to it."""
    here = re.sub(r'"\s+"', "", Path(__file__).read_text())
    found = numbered_steps()
    assert len(found) == 12 and SHORTCUT in found
    for one in found:
        unit = re.fullmatch(r"cp packaging/(\S+) /etc/systemd/system/ && systemctl enable --now \S+", one)
        assert one == SHORTCUT or (f'"{unit[1]}"' if unit else f'"{one}"') in here, one


def test_30_users_of_both_machines_run_what_the_page_installed(machine: Machine, hosts: tuple[Host, Host]) -> None:
    here, front = hosts
    controller(here, machine.here)
    node(here, machine.here)
    token = here.step("penstock node token --role login HOSTNAME")
    login(front, token, machine.here)
    for host in hosts:
        done = host.user("srun", "-n1", "sh", "-c", "id -u")
        assert (done.status, done.out) == (0, f"{USER}\n"), f"{done}\n{here.logs()}\n{front.logs()}"
        done = host.user("sbatch", "--wait", "-o", "/dev/null", "-D", "/", "--wrap", "true")
        assert done.status == 0, f"{done}\n{here.logs()}"
    # What users read is open to them, what they must not read is not.
    state = Path(here.own("/var/lib/penstock/ctld"))
    assert (state / "ca").stat().st_mode & 0o077 == 0
    assert (state / "ca.pem").read_bytes() == (state / "ca" / "ca.pem").read_bytes()
    # An administrator's command still finds the authority itself.
    listed = subprocess.run(here.command("penstock ca list"), env=here.env(), capture_output=True, text=True, cwd="/")
    assert listed.returncode == 0 and "n1" in listed.stdout, listed
