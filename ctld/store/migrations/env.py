"""Runs migrations on the connection that ctld/store/migrate.py hands over, inside its transaction."""

from alembic import context

from ctld.store.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
    transactional_ddl=False,  # the caller's transaction holds all of it
)
context.run_migrations()
