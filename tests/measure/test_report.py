from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

import nsd_local
from nsd_local.decoding.records import Round, Times, Token
from nsd_local.decoding.records_io import Recording
from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError
from nsd_local.measure.anatomy import Anatomist
from nsd_local.measure.arms import parse_arms
from nsd_local.measure.bench import bench
from nsd_local.measure.campaign import KEY, Campaign
from nsd_local.measure.evaluate import evaluate
from nsd_local.measure.figures import FIGURES
from nsd_local.measure.figures.rejected import LABELS, shares_by_rank
from nsd_local.measure.figures.sequence import running
from nsd_local.measure.folder import Folder
from nsd_local.measure.journal import Journal
from nsd_local.measure.prompts import load_prompts
from nsd_local.measure.report import Made, report, tables
from nsd_local.measure.setup import setup
from nsd_local.measure.sweep import rule_grid, theta_grid
from nsd_local.measure.tasks import Problem, task

PAPER = {"Fig. 1a", "Fig. 1b", "Fig. 1c", "Fig. 3a", "Fig. 3b", "Fig. 3c", "Fig. 3d", "Table 2"}


@pytest.fixture(scope="module")
def folder(pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with records of every measurement, of the tiny pair."""
    path = tmp_path_factory.mktemp("records")
    settings = replace(Settings(), max_tokens=16, draft_tokens=3)
    prompts = load_prompts(["chat", "code"], 2)
    with nsd_local.load(*pair, threads=1, ctx=2048, calibrate=False) as engine:
        header = {"format": "test", "setup": setup(engine)}

        def journal(name: str, *, rounds: bool = True) -> Journal:
            return Journal(path / f"{name}.jsonl", header, KEY, rounds=rounds)

        with journal("bench") as runs, journal("positions", rounds=False) as positions:
            arms = parse_arms(["plain", "exact", "nucleus", "nucleus:k=auto"], settings)
            bench(engine, Campaign(arms, prompts, extras=(Anatomist(engine, positions),)), runs, drift_tokens=4)
        for name, arms in (
            ("sweep", theta_grid(settings, (2, 4), (0.85, 0.95))),
            ("sweep-rules", rule_grid(settings, ["exact", "nucleus", "lenience", "topk"])),
            ("compare", parse_arms(["plain", "exact", "nucleus"], settings)),
        ):
            with journal(name) as runs:
                bench(engine, Campaign(arms, prompts[:1]), runs, drift_tokens=4)
        problems = [Problem(f"p{i}", f"What is {i} and 1?", answer="7") for i in range(3)]
        with journal("eval-gsm8k", rounds=False) as runs:
            evaluate(engine, task("gsm8k"), problems, parse_arms(["plain", "nucleus"], settings), runs)
    return path


@pytest.fixture(scope="module")
def made(folder: Path) -> Made:
    return report(folder)


def test_every_figure_is_drawn(made: Made, folder: Path) -> None:
    assert made.missing == ()
    names = {figure.name for figure in FIGURES}
    assert {path.stem for path in made.figures} == names
    for path in made.figures:
        data = path.read_bytes()
        if path.suffix == ".png":
            width, height = struct.unpack(">II", data[16:24])
            assert data[:8] == b"\x89PNG\r\n\x1a\n"
            assert width > 600
            assert height > 100
        else:
            assert ElementTree.fromstring(data).tag.endswith("svg")


def test_the_page_stands_alone(made: Made) -> None:
    """No network, no second file, no script; ids do not repeat and every reference is answered."""
    page = made.page.read_text(encoding="utf-8")
    for outside in ("<link", "<script", "@import", "<img", "src=", "url(http", 'href="http'):
        assert outside not in page, outside
    assert "<!-- " not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)
    assert made.page.stat().st_size < 2_000_000


def test_each_figure_says_what_it_mirrors_and_where_it_is_from(made: Made) -> None:
    page = made.page.read_text(encoding="utf-8")
    assert {figure.mirrors for figure in FIGURES if figure.mirrors} == PAPER
    for figure in FIGURES:
        (section,) = re.findall(rf'<section id="{figure.name}">.*?</section>', page, flags=re.DOTALL)
        assert (f"Mirrors {figure.mirrors} of the NSD paper" if figure.mirrors else "Not in the NSD paper") in section
        assert re.search(r"<i>[^<]*\.jsonl[^<]*\.</i>|<i>eval-[^<]*</i>", section), figure.name


def test_every_table_is_there(made: Made, folder: Path) -> None:
    found = tables(Folder(folder))
    assert list(found) == [
        "Throughput",
        "Rules side by side",
        "k × theta",
        "Rules from strict to loose",
        "Task gsm8k",
    ]
    page = made.page.read_text(encoding="utf-8")
    for title, (cells, rows) in found.items():
        assert f"<h3>{title}</h3>" in page
        assert rows
        for row in rows:
            assert all(cell(row) for cell in cells.values())


def test_the_same_records_give_the_same_page(made: Made, folder: Path, tmp_path: Path) -> None:
    again = report(folder, tmp_path)
    assert again.page.read_bytes() == made.page.read_bytes()


def test_what_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.mkdir()
    (part / "sweep.jsonl").write_bytes((folder / "sweep.jsonl").read_bytes())
    made = report(part)
    assert {path.stem for path in made.figures} == {"grid", "speed_against_deviation"}
    page = made.page.read_text(encoding="utf-8")
    assert "<li>Entropies of target and draft: <code>nsd-local bench --positions --out DIR</code></li>" in page


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="no records"):
            report(path)


def test_markup_in_names_is_text(folder: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.mkdir()
    text = (folder / "bench.jsonl").read_text(encoding="utf-8").replace('"chat"', '"<script>alert(1)</script>"')
    (part / "bench.jsonl").write_text(text, encoding="utf-8")
    page = report(part).page.read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_rank_classes() -> None:
    shares = dict(zip(LABELS, shares_by_rank([1, 1, 2, 5, 6, 10, 11, 100, 101, 5_000]), strict=True))
    assert shares == {
        "1": 0.2, "2": 0.1, "3": 0.0, "4": 0.0, "5": 0.1, "6–10": 0.2, "11–20": 0.1, "21–50": 0.0, "51–100": 0.1,
        ">100": 0.2,
    }  # fmt: skip


def test_deviation_is_summed_along_the_tokens() -> None:
    def round_(tokens: int, deviation: tuple[float, ...]) -> Round:
        token = Token(1, "a", "ratio", 0.5, 0.5, 1, 0.1, 0.0, 0)
        return Round(
            0, 1, 3, "", "model", (1, 1, 1), (token,) * tokens, 0, deviation, deviation, deviation, None, None, Times()
        )  # fmt: skip

    recording = Recording({}, (round_(2, (0.1, 0.2)), round_(4, (0.0, float("nan"), 0.3)), round_(1, ())))
    assert running(recording, "deviation") == pytest.approx([0.1, 0.3, 0.3, 0.3, 0.6, 0.6, 0.6])
