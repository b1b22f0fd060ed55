"""The output of a job that has ended, read on a node that had it: for a file that this machine does not see.

It is read by processes on the node that become the user (nodedaemon/stepd/outputreader.py), of a file that the job's record
names; one of them reads QUESTIONS_MAX parts. The controller decides who may.
"""

import codecs
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from cli.listings.liveoutput import NoOutput, OutputBytes, OutputQuestion, opened_bytes, opened_part
from penstock.values.jobid import BATCH_STEP
from penstock.values.outputtail import QUESTIONS_MAX, STDERR, STDOUT, TAIL_BYTES_MAX
from penstock.values.refusals import Code
from sdk.errors import RequestRefused
from sdk.records import JobRecord

if TYPE_CHECKING:
    from cli.base.queryclient import QueryClient

#: For the parts of one connection: one of the user's others on that node may be read at the moment.
PARTS_S: Final = 10.0


class NodeOutput:
    """The output of one job. Methods raise RequestRefused with the node's reason, and PenstockError."""

    def __init__(self, client: "QueryClient", record: JobRecord, error: bool = False) -> None:
        """`error`: the error output, if it has a file of its own."""
        self._client = client
        stream = STDERR if error and record.stderr_path else STDOUT
        self._asked = OutputQuestion(record.job_id, BATCH_STEP, None, stream, 0, 0)

    def whole(self, offset: int = 0) -> Iterator[str]:
        """From a byte of the file on, in pieces; from its beginning, if the file is shorter: it was begun anew."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for data in self._blocks(offset):
            if text := decoder.decode(data):
                yield text

    def last(self, lines: int) -> str:
        """The last lines: of one part, if that has so many, else of all."""
        if lines <= 0:
            return ""
        try:
            part = opened_part(self._client, self._asked._replace(offset=None, lines=lines), PARTS_S)
        except NoOutput as problem:
            raise RequestRefused(Code.INVALID_JOB_ID, str(problem)) from None
        found = part.text.count("\n") + (not part.text.endswith("\n"))
        if part.offset == 0 or found >= lines:
            return part.text
        kept: deque[str] = deque(maxlen=lines)
        rest = ""
        for text in self.whole():
            *ended, rest = (rest + text).split("\n")
            kept.extend(ended)
        return "\n".join([*kept, rest][-(lines + (rest == "")) :])

    def _blocks(self, at: int) -> Iterator[bytes]:
        """The file's bytes. Its size is known with the first of them; then a connection is for many."""
        end = at + 1
        while at < end:
            offsets = range(at, end, TAIL_BYTES_MAX)[:QUESTIONS_MAX]
            for asked, part in zip(offsets, self._parts(offsets), strict=False):
                at, end = part.offset + len(part.data), part.size
                yield part.data
                if not part.data:
                    return
                if part.offset != asked:  # it was begun anew: the other offsets are those of the file before
                    break

    def _parts(self, offsets: Sequence[int]) -> list[OutputBytes]:
        try:
            return opened_bytes(self._client, self._asked, offsets, PARTS_S)
        except NoOutput as problem:
            raise RequestRefused(Code.INVALID_JOB_ID, str(problem)) from None
