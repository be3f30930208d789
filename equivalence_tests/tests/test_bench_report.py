"""What is made from a result file: verdicts, tables, pictures, comparisons and the README's figures."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks import bars, compare, crossing, drawing, plots, readme, report
from benchmarks.bars import BARS, EAGER, FAST, find, find_all
from benchmarks.contests import SDPA
from benchmarks.curves import NO_GPU
from benchmarks.peaks import model_flops_share
from benchmarks.ratios import select, times
from benchmarks.rows import Results, Row, read
from benchmarks.spanish import in_spanish
from benchmarks.suites import Scale, works_of
from benchmarks.timing import APART
from benchmarks.units import digits, duration, memory, percent, share
from equivalence_tests.tests.invented_results import invented

PNG = b"\x89PNG\r\n\x1a\n"


def rows_of(bar, results, name):
    contest = bar.contest
    found = select(results.rows, contest.suite, contest.work, contest.part, contest.sizes, contest.settings)
    return [row for row in found if row.contestant == name]


def put(row, status):
    row.status, row.seconds, row.median, row.minimum, row.iqr = status, [], None, None, None


# The bars


@pytest.mark.parametrize("bar", BARS, ids=lambda bar: f"{bar.title}: {bar.asked}")
@pytest.mark.parametrize("off", [0.98, 1.02])
def test_a_bar_is_met_on_one_side_of_its_threshold_only(bar, off):
    """Our rows are scaled until the number stands 2 % to either side of it."""
    results = invented()
    ours = rows_of(bar, results, bar.contest.ours)
    value = find(bar, results).measured.value.median
    factor = bar.threshold / value * off
    for row in ours:
        row.timed([s * factor if bar.measure is bars.slowdown else s / factor for s in row.seconds])
        row.peak_bytes *= factor
    found = find(bar, results)
    assert found.measured.value.median == pytest.approx(bar.threshold * off, rel=1e-6)  # bytes need not be whole
    assert found.verdict == ("met" if (off > 1.0) == bar.at_least else "not met")


@pytest.mark.parametrize(
    "bar", [bar for bar in BARS if bar.contest.others], ids=lambda bar: f"{bar.title}: {bar.asked}"
)
@pytest.mark.parametrize("status", [None, "not installed", "too slow", "interrupted", "wrong", "failed"])
def test_a_bar_without_one_of_its_opponents_is_not_measured(bar, status):
    for name in bar.contest.others:
        results = invented()
        gone = rows_of(bar, results, name)
        for row in gone:
            put(row, status or "ok")
        if status is None:
            results.rows = [row for row in results.rows if row not in gone]
        found = find(bar, results)
        assert (found.verdict, found.measured) == ("not measured", None)
        assert name in found.note
        assert status is None or f"{name} ({status})" in found.note


@pytest.mark.parametrize("bar", BARS, ids=lambda bar: f"{bar.title}: {bar.asked}")
def test_who_gives_no_right_answer_does_not_meet_its_bar_and_who_is_missing_is_not_measured(bar):
    for status in ("wrong", "out of memory", "failed", "too slow", "not installed"):
        results = invented()
        for row in rows_of(bar, results, bar.contest.ours):
            put(row, status)
        refused = status in ("wrong", "out of memory", "failed")
        assert find(bar, results).verdict == ("not met" if refused else "not measured")
    results.rows = []
    assert find(bar, results).verdict == "not measured"


@pytest.mark.parametrize("bar", BARS, ids=lambda bar: f"{bar.title}: {bar.asked}")
def test_the_suites_time_what_each_bar_asks_for(bar):
    """Whatever sizes a suite has besides, there is one such work, or one for every n."""
    contest = bar.contest
    works = works_of(contest.suite, Scale(full=True))
    rows = [Row(w.suite, w.work, w.part, w.sizes, w.dtype, FAST, settings=w.extra) for w in works]
    found = select(rows, contest.suite, contest.work, contest.part, contest.sizes, contest.settings)
    lengths = [row.sizes["n"] for row in found]
    assert len(set(lengths)) == len(lengths) > 0
    assert len(lengths) == 1 or bar.measure is bars.least_speedup


def test_an_opponent_without_memory_is_beaten():
    results = invented()
    [row] = rows_of(BARS[0], results, "torch compile")
    put(row, "out of memory")
    found = find(BARS[0], results)
    assert found.verdict == "met"
    assert found.measured.other.contestant == "torch compile, chunked loss"


def test_the_best_opponent_counts_and_not_the_first():
    results = invented()
    [row] = rows_of(BARS[0], results, "torch sdpa, chunked loss")
    row.timed([0.5 * s for s in rows_of(BARS[0], results, FAST)[0].seconds])
    found = find(BARS[0], results)
    assert (found.verdict, found.measured.other) == ("not met", row)
    assert found.measured.value.median == pytest.approx(0.5)


def test_ratios_are_taken_round_by_round():
    """The machine slows to a third half-way. By medians the ratio would be 3, by quartiles anything."""
    one, other = (Row("ops", "softmax", "forward", {}, "float32", name) for name in "AB")
    one.timed([2.0, 2.0, 2.0, 6.0, 6.0, 6.0])
    other.timed([1.0, 1.0, 1.0, 3.0, 3.0])  # stopped in the last round
    found = times(one, other)
    assert (found.low, found.median, found.high, found.count) == (2.0, 2.0, 2.0, 5)


def test_a_row_with_dropout_or_another_size_is_another_work():
    results = invented()
    [row] = rows_of(BARS[0], results, FAST)
    assert row.sizes["dropout"] == 0.0
    row.sizes["dropout"] = 0.1
    assert find(BARS[0], results).note == f"no row of {FAST}"
    row.sizes["dropout"] = 0.0
    results.rows.append(replace(row))
    assert find(BARS[0], results).note == f"2 rows of {FAST}"


def attention_bar():
    return next(bar for bar in BARS if bar.measure is bars.least_speedup)


def test_attention_is_held_against_the_fastest_back_end_at_the_worst_n():
    results, bar = invented(), attention_bar()
    by_n = {row.sizes["n"]: row for row in rows_of(bar, results, FAST)}
    for row in rows_of(bar, results, "torch sdpa flash"):
        worse = {4096: 0.7, 1024: 0.1}.get(row.sizes["n"], 1.5)  # 1,024 is not asked about
        row.timed([worse * s for s in by_n[row.sizes["n"]].seconds])
    found = find(bar, results)
    assert found.verdict == "not met"
    assert found.measured.value.median == pytest.approx(0.7)
    assert found.measured.other.contestant == "torch sdpa flash"
    assert "2,048, 4,096, 8,192: at 4,096" in found.note


@pytest.mark.parametrize("status", ["too slow", "out of memory", "failed", "wrong", "interrupted"])
def test_a_back_end_that_is_beaten_is_no_opponent_and_one_that_failed_is_missing(status):
    results, bar = invented(), attention_bar()
    for row in rows_of(bar, results, "torch sdpa flash"):
        put(row, status)
    found = find(bar, results)
    if status in ("too slow", "out of memory"):
        assert found.measured.other.contestant == SDPA
    else:
        assert (found.verdict, found.note) == ("not measured", f"without torch sdpa flash ({status})")


def test_attention_that_is_not_causal_is_another_work():
    results, bar = invented(), attention_bar()
    for row in rows_of(bar, results, FAST):
        row.settings = {"causal": False}
    assert find(bar, results).verdict == "not measured"


# The report


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    results = invented(gpu=True)
    return results, report.write(results, folder / "new"), folder / "new"


def test_every_row_stands_in_the_report(written):
    results, path, _ = written
    page = path.read_text("utf-8")
    lines = page.splitlines()
    for row in results.rows:
        if row.work == "loss against time":
            continue
        own = [line for line in lines if row.contestant in re.split(r" \| |; ", line)]
        if row.status == "ok":
            assert any(f"| {duration(row.median)} |" in line for line in own), row
        else:
            assert any(f"| {row.status}: {row.why} |" in line for line in own), row
    for fact in (
        "Invented 9000",
        "kernel SkylakeX",
        "memory 137 GB",
        "memory: 34.4 GB",
        results.command,
        results.commit,
    ):
        assert fact in page
    assert "n 32, d 768, L 12, H 12, v 50,257, 64 tokens, without cache" in page
    assert "Y is 41 times its budget off." in page


def test_every_time_stands_beside_its_error_and_its_memory(written):
    results, path, _ = written
    lines = path.read_text("utf-8").splitlines()
    for row in results.rows:
        if row.seconds:
            worst = share(max(row.share, row.share_after))
            shown = (
                f"| {row.contestant} |",
                f"| {duration(row.median)} |",
                f"| {worst} |",
                f"| {memory(row.peak_bytes)} |",
            )
            assert any(all(cell in line for cell in shown) for line in lines), row


def test_the_pictures_are_linked_and_are_pictures(written):
    _, path, folder = written
    page = path.read_text("utf-8")
    for name, _, _ in plots.DRAWN:
        assert f"({name})" in page
        assert (folder / name).read_bytes()[:8] == PNG
    assert "Not drawn" not in page


def test_the_verdicts_in_the_report_are_those_computed(written):
    results, path, _ = written
    page = path.read_text("utf-8")
    verdicts = [finding.verdict for finding in find_all(results)]
    assert page.count("| **met** |") == verdicts.count("met") > 0
    assert page.count("| not met |") == verdicts.count("not met") > 0


def test_an_empty_result_gives_a_report_that_says_what_is_missing(tmp_path):
    results = Results({"cpu": "none"}, "gemelos bench", "", "2026-01-02", interrupted=True)
    page = report.write(results, tmp_path).read_text("utf-8")
    assert "Stopped before the end" in page
    assert page.count("not measured") >= len(BARS)
    pictures = plots.draw(results, tmp_path)
    assert len(pictures) == 6
    for picture in pictures:
        assert picture.file is None
        assert f"* {picture.title}: {picture.why}." in page
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_the_share_of_the_peak_is_of_this_machine_or_of_the_data_sheet():
    results = invented(gpu=True)
    row = Row("ops", "linear", "forward", {}, "float32", "torch cuda eager", "cuda", median=1.0, flops=6.7e12)
    assert report.of_the_peak(row, results) == "10.0 %"
    assert report.of_the_peak(replace(row, device="cpu", flops=4.65e10), results) == "10.0 %"
    results.machine["gpu"] = {"name": "Unheard Of 1"}
    assert report.of_the_peak(row, results) == "n/a"


@pytest.mark.parametrize("device", ["Unheard Of 1", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "none"])
def test_the_peak_of_an_unknown_gpu_is_not_guessed(device):
    assert model_flops_share(1e12, device, "bfloat16") is None
    assert model_flops_share(1e12, "NVIDIA A100-SXM4-80GB", "float64") is None


def test_what_a_machine_lacks_takes_one_line_for_each_work():
    results = invented()
    results.rows += [replace(row, contestant="torch cuda graph") for row in results.rows if row.status == "no GPU"]
    page = report.markdown(results, [])
    works = {(row.suite, row.part, row.sizes["n"]) for row in results.rows if row.status == "no GPU"}
    assert page.count("; torch cuda graph |") == page.count("no GPU: No CUDA.") == len(works)


# The pictures


def texts(figure):
    found = [text.get_text() for axes in figure.axes for text in (*axes.texts, axes.title)]
    return "\n".join([*found, figure.get_suptitle()])


def test_memory_that_ran_out_is_marked():
    drawn = texts(plots.attention_curves(invented()))
    for name in ("numpy reference", EAGER, "torch sdpa math"):
        assert f"{name}: out of memory" in drawn
    assert f"{FAST}: out" not in drawn


def test_every_line_is_named_where_it_ends():
    drawn = texts(plots.attention_curves(invented(gpu=True)))
    for name in {row.contestant for row in invented(gpu=True).rows if row.suite == "attention"}:
        assert name in drawn


def test_without_a_gpu_nothing_is_claimed(tmp_path):
    assert NO_GPU in texts(plots.crossover_curves(invented()))
    assert NO_GPU not in texts(plots.crossover_curves(invented(gpu=True)))
    assert "No GPU here: nothing is claimed." in report.markdown(invented(), [])


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("attention.png", lambda row: row.suite != "attention" or row.sizes["n"] == 64),
        ("crossover.png", lambda row: row.suite != "crossover"),
        ("roofline.png", lambda row: row.flops is None or row.bytes is None),
        ("step.png", lambda row: not row.work.endswith("share")),
        ("error.png", lambda row: row.dtype == "float32"),
        ("loss.png", lambda row: row.work != "loss against time"),
    ],
)
def test_a_picture_without_data_is_not_made_and_says_why(name, kept):
    results = invented()
    results.rows = [row for row in results.rows if kept(row)]
    [make] = [make for each, _, make in plots.DRAWN if each == name]
    with pytest.raises(drawing.NoPicture, match=r"time|count|training"):
        make(results)


def test_a_contestant_has_one_colour_and_families_differ():
    known = [drawing.look(name).colour for name in drawing.COLOURS if name not in ("numpy", "torch")]
    assert len({*known, drawing.BROUGHT}) == len(known) + 1
    assert drawing.look("torch cuda sdpa flash", "cuda").colour == drawing.look(SDPA).colour
    assert drawing.look("torch cuda sdpa", "cuda").dashes != drawing.look(SDPA).dashes
    assert drawing.look("mine.py:attention").colour == drawing.BROUGHT


@pytest.mark.parametrize("seed", range(20))
def test_labels_keep_their_order_and_do_not_touch(seed):
    rng = np.random.default_rng(seed)
    wanted = list(rng.uniform(-0.1, 1.1, rng.integers(1, 16)) ** rng.integers(1, 3))
    placed = drawing.spread_out(wanted, 0.06, 0.0, 1.0)
    order = np.argsort(wanted)
    assert (np.diff(np.array(placed)[order]) >= 0.06 - 1e-9).all()
    assert min(placed) >= -1e-9
    assert max(placed) <= 1.0 + 1e-9
    alone = drawing.spread_out([0.2, 0.5], 0.06, 0.0, 1.0)
    assert alone == pytest.approx([0.2, 0.5])


def race_of(cpu, gpu, there, back):
    """A work at n = 1, 2, 4, 8 with these seconds."""
    rows = []
    for n, *seconds in zip((1, 2, 4, 8), cpu, gpu, there, back, strict=True):
        parts = (("forward", "cpu"), ("forward", "cuda"), ("copy to device", "cuda"), ("copy to host", "cuda"))
        for (part, device), each in zip(parts, seconds, strict=True):
            row = Row(
                "crossover", "linear", part, {"n": n}, "float32", "A" if device == "cpu" else "torch cuda", device
            )
            row.timed([each])
            rows.append(row)
    [race] = crossing.races(Results({}, "", "", "", rows=rows))
    return race


@pytest.mark.parametrize(
    ("cpu", "gpu", "copy", "said"),
    [
        ((1, 2, 4, 8), (3, 3, 3, 3), 0.5, "wins from n = 4 on; with the copies it wins from n = 8 on."),
        ((1, 2, 4, 8), (3, 3, 3, 3), 9.0, "wins from n = 4 on; with the copies it does not win up to n = 8."),
        ((4, 5, 6, 8), (3, 3, 3, 3), 0.1, "wins at every size; with the copies it wins at every size."),
        ((4, 2, 4, 8), (3, 3, 3, 3), 0.1, "wins from n = 4 on; with the copies it wins from n = 4 on."),
        ((1, 1, 1, 1), (3, 3, 3, 3), 0.1, "does not win up to n = 8; with the copies it does not win up to n = 8."),
    ],
)
def test_the_crossover_in_one_sentence(cpu, gpu, copy, said):
    race = race_of(cpu, gpu, [copy] * 4, [copy] * 4)
    assert crossing.sentence(race) == f"linear, forward: the GPU {said}"


# Two files beside each other


def compared(tmp_path, old, new, width=60):
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, results in zip(paths, (old, new), strict=True):
        results.write(path)
    page = io.StringIO()
    status = compare.run(*paths, Console(file=page, width=width))
    assert max(len(line) for line in page.getvalue().splitlines()) <= width
    return status, page.getvalue()


def test_a_change_that_overlaps_is_none(tmp_path):
    """The median is twice the old one, but one run was as fast as the slowest of the old."""
    old, new = invented(), invented()
    row = new.rows[0]
    row.timed([*[2.0 * s for s in row.seconds[1:]], max(row.seconds)])
    status, said = compared(tmp_path, old, new)
    assert status == 0
    assert "0 slower, 0 faster" in said


def test_slower_and_faster_beyond_all_runs(tmp_path):
    old, new = invented(), invented()
    new.rows[1].timed([0.5 * s for s in new.rows[1].seconds])
    assert compared(tmp_path, old, new)[0] == 0
    new.rows[0].timed([max(old.rows[0].seconds) * 1.01 + s for s in new.rows[0].seconds])
    status, said = compared(tmp_path, old, new)
    assert status == 1
    assert "1 slower, 1 faster" in said
    assert f"x slower: {duration(old.rows[0].median)} -> {duration(new.rows[0].median)}  {FAST}" in said
    assert "train: gpt_step, float32, B 8, n 256, d 384, L 6, H 6, v 8,000" in " ".join(said.split())
    assert compared(tmp_path, new, old)[0] == 1  # what was faster is slower, seen from there


@pytest.mark.parametrize("status", ["wrong", "out of memory", "failed", "too slow", "no GPU"])
def test_a_row_that_is_no_longer_right_is_a_regression(tmp_path, status):
    old, new = invented(), invented()
    put(new.rows[0], status)
    found, said = compared(tmp_path, old, new)
    assert found == (1 if status in ("wrong", "out of memory", "failed") else 0)
    assert f"{duration(old.rows[0].median)} -> {status}" in said
    assert compared(tmp_path, new, old)[0] == 0


def test_with_and_without_a_cache_are_two_works(tmp_path):
    """They differ in no size."""
    old, new = invented(), invented()
    [row] = [row for row in new.rows if row.contestant == FAST and row.settings.get("cache") is False]
    row.timed([3.0 * s for s in row.seconds])
    status, said = compared(tmp_path, old, new)
    assert status == 1
    assert "1 slower, 0 faster" in said
    assert "1 slower, 0 faster" in compared(tmp_path, invented(), new)[1]
    page = report.markdown(new, [])
    assert page.count("with cache") == page.count("without cache") == 1


def test_rows_are_matched_by_what_they_are_and_not_by_their_place(tmp_path):
    old, new = invented(), invented()
    new.rows.reverse()
    new.rows.pop()
    status, said = compared(tmp_path, old, new)
    assert status == 0
    assert "1 in the old file only" in " ".join(said.split())


def test_other_machines_are_said_loudly(tmp_path):
    old, new = invented(), invented()
    assert "DIFFERENT" not in compared(tmp_path, old, new)[1]
    new.machine["blas"] = [{"library": "openblas", "kernel": "Haswell", "threads": 2}]
    status, said = compared(tmp_path, old, new)
    assert "DIFFERENT" not in said
    assert "Haswell" in said
    new.machine["processor"] = "Other 1"
    status, said = compared(tmp_path, old, new)
    assert status == 0
    assert said.startswith("DIFFERENT MACHINES")
    assert "Invented 9000, avx512f -> Other 1" in said


def test_what_cannot_be_compared_is_2(tmp_path):
    page = io.StringIO()
    invented().write(tmp_path / "one.json")
    (tmp_path / "other.json").write_text('{"schema": 7}')
    for other in ("absent.json", "other.json"):
        assert compare.run(tmp_path / "one.json", tmp_path / other, Console(file=page, width=60)) == 2
        assert compare.main([str(tmp_path / "one.json"), str(tmp_path / other)]) == 2
    nothing = Results({}, "", "", "")
    assert compared(tmp_path, nothing, invented())[0] == 2


def test_who_was_timed_alone_says_so():
    results = invented()
    row = next(row for row in results.rows if (row.work, row.contestant) == ("gpt_step", "torch eager"))
    row.why = APART
    assert report.markdown(results, []).count(f"| {APART} |") == 1


# The README


def test_the_table_is_written_between_the_markers_and_links_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **how: path.touch())  # drawn above, and slowly
    page = tmp_path / "README.md"
    page.write_text("# Speed\n\n<!-- bench -->\nold\n<!-- /bench -->\n\nafter\n")
    folder = tmp_path / "results"
    folder.mkdir()
    results = invented()
    results.rows = [row for row in results.rows if row.suite in ("train", "generate")]
    results.write(folder / "bench.json")
    for _ in range(2):  # a second time changes nothing
        assert readme.main([str(folder / "bench.json"), "--readme", str(page)]) == 0
        said = page.read_text("utf-8")
        assert said.startswith("# Speed\n\n<!-- bench -->\n| work")
        assert said.endswith("<!-- /bench -->\n\nafter\n")
        assert "old" not in said
        for link in ("bench.md", "bench-step.png", "bench-loss.png"):
            assert f"(results/{link})" in said
            assert (folder / link).exists()
        assert "bench-attention.png" not in said
        assert "4 bars not measured." in said


@pytest.mark.parametrize(
    "page", ["", "<!-- bench -->", "<!-- /bench --> <!-- bench -->", 2 * "<!-- bench --><!-- /bench -->"]
)
def test_a_page_without_one_pair_of_markers_is_left_alone(tmp_path, capsys, page):
    path = tmp_path / "README.md"
    path.write_text(page)
    invented().write(tmp_path / "bench.json")
    with pytest.raises(SystemExit):
        readme.main([str(tmp_path / "bench.json"), "--readme", str(path)])
    assert path.read_text() == page
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("path", readme.PAGES, ids=lambda path: path.name)
def test_the_readme_shows_what_the_committed_results_say(path):
    """Nothing to compare only as long as there is neither a table nor a result file."""
    page = path.read_text("utf-8")
    assert (readme.BEGIN in page) == readme.COMMITTED.exists()
    if readme.COMMITTED.exists():
        assert readme.with_table(page, path, read(readme.COMMITTED), readme.COMMITTED) == page


@pytest.mark.parametrize("bar", BARS, ids=lambda bar: f"{bar.title}: {bar.asked}")
def test_a_bar_in_spanish_leaves_no_english_word_but_names(bar):
    said = f"{bar.title} | {bar.asked}"
    same = {"GPT", "RNN", "SDPA", "torch", "eager", "nn", "transformers", "GB", "n", "x", "vector", "causal"}
    kept = {*re.findall(r"[a-z]+", said, re.IGNORECASE)} & {*re.findall(r"\w+", in_spanish(said), re.IGNORECASE)}
    assert kept <= same


def test_thousands_as_spanish_writes_them():
    assert in_spanish("4,096, 60,198 and 1,234,567; 0.25") == "4096, 60\u00a0198 and 1\u00a0234\u00a0567; 0.25"


# Numbers in words


def test_numbers_as_people_read_them():
    assert [duration(s) for s in (12.3, 1.0, 0.0094, 1.5e-4, 3e-8, None)] == [
        "12.3 s",
        "1.00 s",
        "9.40 ms",
        "150 µs",
        "30.0 ns",
        "",
    ]
    assert [memory(b) for b in (8.2e9, 6.34e8, 1500, 12, -2e6)] == ["8.20 GB", "634 MB", "1.50 kB", "12 B", "-2.00 MB"]
    assert [digits(x) for x in (0.0, 0.034, 0.5, 9.9, 12.34, 12345.6)] == [
        "0",
        "0.034",
        "0.50",
        "9.90",
        "12.3",
        "12,346",
    ]
    assert [percent(x) for x in (0.396, 0.0712, 1.0, 1e-5)] == ["39.6 %", "7.12 %", "100 %", "< 0.1 %"]
    assert [share(x) for x in (0.0, 0.0001, 0.474, None)] == ["0.00", "1e-04", "0.47", ""]
