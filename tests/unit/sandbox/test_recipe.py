"""The image's recipe: complete, pinned as the project is, and told apart by its name."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

from workers.sandbox import recipe

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "workers/sandbox/image"


def test_every_file_of_the_recipe_is_sent_to_the_engine() -> None:
    with tarfile.open(fileobj=io.BytesIO(recipe.build_context())) as archive:
        sent = set(archive.getnames())

    assert sent == {path.name for path in FOLDER.iterdir() if path.is_file()}


def test_the_image_has_the_versions_of_the_constraints() -> None:
    def versions(path: Path) -> dict[str, str]:
        return dict(re.findall(r"^([\w.-]+)==(\S+)$", path.read_text(encoding="utf-8").lower(), re.MULTILINE))

    wanted = versions(FOLDER / "requirements.txt")

    assert "pytest" in wanted
    assert wanted.items() <= versions(ROOT / "constraints.txt").items()


def test_another_recipe_has_another_name() -> None:
    name = recipe.default_image()

    assert re.fullmatch(r"consensus-cage:[0-9a-f]{12}", name)
    assert name == recipe.default_image()
