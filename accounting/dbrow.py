"""A row of the database as a query returns it.

Its columns are those of the query, which is data (schema.py and the reports), so the type checker does not know them:
`Any` stands for a row's columns here, and nowhere else.
"""

from collections.abc import Mapping
from typing import TypeAlias

from sqlalchemy import Row, Select

RowValues: TypeAlias = Mapping[str, object]  # by column name
DbRow: TypeAlias = Row[*tuple[object, ...]]
#: A query that returns such rows.
Query: TypeAlias = Select[*tuple[object, ...]]
