"""The child that asks PAM about one login, and ends. A program of its own, run by Python with `-I -S`: it has nothing of the
daemon's memory, descriptors and environment, and stays root only because pam_unix reads /etc/shadow.

    stdin    [name, password, address] as JSON, to the end
    argv     MIN_UID, the users who are allowed below it (comma list), `network` or `alone`, PAM's service
    stdout   [word, why, is_known]: pamd.service.PamVerdict

It gives up: dumps of its memory (core, ptrace), the network unless it is told otherwise, all capabilities that modules which
read local files do not need, and new privileges. A program that a module starts inherits this.

PAM is asked by the first process of a PID namespace, and this one waits for it: a module may start a program in a session of its
own (pam_exec does), and the kernel kills all of a namespace with its first process. That dies with the process that waits, and
this with the daemon, or at the daemon's deadline.
"""

import ctypes
import json
import os
import pwd
import resource
import signal
import sys

from penstock import libpam

#: name, password and address as JSON (penstock.passwordlogin).
QUESTION_BYTES_MAX = 8 * 1024
#: Of a child: CPU time, memory, files, and bytes of a file (counts of pam_faillock).
CPU_S = 10
MEMORY_BYTES = 1 << 30
FILES_MAX = 128
FILE_BYTES_MAX = 1 << 20
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522
#: CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, KILL, SETGID, SETUID, AUDIT_WRITE (capabilities(7)).
KEPT = (0, 1, 2, 3, 4, 5, 6, 7, 29)
_CAPABILITIES = 64

_libc = ctypes.CDLL(None, use_errno=True)


def main(argv: list[str]) -> None:
    """Asks, prints the verdict, and ends the process."""
    min_uid, allowed, network, service = argv
    try:
        give_up(network == "network")
        _become_first()
        name, password, address = json.loads(sys.stdin.buffer.read(QUESTION_BYTES_MAX))
        verdict = check(name, password, address, service, (int(min_uid), allowed.split(",")))
    except (OSError, libpam.PamError) as error:  # neither has what was read; after another one there is no verdict
        verdict = ("broken", str(error), False)
    os.write(1, json.dumps(verdict).encode())
    os._exit(0)  # the interpreter has nothing to tidy up


def check(name: str, password: str, address: str, service: str, limits: tuple[int, list[str]]) -> tuple[str, str, bool]:
    """Asks PAM whether this user may log in by this password. Raises PamError."""
    min_uid, allowed = limits
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        uid = -1
    is_known = uid >= 0
    if is_known and uid < min_uid and name not in allowed:
        return "no", f"uid {uid} is below PenstockPamMinUid", True  # PAM counts no failure for it
    asked = [password.encode()]
    pam = libpam.Pam(service, name, lambda style: _reply(style, asked))
    pam.wait_for_nothing()
    pam.set_item(libpam.RHOST, address, "set the address")
    pam.set_item(libpam.TTY, "penstock", "set the terminal")
    code = pam.call("pam_authenticate", libpam.SILENT | libpam.DISALLOW_NULL_AUTHTOK)
    if code != libpam.SUCCESS:
        return "no", f"pam_authenticate: {pam.text(code)}", is_known
    if not is_known or pam.item(libpam.USER) != name:
        return "no", "PAM took the name for another user's", is_known
    code = pam.call("pam_acct_mgmt", libpam.SILENT | libpam.DISALLOW_NULL_AUTHTOK)
    why = f"pam_acct_mgmt: {pam.text(code)}"
    pam.end(code)
    if code in (libpam.NEW_AUTHTOK_REQD, libpam.AUTHTOK_EXPIRED):
        return "expired", why, True
    if code != libpam.SUCCESS:
        return "account expired" if code == libpam.ACCT_EXPIRED else "not here", why, True
    return "yes", "", True


def _reply(style: int, asked: list[bytes]) -> bytes | None:
    """The password for the first hidden question; no module may ask another one."""
    if style in (libpam.TEXT_INFO, libpam.ERROR_MSG):
        return b""
    return asked.pop() if style == libpam.PROMPT_ECHO_OFF and asked else None


def give_up(may_use_network: bool) -> None:
    """Gives up what the check does not need. Raises OSError."""
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _call("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.umask(0o077)
    for kind, most in (
        (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, CPU_S), (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_NOFILE, FILES_MAX), (resource.RLIMIT_FSIZE, FILE_BYTES_MAX),
    ):  # fmt: skip
        resource.setrlimit(kind, (most, most))
    _call("unshare", _CLONE_NEWPID | (0 if may_use_network else _CLONE_NEWNET))
    _drop_capabilities()
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _become_first() -> None:
    """Goes on as the first process of the namespace; the other one waits, and ends with its status. Raises OSError."""
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        os._exit(0 if status == 0 else 1)
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _drop_capabilities() -> None:
    for number in set(range(_CAPABILITIES)) - set(KEPT):
        _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # the kernel does not know all 64 numbers
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    had = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable of 32 capabilities each, twice
    _call("capget", header, had)
    kept = sum(1 << number for number in KEPT)
    _call("capset", header, (ctypes.c_uint32 * 6)(had[0] & kept, had[1] & kept, 0, 0, 0, 0))


def _call(function: str, *operands: object) -> None:
    """A call of the kernel. Raises OSError, which names it."""
    if getattr(_libc, function)(*operands) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
