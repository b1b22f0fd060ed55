"""Certificates say who their holder is; keys that others may have read are not used (exit 78)."""

import json
import os
import subprocess
import sys
import time

import pytest
from patience import ANSWER_S

from penstock.errors import EXIT_CONFIG, BadSetup
from penstock.security.ca import (
    BadCertificate,
    check_certificate,
    create_ca,
    ensure_controller,
    issue_to_folder,
    key_to_pem,
    load_ca,
    load_credentials,
    load_denied,
    make_key,
)
from penstock.security.keyfiles import PUBLIC, SECRET, read_secret, write_files, write_public, write_secret

NOW = time.time_ns() // 1000
DAY = 86_400_000_000


@pytest.fixture
def ca(tmp_path):
    return create_ca(tmp_path / "ca", "c", NOW)


def test_ca_is_made_once_and_loaded(ca, tmp_path):
    assert load_ca(tmp_path / "ca").cluster == "c"
    with pytest.raises(BadSetup, match="there is a CA already"):
        create_ca(tmp_path / "ca", "c", NOW)
    assert load_ca(tmp_path / "ca").certificate == ca.certificate


def test_modes_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        create_ca(tmp_path / "ca", "c", NOW)
    finally:
        os.umask(before)
    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "ca").iterdir()}
    assert modes == {"ca.key": 0o600, "ca.pem": 0o644}
    assert (tmp_path / "ca").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("role", ["controller", "node", "login"])
def test_a_certificate_says_who(ca, tmp_path, role):
    issue_to_folder(ca, tmp_path / "out", role, "n1", NOW)
    held = load_credentials(tmp_path / "out", role, NOW)
    assert held.identity.uri == f"penstock://c/{role}/n1"
    assert check_certificate(held.certificate, ca.certificate, NOW + 90 * DAY - 1) == held.identity
    for at, words in ((NOW + 91 * DAY, "expired"), (NOW - DAY, "not valid before")):
        with pytest.raises(BadCertificate, match=words):
            check_certificate(held.certificate, ca.certificate, at)


def test_another_ca_of_the_same_name(ca, tmp_path):
    other = create_ca(tmp_path / "other", "c", NOW)
    certificate = other.issue("node", "n1", other.key.public_key(), NOW)
    with pytest.raises(BadCertificate, match="not signed by this cluster's CA"):
        check_certificate(certificate, ca.certificate, NOW)


@pytest.mark.parametrize("name", ["", "a/b", "n1\n", "x" * 65, "n\x00", "../n1", "n1 "])
def test_names_cannot_be_smuggled(ca, tmp_path, name):
    with pytest.raises(BadSetup, match="may only have"):
        ca.issue("node", name, ca.key.public_key(), NOW)


def test_only_a_controller_gets_host_names(ca):
    with pytest.raises(BadSetup, match="pose as the controller"):
        ca.issue("node", "n1", ca.key.public_key(), NOW, ("localhost",))


def test_the_controller_renews_in_time_and_for_new_hosts(ca, tmp_path):
    first = ensure_controller(tmp_path / "ca", "h", ("h", "10.0.0.1"), NOW)
    again = ensure_controller(tmp_path / "ca", "h", ("10.0.0.1",), NOW + 59 * DAY)
    assert again.certificate == first.certificate
    moved = ensure_controller(tmp_path / "ca", "h", ("10.0.0.2",), NOW)
    assert moved.certificate != first.certificate
    renewed = ensure_controller(tmp_path / "ca", "h", ("10.0.0.2",), NOW + 61 * DAY)
    assert renewed.certificate != moved.certificate
    assert ensure_controller(tmp_path / "ca", "h", ("10.0.0.2",), NOW + 200 * DAY).identity == first.identity


def test_key_and_certificate_must_belong_together(ca, tmp_path):
    issue_to_folder(ca, tmp_path / "a", "node", "n1", NOW)
    issue_to_folder(ca, tmp_path / "b", "node", "n1", NOW)
    (tmp_path / "a/node.key").replace(tmp_path / "b/node.key")
    with pytest.raises(BadSetup, match="is not the key of"):
        load_credentials(tmp_path / "b", "node", NOW)


