"""cli.base.refusal: what the controller refuses, in whole lines of Slurm's."""

from cli.base.refusal import lines_of
from penstock.errors import PenstockError
from penstock.values.refusals import TEXT, Code

FAILED = "sbatch: error: Batch job submission failed"


def told(code: Code, own: str = "", detail: str = "") -> list[str]:
    text = TEXT[code] + (f": {own}" if own else "")
    return lines_of("sbatch", FAILED, PenstockError(code, text, detail)).split("\n")


def test_what_the_controller_adds_has_a_line_of_its_own():
    assert told(Code.INVALID_NODE_NAME, "n7") == [f"{FAILED}: Invalid node name specified", "sbatch: n7"]
    assert told(Code.NODES_BUSY) == [f"{FAILED}: Requested nodes are busy"]
    assert told(Code.INVALID_QOS, "x", "more") == [f"{FAILED}: Invalid qos specification", "sbatch: x", "sbatch: more"]


def test_slurm_names_an_unknown_partition_first():
    assert told(Code.INVALID_PARTITION, "nowhere") == [
        "sbatch: error: invalid partition specified: nowhere",
        f"{FAILED}: Invalid partition name specified",
    ]


def test_slurm_says_first_what_no_node_can_give():
    own = "Memory specification can not be satisfied: partition p has 2 matching nodes"
    assert told(Code.REQUESTED_NODE_CONFIG_UNAVAILABLE, own) == [
        "sbatch: error: Memory specification can not be satisfied",
        f"{FAILED}: Requested node configuration is not available",
        "sbatch: partition p has 2 matching nodes",
    ]


def test_a_text_that_is_not_of_the_table_stays_as_it_is():
    error = PenstockError(1800, "Unable to contact slurm controller (connect failure)", "127.0.0.1:1: refused")
    assert lines_of("srun", "srun: error: x", error).split("\n") == [
        "srun: error: x: Unable to contact slurm controller (connect failure)",
        "srun: 127.0.0.1:1: refused",
    ]
