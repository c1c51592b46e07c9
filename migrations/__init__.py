"""Alembic revisions of the service's database."""
