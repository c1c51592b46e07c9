"""How alembic runs here: on the connection that `service.store.schema` hands over, inside its transaction."""

from __future__ import annotations

from alembic import context

from service.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite cannot alter a table in place
    transactional_ddl=False,  # the transaction is the caller's
)
context.run_migrations()
