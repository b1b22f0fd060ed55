"""Users, passwords and a service of PAM that only the processes of a test see: copies of /etc/passwd, /etc/shadow and /etc/pam.d
in a mount namespace. The stack is the real one: libpam, pam_unix, pam_exec. Needs root.

world = PamWorld(tmp_path)
subprocess.run(world.argv("penstock", "pamd", ...))
"""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from patience import ANSWER_S

PASSWORD = "Gr\u00fc\u00dfe an K\u00fche 17"
#: Of PASSWORD, by `openssl passwd -6 -salt penstock`.
HASH = "$6$penstock$aqtmr3IhKo2xw/nlTzYrHSWQdGspf7/o3ylf23UlbJCPFV1h6OZkH1KOaCPWywgk6wR4mhcKdV3fe9zSp5cTT."
#: User -> fields of shadow(5) after the name: hash, days of the last change, of the minimum and maximum age, of the warning, until
#: the account closes after that, of the account's end.
USERS = {
    "pamgood": f"{HASH}:20000:0:99999:7::",
    "pamlocked": f"!{HASH}:20000:0:99999:7::",
    "pammustchange": f"{HASH}:0:0:99999:7::",
    "pamold": f"{HASH}:15000:0:10:7::",
    "pamclosed": f"{HASH}:20000:0:99999:7::1:",
    "pamempty": ":20000:0:99999:7::",
    "pamhang": f"{HASH}:20000:0:99999:7::",
}
FIRST_UID = 61_000
#: Checks logins one after the other, each with its deadline, and prints the verdicts.
_CHECK = """
import asyncio, json, sys
from pamd.child import CheckSettings, check_password
from penstock.passwordlogin import LoginQuestion
async def main():
    for name, password, deadline_s in json.loads(sys.argv[1]):
        settings = CheckSettings("penstock", 1000, ("sys",), False, deadline_s)
        verdict = await check_password(LoginQuestion(name, password, "192.0.2.7"), settings)
        print(json.dumps(verdict), flush=True)
asyncio.run(main())
"""


class PamWorld:
    """The files, and the program of pam_exec that hangs."""

    def __init__(self, folder: Path, own_password: Sequence[str] = ()) -> None:
        """`own_password`: users of this machine who have PASSWORD here."""
        self.folder = folder / "etc"
        (self.folder / "pam.d").mkdir(parents=True)
        seconds = 10**6 + secrets.randbelow(10**9)
        self._hung = b"sleep\0%d\0" % seconds  # a command line that no other process has
        hang = folder / "hang"
        hang.write_text(f"#!/bin/sh\nexec sleep {seconds}\n")
        hang.chmod(0o755)
        self.stack(
            "auth [success=1 default=ignore] pam_succeed_if.so quiet user notin pamhang",
            f"auth required pam_exec.so quiet {hang}",
            "auth required pam_unix.so nullok",
            "account required pam_unix.so",
        )
        people = Path("/etc/passwd").read_text().splitlines()
        people += [f"{name}:x:{FIRST_UID + i}:{FIRST_UID + i}::/nonexistent:/bin/sh" for i, name in enumerate(USERS)]
        (self.folder / "passwd").write_text("\n".join(people) + "\n")
        known = [
            line for line in Path("/etc/shadow").read_text().splitlines() if line.split(":")[0] not in own_password
        ]
        known += [f"{name}:{HASH}:20000:0:99999:7::" + ":" for name in own_password]
        known += [f"{name}:{rest}" + ":" * (7 - rest.count(":")) for name, rest in USERS.items()]
        shadow = self.folder / "shadow"
        shadow.write_text("\n".join(known) + "\n")
        shadow.chmod(0o600)

    def stack(self, *lines: str) -> None:
        """Writes the service."""
        (self.folder / "pam.d" / "penstock").write_text("\n".join(lines) + "\n")

    def hung(self) -> tuple[int, int] | None:
        """The program that hangs and the child that asks PAM, by their numbers here; None = it does not run."""
        for proc in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (proc / "cmdline").read_bytes() == self._hung:
                    return int(proc.name), int((proc / "stat").read_text().rpartition(")")[2].split()[1])
        return None

    def argv(self, *words: str) -> list[str]:
        """The command line that runs the words where these files are /etc's."""
        mounts = " && ".join(f"mount --bind {self.folder / one} /etc/{one}" for one in ("passwd", "shadow", "pam.d"))
        unshare = shutil.which("unshare")
        assert unshare, "these tests need unshare (util-linux)"
        return [unshare, "--mount", "--propagation", "private", "sh", "-c", f'{mounts} && exec "$@"', "sh", *words]

    def start_checks(self, *logins: tuple[str, str, float]) -> "subprocess.Popen[str]":
        """Begins to check logins, given with their deadlines."""
        words = self.argv(sys.executable, "-c", _CHECK, json.dumps(logins))
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))

    def check(self, *logins: tuple[str, str]) -> list[tuple[str, str, bool]]:
        """The verdicts."""
        running = self.start_checks(*((name, password, 30.0) for name, password in logins))
        out, err = running.communicate(timeout=ANSWER_S)
        assert running.returncode == 0, err
        return [tuple(json.loads(line)) for line in out.splitlines()]
