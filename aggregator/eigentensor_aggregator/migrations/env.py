"""Run by alembic: migrates the database behind the connection that `store.upgrade` gives."""

from alembic import context
from sqlmodel import SQLModel

from eigentensor_aggregator import tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    render_as_batch=True,
)
assert tables.Meta.__tablename__ in SQLModel.metadata.tables
with context.begin_transaction():
    context.run_migrations()
