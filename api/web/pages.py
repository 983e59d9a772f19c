"""Every page, in one router."""

from __future__ import annotations

from fastapi import APIRouter

from api.web import batches, runs, scorings, static_files, teams, trajectories

router = APIRouter(include_in_schema=False)
router.include_router(static_files.router)
for module in (runs, batches, teams, trajectories, scorings):
    router.include_router(module.router)
