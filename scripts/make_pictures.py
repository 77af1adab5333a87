"""Draw the pictures of the documentation.

They show ``sample_logs/`` and what ``draw_recordings.py`` draws. The picture of a page needs
Playwright and Chromium; without them it is left as it is.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from arguments import Parser
from PIL import Image

ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = ROOT / "gpuprof" / "docs" / "pictures"
DIRECT: Final = "gpuprof/docs/recordings/direct.gpuprof"
STAGED: Final = "gpuprof/docs/recordings/staged.gpuprof"
PUBLISHED: Final = [
    f"sample_logs/nvprof/published/{name}.txt" for name in ("single", "dual", "exaggerated")
]
PLACEMENTS: Final = [
    f"--label={name}=sample_logs/tensorflow/2.21.0/deepconn-{name}.json"
    for name in ("single", "dual", "dual-colocated", "exaggerated")
]
DUAL: Final = "sample_logs/tensorflow/2.21.0/deepconn-dual.json"
# Picture -> the command that draws it into {}.
CHARTS: Final[dict[str, list[str]]] = {
    "waterfall.png": ["compare", DIRECT, STAGED, "--chart", "waterfall={}"],
    "waterfall-dark.png": ["compare", DIRECT, STAGED, "--dark", "--chart", "waterfall={}"],
    "published.png": ["compare", *PUBLISHED, "--chart", "{}"],
    "placements.png": ["compare", *PLACEMENTS, "--chart", "{}"],
    "placement.png": ["plot", "placement", DUAL, "-o", "{}"],
    "matrix.png": ["plot", "matrix", STAGED, "-o", "{}"],
    "steps.png": ["plot", "steps", STAGED, "-o", "{}"],
    "critical-path.png": ["predict", DIRECT, "--what", "link=staged", "--plot", "{}"],
}
PAGE_PICTURE: Final = "page.png"
# Four steps, so that the timeline shows copies.
PAGE: Final = ["report", STAGED, "--from", "10ms", "--to", "29ms", "--html", "{}"]
WIDTH: Final = 1000
# Enough for the charts' colours and the edges of letters.
COLOURS: Final = 160


def main(words: Sequence[str] | None = None) -> None:
    """Draw all pictures into the folder of the documentation, or into another."""
    parser = Parser(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="default: %(default)s")
    draw_all(parser.parse_args(words).folder.resolve())


def draw_all(folder: Path) -> None:
    """Draw all pictures into a folder."""
    for name, command in CHARTS.items():
        save(folder / name, lambda target, words=command: gpuprof(words, target))
    if shutil.which("chromium"):
        save(folder / PAGE_PICTURE, photograph)
    else:
        print(f"{PAGE_PICTURE}: left as it is, as there is no Chromium")


def save(picture: Path, draw: Callable[[Path], object]) -> None:
    """Draw a picture and keep it with few colours, which takes a third of the bytes."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / picture.name
        draw(drawn)
        image = Image.open(drawn).convert("RGB")
        image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(picture, optimize=True)
    print(f"{picture.name}: {picture.stat().st_size / 1e3:.0f} KB")


def gpuprof(words: list[str], target: Path) -> None:
    """Run a command of gpuprof that writes a file."""
    arguments = [word.replace("{}", str(target)) for word in words]
    command = [sys.executable, "-m", "gpuprof", *arguments]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def photograph(target: Path) -> None:
    """Draw a report's page down to the timeline, as Chromium shows it."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - for this picture alone

    page_file = target.with_suffix(".html")
    gpuprof(PAGE, page_file)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": WIDTH})
        page.goto(page_file.as_uri())
        timeline = page.wait_for_selector("section.figure:has(.plot canvas)").bounding_box()
        bottom = timeline["y"] + timeline["height"]
        page.screenshot(path=target, clip={"x": 0, "y": 0, "width": WIDTH, "height": bottom})
        browser.close()


if __name__ == "__main__":
    main()
