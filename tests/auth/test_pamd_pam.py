"""The child of `penstock pamd` at the real libpam and pam_unix, with users of its own (tests/support/pamworld.py)."""

import os
from pathlib import Path

import pytest
from launched import state_of, wait_for
from pamworld import PASSWORD, PamWorld
from patience import END_S

from pamd.attempt import FILES_MAX, KEPT

pytestmark = pytest.mark.root
#: Of a process that has ended; not every container's first process reaps.
GONE = {"", "Z"}
KEPT_BITS = sum(1 << number for number in KEPT)


@pytest.fixture
def world(tmp_path: Path) -> PamWorld:
    return PamWorld(tmp_path)


def test_who_logs_in(world: PamWorld) -> None:
    """An account that is locked, without a password, unknown, root's or the system's: none differs from a wrong password."""
    names = (
        "pamgood",
        "pammustchange",
        "pamold",
        "pamclosed",
        "pamlocked",
        "pamempty",
        "root",
        "daemon",
        "sys",
        "nosuch",
    )
    right = world.check(*((name, PASSWORD) for name in names))
    assert [word for word, _, _ in right] == ["yes", "expired", "expired", "account expired", *["no"] * 6]
    assert [is_known for _, _, is_known in right] == [*[True] * 9, False]
    assert "PenstockPamMinUid" in right[6][1] and "PenstockPamMinUid" in right[7][1]  # PAM was not asked
    wrong = world.check(*((name, f"{PASSWORD}x") for name in names))
    assert {word for word, _, _ in wrong} == {"no"}
    assert PASSWORD not in str(wrong)


def test_other_stacks(world: PamWorld) -> None:
    """Two modules that share the password, one that refuses the account, one that does not exist, one that accepts everything,
    none at all."""
    world.stack("auth required pam_unix.so", "auth required pam_unix.so", "account required pam_permit.so")
    assert world.check(("pamgood", PASSWORD))[0][0] == "yes"
    world.stack("auth required pam_permit.so", "account required pam_deny.so")
    assert world.check(("pamgood", "x"))[0][0] == "not here"
    world.stack("auth required pam_no_such_module.so", "account required pam_permit.so")
    assert world.check(("pamgood", PASSWORD))[0][0] == "no"
    world.stack("auth required pam_permit.so", "account required pam_permit.so")
    assert world.check(("nosuch", "x"))[0][0] == "no"  # though PAM says yes
    (world.folder / "pam.d" / "penstock").unlink()
    assert world.check(("pamgood", PASSWORD))[0][0] in ("no", "broken")


def test_a_module_that_hangs_is_ended_and_had_little(world: PamWorld) -> None:
    """pam_exec's program sleeps; what the child was while it hung, and that nothing of it is left. Found: the program is in a session
    of its own, and outlived the deadline."""
    running = world.start_checks(("pamhang", PASSWORD, 5.0))
    try:
        program, child = wait_for(world.hung, "pam_exec runs its program")
        for pid in (program, child):
            proc = Path(f"/proc/{pid}")
            facts = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
            assert int(facts["CapBnd"], 16) == KEPT_BITS and int(facts["CapEff"], 16) & ~KEPT_BITS == 0
            assert facts["NoNewPrivs"] == "1"
            limits = (proc / "limits").read_text()
            assert f"Max open files            {FILES_MAX} " in limits and "Max core file size        0 " in limits
            assert os.readlink(proc / "ns/net") != os.readlink("/proc/self/ns/net")
            secret = PASSWORD.encode()
            assert secret not in (proc / "cmdline").read_bytes() and secret not in (proc / "environ").read_bytes()
        assert all(
            os.readlink(one).split(":")[0] in ("pipe", "/dev/null") for one in Path(f"/proc/{child}/fd").iterdir()
        )
        out, err = running.communicate(timeout=END_S)
    finally:
        running.kill()
    assert running.returncode == 0, err
    assert '"broken"' in out and "has not answered within 5 s" in out
    wait_for(lambda: not {state_of(program), state_of(child)} - GONE, "both are gone")


def test_a_daemon_that_is_killed_leaves_no_child(world: PamWorld) -> None:
    running = world.start_checks(("pamhang", PASSWORD, 600.0))
    try:
        program, child = wait_for(world.hung, "pam_exec runs its program")
    finally:
        running.kill()
        running.communicate()
    wait_for(lambda: not {state_of(program), state_of(child)} - GONE, "both have ended with it")
