"""The question for a part of a step's output, which the step's supervisor answers from the output's file.

    question                   the QUESTION of stepframes.py: "tail", the stream, where to begin, and perhaps the task's rank
    answer                     `packing.dump` of a dictionary: PATH, AT, SIZE, DATA; or ERROR, a sentence, and perhaps IS_DENIED

The bounds hold for both sides: a supervisor reads no more, and a client believes no more.
"""

from typing import Final, NamedTuple

#: First word of the question.
TAIL: Final = "tail"
#: Bytes that one answer holds at most.
TAIL_BYTES_MAX: Final = 64 * 1024
#: Questions on one connection to a reader of the output of a job that is over: 2 MiB.
QUESTIONS_MAX: Final = 32
#: Time that the user's file system has to answer.
TAIL_READ_S: Final = 2.0
#: Where to begin, in place of an offset: so that the last TAIL_BYTES_MAX are read.
FROM_END: Final = -1
STDOUT, STDERR = 1, 2
STREAMS: Final = {"stdout": STDOUT, "stderr": STDERR}
#: Members of an answer: the file; the offset and the bytes that were read; the file's size; why there is no output; 1 if the
#: asker has no right to it.
PATH: Final = "path"
AT: Final = "at"
DATA: Final = "data"
SIZE: Final = "size"
ERROR: Final = "error"
IS_DENIED: Final = "denied"
_DIGITS_MAX: Final = 19
#: The most bytes of a character of UTF-8 that are no whole one.
_CUT_BYTES_MAX: Final = 3


def question(stream: int, at: int, rank: int | None = None) -> str:
    """The question for TAIL_BYTES_MAX from the offset `at`, or FROM_END; None: of the first task there."""
    return f"{TAIL} {stream} {at}" + ("" if rank is None else f" {rank}")


class TailQuestion(NamedTuple):
    """A question. `rank`: of the task, None = the first one there."""

    stream: int
    at: int
    rank: int | None = None


def parse_question(text: str) -> TailQuestion:
    """The parts of a question. Raises ValueError."""
    word, stream, at, *more = text.split(" ")
    numbers = [at.removeprefix("-"), *more]
    if word != TAIL or stream not in ("1", "2") or len(more) > 1:
        raise ValueError("no question for a tail")
    if not all(digits.isdigit() and len(digits) <= _DIGITS_MAX for digits in numbers):
        raise ValueError("no question for a tail")
    return TailQuestion(int(stream), max(int(at), FROM_END), int(more[0]) if more else None)


def whole_text(data: bytes) -> tuple[str, int]:
    """The text of a part of a file, and the number of bytes that it stands for: a character that is cut at the end is left
    for the next part. What is no UTF-8 is replaced."""
    cut = 0
    for length in range(1, min(_CUT_BYTES_MAX, len(data)) + 1):
        first = data[-length]
        if first & 0xC0 != 0x80:  # no continuation
            wanted = 2 if first & 0xE0 == 0xC0 else 3 if first & 0xF0 == 0xE0 else 4 if first & 0xF8 == 0xF0 else 1
            cut = length if wanted > length else 0
            break
    kept = data[: len(data) - cut]
    return kept.decode("utf-8", "replace"), len(kept)


def last_lines(data: bytes, is_begin: bool, lines: int) -> bytes:
    """The last lines of the end of a file, 0: all. `is_begin`: the data begin where the file does; else their first line is
    cut, and is left out if there is another one."""
    if not is_begin:
        _, newline, rest = data.partition(b"\n")
        data = rest if newline and rest else data
    if lines > 0:
        parts = data.split(b"\n")
        data = b"\n".join(parts[-(lines + (parts[-1] == b"")) :])
    return data
