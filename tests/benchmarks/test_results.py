"""The committed results: the page is made of the file, and a run that is worse fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks import results
from benchmarks.measure import Spread
from benchmarks.report import Line, Section
from benchmarks.results import ResultGroup, compare, load, store, to_markdown
from tests.rows import every_row

THEN = Section(
    "Training",
    "How.",
    "ms",
    ["burnpy"],
    [
        Line("step", {"burnpy": Spread(8.0, 7.0, 9.0)}, Spread(0.8, 0.75, 0.85), 0.9, roofline=Spread(0.5, 0.4, 0.6)),
        Line("memory", {"burnpy": "fails: no"}, Spread(0.5, 0.5, 0.5), None),
        Line("no ratio", {}, None, None),
    ],
)


def measured(step: float, memory: float = 0.5) -> Section:
    first, second, third = THEN.lines
    one = replace(first, ratio=Spread(step, step - 0.02, step + 0.03))
    return replace(THEN, lines=[one, replace(second, ratio=Spread(memory, memory, memory)), third])


def test_the_page_is_made_of_the_file() -> None:
    assert results.PAGE.read_text() == to_markdown(load())


def full_size() -> ResultGroup:
    """Two tables of a network at full size, in which PyTorch is ahead once."""

    def line(work: str, ratio: float) -> Line:
        return Line(work, {}, Spread(ratio, ratio, ratio), 1.1)

    lines = [line("A net, batch 1, training", 0.8), line("A net, batch 1, inference", 1.25)]
    memory = [line("A net, batch 1, training", 1.05)]
    named = {"1 thread": lines, "peak memory": memory, "losses": lines}
    return ResultGroup("", [], [replace(THEN, title=f"Full size, {name}", lines=rows) for name, rows in named.items()])


def test_the_page_opens_with_the_networks_at_full_size() -> None:
    page = to_markdown({"A CPU": {"full_size": full_size()}, "Another": {"training": ResultGroup("", [], [THEN])}})
    opening = page[: page.index("## All figures")]
    assert opening.startswith("# Measured\n\n## Networks at full size\n")
    assert "A CPU:" in opening
    assert "Another:" not in opening
    assert "| A net, batch 1 | 0.80 | **1.25** | 1.05 |" in opening
    ahead = ["- A net, batch 1, inference, 1 thread: 1.25", "- A net, batch 1, training, peak memory: 1.05"]
    assert opening.rstrip().endswith("\n".join(["PyTorch is ahead in:", "", *ahead]))
    assert "Full size" not in to_markdown({"Another": {"training": ResultGroup("", [], [THEN])}})


def test_the_table_of_the_book_is_replaced() -> None:
    text = f"before\n{results.MARKS[0]}\n| old |\n{results.MARKS[1]}\nafter\n"
    found = results.in_book(text, {"full_size": full_size()})
    assert "| A net, batch 1 | 0.80 |" in found
    assert "old" not in found
    assert found.startswith(f"before\n{results.MARKS[0]}\n| network |")
    assert found.endswith(f"|\n{results.MARKS[1]}\nafter\n")
    assert results.in_book(found, {"full_size": full_size()}) == found
    assert results.in_book(text, {}) == text  # without these figures nothing is lost


def test_the_book_has_the_table_of_a_machine() -> None:
    text = results.BOOK.read_text(encoding="utf-8")
    measured = [groups for groups in load().values() if "full_size" in groups]
    assert text in [results.in_book(text, groups) for groups in measured] or not measured


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    found = {"A CPU, a BLAS": {"training": ResultGroup("python -m benchmarks", ["Python"], [THEN])}}
    file, page = tmp_path / "results.json", tmp_path / "RESULTS.md"
    store(found, file, page)
    assert load(file) == found
    assert "| step | 8 | 50% | 0.80 (0.75–0.85) | ≤ 0.9 | yes |" in page.read_text()
    assert load(tmp_path / "absent.json") == {}


@every_row(
    "step, memory, worse",
    [(0.8, 0.5, 0), (0.5, 0.4, 0), (0.89, 0.515, 0), (0.91, 0.5, 1), (0.8, 0.53, 1), (0.95, 0.6, 2)],
)
def test_a_ratio_is_worse_by_more_than_its_spread(step: float, memory: float, worse: int) -> None:
    comparison = compare([measured(step, memory)], [THEN])
    assert (comparison.compared, len(comparison.worse), comparison.passed) == (2, worse, not worse)


def test_a_noisy_run_is_given_its_own_spread() -> None:
    noisy = replace(THEN.lines[0], ratio=Spread(0.95, 0.8, 1.1))
    assert compare([replace(THEN, lines=[noisy])], [THEN]).passed


def test_nothing_compared_is_no_success() -> None:
    comparison = compare([replace(THEN, title="Another")], [THEN])
    assert not comparison.passed
    assert "Is PyTorch installed?" in str(comparison)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "status"), [(0.8, 0), (0.95, 1)])
def test_the_check_fails(
    step: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    committed = {results.here(): {"training": ResultGroup("", [], [THEN])}}
    monkeypatch.setattr(results, "load", lambda: committed)
    monkeypatch.setitem(program.GROUPS, "training", lambda effort, said: [measured(step)])
    arguments = ["--check", "--only", "training", "--out", str(tmp_path)]
    assert program.main(arguments) == status
    said = capsys.readouterr().out
    assert "2 ratios compared" in said
    assert ("- Training, step: 0.95 (0.93–0.98), committed 0.80 (0.75–0.85)" in said) == bool(status)


def test_a_machine_without_a_reference(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(results, "load", lambda: {"Another CPU": {"training": ResultGroup("", [], [THEN])}})
    assert program.main(["--check", "--only", "training"]) == 0
    assert "There is no reference for this machine" in capsys.readouterr().out


@pytest.mark.slow
def test_a_group_that_is_measured_again_replaces_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed = {results.here(): {name: ResultGroup("before", [], [THEN]) for name in ("tiny", "training")}}
    stored: list[results.Results] = []
    monkeypatch.setattr(results, "load", lambda: committed)
    monkeypatch.setattr(results, "store", stored.append)
    monkeypatch.setattr(results, "BOOK", tmp_path / "performance.md")
    results.BOOK.write_text("\n".join(results.MARKS))
    monkeypatch.setitem(program.GROUPS, "training", lambda effort, said: [measured(0.7)])
    assert program.main(["--write", "--only", "training", "--out", str(tmp_path)]) == 0
    own = stored[0][results.here()]
    assert own["tiny"].command == "before"
    assert own["training"].sections == [measured(0.7)]
