"""What all tables share: the names of their constraints, and the types of moments."""

from __future__ import annotations

from sqlalchemy import DateTime, MetaData

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

TIME = DateTime(timezone=True)
