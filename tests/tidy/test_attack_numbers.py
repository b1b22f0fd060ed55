"""Each attack and fault of issue 14 has tests that carry its number in their name: that of the file, or of a function.

Attacks are in tests/security. What operators and users met is where the part concerned is tested (docs/security.md). The
findings of the round after it have numbers of their own, and are tested where the family was before: LATER names the tests.
"""

import re

import pytest
import tidytree as tree

#: number -> a file that tests it
ELSEWHERE = {
    17: "node/test_17_dropped_streams.py",
    18: "cli/test_request_key.py",
    19: "node/test_lost_records.py",
    20: "store/test_20_hung_server.py",
    21: "store/test_21_witness.py",
    23: "core/test_parts.py",
    24: "core/test_parts.py",
    25: "e2e/test_e2e_preemption.py",
    26: "core/test_admission_properties.py",
    27: "cli/test_policy_order.py",
    28: "clients/test_grants.py",
    29: "cli/test_launcher_life.py",
    30: "tidy/test_attack_numbers.py",
}


#: number of issue 26 -> tests, as file::function or as a scenario
LATER = {
    1: "security/test_10_names_looked_up.py::test_a_user_cannot_have_a_long_name_looked_up",
    2: "security/test_09_turns.py::test_every_role_with_every_size_and_value",
    3: "core/scripts/max_requeue.txt",
    4: "e2e/test_install_page.py::test_30_users_of_both_machines_run_what_the_page_installed",
    5: "security/test_08_privatedata.py::test_no_other_way_to_depend_on_a_job_that_is_not_seen",
    6: "security/test_05_request_keys.py::test_the_key_of_another_user_is_a_new_one",
    7: "security/test_06_holds.py::test_an_owner_gets_rid_of_no_administrators_hold",
    8: "security/test_05_outputs.py::test_who_writes_a_note_is_the_user",
    9: "security/test_03_certificate_roles.py::test_a_reserved_name_does_not_join",
    10: "security/test_13_connections.py::test_5_s_of_connect_loops_fail_no_call_of_another",
    11: "core/test_changed_config.py::test_a_start_after_a_resume_that_waits_for_its_cpus",
    12: "runtime/test_12_frozen_storage.py::test_a_controller_on_frozen_storage",
    13: "core/test_13_reported_usage.py::test_no_figure_is_more_than_machines_have",
    14: "e2e/test_e2e_give_back.py::test_allocations_are_given_back_when_the_database_is_there_again",
    15: "e2e/test_29_killed_controllers.py::test_29_no_call_ends_by_a_signal_while_the_controller_is_killed",
    16: "core/test_node_clocks.py::test_what_is_reported_late_keeps_its_time",
}


def is_there(test: str) -> bool:
    """Whether file::function, or a scenario, is there."""
    name, _, function = test.partition("::")
    path = tree.ROOT / "tests" / name
    return path.exists() and (not function or f"def {function}(" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", LATER)
def test_each_later_number_has_its_test(number: int) -> None:
    assert is_there(LATER[number])


def test_each_sentence_has_its_tests() -> None:
    """The table in tests/security/README.md."""
    table = (tree.ROOT / "tests" / "security" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", table, re.M)
    assert sorted({int(number) for number, _ in rows}) == list(range(1, 31))
    named = [re.findall(r"`([^`]+)`", tests) for _, tests in rows]
    assert all(named) and [test for tests in named for test in tests if not is_there(test)] == []


@pytest.mark.parametrize("number", range(1, 31))
def test_each_number_is_in_a_name(number: int) -> None:
    pattern = ELSEWHERE.get(number, f"security/test_{number:02}_*.py")
    files = list((tree.ROOT / "tests").glob(pattern))
    assert files, pattern
    named = re.compile(rf"test_{number:02}_")
    for file in files:
        assert named.search(file.name) or named.search(file.read_text(encoding="utf-8")), tree.name_of(file)


def test_30_the_parts_that_can_differ_run_as_a_plain_user_too() -> None:
    """As root tests of users, files and processes pass that fail for everybody else."""
    assert "\n    tools/plaintests.sh " in (tree.ROOT / ".ci" / "run").read_text(encoding="utf-8")
    script = (tree.ROOT / "tools" / "plaintests.sh").read_text(encoding="utf-8")
    (parts,) = re.findall(r"^PARTS=\((.*)\)$", script, re.M)
    assert {"tests/auth", "tests/cli", "tests/e2e", "tests/gpu", "tests/node"} <= set(parts.split())
    assert all((tree.ROOT / part).is_dir() for part in parts.split())
