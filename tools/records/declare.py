"""The elements of a field table: a record has fields, a field has a kind, and a kind defines how a value is stored.
Order matters. The fields are in the order of the database's columns, where a migration appends a new column. The
record's row has its attributes in the same order, without those that are a column only. Expressions are Python text for
the generated code. `{0}` is the value. In a column's value `row` is the row, and its attributes are available by name.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Kind:
    """The storage of one kind of values: type of the attribute, type of the column, encoder and decoder."""

    type: str
    column: str  # a type of SQLAlchemy
    encode: str = "{0}"
    decode: str = "{0}"
    nullable: bool = False


BIG: Final = Kind("int", "BigInteger")  # times, ids, sizes
INT: Final = Kind("int", "Integer")
TEXT: Final = Kind("str", "Text")
BYTES: Final = Kind("bytes", "LargeBinary")
BOOL: Final = Kind("bool", "Integer", "int({0})", "bool({0})")
#: A number that is SQLite's row id.
ROW_ID: Final = Kind("int", 'BigInteger().with_variant(Integer, "sqlite")')
#: Names joined by commas, which no name contains.
WORDS: Final = Kind("tuple[str, ...]", "Text", '",".join({0})', "words({0})")
#: Values that are interned while jobs are read (`one`, see ctld/store/jobreader.py).
SHARED_TEXT: Final = Kind("str", "Text", decode="one({0}, {0})")
SHARED_OR_EMPTY: Final = Kind("str", "Text", decode="{0} and one({0}, {0})")
SHARED_BIG: Final = Kind("int", "BigInteger", decode="one({0}, {0})")
SHARED_BYTES: Final = Kind("bytes", "LargeBinary", decode="one({0}, {0})")
JOB_STATE: Final = Kind("JobState", "Integer", "int({0})", "JOB_STATES[{0}]")
LIMITS: Final = Kind("Limits", "Text", "limits_text({0})", "limits_from({0})")


#: Messages that have a field of a job under its own name, when it is set.
INFO: Final = "JobInfo"  # squeue, scontrol show job
RECORD: Final = "JobRecord"  # sacct
#: Accounting reads the column to compute other values.
READ: Final = "Record"


@dataclass(frozen=True)
class Field:
    """One value of a record: an attribute of its row, a column of its table, or, as a rule, both."""

    name: str
    kind: Kind
    note: str = ""  # its meaning: a comment beside the attribute
    default: str | None = None  # of a new record
    fixed: bool = False  # of a job: an update leaves the column alone
    existing: str | None = None  # SQL text: the value of existing rows when a migration added the column
    stored: str = ""  # how it is stored: a comment beside the column
    value: str | None = None  # of a column that is not an attribute: its value
    attribute: str = ""  # its name in the mutable record, if different
    shown: tuple[str, ...] = ()  # by INFO, RECORD, READ

    @property
    def is_column(self) -> bool:
        """Whether the table has it."""
        return True

    @property
    def is_attribute(self) -> bool:
        """Whether the row has it."""
        return self.value is None


@dataclass(frozen=True)
class Unstored(Field):
    """An attribute of the row without a column; `kind.decode` computes it when a row is read."""

    @property
    def is_column(self) -> bool:
        """False: there is no column."""
        return False


@dataclass(frozen=True)
class Numbered(Field):
    """A column that the database fills in: the next number."""

    @property
    def is_attribute(self) -> bool:
        """False: the row does not have it."""
        return False


def made(
    name: str,
    kind: Kind,
    value: str,
    existing: str | None = None,
    stored: str = "",
    fixed: bool = True,
    shown: tuple[str, ...] = (),
) -> Field:
    """A column computed from other attributes, for queries. It is not read back."""
    return Field(name, kind, value=value, existing=existing, stored=stored, fixed=fixed, shown=shown)


@dataclass(frozen=True)
class Record:
    """One stored record. `name` names its table and its functions in ctld/store/rows.py: NAME_values and NAME_from."""

    name: str
    row: str  # class of the row, somewhere in ctld/core
    key: tuple[str, ...]  # of the table; its first columns
    fields: tuple[Field, ...]
    prepare: str = ""  # a statement before the values are computed
    is_document: bool = False  # one column has the whole record as JSON, the others are for queries
    is_write_only: bool = False  # no row is read back: accounting requests the columns it needs

    @property
    def columns(self) -> tuple[Field, ...]:
        """In the order of the table."""
        return tuple(field for field in self.fields if field.is_column)

    @property
    def attributes(self) -> tuple[Field, ...]:
        """In the order of the row."""
        return tuple(field for field in self.fields if field.is_attribute)

    @property
    def is_as_stored(self) -> bool:
        """Whether a row is its own parameters, without any conversion."""
        return not self.is_document and all(
            isinstance(field, Numbered) or (field.is_column and field.is_attribute and field.kind.encode == "{0}")
            for field in self.fields
        )
