"""The compiled texts of jobs: what templates.PlainTexts answers."""

from collections.abc import Callable, Iterator

from rest.templates import TextTemplate

# `fields`: of each difference its field's number, and what JobDifference has. `nested`: the numbers of a job's request, of its
# allocation, of an allocation's GRES, and of what is left out of these. `id_place`: of the job's id. `except_place`,
# `except_value`: a text that stays in the kind. `template_of`: as in templates.py. `kinds_max`: kinds that are kept.
# `made_max`: texts that are made in one part.
class CompiledTexts:
    def __init__(
        self,
        fields: list[tuple[int, int, int, bool, int]],
        nested: tuple[int, int, int, int],
        id_place: int,
        except_place: int,
        except_value: bytes,
        template_of: Callable[[bytes, bytes, Callable[[bytes], bytes]], TextTemplate | None],
        kinds_max: int,
        made_max: int,
    ) -> None: ...
    def parts(
        self, form: str, page: bytes, make: Callable[[bytes], bytes], other: Callable[[bytes], bytes]
    ) -> Iterator[bytes]: ...
