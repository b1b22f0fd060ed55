"""Each attack and fault of issue 14 has tests that carry its number in their name: that of the file, or of a function.

Attacks are in tests/security. What operators and users met is where the part concerned is tested (docs/security.md). The
findings of the round after it have numbers of their own (26.1, ...), and are tested where the family was before.
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


def is_there(test: str) -> bool:
    """Whether file::function, or a scenario, is there."""
    name, _, function = test.partition("::")
    path = tree.ROOT / "tests" / name
    return path.exists() and (not function or f"def {function}(" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("form", "last"), [(r"\d+", 30), (r"26\.\d+", 17)], ids=["first round", "next round"])
def test_each_sentence_has_its_tests(form: str, last: int) -> None:
    """The tables in tests/security/README.md."""
    table = (tree.ROOT / "tests" / "security" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| ({form}) \| .* \| (.*) \|$", table, re.M)
    assert sorted({int(number.rpartition(".")[2]) for number, _ in rows}) == list(range(1, last + 1))
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
    whole, in_part, of_clusters = (
        re.findall(rf"^{name}=\((.*)\)$", script, re.M)[0].split() for name in ("WHOLE", "IN_PART", "OF_CLUSTERS")
    )
    assert {"tests/auth", "tests/cli", "tests/node", "tests/security"} <= set(in_part)
    assert all((tree.ROOT / part).is_dir() for part in (*in_part, *of_clusters))
    assert whole and all((tree.ROOT / file).is_file() for file in whole)

    def left_by(words: str, folders: list[str]) -> set[str]:
        """The files without one of these words."""
        wanted = re.compile("".join(re.findall(rf"^{words}\+?='(.*)'$", script, re.M)))
        paths = [path for part in folders for path in (tree.ROOT / part).glob("test_*.py")]
        return {path.name for path in paths if not wanted.search(path.read_text(encoding="utf-8"))}

    left = left_by("WORDS", in_part)
    assert {"test_node_core.py", "test_options.py", "test_store_rows.py"} <= left, "these only compute"
    of_everybody = left_by("USER_WORDS", of_clusters)
    assert {"test_16_restored_backup.py", "test_scenarios_partition.py"} <= of_everybody, "these name no user"
    assert not of_everybody & {"test_e2e_users.py", "test_e2e_srun.py", "test_e2e_prolog.py", "test_e2e_containment.py"}
    assert not left & {
        "test_local.py",
        "test_auth_socket.py",
        "test_noded_jobs.py",
        "test_05_outputs.py",
        "test_store_crash.py",
    }
