"""What stands on the pictures of trajectories and scorings."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.e2e.web.habits import make_nights, run_of, score, upload, write_habits
from tests.e2e.web.site import Site

_SET = "habits"


def scoring(site: Site) -> str:
    """A finished scoring of models with habits, made by whoever asks first, with some nights before it."""
    for found in site.get("/v1/scorings?limit=50")["scorings"]:
        if found["schedule"] is None:
            return str(found["id"])
    with tempfile.TemporaryDirectory() as scratch:
        make_nights(site, Path(scratch))
        upload(site, write_habits(Path(scratch) / _SET), _SET)
    return score(site, _SET)


def scoring_page(site: Site) -> str:
    return f"/scorings/{scoring(site)}"


def run_page(site: Site) -> str:
    """A run that tries the same again and again, at a step of it."""
    return f"/trajectories/{run_of(site, scoring(site), 'ledger-rounding-118/elm-medium-2_pta.json')}?step=7"


def leaderboard_page(site: Site) -> str:
    return f"/leaderboard?scoring={scoring(site)}"


def nights_page(site: Site) -> str:
    scoring(site)
    return "/nights"


def compare_page(site: Site) -> str:
    of = scoring(site)
    runs = [
        run_of(site, of, f"ledger-rounding-118/{name}_pta.json") for name in ("elm-medium-2", "alder-large-1")
    ]
    return f"/trajectories/compare?a={runs[0]}&b={runs[1]}"
