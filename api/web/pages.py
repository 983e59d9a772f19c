"""Every page, in one router."""

from __future__ import annotations

from fastapi import APIRouter

from api.web import batches, login, runs, static_files, teams

router = APIRouter(include_in_schema=False)
router.include_router(static_files.router)
for module in (runs, batches, teams, login):
    router.include_router(module.router)
