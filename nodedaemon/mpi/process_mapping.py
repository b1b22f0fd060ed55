"""PMI_process_mapping: the node of each rank, in the notation that MPI libraries read.

"(vector,(0,4,16))" says: beginning with node 0, on 4 nodes, 16 consecutive ranks each. Blocks follow each other, and a
reader that reaches the end before it has all ranks continues with the first block, so a cyclic distribution of any
length is short: "(vector,(0,4,1))". A block may hold several nodes only when they are neighbours with equal counts.
"""


def process_mapping(ranks_of_nodes: list[list[int]]) -> str:
    """The mapping of a step whose nodes (in order) have these ranks; "" when the ranks are not 0, 1, ... once each."""
    node_of: dict[int, int] = {}
    for node, ranks in enumerate(ranks_of_nodes):
        for rank in ranks:
            node_of[rank] = node
    size = len(node_of)
    if size != sum(map(len, ranks_of_nodes)) or any(rank not in node_of for rank in range(size)):
        return ""
    blocks = _shortest(_blocks(_runs([node_of[rank] for rank in range(size)])))
    return "(vector," + ",".join("({},{},{})".format(*block) for block in blocks) + ")"


def _runs(nodes: list[int]) -> list[list[int]]:
    """Returns consecutive ranks on the same node as [node, ranks]."""
    runs: list[list[int]] = []
    for node in nodes:
        if runs and runs[-1][0] == node:
            runs[-1][1] += 1
        else:
            runs.append([node, 1])
    return runs


def _blocks(runs: list[list[int]]) -> list[tuple[int, int, int]]:
    """Returns runs of equal length on neighbouring nodes as (first node, nodes, ranks on each)."""
    blocks: list[tuple[int, int, int]] = []
    for node, count in runs:
        if blocks:
            first, nodes, each = blocks[-1]
            if first + nodes == node and each == count:
                blocks[-1] = (first, nodes + 1, each)
                continue
        blocks.append((node, 1, count))
    return blocks


def _shortest(blocks: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Removes blocks that a reader would repeat anyway."""
    for period in range(1, len(blocks)):
        if all(block == blocks[at % period] for at, block in enumerate(blocks)):
            return blocks[:period]
    return blocks