def test_30_a_controllers_renewal_that_was_broken_off_is_made_again(ca, tmp_path):
    """The process died between the new key and its certificate."""
    first = ensure_controller(tmp_path / "ca", "h", ("10.0.0.1",), NOW)
    write_secret(tmp_path / "ca" / "controller.key", key_to_pem(make_key()))
    again = ensure_controller(tmp_path / "ca", "h", ("10.0.0.1",), NOW)
    assert again.identity == first.identity and again.certificate != first.certificate


def test_30_files_that_belong_together_are_written_all_or_none(tmp_path):
    """A full disk is found while the second one is written."""
    key, unwritable = tmp_path / "a.key", tmp_path / ("x" * 254)
    write_secret(key, b"old")
    with pytest.raises(BadSetup, match="cannot be written"):
        write_files((key, b"new", SECRET), (unwritable, b"new", PUBLIC))
    assert read_secret(key) == b"old"
    assert os.listdir(tmp_path) == ["a.key"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_a_key_that_others_may_read_is_not_used(tmp_path, mode):
    path = tmp_path / "a.key"
    write_secret(path, b"x")
    assert read_secret(path) == b"x"
    path.chmod(mode)
    with pytest.raises(BadSetup, match=rf"{path}.*mode {mode:04o}.*chmod 600") as caught:
        read_secret(path)
    assert caught.value.exit_status == EXIT_CONFIG == 78


def test_a_key_is_not_read_through_a_link(tmp_path):
    write_secret(tmp_path / "a.key", b"x")
    (tmp_path / "b.key").symlink_to(tmp_path / "a.key")
    with pytest.raises(BadSetup, match="cannot be read"):
        read_secret(tmp_path / "b.key")
    os.mkfifo(tmp_path / "c.key", 0o600)  # whose opening must not block either
    with pytest.raises(BadSetup, match="not a regular file"):
        read_secret(tmp_path / "c.key")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_key_of_another_owner_is_not_used(tmp_path):
    write_secret(tmp_path / "a.key", b"x")
    os.chown(tmp_path / "a.key", 65534, 65534)
    with pytest.raises(BadSetup, match="belongs to uid 65534"):
        read_secret(tmp_path / "a.key")


def test_deny_list(tmp_path):
    assert load_denied(tmp_path / "denied.json") == frozenset()
    write_public(tmp_path / "denied.json", json.dumps(["0a", "ff"]).encode())
    assert load_denied(tmp_path / "denied.json") == {10, 255}
    write_public(tmp_path / "denied.json", b"{1}")
    with pytest.raises(BadSetup, match=r"denied\.json"):
        load_denied(tmp_path / "denied.json")


def ca_command(*args):
    code = "import sys; from cli.subcommands.ca import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=ANSWER_S
    )


def test_penstock_ca(tmp_path):
    made = ca_command("init", "--cluster", "c", "--dir", tmp_path / "ca", "--host", "10.1.2.3")
    assert (made.returncode, made.stderr) == (0, "")
    # The command's clock, not this module's: it was imported long before, in a long run more than the margin before.
    assert load_credentials(tmp_path / "ca", "controller", time.time_ns() // 1000).identity.cluster == "c"
    issued = ca_command("issue", "--dir", tmp_path / "ca", "--role", "login", "--name", "l1", "--out", tmp_path / "l1")
    assert issued.returncode == 0
    assert load_credentials(tmp_path / "l1", "login", time.time_ns() // 1000).identity.uri == "penstock://c/login/l1"
    again = ca_command("init", "--cluster", "c", "--dir", tmp_path / "ca")
    assert again.returncode == 78 and "there is a CA already" in again.stderr


def test_an_unsafe_key_ends_with_78_and_the_path(tmp_path):
    ca_command("init", "--cluster", "c", "--dir", tmp_path / "ca")
    (tmp_path / "ca/ca.key").chmod(0o644)
    refused = ca_command("issue", "--dir", tmp_path / "ca", "--role", "node", "--name", "n", "--out", tmp_path / "n")
    assert refused.returncode == 78
    assert (
        refused.stderr.startswith(f"penstock ca: error: {tmp_path}/ca/ca.key: ") and "Traceback" not in refused.stderr
    )
    assert not (tmp_path / "n").exists()
