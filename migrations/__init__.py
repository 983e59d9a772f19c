"""Alembic migrations, shipped as package data."""
